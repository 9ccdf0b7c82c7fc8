//! The table of cases, its reviews and pods, and how verdicts are read.
#![allow(dead_code, reason = "each suite uses its own part of the table")]

use std::collections::{BTreeMap, BTreeSet};

use outrigger::namespace::NamespaceInfo;
use outrigger::review::Endpoint;
use regex::Regex;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// The table. Every case has a number of its own, by which its pod is named.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    pub(crate) groups: Vec<Group>,
}

/// Cases with the same requirements.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Group {
    pub(crate) name: String,
    /// The file; `None`: the built-in requirements.
    pub(crate) requirements: Option<String>,
    /// Labels by name; `None`: a namespace that every cluster has.
    pub(crate) namespaces: BTreeMap<String, Option<BTreeMap<String, String>>>,
    pub(crate) cases: Vec<Case>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    #[serde(skip)]
    pub(crate) number: usize,
    pub(crate) name: String,
    #[serde(rename = "in")]
    pub(crate) namespace: String,
    #[serde(default)]
    pub(crate) operation: Operation,
    old: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    labels: Option<Value>,
    annotations: Option<Value>,
    #[serde(default)]
    spec: serde_json::Map<String, Value>,
    #[serde(default)]
    unnamed: bool,
    expect: Expect,
    #[serde(default)]
    keys: BTreeSet<String>,
    cluster: Option<InCluster>,
    policy: Option<Verdict>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Operation {
    #[default]
    Create,
    Update,
    Status,
    Delete,
}

/// What becomes of a pod, and the labels whose rules it breaks.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Verdict {
    pub(crate) expect: Expect,
    #[serde(default)]
    pub(crate) keys: BTreeSet<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Expect {
    Allowed,
    Denied,
    Warned,
    Audited,
    /// By the API server itself, as no valid pod.
    Refused,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum InCluster {
    Word(Expect),
    Verdict(Verdict),
}

/// Null is there, too.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Table {
    pub(crate) fn read() -> Self {
        let value = outrigger::yaml::parse_one(include_str!("cases.yaml")).unwrap();
        let mut table: Self = serde_path_to_error::deserialize(value).unwrap();
        let cases = table.groups.iter_mut().flat_map(|group| &mut group.cases);
        for (number, case) in (1..).zip(cases) {
            case.number = number;
        }
        table
    }
}

impl Group {
    /// What is known of the namespaces that are the group's own.
    pub(crate) fn known(&self) -> BTreeMap<String, NamespaceInfo> {
        let own = self.namespaces.iter().filter_map(|(name, labels)| {
            let labels = labels.clone()?;
            let annotations = BTreeMap::new();
            Some((name.clone(), NamespaceInfo { labels, annotations }))
        });
        own.collect()
    }

    /// The Namespace objects that are the group's own.
    pub(crate) fn namespace_objects(&self) -> Vec<Value> {
        let objects = self.known().into_iter().map(|(name, info)| {
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": info.labels}})
        });
        objects.collect()
    }
}

impl Case {
    /// What the webhooks are to say.
    pub(crate) fn expected(&self) -> Verdict {
        Verdict {
            expect: self.expect,
            keys: self.keys.clone(),
        }
    }

    /// What a real API server with the webhooks is to say.
    pub(crate) fn expected_in_cluster(&self) -> Verdict {
        match &self.cluster {
            None => self.expected(),
            Some(InCluster::Verdict(verdict)) => verdict.clone(),
            Some(InCluster::Word(expect)) => Verdict {
                expect: *expect,
                keys: BTreeSet::new(),
            },
        }
    }

    /// What one with the policy is to say.
    pub(crate) fn expected_of_policy(&self) -> Verdict {
        self.policy.clone().unwrap_or_else(|| self.expected_in_cluster())
    }

    pub(crate) fn pod_name(&self) -> String {
        format!("case-{}", self.number)
    }

    /// The pod as it is to be.
    pub(crate) fn pod(&self) -> Value {
        let mut metadata = json!({"namespace": self.namespace});
        if self.unnamed {
            metadata["generateName"] = json!("case-");
        } else {
            metadata["name"] = json!(self.pod_name());
        }
        self.mark(&mut metadata);
        pod(&metadata, &self.spec)
    }

