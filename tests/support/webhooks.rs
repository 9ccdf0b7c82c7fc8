//! `outrigger serve` beside a test cluster, registered as its webhooks by URL.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, Weak};
use std::time::{Duration, Instant};

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::cluster::processes::Processes;

/// How long anything may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(30);

/// A cluster whose API server calls a running Outrigger.
pub(crate) struct Mesh {
    pub(crate) cluster: Arc<Cluster>,
    server: Mutex<Server>,
}

/// A running `outrigger serve`.
pub(crate) struct Server {
    process: Processes,
    pub(crate) admission: SocketAddr,
    pub(crate) admin: SocketAddr,
}

static SHARED: LazyLock<Mutex<Weak<Mesh>>> = LazyLock::new(Mutex::default);

impl Mesh {
    /// The mesh that the tests of a program share; it ends with the last of them.
    pub(crate) fn shared() -> Arc<Self> {
        let mut shared = SHARED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(mesh) = shared.upgrade() {
            return mesh;
        }
        let mesh = Arc::new(Self::start(Cluster::shared()));
        *shared = Arc::downgrade(&mesh);
        mesh
    }

    /// Starts Outrigger beside `cluster`, registers it, and waits until it is called.
    pub(crate) fn start(cluster: Arc<Cluster>) -> Self {
        Self::start_with(cluster, &[])
    }

    /// The same, with `variables` over the usual ones.
    pub(crate) fn start_with(cluster: Arc<Cluster>, variables: &[(&str, &str)]) -> Self {
        let mesh = Self::register(cluster, variables);
        mesh.wait_until_called();
        mesh
    }

    /// The same without waiting, for requirements that the probe would break.
    pub(crate) fn register(cluster: Arc<Cluster>, variables: &[(&str, &str)]) -> Self {
        let server = Server::start(&cluster, "outrigger", variables);
        let mesh = Self {
            cluster,
            server: Mutex::new(server),
        };
        mesh.apply(&mesh.configuration("MutatingWebhookConfiguration", "outrigger"));
        mesh.apply(&mesh.configuration("ValidatingWebhookConfiguration", "outrigger"));
        mesh
    }

    pub(crate) fn server(&self) -> std::sync::MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn apply(&self, object: &Value) {
        self.cluster
            .kubectl_reading(&object.to_string(), &["apply", "-f", "-"])
            .expect_success();
    }

    /// A configuration as the documentation gives it, with a URL in place of the Service.
    pub(crate) fn configuration(&self, kind: &str, name: &str) -> Value {
        let text = include_str!("../../docs/examples/webhooks.yaml");
        let mut object = crate::golden::documents(text)
            .into_iter()
            .find(|object| object["kind"] == kind)
            .unwrap();
        object["metadata"]["name"] = json!(name);
        let ca = std::fs::read(&self.cluster.authority().certificate).unwrap();
        for webhook in object["webhooks"].as_array_mut().unwrap() {
            let path = webhook["clientConfig"]["service"]["path"].as_str().unwrap().to_owned();
            let url = format!("https://{}{path}", self.server().admission);
            webhook["clientConfig"] = json!({"url": url, "caBundle": BASE64_STANDARD.encode(&ca)});
        }
        object
    }

    /// The API server takes a moment to learn of a configuration.
    fn wait_until_called(&self) {
        let probe = unique("probe");
        self.cluster
            .create_namespace(&probe, &[("outrigger.mesh/inject", "enabled")]);
        let pod = "{apiVersion: v1, kind: Pod, metadata: {name: probe, labels: {environment: dev}}, \
                   spec: {containers: [{name: app, image: app}]}}";
        let called = || {
            let dry = ["create", "-n", &probe, "--dry-run=server", "-o", "json", "-f", "-"];
            let answer = self.cluster.kubectl_reading(pod, &dry);
            answer.success && answer.output.contains("proxy-sidecar")
        };
        eventually("the webhooks are called", called);
    }

    /// Creates an object and reads it back.
    pub(crate) fn create(&self, namespace: &str, yaml: &str) -> Value {
        let answer = self
            .cluster
            .kubectl_reading(yaml, &["create", "-n", namespace, "-o", "json", "-f", "-"]);
        serde_json::from_str(&answer.expect_success()).unwrap()
    }

    /// Tries to create an object; the API server's refusal.
    pub(crate) fn refusal(&self, namespace: &str, yaml: &str) -> String {
        self.cluster
            .kubectl_reading(yaml, &["create", "-n", namespace, "-f", "-"])
            .expect_failure()
    }

