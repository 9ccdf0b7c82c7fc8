//! The tests of `cluster_chart` in which Helm does more than to render, by Helm 4: it applies on the API server's side, so
//! every field has an owner, and Helm, the running server and cert-manager must not own the same.

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

#[path = "cluster_chart/life.rs"]
mod life;
#[path = "cluster_chart/matrix.rs"]
mod matrix;
#[path = "cluster_chart/pairs.rs"]
mod pairs;
#[path = "cluster_chart/refusals.rs"]
mod refusals;
#[path = "cluster_chart/rendering.rs"]
mod rendering;
#[path = "cluster_chart/together.rs"]
mod together;
#[path = "cluster_chart/verify.rs"]
mod verify;

use helm::merged;

const HELM: cluster::tools::Helm = cluster::tools::Helm::Four;
