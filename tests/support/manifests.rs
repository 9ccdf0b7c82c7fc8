//! Generated pods inside manifests of every form: what `inject` and `uninject` do with them.

use outrigger::manifest::{self, Namespaces, Output, Source};
use outrigger::yaml;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

/// What holds the pod, and how it is written.
pub(crate) type Form = (&'static str, &'static str);

/// Any form.
pub(crate) fn form() -> impl Strategy<Value = Form> {
    let holders = select(&["Pod", "Deployment", "CronJob", "List", "DeploymentList"][..]);
    (holders, select(&["yaml", "json", "stream"][..]))
}

/// Injecting twice is injecting once, byte for byte; taking the proxy away again gives the same documents.
pub(crate) fn check(pod: &Value, (holder, format): Form) {
    let text = written(&held(pod, holder), format);
    let once = inject(&text);
    assert!(
        once.report.iter().any(|line| line.outcome == "injected"),
        "{:?}",
        once.report
    );
    let twice = inject(&once.text);
    assert!(
        twice.text == once.text,
        "not idempotent:\n{}\n{}",
        once.text,
        twice.text
    );
    let without = remove(&once.text);
    assert_eq!(values(&without.text), values(&text), "{text}");
    assert_eq!(once.report.len(), twice.report.len());
}

fn held(pod: &Value, holder: &str) -> Value {
    let deployment = |name: &str| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {"template": pod}});
    match holder {
        "Pod" => {
            let mut whole = json!({"apiVersion": "v1", "kind": "Pod"});
            let fields = pod.as_object().expect("a pod is an object");
            whole.as_object_mut().expect("an object").extend(fields.clone());
            whole
        }
        "Deployment" => deployment("a"),
        "CronJob" => json!({"apiVersion": "batch/v1", "kind": "CronJob",
                            "spec": {"jobTemplate": {"spec": {"template": pod}}}}),
        "DeploymentList" => {
            let mut item = deployment("b");
            item.as_object_mut()
                .expect("an object")
                .retain(|key, _| key != "kind" && key != "apiVersion");
            json!({"apiVersion": "apps/v1", "kind": "DeploymentList", "items": [item]})
        }
        _ => json!({"apiVersion": "v1", "kind": "List", "metadata": {},
                    "items": [deployment("a"), {"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": "yes"}},
                              held(pod, "CronJob"), held(pod, "Pod")]}),
    }
}

fn written(document: &Value, format: &str) -> String {
    match format {
        "yaml" => yaml::to_yaml(document),
        "json" => format!("{document:#}\n"),
        _ => format!(
            "# first\n---\n# a comment\n{}---\nkind: ConfigMap # kept\napiVersion: v1\n---\n{}",
            yaml::to_yaml(document),
            yaml::to_yaml(document)
        ),
    }
}

fn source(text: &str) -> Vec<Source> {
    vec![Source {
        name: "test.yaml".to_owned(),
        text: text.to_owned(),
    }]
}

fn inject(text: &str) -> Output {
    let sources = source(text);
    let manifests = manifest::parse(&sources).unwrap_or_else(|e| panic!("{e}\n{text}"));
    manifest::inject(&crate::INJECTOR, &manifests[0], &Namespaces::default()).expect("it is injected")
}

fn remove(text: &str) -> Output {
    let sources = source(text);
    let manifests = manifest::parse(&sources).unwrap_or_else(|e| panic!("{e}\n{text}"));
    manifest::remove(&manifests[0]).expect("the proxy is removed")
}

fn values(text: &str) -> Vec<Value> {
    let documents = yaml::parse_stream(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    documents.into_iter().filter_map(|document| document.value).collect()
}
