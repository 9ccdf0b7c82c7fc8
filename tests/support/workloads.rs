//! Applications and callers on a test node, injected by the installed chart: pods of the program `tests/echo`, their
//! Services, calls from the node and from pods, and what their proxies logged.
//!
//! Needs the modules `cluster`, `node` and `release` beside it.
#![allow(dead_code, reason = "each suite uses its own part of the support modules")]

use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use outrigger::names;
use serde_json::{Value, json};

use crate::cluster::{Answer, PATIENCE};
use crate::node::Node;
use crate::release::Release;

#[path = "workloads/calls.rs"]
mod calls;
#[path = "workloads/echo.rs"]
mod echo;

#[allow(unused_imports, reason = "each suite uses its own part of the support modules")]
pub(crate) use calls::{Load, Reply};
#[allow(unused_imports, reason = "each suite uses its own part of the support modules")]
pub(crate) use echo::{Echo, client};

/// A node with the chart installed, whose proxies are the node's nginx.
pub(crate) struct Mesh {
    pub(crate) node: Node,
}

impl Mesh {
    /// The one that the tests running at this moment share: the first one starts it, the last one ends it.
    pub(crate) fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Mesh>> = Mutex::new(Weak::new());
        let mut shared = SHARED
            .lock()
            .expect("an earlier test could not start the mesh: see its message");
        shared.upgrade().unwrap_or_else(|| {
            let mesh = Arc::new(Self::start(&[]));
            *shared = Arc::downgrade(&mesh);
            mesh
        })
    }

    /// Starts one of its own, with these flags for Helm.
    pub(crate) fn start(flags: &[&str]) -> Self {
        Self::on(Node::start(), flags)
    }

    /// Installs the chart on a node, with these flags for Helm.
    pub(crate) fn on(node: Node, flags: &[&str]) -> Self {
        // One replica is enough where nothing happens to Outrigger itself.
        let flags: Vec<&str> = ["--set=replicaCount=1"].iter().chain(flags).copied().collect();
        Release::install(&node, &flags);
        Self { node }
    }

    /// A new namespace in which pods are injected.
    pub(crate) fn namespace(&self, name: &str) -> Namespace<'_> {
        self.labelled(name, &[])
    }

    /// A new namespace that does not take part.
    pub(crate) fn unlabelled(&self, name: &str) -> Namespace<'_> {
        self.node.cluster.create_namespace(name, &[]);
        Namespace {
            node: &self.node,
            name: name.to_owned(),
        }
    }

    /// The same with more labels, such as those of PodSecurity.
    pub(crate) fn labelled(&self, name: &str, labels: &[(&str, &str)]) -> Namespace<'_> {
        let labels: Vec<_> = [(names::INJECT, "enabled")].iter().chain(labels).copied().collect();
        self.node.cluster.create_namespace(name, &labels);
        Namespace {
            node: &self.node,
            name: name.to_owned(),
        }
    }
}

/// A namespace, and what is done in it.
pub(crate) struct Namespace<'m> {
    pub(crate) node: &'m Node,
    pub(crate) name: String,
}

