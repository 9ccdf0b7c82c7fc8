//! Calls of an application to others with mTLS.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::app::{App, Reply, Speaks, dead_port};
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

    /// A peer with the certificate of a ServiceAccount, which asks its callers for theirs.
    fn peer(&self, namespace: &str, account: &str, answer: impl Fn(&Message) -> Reply + Send + Sync + 'static) -> App {
        let config = self.mesh.server(&self.mesh.leaf(namespace, account));
        App::new(Speaks::Tls(Arc::clone(&config)), answer)
    }

    fn calling(&self, mode: &str, upstreams: &str) -> Proxy {
        let annotations = [("template", "mtls"), ("mtls", mode), ("upstreams", upstreams)];
        Proxy::start_with(&pod(&annotations, &[]), &self.mesh, &self.leaf)
    }
}

fn said(text: &'static str) -> impl Fn(&Message) -> Reply {
    move |_| Reply::Status(200, text.to_owned())
}

fn call(proxy: &Proxy, request: &str) -> (u16, String) {
    let answer = ask(&mut connect(proxy.outbound()), request);
    (answer.status(), answer.text())
}

#[test]
fn a_peer_of_the_mesh_is_called_with_mtls() {
    let caller = Caller::new();
    for mode in ["permissive", "strict"] {
        let peer = caller.peer("bank", "ledger", said("ledger"));
        let proxy = caller.calling(mode, &format!("- ledger.bank:{}", peer.port));
        for _ in 0..3 {
            assert_eq!(
                call(&proxy, &get("/a%2Fb?c")),
                (200, "ledger".to_owned()),
                "{mode}{}",
                proxy.log()
            );
        }
        let body = "b".repeat(500_000);
        assert_eq!(call(&proxy, &post("/", &body)).0, 200, "{mode}");
        assert!(peer.last().body == body.as_bytes());
        assert!(
            peer.seen()[..3]
                .iter()
                .all(|s| s.connection == 0 && s.request.first == "GET /a%2Fb?c HTTP/1.1")
        );
        assert_eq!(peer.seen().len(), 4);
    }
}

#[test]
fn a_peer_of_another_namespace_or_mesh_is_not_called() {
    let caller = Caller::new();
    let wrong = caller.peer("shop", "ledger", said("wrong"));
    let proxy = caller.calling("strict", &format!("- ledger.bank:{}", wrong.port));
    assert_eq!(call(&proxy, &get("/")).0, 502);
    let stranger = Caller::new().peer("bank", "ledger", said("wrong"));
    let proxy = caller.calling("strict", &format!("- ledger.bank:{}", stranger.port));
    assert_eq!(call(&proxy, &get("/")).0, 502);
    let plain = App::named("plain");
    let proxy = caller.calling("strict", &format!("- ledger.bank:{}", plain.port));
    assert_eq!(call(&proxy, &get("/")).0, 502);
    assert_eq!(wrong.seen().len() + stranger.seen().len() + plain.seen().len(), 0);
}

#[test]
fn a_declared_identity_must_answer() {
    let caller = Caller::new();
    for mode in ["permissive", "strict"] {
        let right = caller.peer("bank", "ledger", said("right"));
        let wrong = caller.peer("bank", "other", said("wrong"));
        let plain = App::named("plain");
        let entry = |app: &App, n: u16| format!("- {{service: s{n}.bank:{}, identity: bank/ledger}}\n", app.port);
        let proxy = caller.calling(mode, &(entry(&right, 0) + &entry(&wrong, 1) + &entry(&plain, 2)));
        let status = |port| ask(&mut connect(proxy.port(port)), &get("/")).status();
        assert_eq!(
            [15100, 15101, 15102].map(status),
            [200, 502, 502],
            "{mode}{}",
            proxy.log()
        );
        assert_eq!(wrong.seen().len() + plain.seen().len(), 0, "{mode}");
    }
}

#[test]
fn a_plain_peer_gets_the_whole_request_once() {
    let caller = Caller::new();
    let peer = App::named("plain");
    let proxy = caller.calling("permissive", &format!("- peer.bank:{}", peer.port));
    let body: String = (0..500_000u32)
        .map(|i| char::from(b'a' + u8::try_from(i % 23).unwrap()))
        .collect();
    assert_eq!(
        call(&proxy, &post("/a%2Fb/?q=%26", &body)),
        (200, "plain".to_owned()),
        "{}",
        proxy.log()
    );
    let seen = peer.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].request.first, "POST /a%2Fb/?q=%26 HTTP/1.1");
    assert_eq!(seen[0].request.header("Host"), Some("web.shop"));
    assert!(seen[0].request.body == body.as_bytes());
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n3\r\nefg\r\n0\r\n\r\n";
    assert_eq!(call(&proxy, chunked).0, 200);
    assert_eq!(peer.last().body, b"abcdefg");
    assert_eq!(peer.seen().len(), 2);
}

