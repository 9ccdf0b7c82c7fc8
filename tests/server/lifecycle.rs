//! From start to end: refusals, readiness, metrics, draining.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use outrigger::config::Config;
use outrigger::error::Outcome;
use outrigger::inject::{Injector, InjectorOptions};
use outrigger::metrics::DURATION_BUCKETS;
use outrigger::names;
use outrigger::server::{FailureKind, Termination};
use outrigger::services::Known;
use rustls::version::{TLS12, TLS13};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::support::{Identity, SLOW, SLOW_LOOKUP, Setup, eventually, head, log, review, tcp, write_pair};

/// Files that cannot be served, by what is written into them: nothing for one that is not there.
struct Unservable {
    certificate: Option<String>,
    key: Option<String>,
    /// What is said about them, in which `DIR` is their folder.
    reason: &'static str,
    level: &'static str,
}

fn unservable() -> [Unservable; 6] {
    let (one, other) = (Identity::new(), Identity::new());
    let case = |certificate: Option<&str>, key: Option<&str>, level, reason| Unservable {
        certificate: certificate.map(str::to_owned),
        key: key.map(str::to_owned),
        reason,
        level,
    };
    let (certificate, key) = (Some(one.certificate.as_str()), Some(one.key.as_str()));
    [
        case(
            None,
            None,
            "WARN",
            "cannot read the certificate file DIR/tls.crt: No such file",
        ),
        case(
            None,
            key,
            "WARN",
            "cannot read the certificate file DIR/tls.crt: No such file",
        ),
        case(
            certificate,
            None,
            "WARN",
            "cannot read the key file DIR/tls.key: No such file",
        ),
        case(
            certificate,
            Some(&other.key),
            "ERROR",
            "the key in file DIR/tls.key is not the one of the certificate in",
        ),
        case(
            key,
            certificate,
            "ERROR",
            "the certificate file DIR/tls.crt holds no PEM block with a certificate",
        ),
        case(
            certificate,
            Some(""),
            "ERROR",
            "the key file DIR/tls.key holds no PEM block with a key",
        ),
    ]
}

/// As a Secret is mounted that somebody else has yet to fill, or has filled by half.
#[test]
fn waits_for_files_that_cannot_be_served_yet_and_says_which() {
    for Unservable {
        certificate,
        key,
        reason,
        level,
    } in unservable()
    {
        let setup = Setup::new();
        for (name, content) in [("tls.crt", certificate), ("tls.key", key)] {
            let path = setup.dir.path().join(name);
            match content {
                Some(content) => std::fs::write(path, content).unwrap(),
                None => std::fs::remove_file(path).unwrap(),
            }
        }
        let dir = setup.dir.path().to_str().unwrap().to_owned();
        let reason = reason.replace("DIR", &dir);
        let server = setup.start();
        let (status, page) = server.page("/readyz");
        assert_eq!(status, 503);
        assert!(page.starts_with(&format!("[-]certificate failed: {reason}")), "{page}");
        assert!(server.try_connect(&[&server.setup.identity], &[&TLS13], &[]).is_err());
        assert_eq!(server.page("/livez").0, 200);
        let failures = || server.metric("outrigger_certificate_reload_failures_total");
        match level {
            "WARN" => std::thread::sleep(server.setup.config.reload_interval * 5),
            _ => eventually("it is looked at again", || failures() >= 5.0),
        }
        let lines = log(&dir);
        assert!(
            lines.len() == 1 && lines[0].contains(level) && lines[0].contains(&reason),
            "{lines:?}"
        );

        write_pair(
            server.setup.dir.path(),
            &server.setup.identity.certificate,
            &server.setup.identity.key,
        );
        eventually("it is ready", || server.page("/readyz").0 == 200);
        assert_eq!(server.connect().post("/mutate", &review("shop", 0)).status, 200);
        assert_eq!(
            server.metric("outrigger_certificate_reloads_total"),
            0.0,
            "it is the first"
        );
        assert_eq!(failures() == 0.0, level == "WARN", "{reason}: {}", failures());
        assert!(server.metric("outrigger_certificate_not_after_seconds") > 0.0);
    }
}

/// It ends while it is served, as when whoever renews the files has stopped.
#[test]
fn is_not_ready_with_an_expired_certificate() {
    let setup = Setup::new();
    let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let brief = Identity::until(begun + Duration::from_secs(4));
    write_pair(setup.dir.path(), &brief.certificate, &brief.key);
    let server = setup.start();
    assert_eq!(server.page("/readyz").0, 200);
    let reason = "[-]certificate failed: the one that is served was valid until 2";
    eventually("it has ended", || server.page("/readyz").1.starts_with(reason));
    assert_eq!(server.page("/readyz").0, 503);
    assert_eq!(server.page("/livez").0, 200, "a restart would change nothing");

    let next = &server.setup.identity;
    write_pair(server.setup.dir.path(), &next.certificate, &next.key);
    eventually("it is ready", || server.page("/readyz").0 == 200);
}

