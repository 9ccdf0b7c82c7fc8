//! What an injection may add to a pod, and that it takes nothing away.

use outrigger::decision::Subject;
use outrigger::inject::{Injection, Injector};
use outrigger::namespace::NamespaceInfo;
use outrigger::pod::PodView;
use serde_json::Value;

/// Decides on the creation of a pod in a namespace.
pub(crate) fn inject_as(injector: &Injector, namespace: &str, info: &NamespaceInfo, pod: &Value) -> Injection {
    let raw = pod.to_string();
    let pod = match PodView::from_json(&raw) {
        Ok(pod) => pod,
        Err(error) => return Injection::unreadable(error),
    };
    let subject = Subject {
        is_pod_create: true,
        namespace,
        info,
        pod: &pod,
        services: outrigger::service::View::Off,
    };
    injector.inject(subject).expect("a pod's text is never a fault of ours")
}

/// The maps and lists that may be null before and filled after.
const FILLED_IN: [&str; 5] = [
    "/metadata",
    "/metadata/labels",
    "/metadata/annotations",
    "/spec/initContainers",
    "/spec/volumes",
];
/// The lists to which something is added.
const ADDED_TO: [&str; 3] = ["/spec/containers", "/spec/initContainers", "/spec/volumes"];

/// Whether everything of `before` is in `after`, with an equal value and in the same order.
///
/// # Errors
/// What is lost or changed. `path` is where in the pod the two stand; empty for the pod itself.
pub(crate) fn keeps(before: &Value, after: &Value, path: &str) -> Result<(), String> {
    match (before, after) {
        (Value::Null, _) if FILLED_IN.contains(&path) => Ok(()),
        (Value::Object(before), Value::Object(after)) => before.iter().try_for_each(|(key, value)| {
            let kept = after.get(key).ok_or_else(|| format!("{path}/{key} is gone"))?;
            keeps(value, kept, &format!("{path}/{key}"))
        }),
        (Value::Array(before), Value::Array(after)) if ADDED_TO.contains(&path) => {
            let mut after = after.iter();
            let lost = before.iter().find(|item| !after.any(|kept| kept == *item));
            lost.map_or(Ok(()), |item| Err(format!("{path} has lost {item}, or its order")))
        }
        _ if before == after => Ok(()),
        _ => Err(format!("{path} was {before} and is {after}")),
    }
}

/// The names in a list of the pod's spec, in their order.
pub(crate) fn names_of<'v>(pod: &'v Value, list: &str) -> Vec<&'v str> {
    let items = pod["spec"].get(list).and_then(Value::as_array);
    items
        .into_iter()
        .flatten()
        .filter_map(|item| item["name"].as_str())
        .collect()
}

/// Whether all names differ.
pub(crate) fn has_no_duplicate(mut names: Vec<&str>) -> bool {
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    names.len() == all
}
