//! A pod's proxy: the configuration that Outrigger renders for the pod, in a real nginx on loopback.
//!
//! Replaced in the configuration is only what cannot be here: the cluster's DNS names, the folders of the container, and
//! the ports, so that runs beside each other do not meet.

use std::collections::BTreeMap;
use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use outrigger::inject::{Injector, InjectorOptions};
use outrigger::names;
use outrigger::namespace::NamespaceInfo;
use outrigger::review::{Endpoint, decode};
use outrigger::service::{Services, View};
use regex::{Captures, Regex};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::golden::{patched, review_of};
use crate::mesh::{Leaf, Mesh};
use crate::processes::Processes;
use crate::tools::tool;
use crate::wire::{PATIENCE, ask, connect, get};

/// A running proxy; it ends with this.
pub(crate) struct Proxy {
    processes: Processes,
    ports: BTreeMap<u16, u16>,
    folder: TempDir,
}

/// A pod of namespace `shop` with these annotations (without their prefix) and ports, by name.
pub(crate) fn pod(annotations: &[(&str, &str)], ports: &[(&str, u16)]) -> Value {
    let annotations: BTreeMap<String, &str> = annotations
        .iter()
        .map(|(key, value)| (format!("outrigger.mesh/{key}"), *value))
        .collect();
    let ports: Vec<Value> = ports
        .iter()
        .map(|(name, port)| json!({"name": name, "containerPort": port}))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop", "annotations": annotations},
        "spec": {"serviceAccountName": "web", "containers": [{"name": "app", "image": "app:1", "ports": ports}]},
    })
}

impl Proxy {
    /// Starts the proxy of a pod without mTLS.
    pub(crate) fn start(pod: &Value) -> Self {
        Self::run(pod, None, View::Off)
    }

    /// Starts the proxy of a pod that has `leaf` for its identity.
    pub(crate) fn start_with(pod: &Value, mesh: &Mesh, leaf: &Leaf) -> Self {
        Self::run(pod, Some((mesh, leaf)), View::Off)
    }

    /// The same in a cluster with these Services, which are called at the addresses that they say.
    pub(crate) fn start_among(pod: &Value, mesh: &Mesh, leaf: &Leaf, services: &Services) -> Self {
        Self::run(pod, Some((mesh, leaf)), View::Known(services))
    }

    fn run(pod: &Value, identity: Option<(&Mesh, &Leaf)>, services: View<'_>) -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        if let Some((mesh, leaf)) = identity {
            mesh.write(&folder.path().join("identity"), leaf);
        }
        let mut ports = BTreeMap::new();
        let text = here(&rendered(pod, services), folder.path(), &mut ports);
        let file = folder.path().join("nginx.conf");
        std::fs::write(&file, text).expect("it can be written");
        let mut processes = Processes::new(folder.path());
        let arguments = ["-e", "stderr", "-c", &file.display().to_string()].map(str::to_owned);
        processes.start("nginx", &tool("TEST_NGINX"), &arguments);
        let proxy = Self {
            processes,
            ports,
            folder,
        };
        proxy.wait();
        proxy
    }

    fn wait(&self) {
        let health = self.port(names::HEALTH_PORT);
        wait_for(health, &self.processes);
        assert_eq!(ask(&mut connect(health), &get("/healthz")).text(), "ok\n");
    }

    /// Where a port of the configuration is served here.
    pub(crate) fn port(&self, configured: u16) -> u16 {
        *self
            .ports
            .get(&configured)
            .unwrap_or_else(|| panic!("no port {configured} in the configuration"))
    }

    /// The port of the application's first port.
    pub(crate) fn inbound(&self) -> u16 {
        self.port(names::INBOUND_BASE)
    }

    /// The port of the first upstream.
    pub(crate) fn outbound(&self) -> u16 {
        self.port(names::OUTBOUND_BASE)
    }

    /// The lines of the access log, each an object, once there are `count`.
    pub(crate) fn access_log(&self, count: usize) -> Vec<Value> {
        let started = Instant::now();
        loop {
            let text = std::fs::read_to_string(self.folder.path().join("access.log")).unwrap_or_default();
            if text.lines().count() >= count {
                let line = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
                return text.lines().map(line).collect();
            }
            assert!(started.elapsed() < PATIENCE, "the log has not {count} lines:\n{text}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// What nginx said, for the message of a failure.
    pub(crate) fn log(&self) -> String {
        self.processes.log_tails()
    }
}

/// Waits until a process serves a port.
pub(crate) fn wait_for(port: u16, processes: &Processes) {
    let started = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(
            started.elapsed() < PATIENCE,
            "nginx does not serve{}",
            processes.log_tails()
        );
        if let Some(ended) = processes.ended() {
            panic!("{ended}{}", processes.log_tails());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The annotation of the pod that the webhook would give back.
fn rendered(pod: &Value, services: View<'_>) -> String {
    let injector = Injector::new(InjectorOptions::default()).expect("the defaults are usable");
    let body = review_of("u-1", "shop", pod).to_string();
    let review = decode(body.as_bytes()).expect("a review");
    let namespace = NamespaceInfo::enabled();
    let answer = injector
        .answer(Endpoint::Mutate, &review, Some(&namespace), services)
        .expect("an answer");
    let answer: Value = serde_json::from_slice(&answer.body).expect("JSON");
    let injected = patched(&answer, pod).unwrap_or_else(|| panic!("not injected: {answer}"));
    let conf = &injected["metadata"]["annotations"][names::NGINX_CONF];
    conf.as_str().expect("the template has the annotation").to_owned()
}

/// The configuration for this place.
fn here(text: &str, folder: &Path, ports: &mut BTreeMap<u16, u16>) -> String {
    let regex = |pattern| Regex::new(pattern).expect("a valid pattern");
    let text = regex(r"(?m)^ *resolver .*\n").replace_all(text, "");
    let text = regex(r#""[a-z0-9.-]+\.svc\.cluster\.local:(\d+)" resolve"#).replace_all(&text, "127.0.0.1:$1");
    // Where nobody answers, a second shows as much as five.
    let text = regex(r"connect_timeout 5s;").replace_all(&text, "connect_timeout 1s;");
    // Free ports are not one after the other.
    let text = regex(r"(?m)^ *listen (\S+):(\d+)-(\d+)( ssl)?;").replace_all(&text, |found: &Captures<'_>| {
        let port = |n: usize| found[n].parse::<u16>().expect("a port");
        let ssl = found.get(4).map_or("", |ssl| ssl.as_str());
        let listens = (port(2)..=port(3)).map(|port| format!("listen {}:{port}{ssl};", &found[1]));
        listens.collect::<Vec<_>>().join("\n")
    });
    let text = regex(r"\b15[0-47]\d\d\b").replace_all(&text, |found: &Captures<'_>| {
        let configured = found[0].parse().expect("five digits below 2^16");
        ports.entry(configured).or_insert_with(free_port).to_string()
    });
    let path = |name: &str| folder.join(name).display().to_string();
    // The first, since the test's folder may lie below it.
    text.replace("/tmp/", &path(""))
        .replace("/dev/stdout", &path("access.log"))
        .replace("/var/run/outrigger/identity/", &path("identity/"))
        // The only process, so that the test ends all of it.
        .replace("daemon off;", "daemon off;\nmaster_process off;")
}

/// A free port below those that the kernel gives to outgoing connections, at a place of this process's own.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(131);
    loop {
        let n = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(16_000 + n % 16_000).expect("below 32000");
        if TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).is_ok() {
            return port;
        }
    }
}