#[test]
fn a_peer_that_took_the_request_over_mtls_gets_no_second_one() {
    let caller = Caller::new();
    let peer = caller.peer("bank", "ledger", |_| Reply::Close);
    let proxy = caller.calling("permissive", &format!("- ledger.bank:{}", peer.port));
    assert_eq!(call(&proxy, &post("/", "x")).0, 502);
    assert_eq!(peer.seen().len(), 1);
    // Nor one that is late.
    let peer = caller.peer("bank", "ledger", |_| Reply::Silence);
    let entry = format!("- {{service: ledger.bank:{}, timeout: 500ms}}", peer.port);
    let proxy = caller.calling("permissive", &entry);
    assert_eq!(call(&proxy, &post("/", "x")).0, 504, "{}", proxy.log());
    assert_eq!(peer.seen().len(), 1);
}

#[test]
fn what_the_peer_answers_is_the_answer() {
    let caller = Caller::new();
    for status in [404, 502, 504] {
        let peer = caller.peer("bank", "ledger", move |_| Reply::Status(status, "mine".to_owned()));
        let proxy = caller.calling("permissive", &format!("- ledger.bank:{}", peer.port));
        assert_eq!(call(&proxy, &get("/")), (status, "mine".to_owned()));
        assert_eq!(peer.seen().len(), 1);
    }
}

#[test]
fn a_peer_that_is_silent_to_tls_is_called_in_plain() {
    let caller = Caller::new();
    let peer = App::new(Speaks::SilentToTls, |_| Reply::Status(200, "plain".to_owned()));
    let proxy = caller.calling("permissive", &format!("- peer.bank:{}", peer.port));
    let started = Instant::now();
    assert_eq!(
        call(&proxy, &post("/", "x")),
        (200, "plain".to_owned()),
        "{}",
        proxy.log()
    );
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(peer.seen().len(), 1);
}

#[test]
fn a_dead_peer_is_a_bad_gateway() {
    let caller = Caller::new();
    for mode in ["permissive", "strict"] {
        let proxy = caller.calling(mode, &format!("- peer.bank:{}", dead_port()));
        assert_eq!(call(&proxy, &get("/")).0, 502, "{mode}");
    }
}

#[test]
fn retries_and_shares_work_over_mtls_and_in_plain() {
    let caller = Caller::new();
    let (meshed, plain) = (caller.peer("bank", "ledger", said("meshed")), App::named("plain"));
    let proxy = caller.calling(
        "permissive",
        &format!(
            "- {{service: l.bank:{}, retries: 2, split: [{{service: p.bank:{}, weight: 50}}]}}",
            meshed.port, plain.port
        ),
    );
    for _ in 0..100 {
        assert_eq!(call(&proxy, &get("/")).0, 200, "{}", proxy.log());
    }
    assert_eq!(meshed.seen().len() + plain.seen().len(), 100);
    // Five standard deviations around 50.
    assert!((25..=75).contains(&plain.seen().len()), "{}", plain.seen().len());
}

#[test]
fn two_proxies_carry_a_call() {
    let caller = Caller::new();
    let app = App::named("app");
    let annotations = [("template", "mtls"), ("mtls", "strict"), ("allow-from", "shop/web")];
    let other = caller.mesh.leaf("bank", "ledger");
    let server = Proxy::start_with(&pod(&annotations, &[("http", app.port)]), &caller.mesh, &other);
    let client = caller.calling("strict", &format!("- ledger.bank:{}", server.inbound()));
    let request = "GET / HTTP/1.1\r\nHost: ledger.bank\r\nX-Outrigger-Client: O=cluster.local,OU=bank,CN=root\r\n\r\n";
    assert_eq!(
        call(&client, request),
        (200, "app".to_owned()),
        "{}{}",
        client.log(),
        server.log()
    );
    let seen = app.last();
    assert_eq!(
        seen.header("X-Outrigger-Client"),
        Some("O=cluster.local,OU=shop,CN=web")
    );
    assert_eq!(seen.header("Host"), Some("ledger.bank"));
}
