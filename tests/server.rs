//! The webhook server as a client sees it: over real sockets and real TLS, with a core and
//! namespaces made for the purpose. The watch on real namespaces is the cluster tests' part.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

#[path = "support/server.rs"]
mod support;

use std::io::{Read, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use outrigger::metrics::DURATION_BUCKETS;
use outrigger::review::Outcome;
use outrigger::server::{FailureKind, Termination};
use rustls::ProtocolVersion;
use rustls::version::{TLS12, TLS13};
use support::{
    Identity, MISSING, PANICS, SLOW, SLOW_LOOKUP, Setup, eventually, head, review, tcp, write_pair,
};
use tokio::sync::oneshot;

#[test]
fn answers_both_webhooks_on_one_connection() {
    let server = Setup::new().start();
    let mut connection = server.connect();
    for path in ["/mutate", "/validate", "/mutate"] {
        let response = connection.post(path, &review("shop", 0));
        assert_eq!(
            (response.status, response.header("content-type")),
            (200, Some("application/json"))
        );
        assert_eq!(
            response.json()["response"]["uid"],
            "705ab4f5-6393-11e8-b7cc-42010a800002"
        );
        assert!(!response.closes());
    }
}

#[test]
fn rejects_what_no_api_server_sends_and_goes_on() {
    let server = Setup::new().start();
    let body = review("shop", 0);
    let post = |path: &str, kind: &str, body: &str| {
        let length = body.len();
        format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
        )
    };
    let get = "GET /mutate HTTP/1.1\r\nHost: x\r\n\r\n".to_owned();
    let mut connection = server.connect();
    for (request, status, reason) in [
        (
            post("/mutate", "application/json; charset=utf-8", &body),
            200,
            "",
        ),
        (get, 405, "MethodNotAllowed"),
        (post("/", "application/json", ""), 404, "NotFound"),
        (post("/mutate/", "application/json", ""), 404, "NotFound"),
        (post("/mutate", "application/json", "{"), 400, "BadRequest"),
        (post("/validate", "application/json", ""), 400, "BadRequest"),
        (
            post("/mutate", "application/json", "[1, 2]"),
            400,
            "BadRequest",
        ),
        (
            post(
                "/mutate",
                "application/json",
                "{\"kind\": \"AdmissionReview\"}",
            ),
            400,
            "BadRequest",
        ),
        (
            post("/mutate", "application/json", "\u{0}\u{1}"),
            400,
            "BadRequest",
        ),
        (post("/mutate", "application/json", &body), 200, ""),
    ] {
        connection.send(&request).unwrap();
        let response = connection.receive().unwrap();
        assert_eq!(response.status, status, "{request}");
        if status != 200 {
            let told = response.json();
            assert_eq!(
                (told["kind"].as_str(), told["reason"].as_str()),
                (Some("Status"), Some(reason)),
                "{request}"
            );
            assert_eq!(
                (told["status"].as_str(), told["code"].as_u64()),
                (Some("Failure"), Some(status.into()))
            );
            assert!(!told["message"].as_str().unwrap().is_empty(), "{request}");
        }
        assert_eq!(response.header("allow"), (status == 405).then_some("POST"));
    }
    assert_eq!(
        server.metric(
            "outrigger_admission_requests_total{endpoint=\"mutate\",outcome=\"bad-request\"}"
        ),
        4.0
    );
}

#[test]
fn rejects_other_content_types() {
    let server = Setup::new().start();
    for header in [
        "Content-Type: text/plain\r\n",
        "Content-Type: application/json-patch+json\r\n",
        "",
    ] {
        let mut connection = server.connect();
        let request =
            format!("POST /mutate HTTP/1.1\r\nHost: x\r\n{header}Content-Length: 2\r\n\r\n{{}}");
        connection.send(&request).unwrap();
        let response = connection.receive().unwrap();
        assert_eq!(response.status, 415, "{header}");
        assert!(
            response.json()["message"]
                .as_str()
                .unwrap()
                .contains("application/json")
        );
    }
}

