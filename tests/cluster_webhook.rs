//! `outrigger serve` as the webhooks of a real API server.

#![allow(clippy::unwrap_used, missing_docs)]

#[path = "support/cluster.rs"]
mod cluster;
#[allow(dead_code)] // Other suites use the rest.
#[path = "support/golden.rs"]
mod golden;
#[path = "support/webhooks.rs"]
mod webhooks;

#[path = "cluster_webhook/golden_cases.rs"]
mod golden_cases;
#[path = "cluster_webhook/injection.rs"]
mod injection;
#[path = "cluster_webhook/life.rs"]
mod life;
#[path = "cluster_webhook/policies.rs"]
mod policies;
#[path = "cluster_webhook/validation.rs"]
mod validation;
#[path = "cluster_webhook/workloads.rs"]
mod workloads;

/// The label of a namespace of the mesh.
const ENABLED: (&str, &str) = ("outrigger.mesh/inject", "enabled");

/// A pod in YAML: its name, labels and annotations as flow maps, and more of its spec.
fn pod(name: &str, labels: &str, annotations: &str, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  labels: {labels}\n  annotations: {annotations}\nspec:\n  \
         containers:\n  - name: app\n    image: registry.example.com/team/app:1.0\n    ports: [{{containerPort: 8080, name: http}}]\n{more}"
    )
}

/// Labels that satisfy the built-in requirements.
const GOOD: &str = "{app: web, environment: dev}";
