//! The first start, the next one, and one after everything has expired.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use base64::prelude::{BASE64_STANDARD, Engine};
use outrigger::certificates::make::apply;
use outrigger::certificates::plan::{Change, Settings};
use outrigger::certificates::{Moment, Unsound};
use outrigger::config::Lifetimes;
use serde_json::{Value, json};

use crate::installation::{Installation, KINDS, LEASE, SECRET, assert_no_errors, certificates_in, metric};
use crate::watchers::handshake;
use crate::webhooks::{eventually, page};

#[test]
fn the_first_start_fills_secret_and_configurations() {
    let (installation, replicas) = Installation::with_replicas("first", &[("OUTRIGGER_LOG", "trace")]);
    let secret = installation.secret();
    let keys: Vec<&str> = secret.keys().map(String::as_str).collect();
    assert_eq!(keys, ["ca.crt", "ca.key", "tls.crt", "tls.key"]);
    assert_eq!(certificates_in(&secret["ca.crt"]), 1);
    assert!(
        installation
            .bundles()
            .iter()
            .all(|bundle| bundle.as_ref() == Some(&secret["ca.crt"]))
    );
    verify_with_openssl(installation.cluster.folder(), &secret);

    let leaders: Vec<f64> = replicas
        .iter()
        .map(|replica| metric(replica, "outrigger_leader"))
        .collect();
    assert_eq!(leaders.iter().sum::<f64>(), 1.0, "one leads: {leaders:?}");
    let leader = if leaders[0] == 1.0 { "a" } else { "b" };
    assert_eq!(installation.holder().as_deref(), Some(leader));
    for replica in &replicas {
        handshake(replica.admission, secret["ca.crt"].as_bytes()).unwrap();
        assert!(
            metric(replica, "outrigger_ca_not_after_seconds")
                > metric(replica, "outrigger_certificate_not_after_seconds")
        );
        assert_no_errors(replica);
    }
    let made = |kind: &str| -> f64 {
        let series = format!("outrigger_certificate_renewals_total{{kind=\"{kind}\"}}");
        replicas.iter().map(|replica| metric(replica, &series)).sum()
    };
    assert_eq!((made("ca"), made("certificate")), (1.0, 1.0));
    owns_bundles_and_nothing_else(&installation);
}

/// The Secret is the truth, and not what a process remembers.
#[test]
fn the_next_start_changes_nothing() {
    let (installation, replicas) = Installation::with_replicas("again", &[]);
    let before = installation.get("secret", SECRET)["metadata"]["resourceVersion"].clone();
    for replica in &replicas {
        assert_eq!(replica.terminate(), "outrigger ended with exit status: 0");
    }
    let replica = installation.launch("c", &[]);
    installation.balancer.set(&[replica.admission]);
    eventually("it is ready", || page(replica.admin, "/readyz").0 == 200);
    eventually("it leads", || installation.holder().as_deref() == Some("c"));
    installation.wait_until_called();
    assert_eq!(
        installation.get("secret", SECRET)["metadata"]["resourceVersion"],
        before
    );
    assert_no_errors(&replica);
}

/// The cluster was off for months.
#[test]
fn an_expired_world_recovers_by_itself() {
    let installation = Installation::new("expired");
    let day = std::time::Duration::from_hours(24);
    let settings = Settings {
        names: ["127.0.0.1", "localhost"].map(Into::into).into(),
        lifetimes: Lifetimes {
            certificate: day,
            authority: day * 3,
            overlap: day / 24,
        },
    };
    let past = Moment::from(jiff::Timestamp::now()).minus(day * 100);
    let state = apply(Change::Found, Err(&Unsound::Empty), None, past, &settings).unwrap();
    let data: BTreeMap<&str, Option<String>> = state.encode().into_iter().collect();
    installation.patch_secret(&json!({"stringData": data}));
    installation.register();
    let expired = installation.secret()["ca.crt"].clone();
    for kind in KINDS {
        trust(&installation, kind, &expired);
    }

    let replica = installation.launch("a", &[]);
    installation.balancer.set(&[replica.admission]);
    installation.wait_until_called();
    assert_eq!(page(replica.admin, "/readyz").0, 200);
    let secret = installation.secret();
    assert_ne!(secret["ca.crt"], expired);
    assert_eq!(
        certificates_in(&secret["ca.crt"]),
        1,
        "nobody can trust what has expired"
    );
    assert_no_errors(&replica);
}