    /// The value of a series of Outrigger's metrics; 0 when it is not there.
    pub(crate) fn metric(&self, series: &str) -> f64 {
        let page = page(self.server().admin, "/metrics").1;
        let line = page
            .lines()
            .find(|line| line.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
            .unwrap_or_default()
    }

    /// How often a webhook was called.
    pub(crate) fn calls(&self, endpoint: &str) -> f64 {
        let page = page(self.server().admin, "/metrics").1;
        let prefix = format!("outrigger_admission_requests_total{{endpoint=\"{endpoint}\"");
        let counts = page.lines().filter(|line| line.starts_with(&prefix));
        counts
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }
}

impl Server {
    /// Runs `outrigger serve`, with `variables` over the usual ones, and waits until it is ready.
    pub(crate) fn start(cluster: &Cluster, name: &str, variables: &[(&str, &str)]) -> Self {
        let server = Self::launch(cluster, name, variables);
        eventually("the server is ready", || page(server.admin, "/readyz").0 == 200);
        server
    }

    /// The same, and waits only until it listens.
    pub(crate) fn launch(cluster: &Cluster, name: &str, variables: &[(&str, &str)]) -> Self {
        let files = cluster.authority().server(name);
        let mut environment: BTreeMap<&str, String> = BTreeMap::from([
            ("OUTRIGGER_LISTEN", "127.0.0.1:0".to_owned()),
            ("OUTRIGGER_ADMIN_LISTEN", "127.0.0.1:0".to_owned()),
            ("OUTRIGGER_CERT_FILE", files.certificate.display().to_string()),
            ("OUTRIGGER_KEY_FILE", files.key.display().to_string()),
            ("OUTRIGGER_KUBECONFIG", cluster.kubeconfig().display().to_string()),
            ("OUTRIGGER_LOG", "debug,hyper=info,rustls=info,kube=info".to_owned()),
            ("OUTRIGGER_DRAIN_DELAY", "1s".to_owned()),
        ]);
        environment.extend(variables.iter().map(|(name, value)| (*name, (*value).to_owned())));
        let variables = environment.iter().map(|(name, value)| format!("{name}={value}"));
        let program = [env!("CARGO_BIN_EXE_outrigger").to_owned(), "serve".to_owned()];
        let arguments: Vec<String> = variables.chain(program).collect();
        let folder = cluster.folder().join(unique(name));
        std::fs::create_dir(&folder).unwrap();
        let mut process = Processes::new(&folder);
        process.start(PROGRAM, Path::new("/usr/bin/env"), &arguments);
        let nowhere = ([127, 0, 0, 1], 0).into();
        let mut server = Self {
            process,
            admission: nowhere,
            admin: nowhere,
        };
        server.find_addresses();
        server
    }

    /// The addresses are in the log, since the ports are any.
    fn find_addresses(&mut self) {
        let address = |log: &str, key: &str| -> Option<SocketAddr> {
            let line = log.lines().find(|line| line.contains("listening"))?;
            line.split(&format!("{key}="))
                .nth(1)?
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        };
        let (mut admission, mut admin) = (None, None);
        eventually("the server listens", || {
            let log = self.log_text();
            (admission, admin) = (address(&log, "admission"), address(&log, "admin"));
            assert_eq!(self.process.ended(), None, "{log}");
            admin.is_some()
        });
        (self.admission, self.admin) = (admission.unwrap(), admin.unwrap());
    }

    pub(crate) fn log_text(&self) -> String {
        std::fs::read_to_string(self.process.log(PROGRAM)).unwrap_or_default()
    }

    /// Sends a signal: `TERM` or `KILL`.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.process.ids()[0].to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &id]).status();
        assert!(sent.unwrap().success());
    }

    /// Sends SIGTERM and waits; how it ended.
    pub(crate) fn terminate(&self) -> String {
        self.signal("TERM");
        let mut end = None;
        eventually("outrigger ends", || {
            end = self.process.ended();
            end.is_some()
        });
        end.unwrap()
    }
}

const PROGRAM: &str = "outrigger";

/// A name that nothing else in this program has: the shared mesh may start more than once.
fn unique(name: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("{name}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Waits until something holds.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A page of the admin server: status and text.
pub(crate) fn page(admin: SocketAddr, path: &str) -> (u16, String) {
    let Ok(mut socket) = TcpStream::connect(admin) else {
        return (0, String::new());
    };
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        socket,
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    let status = text
        .split_whitespace()
        .nth(1)
        .and_then(|code| code.parse().ok())
        .unwrap_or_default();
    (status, text)
}