impl Namespace<'_> {
    /// Runs kubectl in it.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Answer {
        self.kubectl_reading("", arguments)
    }

    /// The same with a text on its standard input.
    pub(crate) fn kubectl_reading(&self, input: &str, arguments: &[&str]) -> Answer {
        let arguments: Vec<&str> = ["-n", &self.name].iter().chain(arguments).copied().collect();
        self.node.cluster.kubectl_reading(input, &arguments)
    }

    /// Makes objects of a manifest, in YAML or JSON.
    pub(crate) fn apply(&self, manifest: &str) {
        self.kubectl_reading(manifest, &["apply", "-f", "-"]).expect_success();
    }

    /// What the API server says to a manifest that it refuses.
    pub(crate) fn refusal(&self, manifest: &str) -> String {
        self.kubectl_reading(manifest, &["create", "-f", "-"]).expect_failure()
    }

    /// An object, such as `["pod", "web"]`, or a list.
    pub(crate) fn get(&self, what: &[&str]) -> Value {
        let arguments: Vec<&str> = ["get", "-o=json"].iter().chain(what).copied().collect();
        serde_json::from_str(&self.kubectl(&arguments).expect_success()).expect("kubectl prints JSON")
    }

    /// Waits for a condition in the words of `kubectl wait --for`.
    ///
    /// # Panics
    /// When it takes too long, with all that is known of the object and of its pods.
    pub(crate) fn wait_for(&self, condition: &str, object: &str) {
        let (condition, timeout) = (
            format!("--for={condition}"),
            format!("--timeout={}s", PATIENCE.as_secs()),
        );
        let answer = self.kubectl(&["wait", &condition, &timeout, object]);
        assert!(
            answer.success,
            "{}: {condition} {object}: {}{}",
            self.name,
            answer.errors,
            self.described()
        );
    }

    /// Makes the objects of an application without waiting.
    pub(crate) fn create(&self, app: &Echo) {
        self.apply(&app.manifest().to_string());
    }

    /// Makes the objects of applications, and waits until all of them serve and their Services lead to them.
    pub(crate) fn deploy(&self, apps: &[&Echo]) {
        apps.iter().for_each(|app| self.create(app));
        for app in apps {
            self.wait_until_served(&app.name);
            self.wait_until_reached(&app.name);
        }
    }

    /// The same for applications whose Services nobody outside of the mesh reaches.
    pub(crate) fn deploy_unreached(&self, apps: &[&Echo]) {
        apps.iter().for_each(|app| self.create(app));
        apps.iter().for_each(|app| self.wait_until_served(&app.name));
    }

    /// Waits until a Service takes connections: its rules follow a moment after its pods. One without an address has none.
    fn wait_until_reached(&self, service: &str) {
        let spec = self.get(&["service", service])["spec"].take();
        let (address, port) = (text(&spec["clusterIP"]), &spec["ports"][0]["port"]);
        if address != "None" && port.is_number() {
            self.eventually(&format!("{service} takes connections"), || {
                self.connects(&address, port)
            });
        }
    }

    /// Waits until a Deployment is complete.
    pub(crate) fn wait_until_served(&self, app: &str) {
        let timeout = format!("--timeout={}s", PATIENCE.as_secs());
        let answer = self.kubectl(&["rollout", "status", &format!("deployment/{app}"), &timeout]);
        assert!(
            answer.success,
            "{}: {app}: {}{}",
            self.name,
            answer.errors,
            self.described()
        );
    }

    /// The pods of an application that are not being deleted, by name.
    pub(crate) fn pods(&self, app: &str) -> Vec<String> {
        let list = self.get(&["pods", "-l", &format!("app={app}")]);
        let pods = list["items"].as_array().expect("a list");
        let staying = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        staying.map(|pod| text(&pod["metadata"]["name"])).collect()
    }

    /// The only pod of an application.
    pub(crate) fn pod(&self, app: &str) -> String {
        match &self.pods(app)[..] {
            [pod] => pod.clone(),
            pods => panic!("{app} has one pod: {pods:?}"),
        }
    }

    /// The address of a pod, which the test itself reaches.
    pub(crate) fn address(&self, pod: &str) -> String {
        text(&self.get(&["pod", pod])["status"]["podIP"])
    }

    /// What a container has written by now; a restarted one, since its last start.
    pub(crate) fn log(&self, pod: &str, container: &str) -> String {
        self.kubectl(&["logs", pod, "-c", container]).expect_success()
    }

    /// The access log of a pod's proxy, a line each; what nginx says otherwise is left out.
    pub(crate) fn access_log(&self, pod: &str) -> Vec<Value> {
        let log = self.log(pod, names::PROXY_CONTAINER);
        log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Waits until the access log has a line with these fields, such as `{"request_id": "1"}`, and returns all that do.
    pub(crate) fn logged(&self, pod: &str, fields: &Value) -> Vec<Value> {
        let wanted = fields.as_object().expect("an object");
        let matches = |line: &Value| wanted.iter().all(|(key, value)| line[key] == *value);
        let mut found = Vec::new();
        self.eventually(&format!("{pod} logs {fields}"), || {
            found = self.access_log(pod).into_iter().filter(matches).collect();
            !found.is_empty()
        });
        found
    }

    /// Waits until something holds.
    ///
    /// # Panics
    /// When it takes too long, with all that is known of the namespace's pods.
    pub(crate) fn eventually(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let started = Instant::now();
        while !holds() {
            assert!(
                started.elapsed() < PATIENCE,
                "{}: not within {PATIENCE:?}: {what}{}",
                self.name,
                self.described()
            );
            // Each look starts a program.
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// What is known of the pods, for the message of a failed assertion.
    pub(crate) fn described(&self) -> String {
        let state = self.kubectl(&["get", "pods", "-o=wide"]).output;
        let events = self.kubectl(&["get", "events", "--sort-by=.metadata.creationTimestamp"]);
        let pods = self.get(&["pods"])["items"].take();
        let logs = pods.as_array().into_iter().flatten().map(|pod| {
            let name = text(&pod["metadata"]["name"]);
            let logs = self.kubectl(&["logs", &name, "--all-containers", "--prefix", "--tail=5"]);
            logs.output + &logs.errors
        });
        format!("\n{state}\n{}\n{}", events.output, logs.collect::<String>())
    }
}

/// How a container of a pod is now: its entry in the pod's status.
pub(crate) fn status_of(pod: &Value, container: &str) -> Value {
    let kinds = [
        "containerStatuses",
        "initContainerStatuses",
        "ephemeralContainerStatuses",
    ];
    let mut all = kinds
        .iter()
        .filter_map(|kind| pod["status"][*kind].as_array())
        .flatten();
    all.find(|status| status["name"] == container)
        .cloned()
        .unwrap_or(json!(null))
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
