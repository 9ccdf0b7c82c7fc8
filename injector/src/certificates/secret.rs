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
use tokio::time::Instant;

use super::api::{call, patch_params};
use super::pace::Pace;
use crate::error::error_chain;
use crate::names::ROTATE;
use crate::silence::watch_object;

/// What the watch shows: `None` when the Secret does not exist.
pub(crate) type Event = watcher::Result<Option<Secret>>;

/// The Secret that a keeper writes: as it was seen last, and how soon it may be written again.
pub(crate) struct Kept {
    api: Api<Secret>,
    name: String,
    /// What cannot be done while it cannot be written, for the log.
    trouble: &'static str,
    /// As it was seen last; `None` before, and while it does not exist.
    seen: Option<Secret>,
    pace: Pace,
    /// The failure that the log knows of.
    told: Option<String>,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// It is done.
    Yes,
    /// The Secret has changed meanwhile, or does not exist: the watch shows it.
    Conflict,
    /// It failed, which is told.
    Failed,
}

impl Kept {
    pub(crate) fn new(api: Api<Secret>, name: String, trouble: &'static str) -> Self {
        Self {
            api,
            name,
            trouble,
            seen: None,
            pace: Pace::default(),
            told: None,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Watches it, beginning with how it is now. Failures are shown and tried again with growing pauses.
    pub(crate) fn watch(&self) -> BoxStream<'static, Event> {
        watch_object(self.api.clone(), &self.name).default_backoff().boxed()
    }

    /// Takes note of what the watch shows.
    pub(crate) fn see(&mut self, secret: Option<Secret>) {
        self.seen = secret;
    }

    /// What somebody asks for.
    pub(crate) fn asked(&self) -> Option<&str> {
        self.seen.as_ref()?.annotations().get(ROTATE).map(String::as_str)
    }

    /// Until when to leave it alone, as it has just been written or could not be; `Some(None)`: it may be written now.
    /// `None` while it does not exist.
    pub(crate) fn pause(&self) -> Option<Option<Instant>> {
        let version = self.version()?;
        Some(self.pace.until(&version))
    }

    fn version(&self) -> Option<String> {
        Some(self.seen.as_ref()?.resource_version().unwrap_or_default())
    }

    /// Writes entries over what was seen, if it is still the same; with `answered`, what was asked for is taken away.
    pub(crate) async fn write(&mut self, entries: impl Entries, answered: bool) -> Written {
        let Some(seen) = &self.seen else {
            return Written::Conflict;
        };
        let patch = patch(seen, entries, answered);
        let patched = call(self.api.patch(&self.name, &patch_params(), &Patch::Merge(&patch))).await;
        match patched {
            Ok(_) => {
                self.told = None;
                Written::Yes
            }
            Err(error) if error.is_conflict() => {
                tracing::debug!(secret = self.name, "the Secret has just changed");
                Written::Conflict
            }
            Err(error) => {
                self.tell(error_chain(&error), error.remedy());
                Written::Failed
            }
        }
    }

    /// When it may be written again, after an attempt.
    pub(crate) fn done(&mut self, written: Written) -> Option<Instant> {
        let version = self.version()?;
        Some(self.pace.done(&version, written == Written::Yes))
    }

    /// Tells that the watch failed.
    pub(crate) fn tell_of_the_watch(&self, error: &watcher::Error) {
        tracing::warn!(
            secret = self.name,
            error = error_chain(error),
            "the watch on the Secret failed and is tried again"
        );
    }

    /// Tells of a failure, once.
    pub(crate) fn tell(&mut self, error: String, remedy: &'static str) {
        if self.told.as_ref() != Some(&error) {
            tracing::error!(secret = self.name, error, remedy, "{}", self.trouble);
            self.told = Some(error);
        }
    }
}

/// Its entries. Text entries of a manifest (`stringData`) are never among what the API server shows.
pub(crate) fn entries(secret: &Secret) -> BTreeMap<String, &[u8]> {
    let entries = secret.data.iter().flatten();
    entries.map(|(key, value)| (key.clone(), value.0.as_slice())).collect()
}

/// Entries of ours; `None` for one that must not be there.
pub(crate) trait Entries: IntoIterator<Item = (&'static str, Option<String>)> {}

impl<T: IntoIterator<Item = (&'static str, Option<String>)>> Entries for T {}

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