#[test]
fn looks_often_while_there_is_no_certificate() {
    let hour = Duration::from_hours(1);
    let setup = Setup::with(|config| config.reload_interval = hour);
    std::fs::remove_file(setup.dir.path().join("tls.crt")).unwrap();
    let server = setup.start();
    assert_eq!(server.page("/readyz").0, 503);
    write_pair(
        server.setup.dir.path(),
        &server.setup.identity.certificate,
        &server.setup.identity.key,
    );
    eventually("it is ready", || server.page("/readyz").0 == 200);
}

#[test]
fn does_not_start_without_word_of_a_certificate() {
    let none = Setup::with(|config| config.certificate = None).refusal().to_string();
    assert_eq!(
        none,
        "no serving certificate: set OUTRIGGER_CERT_SECRET, or OUTRIGGER_CERT_FILE and OUTRIGGER_KEY_FILE"
    );
}

#[test]
fn says_at_start_which_address_is_taken() {
    let first = Setup::new().start();
    let taken = first.addresses.admin;
    let error = Setup::with(|config| config.admin_listen = taken).refusal().to_string();
    assert!(error.starts_with(&format!("cannot listen on {taken}")), "{error}");
    assert!(error.ends_with("set OUTRIGGER_ADMIN_LISTEN"), "{error}");
}

#[test]
fn is_ready_only_when_namespaces_are_known() {
    let server = Setup::new().start();
    server.namespaces.ready.store(false, Ordering::SeqCst);
    assert_eq!(server.page("/livez"), (200, "ok".to_owned()));
    let page = "[+]certificate ok\n[-]namespaces failed: not listed yet\n[+]services ok\n[+]shutdown ok\nreadyz check failed\n";
    assert_eq!(server.page("/readyz"), (503, page.to_owned()));
    server.namespaces.ready.store(true, Ordering::SeqCst);
    let page = "[+]certificate ok\n[+]namespaces ok\n[+]services ok\n[+]shutdown ok\nreadyz check passed\n";
    assert_eq!(server.page("/readyz"), (200, page.to_owned()));
    assert_eq!(server.page("/mutate").0, 404);
}

/// Services that are not listed yet are not the same as none.
#[test]
fn a_pod_whose_upstreams_cannot_be_found_yet_is_our_error() {
    let auto = ("OUTRIGGER_UPSTREAMS".to_owned(), "auto".to_owned());
    let injector = Injector::new(InjectorOptions {
        setting_defaults: [auto].into(),
        ..InjectorOptions::default()
    });
    let server = Setup::new().start_injector(injector.unwrap(), BTreeMap::new(), Known::new(true));
    let (status, page) = server.page("/readyz");
    assert_eq!(status, 503);
    assert!(page.contains("[-]services failed: not listed yet\n"), "{page}");
    let pod = |annotations: Value| {
        let containers = json!([{"name": "app", "image": "app"}]);
        let pod = json!({"metadata": {"annotations": annotations}, "spec": {"containers": containers}});
        let request = json!({"uid": "u-1", "resource": {"group": "", "version": "v1", "resource": "pods"},
            "operation": "CREATE", "namespace": "shop", "object": pod});
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
        server.connect().post("/mutate", &review.to_string())
    };
    assert_eq!(pod(json!({})).status, 500);
    assert_eq!(pod(json!({names::UPSTREAMS: "none"})).status, 200);
}

#[test]
fn listens_without_a_certificate_but_is_not_ready() {
    let vars = [("OUTRIGGER_CERT_SECRET".to_owned(), "certs".to_owned())];
    let managed = Config::from_vars(vars, &[]).unwrap().server.certificate;
    let server = Setup::with(|config| config.certificate = managed).start();
    let (status, page) = server.page("/readyz");
    assert_eq!(status, 503);
    assert!(
        page.starts_with("[-]certificate failed: none yet\n[+]namespaces ok\n"),
        "{page}"
    );
    assert_eq!(server.page("/livez").0, 200);
    let versions: [&[_]; 2] = [&[&TLS12], &[&TLS13]];
    for versions in versions {
        let refused = server.try_connect(&[&server.setup.identity], versions, &[]);
        assert!(refused.is_err(), "no handshake succeeds");
    }
}

