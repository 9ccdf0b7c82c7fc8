//! Callers of an application with mTLS.

use std::io::BufRead;
use std::sync::Arc;

use rustls::ClientConfig;
use serde_json::{Value, json};

use crate::app::{App, Reply, Speaks};
use crate::mesh::{Leaf, Mesh, Order};
use crate::proxy::{Proxy, pod};
use crate::wire::{Message, ask, connect, connect_tls, get, post, send, try_ask};

/// The name that a caller asks for.
const NAME: &str = "shop.ns.cluster.local";

struct Meshed {
    app: App,
    proxy: Proxy,
    mesh: Mesh,
    leaf: Leaf,
}

impl Meshed {
    fn new(annotations: &[(&str, &str)]) -> Self {
        Self::of(App::named("app"), annotations, None)
    }

    fn of(app: App, annotations: &[(&str, &str)], probe: Option<&str>) -> Self {
        let annotations = [&[("template", "mtls")], annotations].concat();
        let mut pod = pod(&annotations, &[("http", app.port)]);
        if let Some(path) = probe {
            pod["spec"]["containers"][0]["readinessProbe"] = json!({"httpGet": {"path": path, "port": "http"}});
        }
        Self::start(app, &pod)
    }

    fn start(app: App, pod: &Value) -> Self {
        let mesh = Mesh::new();
        let leaf = mesh.leaf("shop", "web");
        let proxy = Proxy::start_with(pod, &mesh, &leaf);
        Self { app, proxy, mesh, leaf }
    }

    fn as_caller(&self, namespace: &str, account: &str) -> Message {
        self.with(&self.mesh.client(Some(&self.mesh.leaf(namespace, account))))
    }

    fn with(&self, config: &Arc<ClientConfig>) -> Message {
        ask(&mut connect_tls(self.proxy.inbound(), config, NAME), &get("/"))
    }

    fn plain(&self, request: &str) -> Message {
        ask(&mut connect(self.proxy.inbound()), request)
    }
}

#[test]
fn permissive_serves_both_kinds_of_callers_on_one_port() {
    let meshed = Meshed::new(&[]);
    let claim = "GET / HTTP/1.1\r\nHost: a\r\nX-Outrigger-Client: O=cluster.local,OU=shop,CN=web\r\n\r\n";
    assert_eq!(meshed.plain(claim).status(), 200, "{}", meshed.proxy.log());
    assert_eq!(meshed.app.last().header("X-Outrigger-Client"), None);

    let config = meshed.mesh.client(Some(&meshed.mesh.leaf("bank", "ledger")));
    let mut stream = connect_tls(meshed.proxy.inbound(), &config, NAME);
    assert_eq!(ask(&mut stream, claim).status(), 200, "{}", meshed.proxy.log());
    let subject = "O=cluster.local,OU=bank,CN=ledger";
    assert_eq!(meshed.app.last().header("X-Outrigger-Client"), Some(subject));
    let body = "b".repeat(500_000);
    assert_eq!(ask(&mut stream, &post("/a%2Fb", &body)).status(), 200);
    let seen = meshed.app.last();
    assert_eq!(seen.first, "POST /a%2Fb HTTP/1.1");
    assert!(seen.body == body.as_bytes());
    // By the identity of the pod, too.
    let mut stream = connect_tls(meshed.proxy.inbound(), &config, "web.shop.sa.cluster.local");
    assert_eq!(ask(&mut stream, &get("/")).status(), 200);
}

#[test]
fn callers_with_no_certificate_or_a_strange_one_are_refused() {
    for mode in ["permissive", "strict"] {
        let meshed = Meshed::new(&[("mtls", mode)]);
        assert_eq!(meshed.with(&meshed.mesh.client(None)).status(), 400, "{mode}");
        let strange = Mesh::new().leaf("shop", "web");
        assert_eq!(meshed.with(&meshed.mesh.client(Some(&strange))).status(), 400, "{mode}");
        assert_eq!(meshed.app.seen().len(), 0);
        assert_eq!(
            meshed.with(&meshed.mesh.client(Some(&meshed.leaf))).status(),
            200,
            "{mode}"
        );
    }
}

#[test]
fn the_own_tls_of_an_application_is_not_taken_for_the_mesh() {
    let theirs = Mesh::new();
    let secret = App::new(Speaks::Tls(theirs.server(&theirs.leaf("x", "y"))), |_| {
        Reply::Status(200, "own".to_owned())
    });
    let pod = pod(&[("template", "mtls")], &[("https", secret.port)]);
    let meshed = Meshed::start(secret, &pod);
    // Its certificate is for another name; who asks by the Service's name gets as far as to that certificate.
    let config = theirs.client(Some(&theirs.leaf("x", "z")));
    let mut stream = connect_tls(meshed.proxy.inbound(), &config, "web.shop.svc.cluster.local");
    let error = try_ask(&mut stream, &get("/")).unwrap_err().to_string();
    assert!(error.contains("not valid for name"), "{error}{}", meshed.proxy.log());
}

