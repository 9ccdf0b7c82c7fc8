//! The test node itself: pods run, Services are reached, and nothing of it is left afterwards.
#![allow(clippy::unwrap_used)]

#[path = "support/cluster.rs"]
mod cluster;
#[path = "support/node.rs"]
mod node;

use node::Node;

#[test]
fn becomes_ready() {
    let started = std::time::Instant::now();
    let node = Node::shared();
    println!("{:?}", started.elapsed());
    println!(
        "{}",
        node.cluster
            .kubectl(&["get", "pod,node,svc", "-A", "-o", "wide"])
            .expect_success()
    );
}
