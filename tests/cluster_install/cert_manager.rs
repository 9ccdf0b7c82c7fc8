//! Certificates by cert-manager: its controllers issue them, its CA injector fills `caBundle`, the kubelet mounts them.

use std::collections::BTreeSet;
use std::process::Command;

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::json;

use crate::cluster::processes::Processes;
use crate::cluster::tools::Helm;
use crate::cluster::{Answer, tool};
use crate::node::Node;
use crate::release::{Release, eventually};
use crate::{assert_unharmed, objects, start, wait_for_the_end, while_pods_are_created};

/// The Secret of the serving certificate, and that of the CA.
const LEAF: &str = "outrigger-tls";
const AUTHORITY: &str = "outrigger-ca";

/// What `docs/install.md` says may stay after an uninstallation.
const MAY_STAY: [&str; 2] = [
    "Secret outrigger-system/outrigger-tls",
    "Secret outrigger-system/outrigger-ca",
];

#[test]
fn certificates_are_issued_renewed_and_served_by_a_real_cert_manager() {
    let node = start();
    node.cluster.install_definitions();
    let _running = start_cert_manager(&node);
    let before = objects(&node.cluster);
    for helm in Helm::ALL {
        live(&node, helm, &before);
    }
}

/// Its controllers and its CA injector, as the administrator.
fn start_cert_manager(node: &Node) -> Processes {
    let mut processes = Processes::new(node.cluster.folder());
    let kubeconfig = format!("--kubeconfig={}", node.cluster.kubeconfig().display());
    processes.start("cert-manager", &tool("CERT_MANAGER"), &[kubeconfig]);
    processes
}

/// A release from its beginning to its end.
fn live(node: &Node, helm: Helm, before: &BTreeSet<String>) {
    let begun = std::time::Instant::now();
    let release = Release::install_by(helm, node, &["--set=certificates.mode=cert-manager"]);
    println!("{helm:?}: installed and ready after {:.1?}", begun.elapsed());
    let tally = while_pods_are_created(node, || {
        assert_in_use(&release, helm);
        renewed(&release);
        made_again_after_it_was_deleted(&release);
        upgraded_and_rolled_back(&release, helm);
    });
    assert_unharmed(node, &format!("{helm:?}"), &tally);
    assert_eq!(release.restarts().iter().map(|(_, times)| times).sum::<u64>(), 0);

    release.helm("uninstall", &[]);
    let stayed = wait_for_the_end(&node.cluster, before, &MAY_STAY);
    println!("{helm:?}: cert-manager has made anew: {stayed:?}");
    for secret in [LEAF, AUTHORITY] {
        release.kubectl(&["delete", "secret", secret, "--ignore-not-found"]);
    }
}

/// The one CA signs, is trusted in every entry, and what is served is what was issued.
fn assert_in_use(release: &Release<'_>, helm: Helm) {
    let (leaf, authority) = (release.text_of(LEAF, "tls.crt"), release.text_of(LEAF, "ca.crt"));
    assert_eq!(authority, release.text_of(AUTHORITY, "tls.crt"), "{helm:?}");
    let bundles = release.bundles();
    assert_eq!(bundles.len(), 5, "{helm:?}");
    let expected = json!(BASE64_STANDARD.encode(&authority));
    assert!(
        bundles.iter().all(|bundle| *bundle == expected),
        "{helm:?}: {bundles:?}"
    );
    assert!(leaf.starts_with("-----BEGIN CERTIFICATE-----"), "{helm:?}: {leaf}");
    assert!(all_serve(release, &leaf), "{helm:?}");
}

/// Both certificates, as `cmctl renew` asks for it: the CA keeps its key, so nothing has to happen at one time. The
/// replicas serve the new one once the kubelet has renewed their files, and go on running.
fn renewed(release: &Release<'_>) {
    let (leaf, authority) = (release.text_of(LEAF, "tls.crt"), release.text_of(AUTHORITY, "tls.crt"));
    let running = release.restarts();
    ask_for_renewal(release, "outrigger-ca");
    eventually("the CA is renewed", || changed(release, AUTHORITY, &authority));
    ask_for_renewal(release, "outrigger");
    eventually("the certificate is renewed", || changed(release, LEAF, &leaf));
    let renewed = release.text_of(LEAF, "tls.crt");
    eventually("it is served", || all_serve(release, &renewed));
    assert_eq!(release.restarts(), running, "nothing was restarted");
    let bundle = json!(BASE64_STANDARD.encode(release.text_of(AUTHORITY, "tls.crt")));
    eventually("the new CA is trusted", || {
        release.bundles().iter().all(|found| *found == bundle)
    });
}

/// The condition by which `cmctl renew` and cert-manager itself ask for a new certificate.
fn ask_for_renewal(release: &Release<'_>, certificate: &str) {
    let condition = json!({"type": "Issuing", "status": "True", "reason": "ManuallyTriggered",
        "message": "Certificate re-issuance manually triggered", "lastTransitionTime": "2024-01-01T00:00:00Z"});
    let patch = json!([{"op": "add", "path": "/status/conditions/-", "value": condition}]).to_string();
    let arguments = [
        "patch",
        "certificate.cert-manager.io",
        certificate,
        "--subresource=status",
    ];
    release.kubectl(&[&arguments[..], &["--type=json", "-p", &patch]].concat());
}

fn made_again_after_it_was_deleted(release: &Release<'_>) {
    let leaf = release.text_of(LEAF, "tls.crt");
    release.kubectl(&["delete", "secret", LEAF]);
    eventually("the certificate is made again", || changed(release, LEAF, &leaf));
}

/// The Secret holds a certificate, and another than before.
fn changed(release: &Release<'_>, secret: &str, before: &str) -> bool {
    let now = release.text_of(secret, "tls.crt");
    !now.is_empty() && now != before
}

/// Neither takes back what cert-manager wrote.
fn upgraded_and_rolled_back(release: &Release<'_>, helm: Helm) {
    let written = |release: &Release<'_>| {
        let secrets = [LEAF, AUTHORITY].map(|secret| release.text_of(secret, "tls.crt"));
        (secrets, release.bundles())
    };
    let before = written(release);
    release.upgrade(&["--set=webhook.timeoutSeconds=7,podAnnotations.upgrade=yes"]);
    release.wait_until_complete();
    assert_eq!(written(release), before, "{helm:?}: after an upgrade");
    assert_in_use(release, helm);
    release.helm("rollback", &[]);
    release.wait_until_complete();
    assert_eq!(written(release), before, "{helm:?}: after a rollback");
    assert_in_use(release, helm);
}

/// Every replica serves this certificate to whoever calls now.
fn all_serve(release: &Release<'_>, certificate: &str) -> bool {
    let list = release.get(&["pods", "-l", "app.kubernetes.io/component=webhook"]);
    let mut pods = list["items"].as_array().unwrap().iter();
    pods.all(|pod| served(pod["status"]["podIP"].as_str().unwrap()).contains(certificate.trim()))
}

/// The certificates that a replica shows, as PEM.
fn served(address: &str) -> String {
    let mut curl = Command::new("curl");
    let silent = ["--silent", "--insecure", "--noproxy", "*", "--max-time", "5"];
    curl.env_clear().env("PATH", "/usr/bin:/bin").args(silent);
    curl.args(["--output", "/dev/null", "--write-out", "%{certs}"]);
    curl.arg(format!("https://{address}:8443/"));
    Answer::of(curl, "").output
}
