//! The two webhook configurations, as far as their `caBundle` goes.

use std::collections::BTreeMap;
use std::fmt::Debug;

use futures::StreamExt;
use futures::stream::{BoxStream, select};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use kube::api::Patch;
use kube::runtime::watcher::watch_object;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::api::{CallError, call, patch_params};

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
    /// The `caBundle` of each entry, by the entry's name; empty where there is none.
    bundles: BTreeMap<String, Vec<u8>>,
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
        self.bundles.values().all(|found| found == bundle.as_bytes())
    }

    /// For a server-side apply that sets the bundle of every entry that was seen, and owns nothing
    /// else. The resource version keeps it from making a configuration or an entry that somebody has
    /// just deleted.
    fn patch<K: Resource<DynamicType = ()>>(&self, name: &str, bundle: &str) -> Value {
        let bundle = ByteString(bundle.as_bytes().to_vec());
        let entry = |name| json!({"name": name, "clientConfig": {"caBundle": bundle}});
        json!({
            "apiVersion": K::api_version(&()),
            "kind": K::kind(&()),
            "metadata": {"name": name, "resourceVersion": self.resource_version},
            "webhooks": self.bundles.keys().map(entry).collect::<Vec<_>>(),
        })
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
        Seen {
            resource_version: self.resource_version().unwrap_or_default(),
            bundles: entries.map(|(name, config)| (name.clone(), bundle(config))).collect(),
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
    match kind {
        Kind::Mutating => apply::<MutatingWebhookConfiguration>(client, name, seen, bundle).await,
        Kind::Validating => apply::<ValidatingWebhookConfiguration>(client, name, seen, bundle).await,
    }
}

async fn apply<K: Configuration>(client: &Client, name: &str, seen: &Seen, bundle: &str) -> Result<(), CallError> {
    let patch = seen.patch::<K>(name, bundle);
    let api = Api::<K>::all(client.clone());
    call(api.patch(name, &patch_params().force(), &Patch::Apply(&patch))).await?;
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
        seen.bundles.insert("two.outrigger.mesh".to_owned(), b"old".to_vec());
        assert!(seen.carries("old"));
        assert!(
            Seen::default().carries("anything"),
            "without entries nothing is missing"
        );
    }

    #[test]
    fn owns_the_bundle_and_nothing_else() {
        let patch = configuration()
            .seen()
            .patch::<MutatingWebhookConfiguration>("outrigger", "new");
        let entry = |name| json!({"name": name, "clientConfig": {"caBundle": "bmV3"}});
        let expected = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "outrigger", "resourceVersion": "7"},
            "webhooks": [entry("one.outrigger.mesh"), entry("two.outrigger.mesh")],
        });
        assert_eq!(patch, expected);
    }
}
