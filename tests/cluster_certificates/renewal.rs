//! The passing of time, with the shortest lifetimes there are.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::installation::{Installation, assert_no_errors, certificates_in, metric};
use crate::watchers::Watcher;
use crate::webhooks::Server;

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
