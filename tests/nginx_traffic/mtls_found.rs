//! Calls of Services that were found, with mTLS. One server of the proxy answers for all of them.

use std::sync::Arc;

use outrigger::names;
use outrigger::service::Services;
use serde_json::{Value, json};

use crate::app::{App, Reply, Seen, Speaks, dead_port};
use crate::mesh::{Leaf, Mesh};
use crate::proxy::{Proxy, pod};
use crate::wire::{Message, ask, connect, get, post};

struct Caller {
    mesh: Mesh,
    leaf: Leaf,
}

impl Caller {
    fn new() -> Self {
        let mesh = Mesh::new();
        let leaf = mesh.leaf("shop", "web");
        Self { mesh, leaf }
    }

    /// A peer of a namespace that says its name.
    fn peer(&self, namespace: &str, says: &'static str) -> App {
        let config = self.mesh.server(&self.mesh.leaf(namespace, "default"));
        App::new(Speaks::Tls(Arc::clone(&config)), move |_: &Message| {
            Reply::Status(200, says.to_owned())
        })
    }

    /// A proxy in whose cluster there are these Services, each as `service.namespace` and the port of HTTP.
    fn finding(&self, mode: &str, services: &[(&str, u16)]) -> Proxy {
        let service = |(name, port): &(&str, u16)| -> Value {
            let (name, namespace) = name.split_once('.').expect("a name and a namespace");
            json!({"metadata": {"name": name, "namespace": namespace},
                "spec": {"clusterIP": "127.0.0.1", "ports": [{"name": "http", "port": port}]}})
        };
        let listed: Vec<_> = services
            .iter()
            .map(|entry| serde_json::from_value(service(entry)).expect("a Service"))
            .collect();
        let mut services = Services::of(&listed);
        services.enable_unknown();
        let annotations = [("template", "mtls"), ("mtls", mode), ("upstream-namespaces", "*")];
        Proxy::start_among(&pod(&annotations, &[]), &self.mesh, &self.leaf, &services)
    }
}

/// A call of the `n`-th Service: those of the own namespace stand first, then names count.
fn call(proxy: &Proxy, n: u16, request: &str) -> (u16, String) {
    let answer = ask(&mut connect(proxy.port(names::FOUND_BASE + n)), request);
    (answer.status(), answer.text())
}

#[test]
fn each_is_called_at_its_own_port_on_connections_that_are_kept() {
    let caller = Caller::new();
    for mode in ["permissive", "strict"] {
        let peers = [("shop", "own"), ("bank", "ledger"), ("bank", "rates")].map(|(ns, says)| caller.peer(ns, says));
        let [own, ledger, rates] = &peers;
        let services = [
            ("own.shop", own.port),
            ("ledger.bank", ledger.port),
            ("rates.bank", rates.port),
        ];
        let proxy = caller.finding(mode, &services);
        for _ in 0..3 {
            for (n, says) in [(0, "own"), (1, "ledger"), (2, "rates")] {
                let answer = call(&proxy, n, &get("/a%2Fb?c"));
                assert_eq!(answer, (200, says.to_owned()), "{mode}{}", proxy.log());
            }
        }
        for peer in peers {
            let seen = peer.seen();
            let kept = |seen: &Seen| seen.connection == 0 && seen.request.first == "GET /a%2Fb?c HTTP/1.1";
            assert!(seen.len() == 3 && seen.iter().all(kept), "{mode}");
        }
    }
}

#[test]
fn plain_servers_are_called_under_permissive_with_the_whole_request_and_once() {
    let caller = Caller::new();
    let (plain, ledger) = (App::named("plain"), caller.peer("bank", "ledger"));
    let services = [("plain.bank", plain.port), ("ledger.bank", ledger.port)];
    let proxy = caller.finding("permissive", &services);
    let body = "b".repeat(300_000);
    assert_eq!(call(&proxy, 1, &post("/", &body)).0, 200, "{}", proxy.log());
    assert!(plain.last().body == body.as_bytes());
    assert_eq!(plain.seen().len(), 1);
    assert_eq!(call(&proxy, 0, &post("/", &body)), (200, "ledger".to_owned()));
    assert_eq!(ledger.seen().len(), 1);

    let proxy = caller.finding("strict", &services);
    assert_eq!(call(&proxy, 1, &get("/")).0, 502);
    assert_eq!(plain.seen().len(), 1, "strict calls no plain server");
}

#[test]
fn a_server_of_another_namespace_is_not_called_under_strict() {
    let caller = Caller::new();
    let wrong = caller.peer("shop", "wrong");
    let stranger = Caller::new().peer("bank", "stranger");
    let services = [
        ("a.bank", wrong.port),
        ("b.bank", stranger.port),
        ("c.bank", dead_port()),
    ];
    let proxy = caller.finding("strict", &services);
    for n in 0..3 {
        assert_eq!(call(&proxy, n, &get("/")).0, 502, "{n}");
    }
    assert_eq!(wrong.seen().len() + stranger.seen().len(), 0);
}
