//! What holds of every answer and every injected pod, each as a function that panics where it does not.
#![allow(dead_code, reason = "each suite uses its own part of the support modules")]

use std::collections::BTreeSet;

use base64::prelude::{BASE64_STANDARD, Engine};
use outrigger::names;
use serde_json::{Value, json};

use crate::strict_patch;

const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
const INJECTED_CONTAINERS: [&str; 2] = [names::PROXY_CONTAINER, names::REDIRECT_CONTAINER];
const INJECTED_VOLUMES: [&str; 3] = [names::CONFIG_VOLUME, names::IDENTITY_VOLUME, names::TMP_VOLUME];

/// The answer is an AdmissionReview that allows the request, and its patch applies strictly. Gives
/// the request's object with the patch applied.
pub(crate) fn patched(request: &Value, answer: &Value) -> Value {
    answers(request, answer);
    let response = &answer["response"];
    assert_eq!(response["allowed"], true, "{answer}");
    let object = &request["request"]["object"];
    let Some(patch) = patch(answer) else {
        return object.clone();
    };
    assert_eq!(response["patchType"], "JSONPatch");
    let strict = strict_patch::apply(object, &patch).unwrap_or_else(|reason| panic!("{reason}\n{object:#}"));
    let mut usual = object.clone();
    let operations: json_patch::Patch = serde_json::from_value(patch).expect("a patch is a list of operations");
    json_patch::patch(&mut usual, &operations).expect("the patch applies");
    assert_eq!(strict, usual, "two implementations of RFC 6902 agree");
    strict
}

/// The answer is an AdmissionReview v1 and belongs to the request.
pub(crate) fn answers(request: &Value, answer: &Value) {
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(answer["kind"], "AdmissionReview");
    assert_eq!(answer["response"]["uid"], request["request"]["uid"]);
    assert!(answer["response"]["uid"].is_string());
}

/// The decoded patch; `None`: the answer has none.
pub(crate) fn patch(answer: &Value) -> Option<Value> {
    let text = answer["response"].get("patch")?.as_str().expect("a patch is a string");
    let bytes = BASE64_STANDARD.decode(text).expect("a patch is base64");
    Some(serde_json::from_slice(&bytes).expect("a patch is JSON"))
}

/// No patch, or one of no operation.
pub(crate) fn has_no_patch(answer: &Value) {
    assert_eq!(patch(answer).unwrap_or_else(|| json!([])), json!([]), "{answer}");
}

/// Without what Outrigger added, `after` is `before`: every field, type and order.
pub(crate) fn is_lossless(before: &Value, after: &Value) {
    let rest = without_additions(before, after);
    assert!(
        rest == *before,
        "before: {before:#}\nafter, without what was added: {rest:#}"
    );
    // Value compares maps whatever their order; the API server does not mind it, the user might.
    assert_eq!(
        rest["spec"]["containers"].to_string(),
        before["spec"]["containers"].to_string()
    );
}

fn without_additions(before: &Value, after: &Value) -> Value {
    let mut rest = after.clone();
    for (list, added) in [
        ("containers", &INJECTED_CONTAINERS[..]),
        ("initContainers", &INJECTED_CONTAINERS),
        ("volumes", &INJECTED_VOLUMES),
    ] {
        if let Some(items) = rest["spec"].get_mut(list).and_then(Value::as_array_mut) {
            items.retain(|item| !added.contains(&name(item)));
        }
        restore_empty(before, &mut rest, &["spec", list]);
    }
    let old = before.pointer("/metadata/annotations").cloned().unwrap_or_default();
    if let Some(Value::Object(annotations)) = rest.pointer_mut("/metadata/annotations") {
        annotations.retain(|key, _| {
            let ours = key.starts_with(names::PREFIX) || key == names::DEFAULT_CONTAINER;
            !ours || old.get(key).is_some()
        });
    }
    restore_empty(before, &mut rest, &["metadata", "annotations"]);
    restore_empty(before, &mut rest, &["metadata"]);
    rest
}

/// Where a map or list that is now empty was absent or null before, puts that back.
fn restore_empty(before: &Value, rest: &mut Value, path: &[&str]) {
    let (last, parents) = path.split_last().expect("a path has a last key");
    let old = path.iter().try_fold(before, |value, key| value.get(key));
    let parent = parents.iter().try_fold(rest, |value, key| value.get_mut(key));
    let Some(Value::Object(parent)) = parent else { return };
    let empty = parent.get(*last).is_some_and(|v| *v == json!({}) || *v == json!([]));
    match old {
        None if empty => drop(parent.shift_remove(*last)),
        Some(Value::Null) if empty => parent[*last] = Value::Null,
        _ => {}
    }
}

/// What the API server asks of a pod's names: containers, volumes, mounts and ports.
pub(crate) fn is_valid_pod(pod: &Value) {
    let volumes = unique(
        "volume",
        items(&pod["spec"]["volumes"]).iter().map(|v| name(v).to_owned()),
    );
    unique("container", containers(pod).map(|c| name(c).to_owned()));
    for container in containers(pod) {
        let mounts = items(&container["volumeMounts"]);
        unique("mount path", mounts.iter().map(|m| m["mountPath"].to_string()));
        for mount in mounts {
            assert!(
                volumes.contains(name(mount)),
                "{}: no volume for {mount}",
                name(container)
            );
        }
        let ports = items(&container["ports"]);
        let protocol = |port: &Value| port.get("protocol").cloned().unwrap_or_else(|| json!("TCP"));
        unique(
            "port",
            ports.iter().map(|p| format!("{} {}", p["containerPort"], protocol(p))),
        );
        unique(
            "port name",
            ports.iter().filter_map(|p| Some(p.get("name")?.to_string())),
        );
    }
}

fn unique(what: &str, names: impl Iterator<Item = String>) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    for name in names {
        assert!(seen.insert(name.clone()), "two of the {what} {name}");
    }
    seen
}

/// One proxy; one redirecting init container under `redirect`, none under `explicit`.
pub(crate) fn has_one_proxy(pod: &Value, traffic: Option<&str>) {
    let count = |wanted: &str| containers(pod).filter(|c| name(c) == wanted).count();
    assert_eq!(count(names::PROXY_CONTAINER), 1, "{pod:#}");
    let redirecting = count(names::REDIRECT_CONTAINER);
    match traffic {
        Some("redirect") => assert_eq!(redirecting, 1, "{pod:#}"),
        Some("explicit") => assert_eq!(redirecting, 0, "{pod:#}"),
        _ => assert!(redirecting <= 1, "{pod:#}"),
    }
}

/// Every container of whatever kind.
pub(crate) fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    CONTAINER_LISTS.iter().flat_map(|list| items(&pod["spec"][list]))
}

/// The container of this name.
pub(crate) fn container<'p>(pod: &'p Value, wanted: &str) -> &'p Value {
    containers(pod)
        .find(|c| name(c) == wanted)
        .unwrap_or_else(|| panic!("no container {wanted}: {pod:#}"))
}

/// The names of a list's items, in their order.
pub(crate) fn names_in<'p>(pod: &'p Value, list: &str) -> Vec<&'p str> {
    items(&pod["spec"][list]).iter().map(name).collect()
}

/// The items of a list; none where there is no list.
pub(crate) fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

/// The name of a container, volume or mount.
pub(crate) fn name(item: &Value) -> &str {
    item["name"].as_str().expect("it has a name")
}