    /// Gives a pod's metadata the labels and annotations of the case.
    pub(crate) fn mark(&self, metadata: &mut Value) {
        let metadata = metadata.as_object_mut().unwrap();
        for (key, value) in [("labels", &self.labels), ("annotations", &self.annotations)] {
            metadata.remove(key);
            metadata.extend(value.clone().map(|value| (key.to_owned(), value)));
        }
    }

    /// The pod as it was, where there was one.
    pub(crate) fn old_pod(&self) -> Option<Value> {
        let mut metadata = json!({"namespace": self.namespace, "name": self.pod_name()});
        if let Some(labels) = &self.old {
            metadata["labels"] = labels.clone();
        }
        (self.operation != Operation::Create).then(|| pod(&metadata, &self.spec))
    }

    /// What both webhooks make of it; `ask` gives the answer to an AdmissionReview.
    pub(crate) fn judged_by(&self, mut ask: impl FnMut(Endpoint, &Value) -> Value) -> Verdict {
        let mut pod = self.pod();
        if self.operation == Operation::Create {
            let answer = ask(Endpoint::Mutate, &self.review(&pod));
            if answer["response"]["allowed"] == false {
                return of_answer(&answer["response"]);
            }
            patch(&mut pod, &answer["response"]);
        }
        of_answer(&ask(Endpoint::Validate, &self.review(&pod))["response"])
    }

    fn review(&self, pod: &Value) -> Value {
        let (operation, sub_resource) = match self.operation {
            Operation::Create => ("CREATE", ""),
            Operation::Update => ("UPDATE", ""),
            Operation::Status => ("UPDATE", "status"),
            Operation::Delete => ("DELETE", ""),
        };
        let object = Some(pod).filter(|_| operation != "DELETE");
        json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": format!("uid-{}", self.number), "operation": operation, "subResource": sub_resource,
                "kind": {"group": "", "version": "v1", "kind": "Pod"},
                "resource": {"group": "", "version": "v1", "resource": "pods"},
                "namespace": self.namespace, "object": object, "oldObject": self.old_pod(),
            },
        })
    }
}

fn pod(metadata: &Value, more: &serde_json::Map<String, Value>) -> Value {
    let mut spec = json!({"containers": [{"name": "app", "image": "registry.example.com/team/app:1.0"}]});
    spec.as_object_mut().unwrap().extend(more.clone());
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

fn patch(pod: &mut Value, response: &Value) {
    use base64::prelude::{BASE64_STANDARD, Engine};
    if let Some(patch) = response["patch"].as_str() {
        let patch = BASE64_STANDARD.decode(patch).unwrap();
        let patch: json_patch::Patch = serde_json::from_slice(&patch).unwrap();
        json_patch::patch(pod, &patch).unwrap();
    }
}

fn of_answer(response: &Value) -> Verdict {
    let warnings = response["warnings"].as_array().map(Vec::as_slice).unwrap_or_default();
    let warnings: Vec<&str> = warnings.iter().filter_map(Value::as_str).collect();
    let noted = response["auditAnnotations"]["violations"].as_str();
    let (expect, text) = match (response["allowed"].as_bool(), noted) {
        (Some(false), _) => (
            Expect::Denied,
            response["status"]["message"].as_str().unwrap().to_owned(),
        ),
        (Some(true), Some(noted)) => (Expect::Audited, noted.to_owned()),
        (Some(true), None) if !warnings.is_empty() => (Expect::Warned, warnings.join(" ")),
        (Some(true), None) => (Expect::Allowed, String::new()),
        (None, _) => panic!("no answer: {response}"),
    };
    let keys = keys_in(&text);
    Verdict { expect, keys }
}

/// The labels of which the sentences say that they break a rule.
pub(crate) fn keys_in(text: &str) -> BTreeSet<String> {
    let sentence = Regex::new(r"label (\S+) is ").unwrap();
    sentence
        .captures_iter(text)
        .map(|captures| captures[1].to_owned())
        .collect()
}
