//! What the mesh does between running pods, with traffic `redirect`: retries, timeouts, shares, endpoints that are left out,
//! TCP and gRPC, and traces, each seen from both sides of a call.
#![allow(clippy::unwrap_used)]

#[path = "node_mesh/circuit.rs"]
mod circuit;
#[path = "support/cluster.rs"]
mod cluster;
#[path = "node_mesh/grpc.rs"]
mod grpc;
#[path = "support/node.rs"]
mod node;
#[path = "support/release.rs"]
mod release;
#[path = "node_mesh/retries.rs"]
mod retries;
#[path = "node_mesh/shares.rs"]
mod shares;
#[path = "node_mesh/stopped.rs"]
mod stopped;
#[path = "node_mesh/tcp.rs"]
mod tcp;
#[path = "node_mesh/traces.rs"]
mod traces;
#[path = "support/workloads.rs"]
mod workloads;

use outrigger::names;
use serde_json::json;

use workloads::{Echo, Namespace, client};

/// The port of an application that answers lines, and that of its gRPC.
const RAW: u16 = 9000;
const GRPC: u16 = 9100;

/// A caller in the mesh.
fn caller(name: &str, upstreams: &str) -> Echo {
    client(name).label(names::INJECT, "enabled").upstreams(upstreams)
}

/// Makes applications and then their caller, each once those before are reached.
fn deploy(shop: &Namespace<'_>, called: &[&Echo], caller: &Echo) {
    shop.deploy(called);
    for app in called {
        // The rules of a Service follow a moment after its pods.
        shop.eventually(&format!("{} is reached", app.name), || {
            shop.call_service(&app.name, 8080, "/", &[]).is_ok()
        });
    }
    shop.deploy(&[caller]);
}

/// An application that speaks HTTP, lines and gRPC, with a Service of the same ports.
fn speaking_all(name: &str) -> Echo {
    let ports = [("http", 8080), ("raw", RAW), ("grpc", GRPC)];
    Echo::new(name)
        .argument(&format!("-tcp=:{RAW}"))
        .argument(&format!("-grpc=:{GRPC}"))
        .container(json!({"ports": ports.map(|(name, port)| json!({"name": name, "containerPort": port}))}))
        .ports(json!(ports.map(|(name, port)| json!({"name": name, "port": port}))))
}