#[test]
fn drains_without_losing_a_request() {
    let mut server = Setup::with(|config| config.drain_delay = Duration::from_millis(600)).start();
    let body = review("shop", 0);
    let mut kept: Vec<_> = (0..60).map(|_| server.connect()).collect();
    kept.iter_mut()
        .for_each(|connection| assert_eq!(connection.post("/mutate", &body).status, 200));
    let mut in_flight = server.connect();
    let slow = review(SLOW, 0);
    in_flight
        .send(&format!("{}{slow}", head("/mutate", slow.len())))
        .unwrap();
    eventually("the slow request is in flight", || {
        server.metric("outrigger_admission_in_flight") == 1.0
    });

    let stopped = Instant::now();
    server.stop();
    eventually("readiness is off", || server.page("/readyz").0 == 503);
    assert!(server.page("/readyz").1.contains("[-]shutdown failed: in progress"));
    assert_eq!(
        server.connect().post("/mutate", &body).status,
        200,
        "new connections are still served"
    );

    let mut statuses = Vec::new();
    for connection in &mut kept {
        // Until the first 503, each request must be answered.
        let Ok(response) = connection.try_post("/mutate", &body) else {
            break;
        };
        assert!(response.closes(), "the client is told not to use the connection again");
        let retry = (response.status == 503).then_some("1");
        assert_eq!(response.header("retry-after"), retry);
        statuses.push(response.status);
        std::thread::sleep(Duration::from_millis(30));
    }
    assert!(statuses.contains(&200) && statuses.contains(&503), "{statuses:?}");
    assert!(
        statuses.is_sorted() && statuses.iter().all(|status| [200, 503].contains(status)),
        "{statuses:?}"
    );

    assert_eq!(
        in_flight.receive().unwrap().status,
        200,
        "what was in flight is finished"
    );
    assert!(stopped.elapsed() >= SLOW_LOOKUP / 2);
    server.wait().unwrap();
    assert!(tcp(server.addresses.admission).is_err(), "nothing listens any more");
}

#[test]
fn gives_up_on_requests_in_flight_after_the_drain_timeout() {
    let mut server = Setup::with(|config| config.drain_timeout = Duration::from_secs(1)).start();
    let mut connection = server.connect();
    connection.send(&head("/mutate", 1000)).unwrap();
    eventually("it is in flight", || {
        server.metric("outrigger_admission_in_flight") == 1.0
    });
    server.stop();
    let started = Instant::now();
    server.wait().unwrap();
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

/// In this very process: no other test here listens to signals, and once handled, a signal ends
/// nothing.
#[test]
fn stops_on_sigterm() {
    let (installed, ready) = std::sync::mpsc::channel();
    let (stop, _) = oneshot::channel();
    let stopped = async move {
        let mut termination = Termination::install().unwrap();
        installed.send(()).unwrap();
        termination.received().await;
    };
    let mut server = Setup::new().start_until(stop, stopped);
    ready.recv().unwrap();
    assert_eq!(server.page("/readyz").0, 200);
    let kill = format!("kill -TERM {}", std::process::id());
    assert!(
        std::process::Command::new("sh")
            .args(["-c", &kill])
            .status()
            .unwrap()
            .success()
    );
    server.wait().unwrap();
}

#[test]
fn every_metric_is_documented() {
    let docs = [
        include_str!("../../docs/operations.md"),
        include_str!("../../docs/certificates.md"),
        include_str!("../../docs/identity.md"),
    ]
    .concat();
    let (_, page) = Setup::new().start().page("/metrics");
    let names: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    assert!(names.len() > 10, "{page}");
    for name in names {
        assert!(docs.contains(name), "{name}");
    }
}

#[test]
fn metrics_tell_outcomes_apart_and_hold_nothing_a_caller_chose() {
    let server = Setup::new().start();
    let mut connection = server.connect();
    (0..3).for_each(|_| drop(connection.post("/validate", &review("a-secret-project", 0))));
    let outcomes = Outcome::all().map(Outcome::as_str);
    let ids = outcomes.chain(FailureKind::ALL.iter().map(|kind| kind.as_str()));
    for id in ids {
        let expected = if id == Outcome::ADMITTED.as_str() { 3.0 } else { 0.0 };
        let series =
            |endpoint| format!("outrigger_admission_requests_total{{endpoint=\"{endpoint}\",outcome=\"{id}\"}}");
        assert_eq!(server.metric(&series("validate")), expected, "{id}");
        assert_eq!(server.metric(&series("mutate")), 0.0, "{id}");
    }
    assert_eq!(
        server.metric("outrigger_admission_duration_seconds_count{endpoint=\"validate\"}"),
        3.0
    );
    let (_, page) = server.page("/metrics");
    let bounds = |line: &str| line.split("le=\"").nth(1)?.split('"').next()?.parse::<f64>().ok();
    let validate = page
        .lines()
        .filter(|line| line.contains("_bucket") && line.contains("\"validate\""));
    let found: Vec<_> = validate.filter_map(bounds).filter(|bound| bound.is_finite()).collect();
    assert_eq!(found.len(), DURATION_BUCKETS.len(), "{page}");
    assert_eq!((found[0], found[found.len() - 1]), (0.000_05, 5.0));
    assert!(page.contains(concat!(
        "outrigger_build_info{version=\"",
        env!("CARGO_PKG_VERSION"),
        "\"} 1"
    )));
    for name in [
        "outrigger_namespaces_synced 0",
        "outrigger_namespace_watch_errors_total 0",
        "outrigger_service_watch_errors_total 0",
        "# EOF",
    ] {
        assert!(page.contains(name), "{name} in\n{page}");
    }
    assert!(
        !page.contains("a-secret-project") && !page.contains("705ab4f5"),
        "{page}"
    );
}
