//! Pods that are created while the chart is uninstalled.
//!
//! The configurations must go before the Service, and the validating one first: the other way round it would refuse pods
//! for the proxy that they lack. Helm 4 does so. Helm 3 deletes kinds that it does not know last, these among them.

use std::time::{Duration, Instant};

use crate::cluster::tools::Helm;
use crate::node::Node;
use crate::release::Release;
use crate::steady::Tally;
use crate::{start, wait_for_the_end, wait_until_called, while_pods_are_created};

/// A way to uninstall.
struct Way {
    name: &'static str,
    helm: Helm,
    /// Whether the configurations are deleted before, as docs/install.md says.
    configurations_first: bool,
    /// Whether creations may fail while Helm is at work.
    may_fail: bool,
}

const WAYS: [Way; 3] = [
    Way {
        name: "Helm 3",
        helm: Helm::Three,
        configurations_first: false,
        may_fail: true,
    },
    Way {
        name: "Helm 3, configurations first",
        helm: Helm::Three,
        configurations_first: true,
        may_fail: false,
    },
    Way {
        name: "Helm 4",
        helm: Helm::Four,
        configurations_first: false,
        may_fail: false,
    },
];

#[test]
fn pods_are_created_while_it_is_uninstalled() {
    let node = start();
    let before = node.cluster.objects();
    for way in &WAYS {
        let (tally, took) = uninstall(&node, way);
        println!(
            "{}: {tally}; refused for {:?} of {took:?}",
            way.name,
            refused_for(&tally)
        );
        judge(way, &tally, took);
        wait_for_the_end(&node.cluster, &before, &[]);
    }
}

/// What became of the pods, and how long Helm was at work.
fn uninstall(node: &Node, way: &Way) -> (Tally, Duration) {
    let release = Release::install_by(way.helm, node, &[]);
    wait_until_called(node);
    let mut took = Duration::ZERO;
    let tally = while_pods_are_created(node, || {
        std::thread::sleep(Duration::from_secs(1));
        let begun = Instant::now();
        if way.configurations_first {
            let kinds = "validatingwebhookconfiguration,mutatingwebhookconfiguration";
            release.kubectl(&["delete", kinds, "outrigger"]);
        }
        release.helm("uninstall", &[]);
        took = begun.elapsed();
        std::thread::sleep(Duration::from_secs(1));
    });
    (tally, took)
}

fn judge(way: &Way, tally: &Tally, took: Duration) {
    assert!(tally.unmeshed > 0, "{}: none after the end: {tally:#?}", way.name);
    assert!(tally.unavailable.is_empty(), "{}: {tally:#?}", way.name);
    assert!(way.may_fail || tally.failed.is_empty(), "{}: {tally:#?}", way.name);
    // Nobody was there to answer; no answer was a refusal.
    let nobody = |(_, reason): &(Duration, String)| reason.contains("failed calling webhook");
    assert!(tally.failed.iter().all(nobody), "{}: {tally:#?}", way.name);
    assert!(refused_for(tally) < took, "{}: {tally:#?}", way.name);
}

/// From the first refused creation to the last.
fn refused_for(tally: &Tally) -> Duration {
    let times = || tally.failed.iter().map(|(at, _)| *at);
    let between = times().max().zip(times().min());
    between.map_or(Duration::ZERO, |(last, first)| last - first)
}
