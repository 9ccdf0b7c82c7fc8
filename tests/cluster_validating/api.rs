//! Requests to the API server as clients make them, with the warnings of its answers. Nothing is stored.

use std::sync::Arc;

use kube::api::{DeleteParams, GetParams, PostParams};
use kube::client::Body;
use kube::core::Request;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::cluster::Cluster;
use crate::table::{Case, Expect, Operation, Verdict, keys_in};

pub(crate) struct Api {
    runtime: Runtime,
    client: kube::Client,
}

/// A request about a pod.
#[derive(Clone, Copy)]
enum Call<'c> {
    Get(&'c str),
    Create(&'c Value, &'c PostParams),
    Replace(&'c str, &'c Value),
    ReplaceStatus(&'c str, &'c Value),
    Delete(&'c str),
}

/// What the API server answered.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) warnings: Vec<String>,
    pub(crate) body: Value,
}

impl Api {
    pub(crate) fn new(cluster: &Arc<Cluster>) -> Self {
        let runtime = Runtime::new().unwrap();
        let client = runtime.block_on(cluster.client());
        Self { runtime, client }
    }

    /// Makes a pod that stays.
    pub(crate) fn create(&self, namespace: &str, pod: &Value) {
        let reply = self.call(namespace, Call::Create(pod, &PostParams::default()));
        assert_eq!(reply.status, 201, "{reply:?}");
    }

    /// Tries to make a pod.
    pub(crate) fn try_create(&self, namespace: &str, pod: &Value) -> Reply {
        self.call(namespace, Call::Create(pod, &dry()))
    }

    /// Tries what a case does.
    pub(crate) fn attempt(&self, case: &Case) -> Reply {
        let name = case.pod_name();
        let changed = || {
            let mut pod = self.call(&case.namespace, Call::Get(&name)).body;
            case.mark(&mut pod["metadata"]);
            pod
        };
        match case.operation {
            Operation::Create => self.try_create(&case.namespace, &case.pod()),
            Operation::Update => self.call(&case.namespace, Call::Replace(&name, &changed())),
            Operation::Status => self.call(&case.namespace, Call::ReplaceStatus(&name, &changed())),
            Operation::Delete => self.call(&case.namespace, Call::Delete(&name)),
        }
    }

    /// The sum of the series of the API server's metrics that have all these parts.
    pub(crate) fn metric(&self, parts: &[&str]) -> f64 {
        let request = Request::new("").get("metrics", &GetParams::default()).unwrap();
        let page = self.runtime.block_on(self.client.request_text(request)).unwrap();
        let series = page.lines().filter(|line| parts.iter().all(|part| line.contains(part)));
        series
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }

    fn call(&self, namespace: &str, call: Call<'_>) -> Reply {
        let pods = Request::new(format!("/api/v1/namespaces/{namespace}/pods"));
        let bytes = |pod: &Value| pod.to_string().into_bytes();
        let request = match call {
            Call::Get(name) => pods.get(name, &GetParams::default()),
            Call::Create(pod, parameters) => pods.create(parameters, bytes(pod)),
            Call::Replace(name, pod) => pods.replace(name, &dry(), bytes(pod)),
            Call::ReplaceStatus(name, pod) => pods.replace_subresource("status", name, &dry(), bytes(pod)),
            Call::Delete(name) => pods.delete(name, &DeleteParams::default().dry_run()),
        };
        let request = request.unwrap().map(Body::from);
        self.runtime.block_on(async {
            let response = self.client.send(request).await.unwrap();
            let warnings = response.headers().get_all("warning").iter();
            let warnings = warnings
                .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
                .collect();
            let status = response.status().as_u16();
            let bytes = response.into_body().collect_bytes().await.unwrap();
            let body = serde_json::from_slice(&bytes).unwrap();
            Reply { status, warnings, body }
        })
    }
}

impl Reply {
    /// What a client is told; where it is told nothing, `noted` is whether the audit log was.
    pub(crate) fn verdict(&self, noted: impl Fn() -> bool) -> Verdict {
        let message = self.message();
        let warnings: Vec<&str> = self.warnings.iter().map(String::as_str).collect();
        let denied = message.contains("denied the request: ") || message.contains("denied request: ");
        let (expect, text) = match self.status {
            200 | 201 if !keys_in(&warnings.join(" ")).is_empty() => (Expect::Warned, warnings.join(" ")),
            200 | 201 if noted() => (Expect::Audited, String::new()),
            200 | 201 => (Expect::Allowed, String::new()),
            403 if denied => (Expect::Denied, message),
            400 | 422 => (Expect::Refused, String::new()),
            _ => panic!("no verdict: {self:?}"),
        };
        let keys = keys_in(&text);
        Verdict { expect, keys }
    }

    pub(crate) fn message(&self) -> String {
        self.body["message"].as_str().unwrap_or_default().to_owned()
    }

    /// The sentences of a denial.
    pub(crate) fn sentences(&self) -> Option<String> {
        let message = self.message();
        let (_, sentences) = message.split_once("requirements: ")?;
        Some(sentences.to_owned())
    }
}

fn dry() -> PostParams {
    PostParams {
        dry_run: true,
        ..PostParams::default()
    }
}
