//! The chart on a real node, from its installation to its end, by each Helm: with certificates of a real cert-manager, from
//! one Helm to the other, and what becomes of pods that are created while it is uninstalled.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "cluster_install/cert_manager.rs"]
mod cert_manager;
#[path = "support/cluster.rs"]
mod cluster;
#[path = "support/node.rs"]
mod node;
#[path = "support/release.rs"]
mod release;
#[path = "support/steady.rs"]
mod steady;
#[path = "cluster_install/uninstall.rs"]
mod uninstall;
#[path = "cluster_install/upgrade.rs"]
mod upgrade;

use std::collections::BTreeSet;

use cluster::Cluster;
use node::Node;
use steady::{Steady, Tally};

/// What is created into.
const SHOP: &str = "shop";

/// A node with the namespaces that the tests use.
fn start() -> Node {
    let node = Node::start();
    // The kubelet makes it a moment after the node is ready.
    let lease = ["get", "lease", node::NAME, "--namespace=kube-node-lease"];
    release::eventually("the node has its Lease", || node.cluster.kubectl(&lease).success);
    node.cluster.create_namespace(release::NAMESPACE, &[]);
    node.cluster
        .create_namespace(SHOP, &[("outrigger.mesh/inject", "enabled")]);
    node
}

/// Waits until pods are created: the rules of the Service follow its pods a moment later.
fn wait_until_called(node: &Node) {
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: a, labels: {environment: dev}}, spec: {containers: [{name: a, image: a}]}}";
    let create = ["create", "--dry-run=server", "--namespace", SHOP, "--filename=-"];
    release::eventually("the webhooks are reached", || {
        node.cluster.kubectl_reading(pod, &create).success
    });
}

/// What became of the pods that were created while something happened.
fn while_pods_are_created(node: &Node, happens: impl FnOnce()) -> Tally {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let steady = runtime.block_on(async { Steady::start(node.cluster.client().await, SHOP) });
    happens();
    runtime.block_on(steady.stop())
}

/// All were admitted with their proxy.
#[track_caller]
fn assert_unharmed(node: &Node, what: &str, tally: &Tally) {
    println!("{what}: {tally}");
    let harmed = !tally.failed.is_empty() || tally.unmeshed > 0 || !tally.unavailable.is_empty();
    assert!(!harmed && tally.creations > 0, "{what}: {tally:#?}{}", node.log_tails());
}

/// Waits until nothing is there that was not there before, but for what may stay; tells what of that has.
fn wait_for_the_end(cluster: &Cluster, before: &BTreeSet<String>, may_stay: &[&str]) -> Vec<String> {
    let left = || cluster.objects().difference(before).cloned().collect::<Vec<_>>();
    let gone = || left().iter().all(|object| may_stay.contains(&&**object));
    let started = std::time::Instant::now();
    while !gone() {
        assert!(started.elapsed() < cluster::PATIENCE / 4, "it has left: {:?}", left());
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    let missing: Vec<_> = before.difference(&cluster.objects()).cloned().collect();
    assert_eq!(missing, Vec::<String>::new(), "the release took more than its own");
    left()
}
