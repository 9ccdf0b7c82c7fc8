//! What callers may send, and what they are told otherwise.

use std::time::{Duration, Instant};

use outrigger::config::ServerConfig;

use crate::support::{MISSING, PANICS, Setup, eventually, head, log, review};

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
        format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}")
    };
    let get = "GET /mutate HTTP/1.1\r\nHost: x\r\n\r\n".to_owned();
    let mut connection = server.connect();
    for (request, status, reason) in [
        (post("/mutate", "application/json; charset=utf-8", &body), 200, ""),
        (get, 405, "MethodNotAllowed"),
        (post("/", "application/json", ""), 404, "NotFound"),
        (post("/mutate/", "application/json", ""), 404, "NotFound"),
        (post("/mutate", "application/json", "{"), 400, "BadRequest"),
        (post("/validate", "application/json", ""), 400, "BadRequest"),
        (post("/mutate", "application/json", "[1, 2]"), 400, "BadRequest"),
        (
            post("/mutate", "application/json", "{\"kind\": \"AdmissionReview\"}"),
            400,
            "BadRequest",
        ),
        (post("/mutate", "application/json", "\u{0}\u{1}"), 400, "BadRequest"),
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
        server.metric("outrigger_admission_requests_total{endpoint=\"mutate\",outcome=\"bad-request\"}"),
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
        let request = format!("POST /mutate HTTP/1.1\r\nHost: x\r\n{header}Content-Length: 2\r\n\r\n{{}}");
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
    connection.send(&format!("{head}\r\n\r\n{chunk}{chunk}")).unwrap();
    assert_eq!(connection.receive().unwrap().status, 413);
    assert_eq!(
        server.metric("outrigger_admission_requests_total{endpoint=\"mutate\",outcome=\"too-large\"}"),
        2.0
    );
}

/// A refusal ends the connection also when the body has no end.
#[test]
fn cuts_off_a_body_without_end() {
    let server = Setup::with(|config| config.max_body_bytes = 100_000).start();
    let chunk = format!("{:x}\r\n{}\r\n", 60_000, "x".repeat(60_000));
    for (request, kind, status) in [
        ("POST /mutate", "application/json", 413),
        ("POST /mutate", "text/plain", 415),
        ("PUT /mutate", "application/json", 405),
        ("POST /elsewhere", "application/json", 404),
    ] {
        let mut connection = server.connect();
        let head = format!("{request} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked");
        connection.send(&format!("{head}\r\n\r\n{chunk}{chunk}")).unwrap();
        assert_eq!(connection.receive().unwrap().status, status, "{request}");
        eventually("the connection is closed", || connection.send(&chunk).is_err());
    }
}

#[test]
fn gives_up_on_a_body_that_does_not_arrive() {
    let server = Setup::with(|config| config.body_timeout = Duration::from_millis(300)).start();
    let body = review("shop", 0);
    let mut connection = server.connect();
    connection
        .send(&format!("{}{}", head("/validate", body.len()), &body[..100]))
        .unwrap();
    let started = Instant::now();
    let response = connection.receive().unwrap();
    assert_eq!((response.status, response.closes()), (408, true));
    assert!(started.elapsed() >= Duration::from_millis(250));
    assert!(connection.is_closed());
    assert_eq!(server.connect().post("/validate", &body).status, 200);
    assert_eq!(
        server.metric("outrigger_admission_requests_total{endpoint=\"validate\",outcome=\"timeout\"}"),
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
    let limits = |config: &mut ServerConfig| {
        (config.max_body_bytes, config.max_in_flight_bytes) = (500_000, 1_000_000);
    };
    let server = Setup::with(limits).start();
    let large = review("shop", 490_000);
    let mut held = server.connect();
    held.send(&format!("{}{}", head("/mutate", large.len()), &large[..480_000]))
        .unwrap();
    let bytes = || server.metric("outrigger_admission_in_flight_bytes");
    eventually("it is held", || bytes() == 480_000.0);
    let refused = server.connect().post("/mutate", &large);
    assert_eq!(refused.status, 429);
    assert_eq!((refused.header("retry-after"), refused.closes()), (Some("1"), true));
    assert_eq!(refused.json()["reason"], "TooManyRequests");
    assert_eq!(server.connect().post("/mutate", &review("shop", 0)).status, 200);
    held.send(&large[480_000..]).unwrap();
    assert_eq!(held.receive().unwrap().status, 200);
    eventually("it is given back", || bytes() == 0.0);
    assert_eq!(server.connect().post("/mutate", &large).status, 200);
    assert!(server.metric("outrigger_admission_requests_total{endpoint=\"mutate\",outcome=\"overloaded\"}") >= 1.0);
}

#[test]
fn a_namespace_that_cannot_be_known_is_an_error() {
    let server = Setup::new().start();
    let mut connection = server.connect();
    let response = connection.post("/mutate", &review(MISSING, 0));
    assert_eq!((response.status, response.header("retry-after")), (500, None));
    assert_eq!(response.json()["message"], "namespace \"missing\" does not exist");
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
fn logs_what_was_decided_in_one_line() {
    let server = Setup::new().start();
    server.connect().post("/validate", &review("the-logged-one", 0));
    let lines = log("the-logged-one");
    assert_eq!(lines.len(), 1, "{lines:#?}");
    for field in [
        " INFO ",
        "admission",
        "uid=\"705ab4f5-6393-11e8-b7cc-42010a800002\"",
        "namespace=\"the-logged-one\"",
        "pod=\"web\"",
        "dry_run=false",
        "endpoint=\"validate\"",
        "outcome=",
        "detail=\"answered\"",
        "duration_us=",
    ] {
        assert!(lines[0].contains(field), "{field} in {}", lines[0]);
    }
}

#[test]
fn a_caller_cannot_forge_a_log_line() {
    let server = Setup::new().start();
    let forged = "x\n2026-01-01T00:00:00Z  INFO forged-line\u{1b}[31m";
    server.connect().post("/mutate", &review(forged, 0));
    let mut connection = server.connect();
    let kind = "Content-Type: forged-line\u{9b}31m";
    connection
        .send(&format!(
            "POST /mutate HTTP/1.1\r\nHost: x\r\n{kind}\r\nContent-Length: 0\r\n\r\n"
        ))
        .unwrap();
    assert_eq!(connection.receive().unwrap().status, 415);
    let lines = log("forged-line");
    assert!(!lines.is_empty());
    for line in lines {
        assert!(line.contains(" admission"), "{line:?}");
        assert!(!line.contains(char::is_control), "{line:?}");
    }
}
