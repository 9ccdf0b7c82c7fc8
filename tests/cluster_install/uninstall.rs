//! Pods that are created while the chart is uninstalled.

use std::time::Duration;

use crate::cluster::tools::Helm;
use crate::node::Node;
use crate::release::Release;
use crate::steady::Tally;
use crate::{objects, start, wait_for_the_end, while_pods_are_created};

/// A way to uninstall.
struct Way {
    name: &'static str,
    helm: Helm,
    /// Whether the configurations are deleted before, as docs/install.md says.
    configurations_first: bool,
}

const WAYS: [Way; 4] = [
    Way {
        name: "Helm 3",
        helm: Helm::Three,
        configurations_first: false,
    },
    Way {
        name: "Helm 4",
        helm: Helm::Four,
        configurations_first: false,
    },
    Way {
        name: "Helm 3, configurations first",
        helm: Helm::Three,
        configurations_first: true,
    },
    Way {
        name: "Helm 4, configurations first",
        helm: Helm::Four,
        configurations_first: true,
    },
];

#[test]
fn pods_are_created_while_it_is_uninstalled() {
    let node = start();
    let before = objects(&node.cluster);
    for way in &WAYS {
        for _ in 0..3 {
            let tally = uninstalled(&node, way);
            println!("{}: {tally}; refused for {:?}", way.name, refused_for(&tally));
            if let Some((_, reason)) = tally.failed.first() {
                println!("    {reason}");
            }
            wait_for_the_end(&node.cluster, &before, &[]);
        }
    }
}

fn uninstalled(node: &Node, way: &Way) -> Tally {
    let release = Release::install_by(way.helm, node, &[]);
    while_pods_are_created(node, || {
        std::thread::sleep(Duration::from_secs(1));
        if way.configurations_first {
            let kinds = "mutatingwebhookconfiguration,validatingwebhookconfiguration";
            release.kubectl(&["delete", kinds, "outrigger"]);
        }
        release.helm("uninstall", &[]);
        std::thread::sleep(Duration::from_secs(1));
    })
}

/// From the first refused creation to the last.
fn refused_for(tally: &Tally) -> Option<Duration> {
    let times = || tally.failed.iter().map(|(at, _)| *at);
    Some(times().max()? - times().min()?)
}