#[test]
fn says_that_it_waits_for_its_secret() {
    let installation = Installation::new("waiting");
    installation
        .cluster
        .kubectl(&["delete", "secret", SECRET, "-n", "waiting"])
        .expect_success();
    let replica = installation.launch("a", &[]);
    eventually("the reason is shown", || {
        let (status, text) = page(replica.admin, "/readyz");
        status == 503 && text.contains("[-]certificate failed: the Secret outrigger-certificates does not exist")
    });
    assert!(
        replica.log_text().contains("restore it with helm upgrade"),
        "{}",
        replica.log_text()
    );
    assert_eq!(page(replica.admin, "/livez").0, 200);
    installation.apply(&installation.secret_object());
    eventually("it is ready", || page(replica.admin, "/readyz").0 == 200);

    // Without its Lease it goes on, and says that.
    installation
        .cluster
        .kubectl(&["delete", "lease", LEASE, "-n", "waiting"])
        .expect_success();
    eventually("the log names the Lease", || {
        replica.log_text().contains("the Lease cannot be used")
    });
    assert_eq!(page(replica.admin, "/readyz").0, 200);
}

/// By another implementation of X.509.
fn verify_with_openssl(folder: &Path, secret: &BTreeMap<String, String>) {
    let file = |key: &str| {
        let path = folder.join(format!("openssl-{key}"));
        std::fs::write(&path, &secret[key]).unwrap();
        path
    };
    let (authority, certificate, key) = (file("ca.crt"), file("tls.crt"), file("tls.key"));
    let run = |arguments: &[&str]| {
        let output = Command::new("openssl").args(arguments).output().unwrap();
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    };
    let (authority, certificate) = (authority.to_str().unwrap(), certificate.to_str().unwrap());
    for name in [["-verify_ip", "127.0.0.1"], ["-verify_hostname", "localhost"]] {
        let verify = ["verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", authority];
        run(&[&verify[..], &name[..], &[certificate]].concat());
    }
    let public = run(&["x509", "-in", certificate, "-noout", "-pubkey"]);
    assert_eq!(public, run(&["pkey", "-in", key.to_str().unwrap(), "-pubout"]));
}

/// By the API server's own account of who manages which field.
fn owns_bundles_and_nothing_else(installation: &Installation) {
    for kind in KINDS {
        let command = ["get", kind, installation.name, "-o", "json", "--show-managed-fields"];
        let answer = installation.cluster.kubectl(&command).expect_success();
        let object: Value = serde_json::from_str(&answer).unwrap();
        let managers = object["metadata"]["managedFields"].as_array().unwrap();
        let ours: Vec<_> = managers
            .iter()
            .filter(|entry| entry["manager"] == "outrigger")
            .collect();
        let [ours] = ours[..] else { panic!("{managers:#?}") };
        assert_eq!(ours["operation"], "Apply");
        let fields = ours["fieldsV1"].as_object().unwrap();
        assert_eq!(fields.keys().collect::<Vec<_>>(), ["f:webhooks"]);
        let names = object["webhooks"].as_array().unwrap().iter();
        let expected: serde_json::Map<_, _> = names
            .map(|webhook| {
                let key = format!("k:{{\"name\":{}}}", webhook["name"]);
                (
                    key,
                    json!({".": {}, "f:name": {}, "f:clientConfig": {"f:caBundle": {}}}),
                )
            })
            .collect();
        assert_eq!(fields["f:webhooks"], Value::Object(expected));
    }
}

/// Makes every entry of a configuration trust a bundle, as somebody with kubectl would.
pub(crate) fn trust(installation: &Installation, kind: &str, bundle: &str) {
    let count = installation.get(kind, installation.name)["webhooks"]
        .as_array()
        .unwrap()
        .len();
    let encoded = BASE64_STANDARD.encode(bundle);
    let operations: Vec<Value> = (0..count)
        .map(|index| json!({"op": "add", "path": format!("/webhooks/{index}/clientConfig/caBundle"), "value": encoded}))
        .collect();
    let patch = Value::from(operations).to_string();
    let command = ["patch", kind, installation.name, "--type=json", "-p", &patch];
    installation.cluster.kubectl(&command).expect_success();
}
