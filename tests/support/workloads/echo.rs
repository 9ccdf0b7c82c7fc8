//! The manifests of an application: a Deployment of `echo serve` and its Service.

use outrigger::names;
use serde_json::{Map, Value, json};

use crate::node::images;

/// An application on port 8080 called `http`, with a Service of its name whose port 8080 leads there.
#[derive(Clone)]
pub(crate) struct Echo {
    pub(crate) name: String,
    replicas: u32,
    annotations: Map<String, Value>,
    labels: Map<String, Value>,
    arguments: Vec<String>,
    container: Map<String, Value>,
    spec: Map<String, Value>,
    ports: Vec<Value>,
    service: Map<String, Value>,
}

impl Echo {
    /// One replica, without annotations. Each pod answers with its own name in `X-Served-By`.
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            replicas: 1,
            annotations: Map::new(),
            labels: Map::new(),
            arguments: vec!["serve".to_owned(), "-http=:8080".to_owned()],
            container: object(json!({
                "ports": [{"containerPort": 8080, "name": "http"}],
                "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1},
            })),
            spec: object(json!({"terminationGracePeriodSeconds": 2})),
            ports: vec![json!({"name": "http", "port": 8080})],
            service: Map::new(),
        }
    }

    /// How many pods there are.
    pub(crate) fn replicas(mut self, replicas: u32) -> Self {
        self.replicas = replicas;
        self
    }

    /// An annotation of the pods.
    pub(crate) fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.into());
        self
    }

    /// A label of the pods.
    pub(crate) fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.into());
        self
    }

    /// Without the proxy.
    pub(crate) fn plain(self) -> Self {
        self.label(names::INJECT, "disabled")
    }

    /// Called services, as the annotation lists them.
    pub(crate) fn upstreams(self, list: &str) -> Self {
        self.annotation(names::UPSTREAMS, list)
    }

    /// More arguments of `echo serve`, such as `-tcp=:9000`.
    pub(crate) fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Fields of the container in place of those that are there, such as `{"ports": [...]}`.
    pub(crate) fn container(mut self, fields: Value) -> Self {
        self.container.extend(object(fields));
        self
    }

    /// Fields of the pod's spec, such as `{"initContainers": [...]}`.
    pub(crate) fn spec(mut self, fields: Value) -> Self {
        self.spec.extend(object(fields));
        self
    }

    /// The ports of the Service in place of 8080: `[{"name": "http", "port": 8080, "targetPort": 15200}]`.
    pub(crate) fn ports(mut self, ports: Value) -> Self {
        self.ports = match ports {
            Value::Array(list) => list,
            other => panic!("a list is needed: {other}"),
        };
        self
    }

    /// A Service without an address of its own: its name has those of the pods.
    pub(crate) fn headless(mut self) -> Self {
        self.service.insert("clusterIP".to_owned(), "None".into());
        self
    }

    /// A Service that leads to pods that are not ready too.
    pub(crate) fn reached_at_any_time(mut self) -> Self {
        self.service.insert("publishNotReadyAddresses".to_owned(), true.into());
        self
    }

    /// A Service with addresses of these families alone: `["IPv6"]`, or both.
    pub(crate) fn families(mut self, families: &[&str]) -> Self {
        let policy = if families.len() > 1 {
            "RequireDualStack"
        } else {
            "SingleStack"
        };
        self.service.insert("ipFamilyPolicy".to_owned(), policy.into());
        self.service.insert("ipFamilies".to_owned(), families.into());
        self
    }

    /// All objects, as a list.
    pub(crate) fn manifest(&self) -> Value {
        json!({"apiVersion": "v1", "kind": "List", "items": [self.deployment(), self.service()]})
    }

    /// The Deployment alone.
    pub(crate) fn deployment(&self) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": self.name}, "spec": {
            "replicas": self.replicas,
            "selector": {"matchLabels": {"app": self.name}},
            "template": self.template(),
        }})
    }

    /// The Service alone.
    pub(crate) fn service(&self) -> Value {
        let mut spec = self.service.clone();
        spec.insert("selector".to_owned(), json!({"app": self.name}));
        spec.insert("ports".to_owned(), self.ports.clone().into());
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": self.name}, "spec": spec})
    }

    /// One pod of it by itself, which is called as the application is.
    pub(crate) fn bare_pod(&self) -> Value {
        let mut pod = self.template();
        pod["apiVersion"] = "v1".into();
        pod["kind"] = "Pod".into();
        pod["metadata"]["name"] = self.name.clone().into();
        pod
    }

    /// The template of its pods.
    pub(crate) fn template(&self) -> Value {
        let mut labels = self.labels.clone();
        labels.insert("app".to_owned(), self.name.clone().into());
        // What the chart's rules ask of every pod of the mesh.
        labels.insert("environment".to_owned(), "dev".into());
        let mut container = object(json!({
            "name": "app", "image": images::ECHO, "imagePullPolicy": "Never", "args": self.arguments,
        }));
        container.extend(self.container.clone());
        let mut spec = self.spec.clone();
        let others = spec.remove("containers").unwrap_or(json!([]));
        let mut containers = vec![Value::Object(container)];
        containers.extend(others.as_array().expect("a list").clone());
        spec.insert("containers".to_owned(), containers.into());
        json!({"metadata": {"labels": labels, "annotations": self.annotations}, "spec": spec})
    }
}

/// A caller that serves nothing: its container `app` has a shell and curl, `load` the program `/echo`. A plain one, unless
/// the caller of this gives it the label of the mesh.
pub(crate) fn client(name: &str) -> Echo {
    let load = json!({"name": "load", "image": images::ECHO, "imagePullPolicy": "Never", "args": ["serve"]});
    let shell = json!({
        "image": images::BUSYBOX, "command": ["sh", "-c", "exec sleep 100000"], "args": [],
        "ports": [], "readinessProbe": null,
    });
    Echo::new(name)
        .plain()
        .headless()
        .ports(json!([]))
        .container(shell)
        .spec(json!({"containers": [load], "terminationGracePeriodSeconds": 0}))
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("an object is needed: {other}"),
    }
}
