//! A whole Kubernetes cluster of one node for a test: the control plane of `cluster.rs`, and containerd, kubelet,
//! kube-proxy, scheduler and CoreDNS, so that pods run and Services are reached.
//!
//! All of it is enclosed in namespaces of its own (`node/enclosure.rs`): several nodes run at a time, and nothing of one
//! stays. The test itself is outside, and reaches the API server, the node and each pod by its address; a Service's
//! address it reaches through [`Node::in_network`], as the API server reaches a webhook.
#![allow(dead_code, reason = "each suite uses its own part of the support modules")]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, Weak};

use crate::cluster::processes::{Processes, kill, wait};
use crate::cluster::tools::Helm;
use crate::cluster::{Answer, Cluster};
use enclosure::Enclosure;
pub(crate) use life::Life;

#[path = "node/cgroups.rs"]
pub(crate) mod cgroups;
#[path = "node/claims.rs"]
pub(crate) mod claims;
#[path = "node/enclosure.rs"]
pub(crate) mod enclosure;
#[path = "node/images.rs"]
pub(crate) mod images;
#[path = "node/life.rs"]
mod life;
#[path = "node/prerequisites.rs"]
mod prerequisites;
#[path = "node/programs.rs"]
mod programs;
#[path = "node/remains.rs"]
pub(crate) mod remains;

/// What the node is called in the cluster.
pub(crate) const NAME: &str = "node";

/// Outrigger's chart.
pub(crate) const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/outrigger");

/// A running cluster of one node; dropping it ends and removes all of it.
pub(crate) struct Node {
    // Fields are dropped in this order: first the node's programs, then the control plane, then what holds them.
    daemons: Processes,
    /// The control plane: kubectl, client, namespaces.
    pub(crate) cluster: Cluster,
    enclosure: Enclosure,
}

