//! The rendered configurations on a real API server: who is called for which pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::prelude::{BASE64_STANDARD, Engine};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::helm::{only, rendered};
use crate::selectors::Case;
use crate::webhooks::{Server, eventually, page};

/// What namespaces and pods say here: a spelling of each kind.
const WORDS: [Option<&str>; 7] = [
    None,
    Some("enabled"),
    Some("True"),
    Some("disabled"),
    Some("FALSE"),
    Some("perhaps"),
    Some(""),
];

/// A server, and the chart's configurations that lead to it.
struct Registered {
    cluster: Arc<Cluster>,
    server: Server,
    on_by_default: bool,
}

impl Registered {
    /// The configurations ask about namespaces with the label `suite` alone, so that others are left alone.
    fn new(on_by_default: bool) -> Self {
        let cluster = Cluster::shared();
        let default = if on_by_default { "enabled" } else { "disabled" };
        let server = Server::start(&cluster, default, &[("OUTRIGGER_INJECT_DEFAULT", default)]);
        let values = json!({
            "fullnameOverride": format!("calls-{default}"),
            "injection": {"default": default},
            "webhook": {"namespaceSelector": {"matchLabels": {"suite": default}}},
        });
        let registered = Self {
            cluster,
            server,
            on_by_default,
        };
        for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
            let configuration = registered.with_address(only(&rendered(&values), kind));
            registered
                .cluster
                .kubectl_reading(&configuration.to_string(), &["create", "-f", "-"])
                .expect_success();
        }
        registered
    }

    /// The same with a URL in place of the Service, which nobody would route here.
    fn with_address(&self, configuration: &Value) -> Value {
        let mut configuration = configuration.clone();
        let ca = std::fs::read(&self.cluster.authority().certificate).unwrap();
        for webhook in configuration["webhooks"].as_array_mut().unwrap() {
            let path = webhook["clientConfig"]["service"]["path"].as_str().unwrap();
            let url = format!("https://{}{path}", self.server.admission);
            webhook["clientConfig"] = json!({"url": url, "caBundle": BASE64_STANDARD.encode(&ca)});
        }
        configuration
    }

    fn default(&self) -> &'static str {
        if self.on_by_default { "enabled" } else { "disabled" }
    }

    /// A namespace whose label says a word, and its name.
    fn namespace(&self, word: Option<&str>, index: usize) -> String {
        let name = format!("calls-{}-{index}", self.default());
        let label = word.map(|word| ("outrigger.mesh/inject", word));
        let labels: Vec<(&str, &str)> = label.into_iter().chain([("suite", self.default())]).collect();
        self.cluster.create_namespace(&name, &labels);
        name
    }

    fn calls(&self, endpoint: &str) -> u64 {
        let page = page(self.server.admin, "/metrics").1;
        let prefix = format!("outrigger_admission_requests_total{{endpoint=\"{endpoint}\"");
        let counts = page.lines().filter(|line| line.starts_with(&prefix));
        counts
            .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
            .sum()
    }

    /// How often each webhook is called for one dry run of a pod. The validating one is not when the mutating one refused.
    async fn called(&self, namespace: &str, label: Option<&str>) -> (u64, u64) {
        let before = (self.calls("mutate"), self.calls("validate"));
        let mut labels = BTreeMap::from([("environment", "dev")]);
        labels.extend(label.map(|word| ("outrigger.mesh/inject", word)));
        let pod = json!({"metadata": {"generateName": "a-", "labels": labels}, "spec": {"containers": [{"name": "app", "image": "app"}]}});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let pods = Api::<Pod>::namespaced(self.cluster.client().await, namespace);
        // A refusal is an answer, too.
        let _ = pods.create(&dry_run, &pod).await;
        (self.calls("mutate") - before.0, self.calls("validate") - before.1)
    }
}

#[tokio::test]
async fn each_webhook_is_called_once_for_the_pods_that_the_program_looks_at() {
    let registered = [false, true].map(Registered::new);
    for mesh in &registered {
        let namespaces: Vec<(Option<&'static str>, String)> = WORDS
            .iter()
            .enumerate()
            .map(|(index, word)| (*word, mesh.namespace(*word, index)))
            .collect();
        let enabled = &namespaces[1].1;
        wait_until_called(mesh, enabled).await;
        for (namespace_label, namespace) in &namespaces {
            for pod_label in WORDS {
                let case = Case {
                    on_by_default: mesh.on_by_default,
                    namespace: "shop",
                    namespace_label: *namespace_label,
                    pod_label,
                };
                let (mutated, judged) = case.wanted();
                let (mutate, validate) = mesh.called(namespace, pod_label).await;
                assert_eq!(mutate, u64::from(mutated), "{case:?}");
                let refused = [*namespace_label, pod_label]
                    .iter()
                    .any(|word| matches!(word, Some("perhaps" | "")));
                assert_eq!(validate, u64::from(judged && !(mutated && refused)), "{case:?}");
            }
        }
    }
}

/// The API server takes a moment to learn of a configuration, and of each by itself.
async fn wait_until_called(mesh: &Registered, namespace: &str) {
    for _ in 0..100 {
        if mesh.called(namespace, None).await == (1, 1) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("the webhooks are not called");
}

/// The condition on mirror pods reads annotations of any pod, also of one that has none.
#[test]
fn a_mirror_pod_is_not_injected() {
    let mesh = Registered {
        cluster: Cluster::shared(),
        server: Server::start(&Cluster::shared(), "mirror", &[]),
        on_by_default: false,
    };
    let values =
        json!({"fullnameOverride": "mirror", "webhook": {"namespaceSelector": {"matchLabels": {"suite": "mirror"}}}});
    let configuration = mesh.with_address(only(&rendered(&values), "MutatingWebhookConfiguration"));
    mesh.cluster
        .kubectl_reading(&configuration.to_string(), &["create", "-f", "-"])
        .expect_success();
    mesh.cluster
        .create_namespace("mirror", &[("suite", "mirror"), ("outrigger.mesh/inject", "enabled")]);
    let create = |annotations: &str| {
        let pod = format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{generateName: a-, annotations: {annotations}}}, \
             spec: {{nodeName: node, containers: [{{name: app, image: app}}]}}}}"
        );
        let arguments = ["create", "-n", "mirror", "--dry-run=server", "-o", "json", "-f", "-"];
        mesh.cluster.kubectl_reading(&pod, &arguments).expect_success()
    };
    eventually("the webhook is called", || create("{}").contains("proxy-sidecar"));
    let before = mesh.calls("mutate");
    assert!(!create("{kubernetes.io/config.mirror: hash}").contains("proxy-sidecar"));
    assert_eq!(mesh.calls("mutate"), before, "the API server does not even ask");
}
