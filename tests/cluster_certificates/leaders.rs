//! Leaders that go: asked to, and not.

use std::time::{Duration, Instant};

use crate::installation::{Installation, assert_no_errors, assert_quiet, certificates_in};
use crate::watchers::Watcher;
use crate::webhooks::{Server, eventually};

/// The leader and the other one.
fn by_role(installation: &Installation, replicas: [Server; 2]) -> (Server, Server) {
    let [a, b] = replicas;
    match installation.holder().as_deref() {
        Some("a") => (a, b),
        Some("b") => (b, a),
        other => panic!("{other:?} leads"),
    }
}

#[test]
fn the_other_one_leads_soon_after_sigterm() {
    let (installation, replicas) = Installation::with_replicas("sigterm", &[("OUTRIGGER_DRAIN_DELAY", "5s")]);
    let before = installation.holder();
    let (leader, other) = by_role(&installation, replicas);
    let watcher = Watcher::of_pods(&installation);
    leader.signal("TERM");
    let asked = Instant::now();
    eventually("the other one leads", || {
        installation.holder().is_some_and(|holder| Some(holder) != before)
    });
    // A Lease that is not given back runs out 15 s after it was renewed, which is done every 2 s.
    assert!(asked.elapsed() < Duration::from_secs(12), "{:?}", asked.elapsed());
    assert!(
        leader.log_text().contains("gave the Lease back"),
        "{}",
        leader.log_text()
    );
    // As a Service does when readiness goes off.
    installation.balancer.set(&[other.admission]);
    assert_eq!(leader.terminate(), "outrigger ended with exit status: 0");
    watcher.saw_no_failure();
    assert_no_errors(&other);
    assert_quiet(&leader);
}

#[test]
fn a_rotation_whose_leader_is_killed_is_finished_by_the_other() {
    let (installation, replicas) = Installation::with_replicas("sigkill", &[("OUTRIGGER_CA_OVERLAP", "6s")]);
    let (before, first) = (installation.secret(), installation.holder());
    let (leader, other) = by_role(&installation, replicas);
    // Requests on connections to the one that is killed are lost; here it is not about those.
    installation.balancer.set(&[other.admission]);
    let callers = Watcher::of_handshakes(&installation, &[other.admission]);
    installation.ask("ca");
    eventually("the overlap counts", || {
        installation.secret().contains_key("rotation-since")
    });
    leader.signal("KILL");
    let halfway = installation.secret();
    assert_eq!(certificates_in(&halfway["ca.crt"]), 2);
    assert!(halfway.contains_key("next-ca.key") && halfway["ca.key"] == before["ca.key"]);
    eventually("the other one leads", || installation.holder() != first);
    let pods = Watcher::of_pods(&installation);
    eventually("the other one finishes", || {
        let secret = installation.secret();
        certificates_in(&secret["ca.crt"]) == 1 && secret["ca.key"] == halfway["next-ca.key"]
    });
    let after = installation.secret();
    assert!(!after.contains_key("next-ca.key") && !after.contains_key("rotation-since"));
    assert!(
        halfway["ca.crt"].contains(after["ca.crt"].trim()),
        "it is the authority that was begun"
    );
    eventually("it is published", || installation.is_published());
    pods.saw_no_failure();
    callers.saw_no_failure();
    assert_no_errors(&other);
}