#[test]
fn rejects_a_body_that_is_too_large() {
    let server = Setup::with(|config| config.max_body_bytes = 100_000).start();
    let most = review("shop", 100_000);
    assert_eq!(
        (most.len(), server.connect().post("/mutate", &most).status),
        (100_000, 200)
    );
    // Promised: answered before any of it is sent.
    let mut connection = server.connect();
    connection.send(&head("/mutate", 100_001)).unwrap();
    let response = connection.receive().unwrap();
    assert_eq!((response.status, response.closes()), (413, true));
    let message = response.json()["message"].as_str().unwrap().to_owned();
    assert_eq!(
        message,
        "the body is larger than 100000 bytes; OUTRIGGER_MAX_BODY_BYTES sets this limit"
    );
    // Not promised: answered once it has become too large.
    let mut connection = server.connect();
    let chunk = format!("{:x}\r\n{}\r\n", 60_000, "x".repeat(60_000));
    let head = "POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked";
    connection
        .send(&format!("{head}\r\n\r\n{chunk}{chunk}"))
        .unwrap();
    assert_eq!(connection.receive().unwrap().status, 413);
    assert_eq!(
        server.metric(
            "outrigger_admission_requests_total{endpoint=\"mutate\",outcome=\"too-large\"}"
        ),
        2.0
    );
}

#[test]
fn gives_up_on_a_body_that_does_not_arrive() {
    let server = Setup::with(|config| config.body_timeout = Duration::from_millis(300)).start();
    let body = review("shop", 0);
    let mut connection = server.connect();
    connection
        .send(&format!(
            "{}{}",
            head("/validate", body.len()),
            &body[..100]
        ))
        .unwrap();
    let started = Instant::now();
    let response = connection.receive().unwrap();
    assert_eq!((response.status, response.closes()), (408, true));
    assert!(started.elapsed() >= Duration::from_millis(250));
    assert!(connection.is_closed());
    assert_eq!(server.connect().post("/validate", &body).status, 200);
    assert_eq!(
        server.metric(
            "outrigger_admission_requests_total{endpoint=\"validate\",outcome=\"timeout\"}"
        ),
        1.0
    );
    assert_eq!(server.metric("outrigger_admission_in_flight"), 0.0);
}

