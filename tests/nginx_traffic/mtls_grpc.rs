//! Calls of gRPC under `permissive`: with mTLS where there is a handshake, in plain where there is none, and never twice.

use std::fs;
use std::sync::Arc;

use outrigger::names;
use outrigger::service::Services;
use serde_json::{Value, json};

use crate::app::{App, Reply, Speaks, dead_port};
use crate::http2::{Http2, call, check};
use crate::mesh::Mesh;
use crate::proxy::{Proxy, pod};

/// How the callers know the service `ledger.bank`, each with the proxy's port for it.
const WAYS: [(&str, u16); 4] = [
    ("- {service: ledger.bank:PORT, protocol: grpc}", names::OUTBOUND_BASE),
    (
        "- {service: ledger.bank:PORT, protocol: grpc, retries: 2, maxFails: 1}",
        names::OUTBOUND_BASE,
    ),
    (
        "- {service: dead.shop:DEAD, protocol: grpc, split: [{service: ledger.bank:PORT, weight: 99}]}",
        names::OUTBOUND_BASE,
    ),
    ("auto", names::FOUND_BASE),
];

/// A proxy of `shop` that calls `port` in this way.
fn caller(mesh: &Mesh, way: &str, port: u16) -> Proxy {
    let service = json!({"metadata": {"name": "ledger", "namespace": "bank"},
        "spec": {"clusterIP": "127.0.0.1", "ports": [{"name": "grpc", "port": port}]}});
    let mut services = Services::of(&[serde_json::from_value(service).unwrap()]);
    services.enable_unknown();
    let upstreams = way
        .replace("PORT", &port.to_string())
        .replace("DEAD", &dead_port().to_string());
    let annotations = [
        ("template", "mtls"),
        ("upstream-namespaces", "*"),
        ("upstreams", &*upstreams),
    ];
    Proxy::start_among(&pod(&annotations, &[]), mesh, &mesh.leaf("shop", "web"), &services)
}

/// Ways of which no call goes elsewhere.
fn sure() -> impl Iterator<Item = (&'static str, u16)> {
    WAYS.into_iter().filter(|(way, _)| !way.contains("split"))
}

/// A call with a short request.
fn short(port: u16) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("body");
    fs::write(&file, "x").unwrap();
    call(port, &file)
}

/// What the first call is answered, by the proxy's log: curl takes an answer that comes before it has sent all for an error
/// of the protocol.
fn status(proxy: &Proxy, listen: u16) -> Value {
    short(proxy.port(listen));
    proxy.access_log(1)[0]["status"].take()
}

#[test]
fn a_plain_server_gets_the_whole_request_once() {
    let mesh = Mesh::new();
    for (way, listen) in sure() {
        let app = Http2::new();
        let proxy = caller(&mesh, way, app.port);
        for _ in 0..3 {
            check(&app, proxy.port(listen), None);
        }
        assert_eq!(app.behind.seen().len(), 3, "{way}{}", proxy.log());
    }
}

#[test]
fn a_strict_server_is_called_with_the_identity() {
    let mesh = Mesh::new();
    for (way, listen) in sure() {
        let app = Http2::new();
        let strict = [("template", "mtls"), ("mtls", "strict")];
        let server = Proxy::start_with(
            &pod(&strict, &[("grpc", app.port)]),
            &mesh,
            &mesh.leaf("bank", "ledger"),
        );
        let proxy = caller(&mesh, way, server.inbound());
        for _ in 0..3 {
            check(&app, proxy.port(listen), Some("O=cluster.local,OU=shop,CN=web"));
        }
        assert_eq!(app.behind.seen().len(), 3, "{way}{}", proxy.log());
    }
}

#[test]
fn a_share_of_the_calls_is_made_in_plain_too() {
    let (mesh, app) = (Mesh::new(), Http2::new());
    let proxy = caller(&mesh, WAYS[2].0, app.port);
    let answered = (0..20)
        .filter(|_| short(proxy.port(WAYS[2].1)).starts_with("HTTP/2 200"))
        .count();
    assert_eq!(app.behind.seen().len(), answered, "{}", proxy.log());
    assert!(answered > 10, "{answered} of 20");
}

#[test]
fn a_server_that_took_the_request_over_mtls_gets_no_second_one() {
    let mesh = Mesh::new();
    for (way, listen) in sure() {
        let config = mesh.server(&mesh.leaf("bank", "ledger"));
        let server = App::new(Speaks::Tls(Arc::clone(&config)), |_| Reply::Close);
        let proxy = caller(&mesh, way, server.port);
        assert_eq!(status(&proxy, listen), 502, "{way}");
        assert_eq!(server.seen().len(), 1, "{way}{}", proxy.log());
    }
}

#[test]
fn a_server_that_is_away_is_an_error() {
    let mesh = Mesh::new();
    for (way, listen) in sure() {
        let proxy = caller(&mesh, way, dead_port());
        assert_eq!(status(&proxy, listen), 502, "{way}{}", proxy.log());
    }
}

#[test]
fn a_server_that_is_silent_to_tls_is_called_in_plain() {
    let mesh = Mesh::new();
    let silent = App::new(Speaks::SilentToTls, |_| Reply::Close);
    let proxy = caller(&mesh, WAYS[0].0, silent.port);
    assert_eq!(status(&proxy, WAYS[0].1), 502, "{}", proxy.log());
    // As much of HTTP/2 as it understands.
    assert_eq!(silent.last().first, "PRI * HTTP/2.0");
}
