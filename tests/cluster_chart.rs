//! The Helm chart, by the real Helm and on a real API server.

#![allow(clippy::unwrap_used, missing_docs)]

#[path = "support/cluster.rs"]
mod cluster;
#[allow(dead_code)] // Other suites use the rest.
#[path = "support/golden.rs"]
mod golden;
#[path = "support/helm.rs"]
mod helm;
#[allow(dead_code)] // As above.
#[path = "support/webhooks.rs"]
mod webhooks;

#[path = "cluster_chart/calls.rs"]
mod calls;
#[path = "cluster_chart/life.rs"]
mod life;
#[path = "cluster_chart/matrix.rs"]
mod matrix;
#[path = "cluster_chart/metrics.rs"]
mod metrics;
#[path = "cluster_chart/pairs.rs"]
mod pairs;
#[path = "cluster_chart/pods.rs"]
mod pods;
#[path = "cluster_chart/refusals.rs"]
mod refusals;
#[path = "cluster_chart/rendering.rs"]
mod rendering;
#[path = "cluster_chart/selectors.rs"]
mod selectors;
#[path = "cluster_chart/signing.rs"]
mod signing;
#[path = "cluster_chart/together.rs"]
mod together;
#[path = "cluster_chart/verify.rs"]
mod verify;

use helm::merged;

/// Helm 4 has a suite of its own, `cluster_chart_helm4`.
const HELM: cluster::tools::Helm = cluster::tools::Helm::Three;