/// A body that trickles in is bounded as a whole, not from piece to piece.
#[test]
fn gives_up_on_a_body_that_trickles() {
    let server = Setup::with(|config| config.body_timeout = Duration::from_millis(500)).start();
    let mut connection = server.connect();
    connection.send(&head("/mutate", 10_000)).unwrap();
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(800) {
        let _ = connection.send(" ");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(connection.receive().unwrap().status, 408);
}

#[test]
fn turns_large_bodies_away_while_the_budget_is_used_and_small_ones_never() {
    let limits = |config: &mut outrigger::config::ServerConfig| {
        (config.max_body_bytes, config.max_in_flight_bytes) = (500_000, 1_000_000);
    };
    let server = Setup::with(limits).start();
    let large = review("shop", 490_000);
    let mut held = server.connect();
    held.send(&format!(
        "{}{}",
        head("/mutate", large.len()),
        &large[..480_000]
    ))
    .unwrap();
    // The server may not have read all of that yet; soon there is no room for a second one.
    let mut refused = None;
    eventually("the budget is used up", || {
        let response = server.connect().post("/mutate", &large);
        let overloaded = response.status == 429;
        refused = Some(response);
        overloaded
    });
    let refused = refused.unwrap();
    assert_eq!(
        (refused.header("retry-after"), refused.closes()),
        (Some("1"), true)
    );
    assert_eq!(refused.json()["reason"], "TooManyRequests");
    assert_eq!(
        server.connect().post("/mutate", &review("shop", 0)).status,
        200
    );
    held.send(&large[480_000..]).unwrap();
    assert_eq!(held.receive().unwrap().status, 200);
    assert_eq!(server.connect().post("/mutate", &large).status, 200);
    assert!(
        server.metric(
            "outrigger_admission_requests_total{endpoint=\"mutate\",outcome=\"overloaded\"}"
        ) >= 1.0
    );
}

#[test]
fn a_namespace_that_cannot_be_known_is_an_error() {
    let server = Setup::new().start();
    let mut connection = server.connect();
    let response = connection.post("/mutate", &review(MISSING, 0));
    assert_eq!(
        (response.status, response.header("retry-after")),
        (500, None)
    );
    assert_eq!(
        response.json()["message"],
        "namespace \"missing\" does not exist"
    );
    assert_eq!(connection.post("/mutate", &review("shop", 0)).status, 200);
    assert_eq!(
        server.metric("outrigger_admission_requests_total{endpoint=\"mutate\",outcome=\"error\"}"),
        1.0
    );
}

#[test]
fn survives_a_panic_of_the_core() {
    let server = Setup::new().start();
    let mut connection = server.connect();
    for _ in 0..5 {
        let response = connection.post("/mutate", &review(PANICS, 0));
        assert_eq!(
            (response.status, response.json()["reason"].as_str()),
            (500, Some("InternalError"))
        );
        assert!(
            !response.body.contains("the core panics"),
            "what a panic says is for the log alone"
        );
        assert_eq!(connection.post("/mutate", &review("shop", 0)).status, 200);
    }
    assert_eq!(
        server.metric("outrigger_admission_requests_total{endpoint=\"mutate\",outcome=\"error\"}"),
        5.0
    );
    assert_eq!(server.metric("outrigger_admission_in_flight"), 0.0);
}

#[test]
fn speaks_tls_1_2_and_1_3() {
    let server = Setup::new().start();
    for (offered, agreed) in [
        (&TLS12, ProtocolVersion::TLSv1_2),
        (&TLS13, ProtocolVersion::TLSv1_3),
    ] {
        let mut connection = server
            .try_connect(&[&server.setup.identity], &[offered], &[])
            .unwrap();
        assert_eq!(connection.tls().protocol_version(), Some(agreed));
        assert_eq!(connection.post("/mutate", &review("shop", 0)).status, 200);
    }
}

#[test]
fn agrees_on_http_1_1_only() {
    let server = Setup::new().start();
    let connect = |alpn: &[&str]| server.try_connect(&[&server.setup.identity], &[&TLS13], alpn);
    let connection = connect(&["h2", "http/1.1"]).unwrap();
    assert_eq!(
        connection.tls().alpn_protocol(),
        Some(b"http/1.1".as_slice())
    );
    assert!(connect(&["h2"]).is_err(), "HTTP/2 alone is refused");
}

#[test]
fn refuses_tls_1_1() {
    let server = Setup::new().start();
    let mut socket = tcp(server.addresses.admission).unwrap();
    socket.write_all(&client_hello_of_tls_1_1()).unwrap();
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer);
    // An alert record: level fatal, description protocol_version (RFC 5246, 7.2).
    assert_eq!((answer[0], &answer[5..7]), (21, &[2, 70][..]), "{answer:?}");
}

/// As RFC 4346 has it: no extensions, one cipher suite, which TLS 1.2 has as well.
fn client_hello_of_tls_1_1() -> Vec<u8> {
    let version = [3, 2];
    let suites = [0, 2, 0xc0, 0x13];
    let hello = [&version[..], &[7; 32], &[0], &suites, &[1, 0]].concat();
    let length = u8::try_from(hello.len()).unwrap();
    [&[22, 3, 1, 0, length + 4, 1, 0, 0, length], &hello[..]].concat()
}

