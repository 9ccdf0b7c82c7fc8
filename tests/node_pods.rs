//! Injected pods that run: a real kubelet starts, probes, stops and restarts them, and real bytes pass through their
//! proxies, in every traffic mode and position.
#![allow(clippy::unwrap_used)]

#[path = "support/cluster.rs"]
mod cluster;
#[path = "node_pods/explicit.rs"]
mod explicit;
#[path = "support/node.rs"]
mod node;
#[path = "support/release.rs"]
mod release;
#[path = "support/workloads.rs"]
mod workloads;
