//! Outrigger: a Kubernetes sidecar injector.

pub mod config;
pub mod inject;
pub mod namespace_info;
pub mod review;

#[cfg(feature = "server")]
pub mod metrics;
#[cfg(feature = "server")]
pub mod namespaces;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "server")]
pub mod telemetry;
#[cfg(feature = "server")]
pub mod tls;
