//! A Lease that is not there: never made by whoever installed Outrigger, or deleted.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::installation::{Installation, LEASE, SECRET, assert_no_errors, metric};
use crate::webhooks::{eventually, page};

/// The Lease, once it is another one than `before` and is held.
fn next_lease(installation: &Installation, before: Option<&Value>) -> Value {
    let uid = |lease: &Value| lease["metadata"]["uid"].clone();
    let found = || {
        let lease = installation.find("lease", LEASE)?;
        let held = lease["spec"]["holderIdentity"].is_string();
        (held && before.map(uid) != Some(uid(&lease))).then_some(lease)
    };
    eventually("there is another Lease", || found().is_some());
    found().unwrap()
}

/// It goes when the Secret goes, which is whose installation it belongs to.
#[track_caller]
fn assert_owned_by_the_secret(installation: &Installation, lease: &Value) {
    let secret = installation.get("secret", SECRET);
    let owner = json!({"apiVersion": "v1", "kind": "Secret", "name": SECRET, "uid": secret["metadata"]["uid"]});
    assert_eq!(lease["metadata"]["ownerReferences"], json!([owner]));
}

/// As with a GitOps tool that passes over Leases.
#[test]
fn a_lease_that_nobody_installed_is_made() {
    let installation = Installation::new("leaseless");
    installation.delete("lease", LEASE);
    installation.register();
    let launched = Instant::now();
    let replicas = ["a", "b"].map(|replica| installation.launch(replica, &[]));
    let lease = next_lease(&installation, None);
    // A leader that has not noticed yet would lead for so long.
    assert!(
        launched.elapsed() >= Duration::from_secs(15),
        "{:?}",
        launched.elapsed()
    );
    assert_owned_by_the_secret(&installation, &lease);
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 15);
    for replica in &replicas {
        eventually("the replica is ready", || page(replica.admin, "/readyz").0 == 200);
        assert_no_errors(replica);
    }
    let leaders = replicas.iter().map(|replica| metric(replica, "outrigger_leader"));
    assert_eq!(leaders.sum::<f64>(), 1.0);
}

#[test]
fn a_lease_that_is_deleted_is_made_again_by_the_leader() {
    let (installation, replicas) = Installation::with_replicas("unleased", &[]);
    let before = installation.get("lease", LEASE);
    assert_eq!(before["metadata"].get("ownerReferences"), None, "it was installed");
    let deleted = Instant::now();
    installation.delete("lease", LEASE);
    let again = next_lease(&installation, Some(&before));
    // The other one would wait for longer than that, and the leader has gone on leading.
    assert!(deleted.elapsed() < Duration::from_secs(14), "{:?}", deleted.elapsed());
    assert_eq!(again["spec"]["holderIdentity"], before["spec"]["holderIdentity"]);
    assert_owned_by_the_secret(&installation, &again);
    for replica in &replicas {
        assert_no_errors(replica);
    }

    // With the Secret it goes by itself, and comes back with the next one.
    installation.delete("secret", SECRET);
    eventually("the Lease goes with the Secret", || {
        installation.find("lease", LEASE).is_none()
    });
    installation.apply(&installation.secret_object());
    assert_owned_by_the_secret(&installation, &next_lease(&installation, Some(&again)));
    eventually("the Secret is filled again", || installation.is_published());
}

#[test]
fn says_that_it_may_not_make_its_lease() {
    let installation = Installation::new("unentitled");
    let mut role = installation.get("role", "unentitled");
    for rule in role["rules"].as_array_mut().unwrap() {
        let verbs = rule["verbs"].as_array_mut().unwrap();
        verbs.retain(|verb| verb != "create");
        verbs.push(json!("get"));
    }
    installation.apply(&role);
    let replica = installation.launch("a", &[]);
    eventually("it is ready", || page(replica.admin, "/readyz").0 == 200);
    installation.delete("lease", LEASE);
    eventually("the log names the Lease and the remedy", || {
        let log = replica.log_text();
        log.contains("the Lease cannot be used") && log.contains("the rights in docs/examples/certificates.yaml")
    });
    assert_eq!(page(replica.admin, "/readyz").0, 200, "it goes on");
}
