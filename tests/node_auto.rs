//! The label alone: on a real node, applications of two namespaces call each other by the usual names of their Services,
//! and no upstream is listed anywhere. Every call is mTLS.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use outrigger::names;
use serde_json::{Value, json};

use workloads::{Echo, Mesh, Namespace};

#[path = "support/capture.rs"]
mod capture;
#[path = "support/cluster.rs"]
mod cluster;
#[path = "support/node.rs"]
mod node;
#[path = "support/release.rs"]
mod release;
#[path = "node_auto/rollout.rs"]
mod rollout;
#[path = "support/workloads.rs"]
mod workloads;

const HTTP: u16 = 8080;
const GRPC: u16 = 9100;
/// The proxy's ports for callers with a certificate: of the first and of the second port of an application.
const TLS: [u16; 2] = [names::INBOUND_TLS_BASE, names::INBOUND_TLS_BASE + 1];
/// What is called by gRPC.
const CHECK: &str = "/grpc.health.v1.Health/Check";

/// An application that serves HTTP and gRPC and calls by both, without a word about upstreams.
fn app(name: &str) -> Echo {
    Echo::new(name)
        .argument(&format!("-grpc=:{GRPC}"))
        .container(json!({"ports": container_ports()}))
        .ports(json!(PORTS.map(|(name, port)| json!({"name": name, "port": port}))))
        .spec(json!({"containers": [loader()]}))
}

/// The ports of an application, by which their protocols are known.
const PORTS: [(&str, u16); 2] = [("http", HTTP), ("grpc", GRPC)];

fn container_ports() -> Value {
    PORTS
        .map(|(name, port)| json!({"name": name, "containerPort": port}))
        .to_vec()
        .into()
}

/// A container with the program `/echo`, by which a pod's calls are made.
fn loader() -> Value {
    json!({"name": "load", "image": node::images::ECHO, "imagePullPolicy": "Never", "args": ["serve"]})
}

/// Two namespaces, whose annotations alone say how their pods call.
struct Pair<'m> {
    namespaces: [Namespace<'m>; 2],
}

const APPS: [[&str; 3]; 2] = [["web", "orders", "stock"], ["ledger", "rates", "audit"]];

impl<'m> Pair<'m> {
    /// With these names, and Services without pods yet.
    fn new(mesh: &'m Mesh, name: &str, labelled: bool) -> Self {
        let names = ["shop", "bank"].map(|kind| format!("{name}-{kind}"));
        let namespaces = names.map(|name| match labelled {
            true => mesh.namespace(&name),
            false => mesh.unlabelled(&name),
        });
        let pair = Self { namespaces };
        for (namespace, apps) in pair.apps() {
            apps.iter()
                .for_each(|name| namespace.apply(&app(name).service().to_string()));
        }
        pair
    }