impl Node {
    /// The node that the tests running at this moment share: the first one starts it, the last one ends it.
    pub(crate) fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Node>> = Mutex::new(Weak::new());
        let mut shared = SHARED
            .lock()
            .expect("an earlier test could not start the node: see its message");
        shared.upgrade().unwrap_or_else(|| {
            let node = Arc::new(Self::start());
            *shared = Arc::downgrade(&node);
            node
        })
    }

    /// Starts a node and waits until it is ready and names are resolved. It ends with the test, however that ends.
    ///
    /// # Panics
    /// With a sentence when something is missing on this machine; with the end of each log when it does not start.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same with more flags of the API server.
    pub(crate) fn start_with(flags: &[&str]) -> Self {
        Self::try_start(Life::Test, flags).unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// The same for another life.
    ///
    /// # Errors
    /// What [`Node::start`] panics with.
    pub(crate) fn try_start(life: Life, flags: &[&str]) -> Result<Self, String> {
        prerequisites::check()?;
        let enclosure = Enclosure::new(life)?;
        let mut daemons = Processes::through(&enclosure.folder(), enclosure.entry());
        programs::start_containerd(&mut daemons, &enclosure);
        let mut site = enclosure.site();
        site.api_server.extend(flags.iter().map(|flag| (*flag).to_owned()));
        // Neither needs the other, and each takes seconds.
        let (cluster, imported) = std::thread::scope(|scope| {
            let importing = scope.spawn(|| images::import_all(&enclosure, &daemons));
            (Cluster::start_at(site), importing.join())
        });
        let cluster = cluster?;
        imported.expect("returns its failures")?;
        programs::start_others(&mut daemons, &cluster, &enclosure);
        let node = Self {
            daemons,
            cluster,
            enclosure,
        };
        node.complete()?;
        Ok(node)
    }

    /// Leaves a node that was started to be kept running.
    pub(crate) fn keep(self) {
        self.enclosure.keep();
        std::mem::forget(self);
    }

    /// Runs Helm as the administrator.
    pub(crate) fn helm(&self, arguments: &[&str]) -> Answer {
        self.helm_of(Helm::Three, arguments)
    }

    /// The same by one of the versions.
    pub(crate) fn helm_of(&self, helm: Helm, arguments: &[&str]) -> Answer {
        self.cluster.run_as_administrator(&helm.program(), "", arguments)
    }

    /// Installs the chart as the documentation says, or upgrades it, with the images of the node, and waits until it is
    /// ready. Other arguments of Helm, such as `--set`, may follow.
    pub(crate) fn install(&self, arguments: &[&str]) -> Answer {
        self.install_by(Helm::Three, arguments)
    }

    /// The same by one of the versions of Helm.
    pub(crate) fn install_by(&self, helm: Helm, arguments: &[&str]) -> Answer {
        const RELEASE: [&str; 8] = [
            "upgrade",
            "--install",
            "outrigger",
            CHART,
            "--namespace=outrigger-system",
            "--create-namespace",
            "--wait",
            "--timeout=3m",
        ];
        self.helm_of(helm, &[&RELEASE[..], &images::VALUES, arguments].concat())
    }

    /// Kills the API server, starts it again with the same flags, and waits until it is ready.
    pub(crate) fn restart_api_server(&self) {
        self.cluster.restart_api_server();
    }

    /// Kills the kubelet and starts it again, while its pods run on. It then asks for new certificates for all of them: it
    /// remembers no key.
    pub(crate) fn restart_kubelet(&self) {
        self.daemons.restart("kubelet");
    }

    /// A command that runs in the node's network, where Services have their addresses.
    pub(crate) fn in_network(&self, program: impl AsRef<OsStr>) -> Command {
        self.enclosure.in_network(program.as_ref())
    }

    /// Makes the images of an OCI archive known to the node.
    ///
    /// # Panics
    /// When containerd refuses it.
    pub(crate) fn import_image(&self, archive: &Path) {
        images::import(&self.enclosure, archive).unwrap_or_else(|failure| panic!("{failure}"));
    }

    /// The API server's audit log: a line of JSON a request, with user, verb and object, without bodies.
    pub(crate) fn audit_log(&self) -> PathBuf {
        self.enclosure.audit_log()
    }

    /// The ids, as the test sees them, of the processes in a running container.
    ///
    /// # Panics
    /// When there is no such container.
    pub(crate) fn container_processes(&self, namespace: &str, pod: &str, container: &str) -> Vec<u32> {
        let id = self.container_id(namespace, pod, container);
        cgroups::processes_below(&self.enclosure.name(), &id)
    }

    /// The cgroup of a running container.
    ///
    /// # Panics
    /// When there is no such container.
    pub(crate) fn container_cgroup(&self, namespace: &str, pod: &str, container: &str) -> cgroups::Cgroup {
        cgroups::Cgroup {
            node: self.enclosure.name(),
            name: self.container_id(namespace, pod, container),
        }
    }

    /// Kills all processes of a container with SIGKILL, as a crash or the kernel out of memory does.
    ///
    /// # Panics
    /// When there is no such container.
    pub(crate) fn kill_container(&self, namespace: &str, pod: &str, container: &str) {
        let processes = self.container_processes(namespace, pod, container);
        assert!(!processes.is_empty(), "{namespace}/{pod}: {container} is not running");
        processes.into_iter().for_each(kill);
    }

    /// The end of all logs, for the message of a failed assertion.
    pub(crate) fn log_tails(&self) -> String {
        self.cluster.log_tails() + &self.daemons.log_tails()
    }

    /// The number that keeps this node apart from others on the machine.
    pub(crate) fn number(&self) -> u8 {
        self.enclosure.number()
    }

    fn complete(&self) -> Result<(), String> {
        let dns = include_str!("../cluster/node/dns.yaml");
        self.cluster
            .kubectl_reading(dns, &["apply", "-f", "-"])
            .expect_success();
        self.wait("the node is ready", &["wait", "--for=condition=Ready", "node", NAME])?;
        let available = [
            "wait",
            "--for=condition=Available",
            "-n=kube-system",
            "deployment/coredns",
        ];
        self.wait("names are resolved", &available)
    }

    fn wait(&self, what: &str, kubectl: &[&str]) -> Result<(), String> {
        let arguments: Vec<&str> = kubectl.iter().copied().chain(["--timeout=1s"]).collect();
        wait(&[self.cluster.processes(), &self.daemons], what, || {
            self.cluster.kubectl(&arguments).success
        })
    }

    fn container_id(&self, namespace: &str, pod: &str, container: &str) -> String {
        let pod = self
            .cluster
            .kubectl(&["get", "pod", pod, "-n", namespace, "-o", "json"]);
        let pod: serde_json::Value = serde_json::from_str(&pod.expect_success()).expect("kubectl prints JSON");
        let statuses = ["containerStatuses", "initContainerStatuses"]
            .into_iter()
            .filter_map(|kind| pod["status"][kind].as_array())
            .flatten();
        let id = statuses
            .filter(|status| status["name"] == container)
            .find_map(|status| status["containerID"].as_str()?.strip_prefix("containerd://"));
        id.unwrap_or_else(|| panic!("{container} has not been started: {}", pod["status"]))
            .to_owned()
    }
}
