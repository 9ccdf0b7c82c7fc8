//! A Kubernetes control plane of its own for a test: etcd, API server and controller manager on loopback.
//!
//! There is no node and no scheduler: pods are admitted and stored, and stay Pending. `node.rs` has a whole cluster.
//! Admission plugins, RBAC and the controllers are those of a default cluster. Certificates are made for each cluster, the
//! token keys too.
//!
//! A webhook is called by URL, `https://127.0.0.1:<port>/…`, with the `caBundle` of whoever issued its certificate, which
//! needs the subject alternative name IP:127.0.0.1; [`Authority`] can issue one.
#![allow(dead_code, reason = "each suite uses its own part of the support modules")]

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, Weak};

use serde_json::json;
use tempfile::TempDir;

pub(crate) use certificates::Authority;
pub(crate) use control_plane::Site;
use ports::free_ports;
#[allow(unused_imports, reason = "each suite uses its own part of the support modules")]
pub(crate) use processes::PATIENCE;
use processes::{Processes, wait};
#[allow(unused_imports, reason = "each suite uses its own part of the support modules")]
pub(crate) use tools::tool;

mod certificates;
#[path = "cluster/control_plane.rs"]
pub(crate) mod control_plane;
mod ports;
pub(crate) mod processes;
pub(crate) mod tools;

/// A running control plane; dropping it ends the processes and removes their folder.
pub(crate) struct Cluster {
    // Fields are dropped in this order: processes first.
    site: Site,
    kubectl: PathBuf,
    /// The folder, where it is the cluster's own to remove.
    _temporary: Option<TempDir>,
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

    /// Starts a cluster at a site, which stays when the cluster is dropped.
    ///
    /// # Errors
    /// With the end of each log when it does not start.
    pub(crate) fn start_at(site: Site) -> Result<Self, String> {
        let mut cluster = Self {
            site,
            kubectl: tool("KUBECTL"),
            _temporary: None,
        };
        cluster.run()?;
        Ok(cluster)
    }

    /// The administrator's kubeconfig file.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.site.kubeconfig("admin")
    }

    /// The cluster's certificate authority; suites may issue their webhook's certificate from it.
    pub(crate) fn authority(&self) -> &Authority {
        &self.site.authority
    }

    /// The folder that holds everything of this cluster, logs included; removed at the end.
    pub(crate) fn folder(&self) -> &Path {
        &self.site.folder
    }

    /// The ids of etcd, API server and controller manager.
    pub(crate) fn process_ids(&self) -> Vec<u32> {
        self.site.processes.ids()
    }

    /// What the processes logged last, for the message of a failed assertion.
    pub(crate) fn log_tails(&self) -> String {
        self.site.processes.log_tails()
    }

    /// The processes, for whoever waits for something of the cluster and wants to hear when one has ended.
    pub(crate) fn processes(&self) -> &Processes {
        &self.site.processes
    }

    /// Kills the API server, starts it again with the same flags, and waits until it is ready.
    pub(crate) fn restart_api_server(&self) {
        self.site.processes.restart("kube-apiserver");
        self.wait_until_ready().unwrap_or_else(|failure| panic!("{failure}"));
    }

    /// A kubeconfig file for a user of the cluster, such as a program of its node.
    pub(crate) fn kubeconfig_for(&self, name: &str, user: &str, group: Option<&str>) -> PathBuf {
        self.site.write_kubeconfig(name, user, group)
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
        self.run_as_administrator(&self.kubectl, input, arguments)
    }

    /// Runs a program that reads KUBECONFIG as the administrator, with a text on its standard input.
    pub(crate) fn run_as_administrator(&self, program: &Path, input: &str, arguments: &[&str]) -> Answer {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("HOME", self.folder())
            .env("PATH", "/usr/bin:/bin") // kubectl diff runs diff
            .env("KUBECONFIG", self.kubeconfig())
            .args(arguments);
        Answer::of(command, input)
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

    /// Every object of the cluster but events, by kind, namespace and name.
    pub(crate) fn objects(&self) -> BTreeSet<String> {
        let kinds = self
            .kubectl(&["api-resources", "--verbs=list", "-o", "name"])
            .expect_success();
        let kinds: Vec<&str> = kinds.lines().filter(|kind| !kind.starts_with("events")).collect();
        let output = "-o=jsonpath={range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{'\\n'}{end}";
        let names = self.kubectl(&["get", &kinds.join(","), "-A", output]).expect_success();
        names.lines().map(str::to_owned).collect()
    }

    /// Makes the resources of cert-manager and of the Prometheus Operator known. Their definitions are too large for the
    /// annotation of `kubectl apply`.
    pub(crate) fn install_definitions(&self) {
        let file = tool("TEST_DEFINITIONS");
        let file = file.to_str().expect("the path is UTF-8");
        self.kubectl(&["create", "-f", file]).expect_success();
        self.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"])
            .expect_success();
    }

    fn try_start() -> Result<Self, String> {
        // Cargo names a folder for tests, not for examples.
        let parent = option_env!("CARGO_TARGET_TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from);
        let folder = tempfile::Builder::new()
            .prefix("cluster-")
            .tempdir_in(parent)
            .expect("the build folder is writable");
        let site = Site::loopback(folder.path(), free_ports());
        let mut cluster = Self::start_at(site)?;
        cluster._temporary = Some(folder);
        Ok(cluster)
    }

    fn run(&mut self) -> Result<(), String> {
        let token_keys = self.site.authority.token_keys();
        self.site.write_kubeconfig("admin", "admin", Some("system:masters"));
        self.site.start_etcd();
        self.site.start_api_server(&token_keys);
        self.wait_until_ready()?;
        self.site.start_controller_manager(&token_keys);
        self.wait_for_service_account("default")
    }

    fn wait_until_ready(&self) -> Result<(), String> {
        self.wait("the API server is ready", |cluster| {
            cluster.kubectl(&["get", "--raw", "/readyz"]).success
        })
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

    fn wait(&self, what: &str, holds: impl Fn(&Self) -> bool) -> Result<(), String> {
        wait(&[&self.site.processes], what, || holds(self))
    }
}

/// What kubectl, or another program, answered.
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
    /// Runs a command with a text on its standard input.
    pub(crate) fn of(mut command: Command, input: &str) -> Self {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|e| panic!("cannot start {}: {e}", command.get_program().display()));
        let mut stdin = child.stdin.take().expect("piped");
        // It may end without reading; then its answer says why.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        let output = child.wait_with_output().expect("a child can be waited for");
        Self {
            success: output.status.success(),
            output: String::from_utf8_lossy(&output.stdout).into_owned(),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The output of a success.
    ///
    /// # Panics
    /// With what the program said when it failed.
    pub(crate) fn expect_success(self) -> String {
        assert!(self.success, "the command failed: {}{}", self.output, self.errors);
        self.output
    }

    /// The message of a failure.
    ///
    /// # Panics
    /// When the program succeeded.
    pub(crate) fn expect_failure(self) -> String {
        assert!(
            !self.success,
            "the command should have failed but said: {}{}",
            self.output, self.errors
        );
        self.errors
    }
}