#[test]
fn refuses_plain_http() {
    let server = Setup::new().start();
    let mut socket = tcp(server.addresses.admission).unwrap();
    socket.write_all(head("/mutate", 0).as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}

#[test]
fn closes_connections_that_never_begin() {
    let server = Setup::new().start();
    let mut handshake = tcp(server.addresses.admission).unwrap();
    let mut request = server.connect();
    assert_eq!(handshake.read(&mut [0]).unwrap_or(0), 0, "no handshake");
    let first = request.receive().map(|response| response.status);
    assert!(matches!(first, Ok(408) | Err(_)), "no request: {first:?}");
}

#[test]
fn serves_a_new_certificate_while_old_connections_go_on() {
    let server = Setup::new().start();
    let mut kept = server.connect();
    let body = review("shop", 0);
    assert_eq!(kept.post("/mutate", &body).status, 200);
    let expiry = server.metric("outrigger_certificate_not_after_seconds");
    assert!(expiry > 1_700_000_000.0, "{expiry}");

    let next = Identity::new();
    write_pair(server.setup.dir.path(), &next.certificate, &next.key);
    let both = [&server.setup.identity, &next];
    eventually("the new certificate is served", || {
        assert_eq!(kept.post("/mutate", &body).status, 200);
        let connection = server
            .try_connect(&both, &[&TLS13], &[])
            .expect("every handshake succeeds");
        connection.tls().peer_certificates().unwrap()[0] == next.der()
    });
    assert_eq!(kept.post("/mutate", &body).status, 200);
    assert_eq!(
        server.connect_trusting(&next).post("/mutate", &body).status,
        200
    );
    assert_eq!(server.metric("outrigger_certificate_reloads_total"), 1.0);
}

#[test]
fn keeps_the_old_certificate_when_the_new_pair_is_bad() {
    let server = Setup::new().start();
    let next = Identity::new();
    let dir = server.setup.dir.path();
    let mut failures = 0.0;
    let mut fails_again = |what: &str| {
        eventually(what, || {
            server.metric("outrigger_certificate_reload_failures_total") >= failures + 2.0
        });
        failures = server.metric("outrigger_certificate_reload_failures_total");
        assert_eq!(
            server.connect().post("/mutate", &review("shop", 0)).status,
            200,
            "{what}"
        );
    };
    write_pair(dir, &next.certificate, &server.setup.identity.key);
    fails_again("the mismatch is counted");
    write_pair(dir, "", "");
    fails_again("empty files are counted");
    std::fs::remove_file(dir.join("tls.crt")).unwrap();
    fails_again("a missing file is counted");
    assert_eq!(server.metric("outrigger_certificate_reloads_total"), 0.0);

    write_pair(dir, &next.certificate, &next.key);
    eventually("a sound pair is taken", || {
        server.metric("outrigger_certificate_reloads_total") == 1.0
    });
    assert_eq!(
        server
            .connect_trusting(&next)
            .post("/mutate", &review("shop", 0))
            .status,
        200
    );
}

#[test]
fn says_at_start_which_file_is_wrong() {
    let setup = Setup::new();
    let dir = setup.dir.path().to_owned();
    let (own, other) = (&setup.identity, Identity::new());
    let refusal = || setup.refusal().to_string();

    write_pair(&dir, &own.certificate, &other.key);
    assert!(
        refusal().contains("tls.key is not the one of the certificate in"),
        "{}",
        refusal()
    );
    write_pair(&dir, &own.key, &own.certificate);
    assert!(
        refusal().contains("tls.crt holds no PEM block with a certificate"),
        "{}",
        refusal()
    );
    write_pair(&dir, &own.certificate, "");
    assert!(
        refusal().contains("tls.key holds no PEM block with a key"),
        "{}",
        refusal()
    );
    std::fs::remove_file(dir.join("tls.key")).unwrap();
    assert!(
        refusal().starts_with("cannot read the key file"),
        "{}",
        refusal()
    );
    std::fs::remove_file(dir.join("tls.crt")).unwrap();
    assert!(
        refusal().starts_with("cannot read the certificate file"),
        "{}",
        refusal()
    );

    let none = Setup::with(|config| config.certificate = None)
        .refusal()
        .to_string();
    assert_eq!(
        none,
        "no serving certificate: set OUTRIGGER_CERT_FILE and OUTRIGGER_KEY_FILE"
    );
}

#[test]
fn says_at_start_which_address_is_taken() {
    let first = Setup::new().start();
    let taken = first.addresses.admin;
    let error = Setup::with(|config| config.admin_listen = taken)
        .refusal()
        .to_string();
    assert!(
        error.starts_with(&format!("cannot listen on {taken}")),
        "{error}"
    );
    assert!(error.ends_with("set OUTRIGGER_ADMIN_LISTEN"), "{error}");
}

#[test]
fn is_ready_only_when_namespaces_are_known() {
    let server = Setup::new().start();
    server.namespaces.ready.store(false, Ordering::SeqCst);
    assert_eq!(server.page("/livez"), (200, "ok".to_owned()));
    let page = "[-]namespaces failed: not listed yet\n[+]shutdown ok\nreadyz check failed\n";
    assert_eq!(server.page("/readyz"), (503, page.to_owned()));
    server.namespaces.ready.store(true, Ordering::SeqCst);
    let page = "[+]namespaces ok\n[+]shutdown ok\nreadyz check passed\n";
    assert_eq!(server.page("/readyz"), (200, page.to_owned()));
    assert_eq!(server.page("/mutate").0, 404);
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
    assert!(
        server
            .page("/readyz")
            .1
            .contains("[-]shutdown failed: in progress")
    );
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
        assert!(
            response.closes(),
            "the client is told not to use the connection again"
        );
        let retry = (response.status == 503).then_some("1");
        assert_eq!(response.header("retry-after"), retry);
        statuses.push(response.status);
        std::thread::sleep(Duration::from_millis(30));
    }
    assert!(
        statuses.contains(&200) && statuses.contains(&503),
        "{statuses:?}"
    );
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
    assert!(
        tcp(server.addresses.admission).is_err(),
        "nothing listens any more"
    );
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
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
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
fn metrics_tell_outcomes_apart_and_hold_nothing_a_caller_chose() {
    let server = Setup::new().start();
    let mut connection = server.connect();
    (0..3).for_each(|_| drop(connection.post("/validate", &review("a-secret-project", 0))));
    let outcomes = Outcome::ALL.iter().map(|outcome| outcome.as_str());
    let ids = outcomes.chain(FailureKind::ALL.iter().map(|kind| kind.as_str()));
    for id in ids {
        let expected = if id == Outcome::ALL[0].as_str() {
            3.0
        } else {
            0.0
        };
        let series = |endpoint| {
            format!(
                "outrigger_admission_requests_total{{endpoint=\"{endpoint}\",outcome=\"{id}\"}}"
            )
        };
        assert_eq!(server.metric(&series("validate")), expected, "{id}");
        assert_eq!(server.metric(&series("mutate")), 0.0, "{id}");
    }
    assert_eq!(
        server.metric("outrigger_admission_duration_seconds_count{endpoint=\"validate\"}"),
        3.0
    );
    let (_, page) = server.page("/metrics");
    let bounds = |line: &str| {
        line.split("le=\"")
            .nth(1)?
            .split('"')
            .next()?
            .parse::<f64>()
            .ok()
    };
    let validate = page
        .lines()
        .filter(|line| line.contains("_bucket") && line.contains("\"validate\""));
    let found: Vec<_> = validate
        .filter_map(bounds)
        .filter(|bound| bound.is_finite())
        .collect();
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
        "# EOF",
    ] {
        assert!(page.contains(name), "{name} in\n{page}");
    }
    assert!(
        !page.contains("secret") && !page.contains("705ab4f5"),
        "{page}"
    );
}
