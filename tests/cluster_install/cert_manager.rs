//! Certificates by cert-manager: its controllers issue them, its CA injector fills `caBundle`, the kubelet mounts them.

use std::collections::BTreeSet;
use std::process::Command;

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};

use crate::cluster::processes::Processes;
use crate::cluster::tools::Helm;
use crate::cluster::{Answer, tool};
use crate::node::Node;
use crate::release::{Release, eventually};
use crate::{assert_unharmed, start, wait_for_the_end, wait_until_called, while_pods_are_created};

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
    let before = node.cluster.objects();
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

/// A release from its beginning to its end; by Helm 3 its CA is renewed, by Helm 4 replaced.
fn live(node: &Node, helm: Helm, before: &BTreeSet<String>) {
    let begun = std::time::Instant::now();
    let release = Release::install_by(helm, node, &["--set=certificates.mode=cert-manager"]);
    println!("{helm:?}: installed and ready after {:.1?}", begun.elapsed());
    wait_until_called(node);
    let tally = while_pods_are_created(node, || {
        assert_in_use(&release, helm);
        renewed(&release, helm);
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

/// The CA that signs is trusted in every entry, and what is served is what was issued.
fn assert_in_use(release: &Release<'_>, helm: Helm) {
    let (leaf, authority) = (release.text_of(LEAF, "tls.crt"), release.text_of(LEAF, "ca.crt"));
    assert_eq!(authority, release.text_of(AUTHORITY, "tls.crt"), "{helm:?}");
    assert!(trusted(release, &authority), "{helm:?}: {:?}", release.bundles());
    assert!(leaf.starts_with("-----BEGIN CERTIFICATE-----"), "{helm:?}: {leaf}");
    assert!(all_serve(release, &leaf), "{helm:?}");
}

/// Whether a CA is in `caBundle` of all five entries.
fn trusted(release: &Release<'_>, authority: &str) -> bool {
    let holds = |bundle: &Value| {
        let bytes = BASE64_STANDARD.decode(bundle.as_str().unwrap_or_default()).unwrap();
        String::from_utf8(bytes).unwrap().contains(authority.trim())
    };
    let bundles = release.bundles();
    !authority.is_empty() && bundles.len() == 5 && bundles.iter().all(holds)
}

/// A new CA, and a certificate of it. The replicas serve that once the kubelet has renewed their files, and go on running;
/// until then the API server trusts the old CA as well as the new.
fn renewed(release: &Release<'_>, helm: Helm) {
    let (leaf, authority) = (release.text_of(LEAF, "tls.crt"), release.text_of(AUTHORITY, "tls.crt"));
    let key = release.text_of(AUTHORITY, "tls.key");
    let running = release.restarts();
    match helm {
        Helm::Three => ask_for_renewal(release, "outrigger-ca"),
        Helm::Four => drop(release.kubectl(&["delete", "secret", AUTHORITY])),
    }
    eventually("there is a new CA", || changed(release, AUTHORITY, &authority));
    let same_key = release.text_of(AUTHORITY, "tls.key") == key;
    assert_eq!(same_key, helm == Helm::Three, "renewed with its key, or made anew");
    ask_for_renewal(release, "outrigger");
    eventually("the certificate is renewed", || changed(release, LEAF, &leaf));
    let renewed = release.text_of(LEAF, "tls.crt");
    let new_authority = release.text_of(AUTHORITY, "tls.crt");
    eventually("the new CA is trusted", || trusted(release, &new_authority));
    assert!(trusted(release, &authority), "the old CA is trusted no more");
    eventually("it is served", || all_serve(release, &renewed));
    assert_eq!(release.restarts(), running, "nothing was restarted");
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