#[test]
fn strict_serves_the_very_probe_in_plain_and_nothing_else() {
    let meshed = Meshed::of(App::named("app"), &[("mtls", "strict")], Some("/healthz?full=1"));
    let probe = "GET /healthz?full=1 HTTP/1.1\r\nHost: 10.0.0.1:8080\r\nUser-Agent: kube-probe/1.37\r\nConnection: close\r\n\r\n";
    assert_eq!(meshed.plain(probe).status(), 200, "{}", meshed.proxy.log());
    assert_eq!(meshed.app.last().header("User-Agent"), Some("kube-probe/1.37"));
    let with = |header: &str| format!("GET /healthz?full=1 HTTP/1.1\r\nHost: a\r\n{header}\r\n\r\n");
    let method = |method: &str| format!("{method} /healthz?full=1 HTTP/1.1\r\nHost: a\r\n\r\n");
    for request in [
        get("/"),
        get("/healthz"),
        get("/healthz?full=2"),
        get("/healthz?full=1&x"),
        get("/healthz/?full=1"),
        get("//healthz?full=1"),
        get("/healthz/../admin"),
        get("/healthz/../admin?full=1"),
        get("/admin%2f..%2fhealthz?full=1"),
        get("/%68ealthz?full=1"),
        get("/healthz%3ffull=1"),
        get("/healthz?full=1#x"),
        get("/HEALTHZ?full=1"),
        method("HEAD"),
        method("POST"),
        method("OPTIONS"),
        method("get"),
        post("/healthz?full=1", "x"),
        with("Connection: Upgrade\r\nUpgrade: websocket"),
        with("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__"),
        with("Content-Length: 3") + "abc",
        with("Transfer-Encoding: chunked") + "1\r\na\r\n0\r\n\r\n",
    ] {
        let mut stream = connect(meshed.proxy.inbound());
        send(&mut stream, request.as_bytes()).unwrap();
        // The status line alone: the answer to HEAD has no body.
        let mut status = String::new();
        stream.read_line(&mut status).unwrap();
        assert!(
            [" 403 ", " 400 "].iter().any(|code| status.contains(code)),
            "{status}: {request}"
        );
    }
    assert_eq!(meshed.app.seen().len(), 1, "the application saw more than the probe");
}

#[test]
fn strict_without_probes_refuses_every_plain_caller() {
    let meshed = Meshed::new(&[("mtls", "strict")]);
    assert_eq!(meshed.plain(&get("/")).status(), 403);
    let off = Meshed::of(
        App::named("app"),
        &[("mtls", "strict"), ("probes", "off")],
        Some("/healthz"),
    );
    assert_eq!(off.plain(&get("/healthz")).status(), 403);
    assert_eq!(meshed.app.seen().len() + off.app.seen().len(), 0);
    // HTTP/2 has its bodies elsewhere.
    assert_eq!(meshed.plain("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").status(), 400);
}

#[test]
fn only_listed_callers_are_served() {
    let meshed = Meshed::new(&[("mtls", "strict"), ("allow-from", "shop/web, bank/*")]);
    for (namespace, account, status) in [
        ("shop", "web", 200),
        ("shop", "web2", 403),
        ("shop", "eb", 403),
        ("bank", "ledger", 200),
        ("bank", "a.b-c", 200),
        ("bank2", "ledger", 403),
        ("abank", "ledger", 403),
        ("web", "shop", 403),
    ] {
        assert_eq!(
            meshed.as_caller(namespace, account).status(),
            status,
            "{namespace}/{account}"
        );
    }
    assert_eq!(meshed.app.seen().len(), 3);
}

#[test]
fn both_orders_of_a_subject_are_known() {
    let meshed = Meshed::new(&[("mtls", "strict"), ("allow-from", "shop/web, bank/*")]);
    for (namespace, account, status) in [("shop", "web", 200), ("bank", "x", 200), ("shop", "x", 403)] {
        let leaf = meshed.mesh.ordered_leaf(namespace, account, Order::NameLast);
        assert_eq!(
            meshed.with(&meshed.mesh.client(Some(&leaf))).status(),
            status,
            "{namespace}/{account}"
        );
    }
}

#[test]
fn an_empty_list_admits_nobody() {
    let meshed = Meshed::new(&[("mtls", "strict"), ("allow-from", "")]);
    assert_eq!(meshed.as_caller("shop", "web").status(), 403);
    assert_eq!(meshed.app.seen().len(), 0);
}
