//! The passing of time, with the shortest lifetimes there are.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::balancer::Balancer;
use crate::installation::{Installation, assert_no_errors, certificates_in, metric};
use crate::watchers::{Watcher, handshake};
use crate::webhooks::{Server, eventually, page};

/// What the Secret held over the time, in the order in which it was first seen.
struct Seen {
    certificates: Vec<String>,
    authorities: BTreeSet<String>,
    bundles: Vec<String>,
}

/// Watches an installation that renews itself, while pods are created and callers connect.
fn observe(installation: &Installation, replicas: &[Server; 2], until: impl Fn(&Seen) -> bool) -> Seen {
    const PATIENCE: Duration = Duration::from_secs(150);
    let started = Instant::now();
    let pods = Watcher::of_pods(installation);
    let callers = Watcher::of_handshakes(installation, &replicas.each_ref().map(|replica| replica.admission));
    let mut seen = Seen {
        certificates: Vec::new(),
        authorities: BTreeSet::new(),
        bundles: Vec::new(),
    };
    while !until(&seen) {
        assert!(
            started.elapsed() < PATIENCE,
            "{} certificates, bundles {:?}",
            seen.certificates.len(),
            seen.bundles
        );
        let secret = installation.secret();
        note(&mut seen.certificates, &secret["tls.crt"]);
        note(&mut seen.bundles, &secret["ca.crt"]);
        seen.authorities.insert(secret["ca.key"].clone());
        std::thread::sleep(Duration::from_millis(200));
    }
    pods.saw_no_failure();
    callers.saw_no_failure();
    replicas.iter().for_each(assert_no_errors);
    seen
}

fn note(known: &mut Vec<String>, text: &str) {
    if known.last().is_none_or(|last| last != text) {
        known.push(text.to_owned());
    }
}

#[test]
fn a_certificate_is_renewed_in_time_and_no_creation_fails() {
    let variables = [("OUTRIGGER_CERT_LIFETIME", "60s"), ("OUTRIGGER_CA_OVERLAP", "2s")];
    let (installation, replicas) = Installation::with_replicas("renewal", &variables);
    let seen = observe(&installation, &replicas, |seen| seen.certificates.len() == 2);
    assert_eq!(
        (seen.authorities.len(), seen.bundles.len()),
        (1, 1),
        "the authority stays"
    );
}

#[test]
fn an_authority_is_replaced_in_time_and_no_creation_fails() {
    let variables = [
        ("OUTRIGGER_CERT_LIFETIME", "60s"),
        ("OUTRIGGER_CA_LIFETIME", "60s"),
        ("OUTRIGGER_CA_OVERLAP", "3s"),
    ];
    let (installation, replicas) = Installation::with_replicas("rotation", &variables);
    let seen = observe(&installation, &replicas, |seen| {
        seen.bundles.len() >= 4 && seen.bundles.last().is_some_and(|bundle| certificates_in(bundle) == 1)
    });
    let counts: Vec<usize> = seen.bundles.iter().map(|bundle| certificates_in(bundle)).collect();
    assert_eq!(
        counts,
        [1, 2, 2, 1],
        "one, both with the old one first, both with the new one first, one"
    );
    assert_eq!(seen.authorities.len(), 2);
    assert!(seen.bundles[1].starts_with(&seen.bundles[0]) && seen.bundles[2].starts_with(&seen.bundles[3]));
    for replica in &replicas {
        assert!(metric(replica, "outrigger_certificate_reloads_total") >= 1.0);
    }
}

/// A replica that lost the API server serves the old certificate for a while after the switch, and the
/// old authority is trusted for as long.
#[test]
fn a_replica_that_hears_of_the_switch_late_is_trusted_meanwhile() {
    let installation = Installation::new("late");
    installation.register();
    let overlap = [("OUTRIGGER_CA_OVERLAP", "15s")];
    let leader = installation.launch("a", &overlap);
    eventually("a leads", || installation.holder().as_deref() == Some("a"));
    let line = Balancer::start();
    line.set(&[installation.api_server()]);
    let kubeconfig = installation.kubeconfig_through(&line).display().to_string();
    let late = installation.launch("b", &[overlap[0], ("OUTRIGGER_KUBECONFIG", &kubeconfig)]);
    installation.balancer.set(&[leader.admission, late.admission]);
    eventually("both are ready", || {
        [&leader, &late]
            .iter()
            .all(|replica| page(replica.admin, "/readyz").0 == 200)
    });
    installation.wait_until_called();
    let before = installation.secret();
    let pods = Watcher::of_pods(&installation);
    let callers = Watcher::of_handshakes(&installation, &[leader.admission, late.admission]);

    installation.ask("ca");
    eventually("the overlap counts", || {
        installation.secret().contains_key("rotation-since")
    });
    std::thread::sleep(Duration::from_secs(12));
    line.cut();
    eventually("the new authority signs", || {
        installation.secret()["tls.crt"] != before["tls.crt"]
    });
    let only_new = &installation.secret()["ca.crt"]
        .split_inclusive("-----END CERTIFICATE-----\n")
        .next()
        .unwrap()
        .to_owned();
    handshake(leader.admission, only_new.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    handshake(late.admission, before["ca.crt"].as_bytes()).expect("the late one serves what it had");
    line.set(&[installation.api_server()]);
    eventually("the late one serves the new certificate", || {
        handshake(late.admission, only_new.as_bytes()).is_ok()
    });
    eventually("the old authority goes", || {
        certificates_in(&installation.secret()["ca.crt"]) == 1
    });
    pods.saw_no_failure();
    callers.saw_no_failure();
    assert_no_errors(&leader);
}
