//! What is installed in a cluster, but for the pods: the replicas are processes of the test.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};

use crate::balancer::Balancer;
use crate::cluster::{Answer, Cluster};
use crate::webhooks::{Server, eventually, page};

/// The kinds of webhook configurations.
pub(crate) const KINDS: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];
/// The name of the Secret, the same in each namespace.
pub(crate) const SECRET: &str = "outrigger-certificates";
/// The name of the Lease.
pub(crate) const LEASE: &str = "outrigger-leader";

/// An installation: its namespace, its configurations and its service account have its name.
pub(crate) struct Installation {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) name: &'static str,
    /// A namespace of the mesh, the only one whose pods come to this installation.
    pub(crate) shop: String,
    pub(crate) balancer: Balancer,
    kubeconfig: PathBuf,
}

impl Installation {
    /// Everything but the webhook configurations.
    pub(crate) fn new(name: &'static str) -> Self {
        let cluster = Cluster::shared();
        cluster.create_namespace(name, &[]);
        let shop = format!("{name}-shop");
        cluster.create_namespace(&shop, &[("outrigger.mesh/inject", "enabled")]);
        let installation = Self {
            kubeconfig: cluster.folder().join(format!("{name}.kubeconfig")),
            balancer: Balancer::start(),
            cluster,
            name,
            shop,
        };
        for object in crate::golden::documents(include_str!("../../docs/examples/certificates.yaml")) {
            installation.apply(&renamed(object, name));
        }
        installation.write_kubeconfig();
        installation
    }

    /// Everything, and two replicas called a and b that are ready.
    pub(crate) fn with_replicas(name: &'static str, variables: &[(&str, &str)]) -> (Self, [Server; 2]) {
        let installation = Self::new(name);
        installation.register();
        let replicas = ["a", "b"].map(|replica| installation.launch(replica, variables));
        installation
            .balancer
            .set(&replicas.each_ref().map(|replica| replica.admission));
        for replica in &replicas {
            eventually("the replica is ready", || page(replica.admin, "/readyz").0 == 200);
        }
        installation.wait_until_called();
        (installation, replicas)
    }

