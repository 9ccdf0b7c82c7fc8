//! A Kubernetes control plane of its own for a test: etcd, API server and controller manager on loopback.
//!
//! There is no node and no scheduler: pods are admitted and stored, and stay Pending. Admission plugins, RBAC and the
//! controllers are those of a default cluster. Certificates are made for each cluster, the token keys too.
//!
//! A webhook is called by URL, `https://127.0.0.1:<port>/…`, with the `caBundle` of whoever issued its certificate, which
//! needs the subject alternative name IP:127.0.0.1; [`Authority`] can issue one.
#![allow(dead_code, reason = "each suite uses its own part of the support modules")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;

pub(crate) use certificates::{Authority, Files};
use ports::free_ports;
use processes::Processes;
#[allow(unused_imports, reason = "each suite uses its own part of the support modules")]
pub(crate) use tools::tool;

mod certificates;
mod ports;
pub(crate) mod processes;
mod tools;

/// How long a start, or a controller's reaction, may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A running control plane; dropping it ends the processes and removes their folder.
pub(crate) struct Cluster {
    // Fields are dropped in this order: processes first.
    processes: Processes,
    kubectl: PathBuf,
    authority: Authority,
    folder: TempDir,
}

impl Cluster {
    /// The cluster that the tests running at this moment share: the first one starts it, the last one ends it.
    pub(crate) fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
        let mut shared = SHARED
            .lock()
            .expect("an earlier test could not start the cluster: see its message");
        shared.upgrade().unwrap_or_else(|| {
            let cluster = Arc::new(Self::start());
            *shared = Arc::downgrade(&cluster);
            cluster
        })
    }

    /// Starts a cluster and waits until it admits pods in the namespace `default`.
    ///
    /// # Panics
    /// With the end of each log when it does not start; with a sentence when a tool is missing.
    pub(crate) fn start() -> Self {
        const ATTEMPTS: usize = 3;
        let mut attempts = (0..ATTEMPTS).map(|_| Self::try_start());
        let taken = |failure: &String| failure.contains("address already in use");
        // A free port can be taken before the server opens it; nothing else is tried again.
        let outcome = attempts.find(|outcome| !matches!(outcome, Err(failure) if taken(failure)));
        match outcome {
            Some(Ok(cluster)) => cluster,
            Some(Err(failure)) => panic!("{failure}"),
            None => panic!("{ATTEMPTS} times in a row a port was taken by another program"),
        }
    }

    /// The administrator's kubeconfig file.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.path("admin.kubeconfig")
    }

    /// The cluster's certificate authority; suites may issue their webhook's certificate from it.
    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The folder that holds everything of this cluster, logs included; removed at the end.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The ids of etcd, API server and controller manager.
    pub(crate) fn process_ids(&self) -> Vec<u32> {
        self.processes.ids()
    }

    /// What the processes logged last, for the message of a failed assertion.
    pub(crate) fn log_tails(&self) -> String {
        self.processes.log_tails()
    }

    /// A client configuration for the administrator.
    pub(crate) async fn config(&self) -> kube::Config {
        let kubeconfig = kube::config::Kubeconfig::read_from(self.kubeconfig()).expect("written at the start");
        kube::Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default())
            .await
            .expect("complete")
    }

    /// A client for the administrator. It belongs to the runtime of the test that asks: make one for each test.
    pub(crate) async fn client(&self) -> kube::Client {
        kube::Client::try_from(self.config().await).expect("the configuration is complete")
    }

    /// Runs kubectl as the administrator.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Answer {
        self.kubectl_reading("", arguments)
    }

    /// Runs kubectl as the administrator with a text on its standard input: `["apply", "-f", "-"]`.
    pub(crate) fn kubectl_reading(&self, input: &str, arguments: &[&str]) -> Answer {
        let mut command = Command::new(&self.kubectl);
        command
            .env_clear()
            .env("HOME", self.folder())
            .env("PATH", "/usr/bin:/bin") // kubectl diff runs diff
            .env("KUBECONFIG", self.kubeconfig())
            .args(arguments);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("kubectl is a program");
        let mut stdin = child.stdin.take().expect("piped");
        // kubectl may end without reading; then its answer says why.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        let output = child.wait_with_output().expect("kubectl can be waited for");
        Answer {
            success: output.status.success(),
            output: String::from_utf8_lossy(&output.stdout).into_owned(),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Creates a namespace and waits until pods can be created in it: until its default service account is there.
    pub(crate) fn create_namespace(&self, name: &str, labels: &[(&str, &str)]) {
        let labels: serde_json::Map<_, _> = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), json!(value)))
            .collect();
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
        self.kubectl_reading(&namespace.to_string(), &["create", "-f", "-"])
            .expect_success();
        self.namespace_ready(name);
    }

    /// Waits until pods can be created in a namespace that is there.
    pub(crate) fn namespace_ready(&self, name: &str) {
        self.wait_for_service_account(name)
            .unwrap_or_else(|failure| panic!("{failure}"));
    }

    fn try_start() -> Result<Self, String> {
        let folder = tempfile::Builder::new()
            .prefix("cluster-")
            .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
            .expect("the build folder is writable");
        let mut cluster = Self {
            processes: Processes::new(folder.path()),
            kubectl: tool("KUBECTL"),
            authority: Authority::new(folder.path()),
            folder,
        };
        cluster.run(free_ports())?;
        Ok(cluster)
    }

    fn run(&mut self, [etcd, etcd_peers, api]: [u16; 3]) -> Result<(), String> {
        let token_keys = self.authority.token_keys();
        self.write_kubeconfig("admin", &self.authority.client("admin", Some("system:masters")), api);
        let controllers = self.authority.client("system:kube-controller-manager", None);
        self.write_kubeconfig("controllers", &controllers, api);

        self.processes
            .start("etcd", &tool("ETCD"), &self.etcd_flags(etcd, etcd_peers));
        self.processes.start(
            "kube-apiserver",
            &tool("KUBE_APISERVER"),
            &self.api_server_flags(api, etcd, &token_keys),
        );
        self.wait("the API server is ready", |cluster| {
            cluster.kubectl(&["get", "--raw", "/readyz"]).success
        })?;
        let flags = self.controller_manager_flags(&token_keys);
        self.processes
            .start("kube-controller-manager", &tool("KUBE_CONTROLLER_MANAGER"), &flags);
        self.wait_for_service_account("default")
    }

    fn etcd_flags(&self, clients: u16, peers: u16) -> Vec<String> {
        vec![
            format!("--data-dir={}", self.path("etcd").display()),
            format!("--listen-client-urls=http://127.0.0.1:{clients}"),
            format!("--advertise-client-urls=http://127.0.0.1:{clients}"),
            format!("--listen-peer-urls=http://127.0.0.1:{peers}"),
            format!("--initial-advertise-peer-urls=http://127.0.0.1:{peers}"),
            format!("--initial-cluster=default=http://127.0.0.1:{peers}"),
            "--log-level=warn".to_owned(),
            // Nothing of it must survive a crash.
            "--unsafe-no-fsync".to_owned(),
        ]
    }

    fn api_server_flags(&self, port: u16, etcd: u16, token_keys: &Files) -> Vec<String> {
        let serving = self.authority.server("kube-apiserver");
        vec![
            format!("--etcd-servers=http://127.0.0.1:{etcd}"),
            format!("--secure-port={port}"),
            "--bind-address=127.0.0.1".to_owned(),
            // The endpoints of the Service `kubernetes` may not be loopback addresses; nobody here needs them.
            "--advertise-address=127.0.0.1".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
            format!("--tls-cert-file={}", serving.certificate.display()),
            format!("--tls-private-key-file={}", serving.key.display()),
            format!("--client-ca-file={}", self.authority.certificate.display()),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--enable-admission-plugins=NodeRestriction".to_owned(),
            "--allow-privileged=true".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
            format!("--service-account-key-file={}", token_keys.certificate.display()),
            format!("--service-account-signing-key-file={}", token_keys.key.display()),
        ]
    }

    fn controller_manager_flags(&self, token_keys: &Files) -> Vec<String> {
        vec![
            format!("--kubeconfig={}", self.path("controllers.kubeconfig").display()),
            format!("--root-ca-file={}", self.authority.certificate.display()),
            format!("--service-account-private-key-file={}", token_keys.key.display()),
            "--use-service-account-credentials=true".to_owned(),
            "--leader-elect=false".to_owned(),
            // No port of its own.
            "--secure-port=0".to_owned(),
        ]
    }

    fn write_kubeconfig(&self, name: &str, user: &Files, port: u16) {
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
            "clusters": [{"name": "test", "cluster": {
                "server": format!("https://127.0.0.1:{port}"),
                "certificate-authority": self.authority.certificate,
            }}],
            "users": [{"name": name, "user": {"client-certificate": user.certificate, "client-key": user.key}}],
        });
        let path = self.path(&format!("{name}.kubeconfig"));
        std::fs::write(&path, kubeconfig.to_string())
            .unwrap_or_else(|e| panic!("cannot write {}: {e}", path.display()));
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder().join(file)
    }

    fn wait_for_service_account(&self, namespace: &str) -> Result<(), String> {
        let get = [
            "get",
            "serviceaccount/default",
            "configmap/kube-root-ca.crt",
            "-n",
            namespace,
        ];
        self.wait("the default service account is there", |cluster| {
            cluster.kubectl(&get).success
        })
    }

    /// Waits until a condition holds; an ended process or too long a time is a failure that shows the logs.
    fn wait(&self, what: &str, holds: impl Fn(&Self) -> bool) -> Result<(), String> {
        let started = Instant::now();
        while !holds(self) {
            if let Some(ended) = self.processes.ended() {
                return Err(format!("waiting until {what}: {ended}{}", self.log_tails()));
            }
            if started.elapsed() > PATIENCE {
                return Err(format!(
                    "{}s were not enough until {what}{}",
                    PATIENCE.as_secs(),
                    self.log_tails()
                ));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }
}

/// What kubectl answered.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Whether it exited with 0.
    pub(crate) success: bool,
    /// Its standard output.
    pub(crate) output: String,
    /// Its standard error: the refusal, or the warnings of a success.
    pub(crate) errors: String,
}

impl Answer {
    /// The output of a success.
    ///
    /// # Panics
    /// With what kubectl said when it failed.
    pub(crate) fn expect_success(self) -> String {
        assert!(self.success, "kubectl failed: {}{}", self.output, self.errors);
        self.output
    }

    /// The message of a failure.
    ///
    /// # Panics
    /// When kubectl succeeded.
    pub(crate) fn expect_failure(self) -> String {
        assert!(
            !self.success,
            "kubectl should have failed but said: {}{}",
            self.output, self.errors
        );
        self.errors
    }
}
