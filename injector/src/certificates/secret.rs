//! The Secret: how it is watched, and how a state is written into it.

use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::Patch;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::api::{CallError, call, patch_params};
use super::{State, Unsound};
use crate::names::ROTATE;
use crate::silence::watch_object;

/// What the watch shows: `None` when the Secret does not exist.
pub(super) type Event = watcher::Result<Option<Secret>>;

/// Watches the Secret, beginning with how it is now. Failures are shown and tried again with growing
/// pauses.
pub(super) fn watch(api: &Api<Secret>, name: &str) -> BoxStream<'static, Event> {
    watch_object(api.clone(), name).default_backoff().boxed()
}

/// Reads it. Text entries of a manifest (`stringData`) are never among what the API server shows.
pub(super) fn decode(secret: &Secret) -> Result<State, Unsound> {
    let none = std::collections::BTreeMap::new();
    let entries = secret.data.as_ref().unwrap_or(&none);
    State::decode(&entries.iter().map(|(key, value)| (key.clone(), &value.0)).collect())
}

/// What somebody asks for.
pub(super) fn asked(secret: &Secret) -> Option<&str> {
    secret.annotations().get(ROTATE).map(String::as_str)
}

/// Writes a state over the Secret that was seen, if it is still the same; with `answered`, what was
/// asked for is taken away.
pub(super) async fn write(api: &Api<Secret>, seen: &Secret, state: &State, answered: bool) -> Result<(), CallError> {
    let patch = patch(seen, state, answered);
    call(api.patch(&seen.name_any(), &patch_params(), &Patch::Merge(&patch))).await?;
    Ok(())
}

/// A merge patch: entries of others stay, ours that must not be there are removed by null.
fn patch(seen: &Secret, state: &State, answered: bool) -> Value {
    let entry = |text: String| ByteString(text.into_bytes());
    let entries = state.encode().into_iter();
    let data: serde_json::Map<_, _> = entries
        .map(|(key, value)| (key.to_owned(), json!(value.map(entry))))
        .collect();
    let mut metadata = json!({"resourceVersion": seen.resource_version()});
    if answered {
        metadata["annotations"] = json!({ROTATE: null});
    }
    json!({"metadata": metadata, "data": data})
}