    /// The Secret as it is installed: without data.
    pub(crate) fn secret_object(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"name": SECRET, "namespace": self.name},
        })
    }

    /// A kubeconfig by which the API server is reached through a line that can be cut.
    pub(crate) fn kubeconfig_through(&self, line: &Balancer) -> PathBuf {
        let mut kubeconfig: Value = serde_json::from_str(&std::fs::read_to_string(&self.kubeconfig).unwrap()).unwrap();
        kubeconfig["clusters"][0]["cluster"]["server"] = json!(format!("https://{}", line.address));
        let path = self.kubeconfig.with_extension("line");
        std::fs::write(&path, kubeconfig.to_string()).unwrap();
        path
    }

    /// Where the API server is.
    pub(crate) fn api_server(&self) -> SocketAddr {
        let kubeconfig: Value = serde_json::from_str(&std::fs::read_to_string(&self.kubeconfig).unwrap()).unwrap();
        let server = kubeconfig["clusters"][0]["cluster"]["server"]
            .as_str()
            .unwrap()
            .to_owned();
        server.trim_start_matches("https://").parse().unwrap()
    }

    /// Starts a replica.
    pub(crate) fn launch(&self, replica: &str, variables: &[(&str, &str)]) -> Server {
        let kubeconfig = self.kubeconfig.display().to_string();
        let mut all = BTreeMap::from([
            ("OUTRIGGER_CERT_FILE", ""),
            ("OUTRIGGER_KEY_FILE", ""),
            ("OUTRIGGER_CERT_SECRET", SECRET),
            ("OUTRIGGER_CERT_NAMES", "127.0.0.1,localhost"),
            ("OUTRIGGER_WEBHOOK_CONFIGURATION", self.name),
            ("OUTRIGGER_LEASE", LEASE),
            ("OUTRIGGER_POD_NAME", replica),
            ("OUTRIGGER_RELEASE_NAMESPACE", self.name),
            ("OUTRIGGER_KUBECONFIG", &kubeconfig),
        ]);
        all.extend(variables.iter().copied());
        let name = format!("{}-{replica}", self.name);
        Server::launch(&self.cluster, &name, &all.into_iter().collect::<Vec<_>>())
    }

    /// Creates the webhook configurations, which fail closed and have no `caBundle`.
    pub(crate) fn register(&self) {
        KINDS.iter().for_each(|kind| self.apply(&self.configuration(kind)));
    }

    /// A configuration as the documentation gives it, for the pods of one namespace.
    pub(crate) fn configuration(&self, kind: &str) -> Value {
        let text = include_str!("../../docs/examples/webhooks.yaml");
        let documents = crate::golden::documents(text);
        let mut object = documents.into_iter().find(|object| object["kind"] == kind).unwrap();
        object["metadata"]["name"] = json!(self.name);
        let own = json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": [self.shop]});
        for webhook in object["webhooks"].as_array_mut().unwrap() {
            let path = webhook["clientConfig"]["service"]["path"].as_str().unwrap();
            webhook["clientConfig"] = json!({"url": format!("https://{}{path}", self.balancer.address)});
            webhook["failurePolicy"] = json!("Fail");
            let selector = &mut webhook["namespaceSelector"]["matchExpressions"];
            selector.as_array_mut().unwrap().push(own.clone());
        }
        object
    }

    pub(crate) fn apply(&self, object: &Value) {
        self.cluster
            .kubectl_reading(&object.to_string(), &["apply", "-f", "-"])
            .expect_success();
    }

    pub(crate) fn get(&self, kind: &str, name: &str) -> Value {
        let answer = self
            .cluster
            .kubectl(&["get", kind, name, "-n", self.name, "-o", "json"]);
        serde_json::from_str(&answer.expect_success()).unwrap()
    }

    /// The entries of the Secret as text.
    pub(crate) fn secret(&self) -> BTreeMap<String, String> {
        let secret = self.get("secret", SECRET);
        let data = secret["data"].as_object().cloned().unwrap_or_default();
        let text = |value: &Value| String::from_utf8(BASE64_STANDARD.decode(value.as_str().unwrap()).unwrap()).unwrap();
        data.iter().map(|(key, value)| (key.clone(), text(value))).collect()
    }

    /// Changes the Secret as somebody with kubectl would.
    pub(crate) fn patch_secret(&self, patch: &Value) {
        let patch = patch.to_string();
        let command = ["patch", "secret", SECRET, "-n", self.name, "--type=merge", "-p", &patch];
        self.cluster.kubectl(&command).expect_success();
    }

    /// Asks for something to be made anew.
    pub(crate) fn ask(&self, what: &str) {
        self.patch_secret(&json!({"metadata": {"annotations": {"outrigger.mesh/rotate": what}}}));
    }

    /// What is asked for and not answered yet.
    pub(crate) fn asked(&self) -> Value {
        self.get("secret", SECRET)["metadata"]["annotations"]["outrigger.mesh/rotate"].take()
    }

    /// The `caBundle` of every entry of both configurations.
    pub(crate) fn bundles(&self) -> Vec<Option<String>> {
        let entries = KINDS.iter().flat_map(|kind| {
            let object = self.get(kind, self.name);
            object["webhooks"].as_array().unwrap().clone()
        });
        let bundle = |entry: Value| {
            let encoded = entry["clientConfig"]["caBundle"].as_str()?.to_owned();
            Some(String::from_utf8(BASE64_STANDARD.decode(encoded).unwrap()).unwrap())
        };
        entries.map(bundle).collect()
    }

    /// Whether every entry trusts what the Secret says is trusted.
    pub(crate) fn is_published(&self) -> bool {
        let trusted = self.secret().get("ca.crt").cloned();
        trusted.is_some() && self.bundles().iter().all(|bundle| *bundle == trusted)
    }

    /// Who leads, by the Lease.
    pub(crate) fn holder(&self) -> Option<String> {
        self.get("lease", LEASE)["spec"]["holderIdentity"]
            .as_str()
            .map(str::to_owned)
    }

    /// Tries to create a pod that should get the proxy, without keeping it.
    pub(crate) fn try_pod(&self) -> Answer {
        let command = ["create", "-n", &self.shop, "--dry-run=server", "-o", "json", "-f", "-"];
        self.cluster.kubectl_reading(POD, &command)
    }

    /// The API server takes a moment to learn of a configuration.
    pub(crate) fn wait_until_called(&self) {
        let called = || {
            let answer = self.try_pod();
            answer.success && answer.output.contains("proxy-sidecar")
        };
        eventually("the webhooks are called", called);
    }

    /// The administrator's kubeconfig with the service account's token in place of the certificate.
    fn write_kubeconfig(&self) {
        let token = self.cluster.kubectl(&["create", "token", self.name, "-n", self.name]);
        let token = token.expect_success();
        let admin = std::fs::read_to_string(self.cluster.kubeconfig()).unwrap();
        let mut kubeconfig: Value = serde_json::from_str(&admin).unwrap();
        kubeconfig["users"][0]["user"] = json!({"token": token.trim()});
        std::fs::write(&self.kubeconfig, kubeconfig.to_string()).unwrap();
    }
}

/// The object with the installation's name wherever it says the namespace, or Outrigger itself.
fn renamed(object: Value, name: &str) -> Value {
    match object {
        Value::String(text) if text == "outrigger" || text == "outrigger-system" => json!(name),
        Value::Array(items) => items.into_iter().map(|item| renamed(item, name)).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(key, value)| (key, renamed(value, name)));
            Value::Object(fields.collect())
        }
        other => other,
    }
}

/// A pod that the built-in requirements admit.
const POD: &str = "{apiVersion: v1, kind: Pod, metadata: {name: probe, labels: {environment: dev}}, \
                   spec: {containers: [{name: app, image: app}]}}";

/// The number of certificates in a PEM text.
pub(crate) fn certificates_in(pem: &str) -> usize {
    pem.matches("BEGIN CERTIFICATE").count()
}

/// The value of a series of a replica's metrics.
pub(crate) fn metric(replica: &Server, series: &str) -> f64 {
    let (_, page) = page(replica.admin, "/metrics");
    let line = page
        .lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no series {series} in\n{page}"))
        .parse()
        .unwrap()
}

/// Asserts that a replica was refused nothing and met no error on the way.
pub(crate) fn assert_no_errors(replica: &Server) {
    for object in ["secret", "lease", "configuration"] {
        let series = format!("outrigger_certificate_errors_total{{object=\"{object}\"}}");
        assert_eq!(metric(replica, &series), 0.0, "{object}: {}", replica.log_text());
    }
    assert_quiet(replica);
}

/// Asserts that the log, at whatever level, tells of no refusal and holds no key: neither as text nor
/// as the API server takes it.
pub(crate) fn assert_quiet(replica: &Server) {
    let log = replica.log_text();
    for word in [
        "orbidden",
        "PRIVATE KEY",
        &BASE64_STANDARD.encode("-----BEGIN PRIVATE ")[..24],
    ] {
        assert!(!log.contains(word), "{word}: {log}");
    }
}
