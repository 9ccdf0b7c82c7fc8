//! Certificates that `outrigger serve` keeps itself, beside a real API server.
//!
//! Each test has an installation of its own in the shared cluster: a namespace with Secret, Lease and
//! a service account that may do exactly what `docs/examples/certificates.yaml` says, webhook
//! configurations, and replicas behind a balancer, as behind a Service.

#![allow(clippy::unwrap_used, missing_docs)]

#[path = "support/cluster.rs"]
mod cluster;
#[allow(dead_code)] // Other suites use the rest.
#[path = "support/golden.rs"]
mod golden;
#[path = "support/steady.rs"]
mod steady;
#[allow(dead_code)] // Other suites use the rest.
#[path = "support/webhooks.rs"]
mod webhooks;

#[path = "cluster_certificates/balancer.rs"]
mod balancer;
#[path = "cluster_certificates/edits.rs"]
mod edits;
#[path = "cluster_certificates/installation.rs"]
mod installation;
#[path = "cluster_certificates/leaders.rs"]
mod leaders;
#[path = "cluster_certificates/lease.rs"]
mod lease;
#[path = "cluster_certificates/readiness.rs"]
mod readiness;
#[path = "cluster_certificates/renewal.rs"]
mod renewal;
#[path = "cluster_certificates/silence.rs"]
mod silence;
#[path = "cluster_certificates/start.rs"]
mod start;
#[path = "cluster_certificates/watchers.rs"]
mod watchers;
