//! On the leader: each webhook configuration carries the authorities that are trusted.

use std::time::Duration;

use kube::Client;
use kube::runtime::watcher;
use tokio::time::Instant;

use super::api::CallError;
use super::configuration::{self, Kind, Seen};
use super::metrics::{ApiObject, CertificateMetrics};
use super::pace::Pace;
use crate::error::error_chain;

/// The least time between two writes of one configuration.
const INTERVAL: Duration = Duration::from_secs(1);

/// One configuration.
pub(super) struct Publication {
    kind: Kind,
    name: String,
    client: Client,
    metrics: CertificateMetrics,
    view: View,
    pace: Pace,
    /// The bundle that it was seen to carry last.
    carried: Option<String>,
}

/// What is known about a configuration.
#[derive(Debug)]
enum View {
    Unknown,
    /// It does not exist, or somebody else writes its `caBundle`.
    NotOurs,
    Present(Seen),
}

impl Publication {
    pub(super) fn new(kind: Kind, client: Client, name: String, metrics: CertificateMetrics) -> Self {
        Self {
            kind,
            name,
            client,
            metrics,
            view: View::Unknown,
            pace: Pace::with_interval(INTERVAL),
            carried: None,
        }
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// What was seen may be old: nothing is known until the watch, begun anew, shows it.
    pub(super) fn forget(&mut self) {
        self.view = View::Unknown;
    }

    /// Takes note of what the watch shows.
    pub(super) fn see(&mut self, event: watcher::Result<Option<Seen>>) {
        match event {
            Ok(Some(seen)) if !seen.foreign => self.view = View::Present(seen),
            Ok(_) => self.view = View::NotOurs,
            Err(error) => {
                self.metrics.failed(ApiObject::Configuration);
                tracing::warn!(
                    kind = self.kind.as_str(),
                    name = self.name,
                    error = error_chain(&error),
                    "the watch on a webhook configuration failed and is tried again"
                );
            }
        }
    }

    /// Whether nobody is called who trusts less, or more, than this bundle; `None` while that is not
    /// known. A configuration that does not exist calls nobody, and what is not ours is not waited for.
    pub(super) fn in_force(&self, bundle: &str) -> Option<bool> {
        match &self.view {
            View::Unknown => None,
            View::NotOurs => Some(true),
            View::Present(seen) => Some(seen.carries(bundle)),
        }
    }

    /// Sees to it that the configuration carries this bundle; when to come again at the latest.
    pub(super) async fn publish(&mut self, bundle: &str) -> Option<Instant> {
        let View::Present(seen) = &self.view else {
            return None;
        };
        if seen.carries(bundle) {
            self.carried = Some(bundle.to_owned());
            return None;
        }
        if let Some(until) = self.pace.until(&seen.resource_version) {
            return Some(until);
        }
        let result = configuration::publish(self.kind, &self.client, &self.name, seen, bundle).await;
        let until = self.pace.done(&seen.resource_version, result.is_ok());
        self.tell(result, bundle);
        Some(until)
    }

    fn tell(&mut self, result: Result<(), CallError>, bundle: &str) {
        let (kind, name) = (self.kind.as_str(), &self.name);
        match result {
            Ok(()) if self.carried.as_deref() == Some(bundle) => {
                self.metrics.bundle_repairs.inc();
                tracing::warn!(kind, name, "somebody has changed the caBundle; it is put right");
            }
            Ok(()) => tracing::info!(kind, name, "wrote the caBundle"),
            Err(error) if error.is_conflict() => {
                tracing::debug!(kind, name, "the webhook configuration has just changed");
            }
            Err(error) => {
                self.metrics.failed(ApiObject::Configuration);
                let (remedy, error) = (error.remedy(), error_chain(&error));
                tracing::warn!(kind, name, error, remedy, "the caBundle cannot be written");
            }
        }
    }
}
