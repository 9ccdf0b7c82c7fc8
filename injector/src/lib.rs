//! Outrigger makes a Kubernetes namespace a service mesh with one label.
//!
//! The modules up to `yaml` are a pure core: no runtime, no sockets, no files, no clock, no
//! environment. `cli` and `server` are thin shells around it.

pub mod audit;
pub mod cache;
pub mod check;
#[cfg(feature = "cli")]
pub mod cli;
pub mod config;
pub mod conflicts;
pub mod context;
pub mod decision;
pub mod error;
pub mod identity;
pub mod inject;
pub mod manifest;
mod map_only;
pub mod names;
pub mod namespace;
pub mod overlay;
pub mod patch;
pub mod pod;
pub mod policy;
pub mod redirect;
pub mod rendered;
pub mod requirements;
pub mod review;
mod samples;
pub mod sarif;
pub mod service;
pub mod settings;
pub mod status;
pub mod template;
pub mod uninject;
pub mod validate;
pub mod workload;
pub mod yaml;

#[cfg(feature = "server")]
pub mod certificates;
#[cfg(feature = "server")]
pub mod metrics;
#[cfg(feature = "server")]
pub mod namespaces;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "server")]
pub mod services;
#[cfg(feature = "server")]
mod silence;
#[cfg(feature = "server")]
pub mod telemetry;
#[cfg(feature = "server")]
pub mod tls;
