//! The reverse of an injection, exactly: what the status annotation names is removed, and maps and
//! lists that were absent or null before are so again.

use serde_json::{Map, Value};

use crate::names;
use crate::status::{Parent, Status};

/// What became of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Uninjected {
    /// The proxy was removed.
    Done,
    /// There is no status annotation.
    NotInjected,
    /// The status annotation is not of Outrigger's making.
    UnreadableStatus,
}

/// Takes away what was added to a pod or pod template.
pub fn uninject(pod: &mut Value) -> Uninjected {
    let Some(text) = pod.pointer("/metadata/annotations").and_then(|a| a.get(names::STATUS)) else {
        return Uninjected::NotInjected;
    };
    let Some(status) = text.as_str().and_then(Status::parse) else {
        return Uninjected::UnreadableStatus;
    };
    remove_named(pod, "containers", &status.containers);
    remove_named(pod, "initContainers", &status.init_containers);
    remove_named(pod, "volumes", &status.volumes);
    remove_keys(
        pod,
        "annotations",
        status.annotations.iter().map(String::as_str).chain([names::STATUS]),
    );
    remove_keys(pod, "labels", status.labels.iter().map(String::as_str));
    // `metadata` holds other maps, so it comes last.
    let (outer, inner): (Vec<_>, Vec<_>) = befores(&status).partition(|(parent, _)| *parent == Parent::Metadata);
    for (parent, before) in inner.into_iter().chain(outer) {
        restore(pod, parent, before);
    }
    Uninjected::Done
}

/// What the maps and lists were that had to be added whole: absent (`None`) or null.
fn befores(status: &Status) -> impl Iterator<Item = (Parent, Option<Value>)> {
    let absent = status.created.iter().map(|parent| (*parent, None));
    absent.chain(status.replaced_null.iter().map(|parent| (*parent, Some(Value::Null))))
}

fn remove_named(pod: &mut Value, list: &str, names: &[String]) {
    let is_ours = |item: &Value| {
        item.get("name")
            .and_then(Value::as_str)
            .is_some_and(|name| names.iter().any(|n| n == name))
    };
    if let Some(items) = pod
        .get_mut("spec")
        .and_then(|spec| spec.get_mut(list))
        .and_then(Value::as_array_mut)
    {
        items.retain(|item| !is_ours(item));
    }
}

fn remove_keys<'k>(pod: &mut Value, map: &str, keys: impl Iterator<Item = &'k str>) {
    let map = pod
        .get_mut("metadata")
        .and_then(|meta| meta.get_mut(map))
        .and_then(Value::as_object_mut);
    if let Some(map) = map {
        for key in keys {
            // The order of the others is kept.
            map.shift_remove(key);
        }
    }
}

/// An empty parent becomes what it was; one that somebody has filled since stays.
fn restore(pod: &mut Value, parent: Parent, before: Option<Value>) {
    let Some((holder, key)) = place(pod, parent) else {
        return;
    };
    let empty = match holder.get(key) {
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Array(list)) => list.is_empty(),
        _ => false,
    };
    match before {
        _ if !empty => {}
        Some(value) => {
            holder.insert(key.to_owned(), value);
        }
        None => {
            holder.shift_remove(key);
        }
    }
}

fn place(pod: &mut Value, parent: Parent) -> Option<(&mut Map<String, Value>, &'static str)> {
    let (holder, key) = match parent {
        Parent::Metadata => (Some(pod), "metadata"),
        Parent::Annotations => (pod.get_mut("metadata"), "annotations"),
        Parent::Labels => (pod.get_mut("metadata"), "labels"),
        Parent::InitContainers => (pod.get_mut("spec"), "initContainers"),
        Parent::Volumes => (pod.get_mut("spec"), "volumes"),
    };
    Some((holder?.as_object_mut()?, key))
}
