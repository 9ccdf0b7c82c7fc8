//! What a replica serves and what it says of that. Nobody leads here, so that nobody puts anything right.

use std::time::Duration;

use outrigger::certificates::certificate::BACKDATED;
use outrigger::certificates::make::apply;
use outrigger::certificates::plan::{Change, Settings, Why};
use outrigger::certificates::{Moment, State, Unsound};
use outrigger::config::Lifetimes;
use serde_json::{Value, json};

use crate::installation::{Installation, LEASE, metric};
use crate::watchers::handshake;
use crate::webhooks::{Server, eventually, page};

const DAY: Duration = Duration::from_hours(24);

/// A Lease that is held for the next hour, and a replica that so never leads.
fn leaderless(name: &'static str, state: impl FnOnce() -> State) -> (Installation, Server) {
    let installation = Installation::new(name);
    let mut lease = installation.get("lease", LEASE);
    lease["spec"] = json!({"holderIdentity": "somebody", "leaseDurationSeconds": 3600});
    installation.apply(&lease);
    put(&installation, &state());
    let replica = installation.launch("a", &[]);
    (installation, replica)
}

fn settings(certificate: Duration) -> Settings {
    Settings {
        names: ["127.0.0.1", "localhost"].map(Into::into).into(),
        lifetimes: Lifetimes {
            certificate,
            authority: DAY,
            overlap: DAY / 24,
        },
    }
}

fn now() -> Moment {
    jiff::Timestamp::now().into()
}

/// A new authority, and a certificate that is valid for so long from now on.
fn found(certificate: Duration) -> State {
    apply(Change::Found, Err(&Unsound::Empty), None, now(), &settings(certificate)).unwrap()
}

/// Puts it into the Secret, as it is.
fn put(installation: &Installation, state: &State) {
    let entries = state.encode().into_iter();
    let data: serde_json::Map<String, Value> = entries.map(|(key, value)| (key.to_owned(), json!(value))).collect();
    installation.patch_secret(&json!({"stringData": data}));
}

#[track_caller]
fn eventually_refused(replica: &Server, reason: &str) {
    let line = format!("[-]certificate failed: {reason}");
    eventually("readiness names the reason", || {
        let (status, text) = page(replica.admin, "/readyz?verbose");
        status == 503 && text.contains(&line)
    });
    assert_eq!(page(replica.admin, "/livez").0, 200);
}

#[test]
fn an_expired_certificate_is_not_ready() {
    let (installation, replica) = leaderless("ended", || found(Duration::from_secs(8)));
    eventually("it is ready", || page(replica.admin, "/readyz").0 == 200);
    eventually_refused(&replica, "the one that is served was valid until 2");
    put(&installation, &found(DAY));
    eventually("it is ready again", || page(replica.admin, "/readyz").0 == 200);
}

/// The clock of the replica that made it is ahead. Nothing but time passes after that.
#[test]
fn a_certificate_is_served_when_it_begins_to_be_valid() {
    let first = found(DAY);
    let (installation, replica) = leaderless("ahead", || first.clone());
    eventually("it is ready", || page(replica.admin, "/readyz").0 == 200);
    let ahead = now().plus(BACKDATED + Duration::from_secs(10));
    let second = apply(Change::Issue(Why::Due), Ok(&first), None, ahead, &settings(DAY)).unwrap();
    put(&installation, &second);
    let shown = || handshake(replica.admission, first.bundle().as_bytes()).unwrap();
    let leaf = |state: &State| state.leaf.as_ref().unwrap().certificate.der().clone();
    eventually("it is refused", || {
        metric(&replica, "outrigger_certificate_reload_failures_total") == 1.0
    });
    assert_eq!(shown(), leaf(&first));
    eventually("it is served", || shown() == leaf(&second));
    assert!(
        now() >= second.leaf.as_ref().unwrap().certificate.not_before,
        "not before"
    );
    assert_eq!(page(replica.admin, "/readyz").0, 200);
}

/// As after an older Secret was restored whose certificate is broken.
#[test]
fn a_certificate_that_the_secret_does_not_trust_is_not_ready() {
    let first = found(DAY);
    let (installation, replica) = leaderless("distrusted", || first.clone());
    eventually("it is ready", || page(replica.admin, "/readyz").0 == 200);
    let other = json!({"stringData": {
        "ca.crt": found(DAY).bundle(), "tls.crt": "nothing",
    }});
    installation.patch_secret(&other);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(
        page(replica.admin, "/readyz").0,
        200,
        "a Secret that is broken altogether is not what callers trust"
    );

    let mut other = found(DAY);
    other.leaf = first.leaf.clone();
    put(&installation, &other);
    let reason =
        "no certificate in the entry ca.crt of the Secret outrigger-certificates has signed the one that is served";
    eventually_refused(&replica, reason);
    put(&installation, &first);
    eventually("it is ready again", || page(replica.admin, "/readyz").0 == 200);
}
