//! The Secret: how it is watched, and how a state is written into it.

use std::collections::BTreeMap;

use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::Patch;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::api::{CallError, call, patch_params};
use crate::names::ROTATE;
use crate::silence::watch_object;

/// What the watch shows: `None` when the Secret does not exist.
pub(crate) type Event = watcher::Result<Option<Secret>>;

/// Watches the Secret, beginning with how it is now. Failures are shown and tried again with growing
/// pauses.
pub(crate) fn watch(api: &Api<Secret>, name: &str) -> BoxStream<'static, Event> {
    watch_object(api.clone(), name).default_backoff().boxed()
}

/// Its entries. Text entries of a manifest (`stringData`) are never among what the API server shows.
pub(crate) fn entries(secret: &Secret) -> BTreeMap<String, &[u8]> {
    let entries = secret.data.iter().flatten();
    entries.map(|(key, value)| (key.clone(), value.0.as_slice())).collect()
}

/// What somebody asks for.
pub(crate) fn asked(secret: &Secret) -> Option<&str> {
    secret.annotations().get(ROTATE).map(String::as_str)
}

/// Entries of ours; `None` for one that must not be there.
pub(crate) trait Entries: IntoIterator<Item = (&'static str, Option<String>)> {}

impl<T: IntoIterator<Item = (&'static str, Option<String>)>> Entries for T {}

/// Writes entries over the Secret that was seen, if it is still the same; with `answered`, what was
/// asked for is taken away.
pub(crate) async fn write(
    api: &Api<Secret>,
    seen: &Secret,
    entries: impl Entries,
    answered: bool,
) -> Result<(), CallError> {
    let patch = patch(seen, entries, answered);
    call(api.patch(&seen.name_any(), &patch_params(), &Patch::Merge(&patch))).await?;
    Ok(())
}

/// A merge patch: entries of others stay, ours that must not be there are removed by null.
fn patch(seen: &Secret, entries: impl Entries, answered: bool) -> Value {
    let entry = |text: String| ByteString(text.into_bytes());
    let data: serde_json::Map<_, _> = entries
        .into_iter()
        .map(|(key, value)| (key.to_owned(), json!(value.map(entry))))
        .collect();
    let mut metadata = json!({"resourceVersion": seen.resource_version()});
    if answered {
        metadata["annotations"] = json!({ROTATE: null});
    }
    json!({"metadata": metadata, "data": data})
}
