//! The published trust bundle, kept right.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::certificates::v1::{ClusterTrustBundle, ClusterTrustBundleSpec};
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::Patch;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;
use tokio::time::Instant;

use super::metrics::{ApiObject, IdentityMetrics};
use super::trust;
use crate::certificates::api::{CallError, call, patch_params, post_params};
use crate::certificates::pace::Pace;
use crate::error::error_chain;
use crate::names::{SIGNER, TRUST, TRUST_BUNDLE};
use crate::silence::watch_object;

/// The least time between two writes.
const INTERVAL: Duration = Duration::from_secs(1);

/// The ClusterTrustBundle.
pub(super) struct Bundle {
    api: Api<ClusterTrustBundle>,
    roles: Api<ClusterRole>,
    /// The ClusterRole that it belongs to.
    owner: Option<String>,
    metrics: IdentityMetrics,
    view: View,
    pace: Pace,
    /// When the annotation was written last.
    noted: Option<Instant>,
    /// The text that it was seen to hold last, when it was ours.
    held: Option<String>,
}

/// What the watch shows: `None` when it does not exist.
pub(super) type Event = watcher::Result<Option<ClusterTrustBundle>>;

#[derive(Debug)]
enum View {
    Unknown,
    Absent,
    Present {
        version: String,
        text: String,
        /// The annotation about the authorities.
        trust: Option<String>,
    },
}

impl Bundle {
    pub(super) fn new(client: &Client, owner: Option<String>, metrics: IdentityMetrics) -> Self {
        Self {
            api: Api::all(client.clone()),
            roles: Api::all(client.clone()),
            owner,
            metrics,
            view: View::Unknown,
            pace: Pace::with_interval(INTERVAL),
            noted: None,
            held: None,
        }
    }

    /// Watches it anew. What was seen before counts no longer.
    pub(super) fn watch(&mut self) -> BoxStream<'static, Event> {
        self.view = View::Unknown;
        watch_object(self.api.clone(), TRUST_BUNDLE).default_backoff().boxed()
    }

    pub(super) fn see(&mut self, event: Event) {
        match event {
            Ok(Some(bundle)) => {
                self.view = View::Present {
                    version: bundle.resource_version().unwrap_or_default(),
                    trust: bundle.annotations().get(TRUST).cloned(),
                    text: bundle.spec.trust_bundle,
                };
            }
            Ok(None) => self.view = View::Absent,
            Err(error) => {
                self.metrics.failed(ApiObject::TrustBundle);
                tracing::warn!(
                    bundle = TRUST_BUNDLE,
                    error = error_chain(&error),
                    "the watch on the trust bundle failed and is tried again"
                );
            }
        }
    }

    /// Whether exactly this is published; `None` while that is not known.
    pub(super) fn in_force(&self, bundle: &str) -> Option<bool> {
        match &self.view {
            View::Unknown => None,
            View::Absent => Some(false),
            View::Present { text, .. } => Some(text == bundle),
        }
    }

    /// Whether this certificate, PEM, is among those that are published.
    pub(super) fn holds(&self, certificate: &str) -> bool {
        matches!(&self.view, View::Present { text, .. } if text.contains(certificate))
    }

    /// What it says about the authorities; `None` while it is not known to exist.
    pub(super) fn trust(&self) -> Option<&str> {
        match &self.view {
            View::Present { trust, .. } => Some(trust.as_deref().unwrap_or_default()),
            View::Unknown | View::Absent => None,
        }
    }

    /// Writes down what is to be said about the authorities, now and then; when to come again.
    pub(super) async fn note(&mut self, trust: &str) -> Instant {
        let now = Instant::now();
        let due = self.noted.map(|noted| noted + trust::INTERVAL);
        if let Some(due) = due.filter(|due| *due > now) {
            return due;
        }
        if self.trust().is_none_or(|seen| seen == trust) {
            return now + trust::INTERVAL;
        }
        self.noted = Some(now);
        let patch = json!({"metadata": {"annotations": {TRUST: trust}}});
        let noted = call(self.api.patch(TRUST_BUNDLE, &patch_params(), &Patch::Merge(&patch))).await;
        if let Err(error) = noted {
            self.metrics.failed(ApiObject::TrustBundle);
            let error = error_chain(&error);
            tracing::debug!(
                bundle = TRUST_BUNDLE,
                error,
                "cannot say how many certificates there are"
            );
        }
        now + trust::INTERVAL
    }

    /// Sees to it that this is published; when to come again at the latest.
    pub(super) async fn publish(&mut self, bundle: &str) -> Option<Instant> {
        let version = match &self.view {
            View::Unknown => return None,
            View::Present { text, .. } if text == bundle => {
                self.held = Some(text.clone());
                return None;
            }
            View::Present { version, .. } => version.clone(),
            View::Absent => String::new(),
        };
        if let Some(until) = self.pace.until(&version) {
            return Some(until);
        }
        let result = match version.as_str() {
            "" => self.create(bundle).await,
            version => self.replace(version, bundle).await,
        };
        let until = self.pace.done(&version, result.is_ok());
        self.tell(result, bundle);
        Some(until)
    }

    async fn create(&self, bundle: &str) -> Result<(), CallError> {
        let object = ClusterTrustBundle {
            metadata: ObjectMeta {
                name: Some(TRUST_BUNDLE.to_owned()),
                owner_references: self.owner().await?.map(|owner| vec![owner]),
                ..ObjectMeta::default()
            },
            spec: ClusterTrustBundleSpec {
                signer_name: Some(SIGNER.to_owned()),
                trust_bundle: bundle.to_owned(),
            },
        };
        call(self.api.create(&post_params(), &object)).await?;
        Ok(())
    }

    /// `None` when nobody is to own it: it then stays when Outrigger goes.
    async fn owner(&self) -> Result<Option<OwnerReference>, CallError> {
        let Some(name) = &self.owner else {
            return Ok(None);
        };
        let role = call(self.roles.get_metadata(name)).await?;
        let owner = OwnerReference {
            api_version: ClusterRole::api_version(&()).into_owned(),
            kind: ClusterRole::kind(&()).into_owned(),
            name: name.clone(),
            uid: role.metadata.uid.unwrap_or_default(),
            ..OwnerReference::default()
        };
        Ok(Some(owner))
    }

    async fn replace(&self, version: &str, bundle: &str) -> Result<(), CallError> {
        let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"trustBundle": bundle}});
        call(self.api.patch(TRUST_BUNDLE, &patch_params(), &Patch::Merge(&patch))).await?;
        Ok(())
    }

    fn tell(&mut self, result: Result<(), CallError>, bundle: &str) {
        match result {
            Ok(()) if self.held.as_deref() == Some(bundle) => {
                self.metrics.bundle_repairs.inc();
                tracing::warn!(
                    bundle = TRUST_BUNDLE,
                    "somebody has changed the trust bundle; it is put right"
                );
            }
            Ok(()) => tracing::info!(bundle = TRUST_BUNDLE, "published the trust bundle"),
            Err(error) if error.is_conflict() => {
                tracing::debug!(bundle = TRUST_BUNDLE, "the trust bundle has just changed");
            }
            Err(error) => {
                self.metrics.failed(ApiObject::TrustBundle);
                let (remedy, error) = (error.remedy(), error_chain(&error));
                tracing::warn!(
                    bundle = TRUST_BUNDLE,
                    error,
                    remedy,
                    "the trust bundle cannot be written; no certificate is issued until it is"
                );
            }
        }
    }
}