    fn apps(&self) -> impl Iterator<Item = (&Namespace<'m>, [&'static str; 3])> {
        self.namespaces.iter().zip(APPS)
    }

    /// Each application as its callers name it.
    fn hosts(&self) -> Vec<String> {
        let all = self
            .apps()
            .flat_map(|(namespace, apps)| apps.map(|app| format!("{app}.{}", namespace.name)));
        all.collect()
    }

    /// Puts the template, and more annotations, on both namespaces.
    fn annotate(&self, more: &[&str]) {
        for (namespace, other) in [(0, 1), (1, 0)].map(|(a, b)| (&self.namespaces[a], &self.namespaces[b])) {
            let template = format!("{}=mtls", names::TEMPLATE);
            let auto = format!("{}=auto", names::UPSTREAMS);
            let others = format!("{}={}", names::UPSTREAM_NAMESPACES, other.name);
            let all = [
                "annotate",
                "--overwrite",
                "namespace",
                &namespace.name,
                &template,
                &auto,
                &others,
            ];
            namespace.kubectl(&[&all, more].concat()).expect_success();
        }
    }

    fn deploy(&self, made: impl Fn(&str) -> Echo) {
        let all: Vec<(&Namespace<'_>, Vec<Echo>)> = self
            .apps()
            .map(|(namespace, apps)| (namespace, apps.map(&made).to_vec()))
            .collect();
        all.iter()
            .for_each(|(namespace, apps)| apps.iter().for_each(|app| namespace.create(app)));
        for (namespace, apps) in &all {
            namespace.deploy(&apps.iter().collect::<Vec<_>>());
        }
    }

    /// Lets every application call each one twice, by HTTP and by gRPC.
    fn call_each(&self) {
        for (namespace, caller) in self
            .apps()
            .flat_map(|(namespace, apps)| apps.map(|app| (namespace, app)))
        {
            let pod = namespace.pod(caller);
            for host in self.hosts() {
                let url = format!("http://{host}:{HTTP}/called?by={caller}");
                let http = namespace.load(&pod, &["-requests=2", "-method=POST", &url]);
                let grpc = namespace.load(&pod, &["-requests=2", "-grpc", &format!("{host}:{GRPC}")]);
                assert_eq!(
                    (http.failed, grpc.failed),
                    (0, 0),
                    "{caller} calls {host}: {http:?} {grpc:?}"
                );
            }
        }
    }

    /// Sees in the log of each that it was called twice by each of the six, never without a certificate.
    fn expect_mtls(&self) {
        let calls = 2 * self.hosts().len();
        for (namespace, app) in self
            .apps()
            .flat_map(|(namespace, apps)| apps.map(|app| (namespace, app)))
        {
            let pod = namespace.pod(app);
            for (path, port) in [("/called", TLS[0]), (CHECK, TLS[1])] {
                let inbound = |line: &Value| {
                    // The same path is in the log of what the pod called itself.
                    line["path"] == path
                        && line["port"]
                            .as_u64()
                            .is_some_and(|port| (15_200..15_500).contains(&port))
                };
                let mut ports = Vec::new();
                namespace.eventually(&format!("{app} logs {calls} calls of {path}"), || {
                    let log = namespace.access_log(&pod).into_iter().filter(inbound);
                    ports = log.map(|line| line["port"].as_u64().unwrap()).collect();
                    ports.len() >= calls
                });
                assert_eq!(ports, vec![u64::from(port); calls], "{app} {path}");
            }
        }
    }
}

/// Who called, as the application is told.
fn caller_of(namespace: &Namespace<'_>, app: &str, url: &str) -> String {
    let answer = namespace.call_through(app, url, &[]).unwrap();
    let seen: Value = serde_json::from_str(answer["body"].as_str().unwrap()).unwrap();
    seen["headers"]["X-Outrigger-Client"].to_string()
}

#[test]
fn calls_are_mtls_without_a_list() {
    let mesh: Arc<Mesh> = Mesh::shared();
    let pair = Pair::new(&mesh, "auto", true);
    pair.annotate(&[]);
    pair.deploy(app);

    pair.call_each();

    pair.expect_mtls();
    let [shop, bank] = &pair.namespaces;
    let url = format!("http://ledger.{}:{HTTP}/", bank.name);
    let expected = format!("[\"CN=default,OU={},O=cluster.local\"]", shop.name);
    let reversed = format!("[\"O=cluster.local,OU={},CN=default\"]", shop.name);
    let told = caller_of(shop, "web", &url);
    assert!(told == expected || told == reversed, "{told}");
    // Permissive: a stranger is served, and is nobody.
    let reply = shop.call_service("web", HTTP, "/", &[]).unwrap();
    assert_eq!(reply.json()["headers"]["X-Outrigger-Client"], json!(null));
}

#[test]
fn strict_refuses_strangers_and_nobody_else() {
    let mesh: Arc<Mesh> = Mesh::shared();
    let pair = Pair::new(&mesh, "auto-strict", true);
    pair.annotate(&[&format!("{}=strict", names::MTLS)]);
    pair.deploy(app);

    pair.call_each();

    pair.expect_mtls();
    let reply = pair.namespaces[0].call_service("web", HTTP, "/called", &[]).unwrap();
    assert_eq!(reply.status, 403);
}
