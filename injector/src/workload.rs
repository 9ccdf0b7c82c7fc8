//! Where the pods are in a manifest: Pod, the kinds with a pod template, and lists of them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::pod::PodError;

/// A kind that holds a pod.
struct Kind {
    api_version: &'static str,
    kind: &'static str,
    /// The resource, as requests name it.
    resource: &'static str,
    /// The keys that lead to the pod or its template; none for a pod itself.
    path: &'static [&'static str],
}

const TEMPLATE: &[&str] = &["spec", "template"];

#[rustfmt::skip] // A table.
const KINDS: [Kind; 9] = [
    Kind { api_version: "v1", kind: "Pod", resource: "pods", path: &[] },
    Kind { api_version: "v1", kind: "PodTemplate", resource: "podtemplates", path: &["template"] },
    Kind { api_version: "v1", kind: "ReplicationController", resource: "replicationcontrollers", path: TEMPLATE },
    Kind { api_version: "apps/v1", kind: "Deployment", resource: "deployments", path: TEMPLATE },
    Kind { api_version: "apps/v1", kind: "StatefulSet", resource: "statefulsets", path: TEMPLATE },
    Kind { api_version: "apps/v1", kind: "DaemonSet", resource: "daemonsets", path: TEMPLATE },
    Kind { api_version: "apps/v1", kind: "ReplicaSet", resource: "replicasets", path: TEMPLATE },
    Kind { api_version: "batch/v1", kind: "Job", resource: "jobs", path: TEMPLATE },
    Kind { api_version: "batch/v1", kind: "CronJob", resource: "cronjobs", path: &["spec", "jobTemplate", "spec", "template"] },
];

/// Where the pod template of a resource is; `None`: it is a pod, or has none.
#[must_use]
pub fn template_path(group: &str, version: &str, resource: &str) -> Option<&'static [&'static str]> {
    let of = |kind: &Kind| kind.api_version.rsplit_once('/').unwrap_or(("", kind.api_version));
    let known = KINDS
        .iter()
        .find(|kind| of(kind) == (group, version) && kind.resource == resource);
    known.map(|kind| kind.path).filter(|path| !path.is_empty())
}

/// The value at `path` inside of a JSON object; `None`: it is absent or null.
///
/// # Errors
/// Something on the way is no object.
pub fn descend<'a>(mut raw: &'a str, path: &[&str]) -> Result<Option<&'a str>, PodError> {
    for (depth, key) in path.iter().enumerate() {
        let map: BTreeMap<Cow<'_, str>, &'a RawValue> = serde_json::from_str(raw).map_err(|error| PodError {
            path: path[..depth].join("."),
            message: error.to_string(),
        })?;
        match map.get(*key).map(|value| value.get()).filter(|raw| *raw != "null") {
            Some(inner) => raw = inner,
            None => return Ok(None),
        }
    }
    Ok(Some(raw))
}

/// An object of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its kind, or a word for what has none.
    pub kind: String,
    /// Its name, or what there is of one.
    pub name: String,
    /// Its namespace, where it says one.
    pub namespace: Option<String>,
    /// Where it is in the document: keys and indices from the root.
    pub path: Vec<Step>,
    /// Where the pod is below it; `None`: it has none.
    pub pod: Option<&'static [&'static str]>,
}

/// A step from a value to one inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Of a map.
    Key(&'static str),
    /// Of a list.
    Index(usize),
}

/// Every object of a document, those of lists one by one, in their order.
#[must_use]
pub fn objects(document: &Value) -> Vec<Object> {
    let mut found = Vec::new();
    visit(document, None, &mut Vec::new(), &mut found);
    found
}

/// The deepest nesting of lists that is looked into.
const MOST_LISTS: usize = 16;

fn visit(value: &Value, implied: Option<(&str, &str)>, path: &mut Vec<Step>, found: &mut Vec<Object>) {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    // The items of a typed list carry no kind of their own in a raw answer of the API server.
    let kind = text("kind").or(implied.map(|(_, kind)| kind)).unwrap_or_default();
    let api_version = text("apiVersion")
        .or(implied.map(|(version, _)| version))
        .unwrap_or_default();
    let items = value
        .get("items")
        .and_then(Value::as_array)
        .filter(|_| kind.ends_with("List") && path.len() < 2 * MOST_LISTS);
    // A list without items is an object of its own, so that a report names everything that came in.
    let Some(items) = items.filter(|items| !items.is_empty()) else {
        found.push(object(value, api_version, kind, path));
        return;
    };
    let item_kind = kind.strip_suffix("List").filter(|kind| !kind.is_empty());
    for (index, item) in items.iter().enumerate() {
        path.extend([Step::Key("items"), Step::Index(index)]);
        visit(item, item_kind.map(|kind| (api_version, kind)), path, found);
        path.truncate(path.len() - 2);
    }
}

fn object(value: &Value, api_version: &str, kind: &str, path: &[Step]) -> Object {
    let meta = |key: &str| {
        value
            .get("metadata")?
            .get(key)?
            .as_str()
            .filter(|text| !text.is_empty())
    };
    let known = KINDS
        .iter()
        .find(|known| known.api_version == api_version && known.kind == kind);
    let generated = || meta("generateName").map(|prefix| format!("{prefix}*"));
    Object {
        kind: if kind.is_empty() {
            "(no kind)".to_owned()
        } else {
            kind.to_owned()
        },
        name: meta("name")
            .map(str::to_owned)
            .or_else(generated)
            .unwrap_or_else(|| "(no name)".to_owned()),
        namespace: meta("namespace").map(str::to_owned),
        path: path.to_vec(),
        pod: known.map(|known| known.path),
    }
}

impl Object {
    /// The object in its document.
    #[must_use]
    pub fn of<'v>(&self, document: &'v Value) -> Option<&'v Value> {
        self.path.iter().try_fold(document, |value, step| match step {
            Step::Key(key) => value.get(key),
            Step::Index(index) => value.get(index),
        })
    }

    /// The object in its document, to be changed.
    pub fn of_mut<'v>(&self, document: &'v mut Value) -> Option<&'v mut Value> {
        self.path.iter().try_fold(document, |value, step| match step {
            Step::Key(key) => value.get_mut(key),
            Step::Index(index) => value.get_mut(index),
        })
    }

    /// The pod or its template; null where it should be and is not.
    #[must_use]
    pub fn pod<'v>(&self, document: &'v Value) -> Option<&'v Value> {
        let mut value = self.of(document)?;
        for key in self.pod? {
            value = value.get(key).unwrap_or(&Value::Null);
        }
        Some(value)
    }

    /// The pod or its template, to be changed.
    pub fn pod_mut<'v>(&self, document: &'v mut Value) -> Option<&'v mut Value> {
        let path = self.pod?;
        path.iter()
            .try_fold(self.of_mut(document)?, |value, key| value.get_mut(key))
    }

    /// The pointer (RFC 6901) from the object to its pod.
    #[must_use]
    pub fn pod_pointer(&self) -> String {
        self.pod.into_iter().flatten().map(|key| format!("/{key}")).collect()
    }
}
