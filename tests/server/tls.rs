//! TLS: versions, protocols, and the change of certificates.

use std::io::{Read, Write};
use std::time::Duration;

use rustls::ProtocolVersion;
use rustls::version::{TLS12, TLS13};

use crate::support::{Identity, Setup, eventually, head, review, tcp, write_pair};

#[test]
fn speaks_tls_1_2_and_1_3() {
    let server = Setup::new().start();
    for (offered, agreed) in [(&TLS12, ProtocolVersion::TLSv1_2), (&TLS13, ProtocolVersion::TLSv1_3)] {
        let mut connection = server.try_connect(&[&server.setup.identity], &[offered], &[]).unwrap();
        assert_eq!(connection.tls().protocol_version(), Some(agreed));
        assert_eq!(connection.post("/mutate", &review("shop", 0)).status, 200);
    }
}

#[test]
fn agrees_on_http_1_1_only() {
    let server = Setup::new().start();
    let connect = |alpn: &[&str]| server.try_connect(&[&server.setup.identity], &[&TLS13], alpn);
    let connection = connect(&["h2", "http/1.1"]).unwrap();
    assert_eq!(connection.tls().alpn_protocol(), Some(b"http/1.1".as_slice()));
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

/// All that TLS 1.2 would need, but for the version (RFC 5246, 7.4.1.2).
fn client_hello_of_tls_1_1() -> Vec<u8> {
    let version = [3, 2];
    let suites = [0, 2, 0xc0, 0x2b];
    let signatures = [0, 13, 0, 4, 0, 2, 4, 3];
    let groups = [0, 10, 0, 4, 0, 2, 0, 23];
    let extensions = [&[0, 16], &signatures[..], &groups[..]].concat();
    let hello = [&version[..], &[7; 32], &[0], &suites, &[1, 0], &extensions].concat();
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
fn closes_connections_that_begin_no_handshake() {
    let server = Setup::new().start();
    let mut handshake = tcp(server.addresses.admission).unwrap();
    assert_eq!(handshake.read(&mut [0]).unwrap_or(0), 0);
}

/// The API server keeps connections in reserve. Closing one with an answer nobody asked for would fail the admission
/// that is sent over it at that moment.
#[test]
fn a_connection_may_wait_for_its_first_request() {
    let server = Setup::new().start();
    let mut reserve = server.connect();
    std::thread::sleep(Duration::from_secs(7));
    assert_eq!(reserve.post("/mutate", &review("shop", 0)).status, 200);
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
    assert_eq!(server.connect_trusting(&next).post("/mutate", &body).status, 200);
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
