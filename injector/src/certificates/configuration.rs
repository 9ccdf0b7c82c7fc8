//! The two webhook configurations, as far as their `caBundle` goes.

use std::fmt::Debug;

use futures::StreamExt;
use futures::stream::{BoxStream, select};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use kube::api::Patch;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::api::{CallError, call, patch_params};
use crate::names::{CERTIFICATES_MODE, SELF_MANAGED};
use crate::silence::watch_object;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Mutating,
    Validating,
}

/// A configuration as it was seen last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) resource_version: String,
    /// Somebody else writes `caBundle`.
    pub(super) foreign: bool,
    /// Name and `caBundle` of each entry, in order; empty where there is none.
    entries: Vec<(String, Vec<u8>)>,
}

/// What the watch shows: `None` when the configuration does not exist.
pub(super) type Event = (Kind, watcher::Result<Option<Seen>>);

impl Kind {
    pub(super) const ALL: [Self; 2] = [Self::Mutating, Self::Validating];

    /// Kubernetes' name of it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Mutating => "MutatingWebhookConfiguration",
            Self::Validating => "ValidatingWebhookConfiguration",
        }
    }
}

impl Seen {
    /// Whether every entry carries this bundle.
    pub(super) fn carries(&self, bundle: &str) -> bool {
        self.entries.iter().all(|(_, found)| found == bundle.as_bytes())
    }

    /// A JSON patch that sets the bundle of every entry that has another one.
    ///
    /// Not server-side apply: that would make the server own the entries' names together with their
    /// installer, and an entry that the installer then leaves out would stay behind without its other
    /// fields, which is invalid. Entries are told by their position, so the patch tests that the
    /// configuration is the one that was seen.
    /// (<https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management>)
    fn patch(&self, bundle: &str) -> Value {
        let same = json!({"op": "test", "path": "/metadata/resourceVersion", "value": self.resource_version});
        let encoded = json!(ByteString(bundle.as_bytes().to_vec()));
        let lacking = self.entries.iter().enumerate();
        let lacking = lacking.filter(|(_, (_, found))| found != bundle.as_bytes());
        let operations = lacking.flat_map(|(index, (name, _))| {
            [
                json!({"op": "test", "path": format!("/webhooks/{index}/name"), "value": name}),
                json!({"op": "add", "path": format!("/webhooks/{index}/clientConfig/caBundle"), "value": encoded}),
            ]
        });
        std::iter::once(same).chain(operations).collect()
    }
}

/// A kind of webhook configuration.
trait Configuration: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static {
    const KIND: Kind;

    /// Names and callers of the entries.
    fn entries(&self) -> Vec<(&String, &WebhookClientConfig)>;

    fn seen(&self) -> Seen {
        let bundle = |config: &WebhookClientConfig| config.ca_bundle.clone().unwrap_or_default().0;
        let entries = self.entries().into_iter();
        let mode = self.annotations().get(CERTIFICATES_MODE);
        Seen {
            resource_version: self.resource_version().unwrap_or_default(),
            foreign: mode.is_some_and(|mode| mode != SELF_MANAGED),
            entries: entries.map(|(name, config)| (name.clone(), bundle(config))).collect(),
        }
    }
}

impl Configuration for MutatingWebhookConfiguration {
    const KIND: Kind = Kind::Mutating;

    fn entries(&self) -> Vec<(&String, &WebhookClientConfig)> {
        let entries = self.webhooks.iter().flatten();
        entries.map(|entry| (&entry.name, &entry.client_config)).collect()
    }
}

impl Configuration for ValidatingWebhookConfiguration {
    const KIND: Kind = Kind::Validating;

    fn entries(&self) -> Vec<(&String, &WebhookClientConfig)> {
        let entries = self.webhooks.iter().flatten();
        entries.map(|entry| (&entry.name, &entry.client_config)).collect()
    }
}

/// Watches both configurations; failures are shown and tried again with growing pauses.
pub(super) fn watch(client: &Client, name: &str) -> BoxStream<'static, Event> {
    let mutating = watch_one::<MutatingWebhookConfiguration>(client, name);
    select(mutating, watch_one::<ValidatingWebhookConfiguration>(client, name)).boxed()
}

fn watch_one<K: Configuration>(client: &Client, name: &str) -> BoxStream<'static, Event> {
    let events = watch_object(Api::<K>::all(client.clone()), name).default_backoff();
    events
        .map(|event| (K::KIND, event.map(|found| found.as_ref().map(K::seen))))
        .boxed()
}

/// Sets the bundle of every entry of a configuration that is still as it was seen.
pub(super) async fn publish(
    kind: Kind,
    client: &Client,
    name: &str,
    seen: &Seen,
    bundle: &str,
) -> Result<(), CallError> {
    let patch = serde_json::from_value(seen.patch(bundle)).expect("operations of RFC 6902");
    match kind {
        Kind::Mutating => write::<MutatingWebhookConfiguration>(client, name, patch).await,
        Kind::Validating => write::<ValidatingWebhookConfiguration>(client, name, patch).await,
    }
}

async fn write<K: Configuration>(client: &Client, name: &str, patch: json_patch::Patch) -> Result<(), CallError> {
    let api = Api::<K>::all(client.clone());
    call(api.patch(name, &patch_params(), &Patch::Json::<()>(patch))).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn configuration() -> MutatingWebhookConfiguration {
        serde_json::from_value(json!({
            "metadata": {"name": "outrigger", "resourceVersion": "7", "labels": {"a": "b"}},
            "webhooks": [
                {
                    "name": "one.outrigger.mesh", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                    "clientConfig": {"url": "https://127.0.0.1", "caBundle": "b2xk"},
                },
                {
                    "name": "two.outrigger.mesh", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                    "clientConfig": {"url": "https://127.0.0.1"},
                },
            ],
        }))
        .unwrap()
    }

    #[test]
    fn every_entry_counts() {
        let mut seen = configuration().seen();
        assert!(!seen.carries("old") && !seen.carries(""));
        seen.entries[1].1 = b"old".to_vec();
        assert!(seen.carries("old"));
        assert!(
            Seen::default().carries("anything"),
            "without entries nothing is missing"
        );
    }

    /// As while an installation changes to another mode and replicas of the old one still run.
    #[test]
    fn a_configuration_of_another_mode_is_foreign() {
        let foreign = |mode: Option<&str>| {
            let mut configuration = configuration();
            let annotations = configuration.annotations_mut();
            annotations.extend(mode.map(|mode| (CERTIFICATES_MODE.to_owned(), mode.to_owned())));
            configuration.seen().foreign
        };
        assert!(!foreign(None) && !foreign(Some("self-managed")));
        assert!(foreign(Some("cert-manager")) && foreign(Some("secret")));
    }

    #[test]
    fn writes_bundles_and_nothing_else_into_the_configuration_that_was_seen() {
        let same = json!({"op": "test", "path": "/metadata/resourceVersion", "value": "7"});
        let test = |index, name| json!({"op": "test", "path": format!("/webhooks/{index}/name"), "value": name});
        let add = |index, encoded| json!({"op": "add", "path": format!("/webhooks/{index}/clientConfig/caBundle"), "value": encoded});
        let (one, two) = (test(0, "one.outrigger.mesh"), test(1, "two.outrigger.mesh"));
        let seen = configuration().seen();
        assert_eq!(
            seen.patch("new"),
            json!([same, one, add(0, "bmV3"), two, add(1, "bmV3")])
        );
        assert_eq!(
            seen.patch("old"),
            json!([same, two, add(1, "b2xk")]),
            "what is right stays"
        );
    }
}
