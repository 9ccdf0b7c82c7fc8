//! Identities that Kubernetes hands out and Outrigger signs, and mTLS between pods that have them: a real kubelet asks, a
//! real API server checks, and real bytes pass between the proxies.
//!
//! Most tests share one node with the chart installed, each in namespaces of its own. They wait for pods most of the time,
//! so more of them run at once than there are cores.
#![allow(clippy::unwrap_used)]

use std::process::ExitCode;

use outrigger::names;

use node::Node;
use trials::tests;
use workloads::{Echo, Mesh, client};

#[path = "support/capture.rs"]
mod capture;
#[path = "support/cluster.rs"]
mod cluster;
#[path = "node_mtls/identities.rs"]
mod identities;
#[path = "nginx_traffic/mesh.rs"]
#[allow(dead_code, reason = "the other suite uses the rest")]
mod mesh;
#[path = "support/node.rs"]
mod node;
#[path = "node_mtls/older.rs"]
mod older;
#[path = "support/release.rs"]
mod release;
#[path = "node_mtls/rotation.rs"]
mod rotation;
#[path = "node_mtls/servers.rs"]
mod servers;
#[path = "node_mtls/strangers.rs"]
mod strangers;
#[path = "support/trials.rs"]
mod trials;
#[path = "node_mtls/wire.rs"]
mod wire;
#[path = "support/workloads.rs"]
mod workloads;

/// An application whose proxy has the template `mtls`.
pub(crate) fn mtls(name: &str) -> Echo {
    Echo::new(name).annotation(names::TEMPLATE, "mtls")
}

/// A caller of the mesh, which serves nothing.
pub(crate) fn caller(name: &str, upstreams: &str) -> Echo {
    let meshed = client(name).label(names::INJECT, "enabled");
    meshed.annotation(names::TEMPLATE, "mtls").upstreams(upstreams)
}

fn main() -> ExitCode {
    let mut arguments = trials::arguments();
    let together = tests![
        wire::carries_nothing_in_plain,
        strangers::are_refused,
        servers::of_another_identity_get_no_request,
        strangers::are_served_beside_the_mesh_when_permissive,
        identities::are_what_the_pod_is,
    ];
    let apart = tests![
        rotation::of_leaves_fails_no_request,
        rotation::of_the_root_fails_no_request,
        rotation::waits_for_a_signer_that_is_away,
    ];
    let older = tests![older::secrets_stand_in_for_the_api];
    let mut failed = trials::run(&arguments, together, || Mesh::start(&[])).has_failed();
    arguments.test_threads = Some(1);
    let rotating = || Mesh::start(&[&format!("--set={}", rotation::OVERLAP)]);
    failed |= trials::run(&arguments, apart, rotating).has_failed();
    failed |= trials::run(&arguments, older, || Mesh::on(Node::start_with(&[older::WITHOUT]), &[])).has_failed();
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
