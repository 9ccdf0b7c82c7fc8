//! From one version of Helm to the other, with a server that keeps its own certificates.

use crate::cluster::tools::Helm;
use crate::release::{NAMESPACE, Release};
use crate::{assert_unharmed, start, wait_for_the_end, wait_until_called, while_pods_are_created};

/// A release of Helm 3 goes on with Helm 4: first as Helm 3 applied it, then on the API server's side.
#[test]
fn a_release_of_helm_3_goes_on_with_helm_4() {
    let node = start();
    let before = node.cluster.objects();
    let mut release = Release::install_by(Helm::Three, &node, &[]);
    let bundles = release.bundles();
    wait_until_called(&node);
    let tally = while_pods_are_created(&node, || {
        release.helm = Helm::Four;
        let sides = ["auto", "true", "true"];
        for (turn, side) in sides.into_iter().enumerate() {
            let (side, value) = (
                format!("--server-side={side}"),
                format!("--set-string=podAnnotations.turn={turn}"),
            );
            release.upgrade(&[&side, &value]);
            release.wait_until_complete();
            assert_eq!(release.bundles(), bundles, "{side}");
        }
        for _ in sides {
            release.helm("rollback", &[]);
            release.wait_until_complete();
            assert_eq!(release.bundles(), bundles, "after a rollback");
        }
    });
    assert_unharmed(&node, "from Helm 3 to Helm 4", &tally);
    release.helm("uninstall", &[]);
    wait_for_the_end(&node.cluster, &before, &[]);
}

/// What the server owns, the chart may only take with force: the one case that docs/install.md names.
#[test]
fn the_mode_secret_takes_ca_bundle_with_force_alone() {
    let node = start();
    let release = Release::install_by(Helm::Four, &node, &[]);
    let other = std::fs::read_to_string(&node.cluster.authority().certificate).unwrap();
    let certificate = format!("--set-string=certificates.caBundle={other}");
    let mode = "--set=certificates.mode=secret,certificates.secretName=outrigger-certificates";
    let place = ["upgrade", "outrigger", crate::node::CHART, "--namespace", NAMESPACE];
    let upgrade = [&place[..], &crate::node::images::VALUES, &[mode, &certificate]].concat();
    let refusal = node.helm_of(Helm::Four, &upgrade).expect_failure();
    assert!(
        refusal.contains("conflict") && refusal.contains("caBundle"),
        "{refusal}"
    );
    let forced = [&upgrade[..], &["--force-conflicts"]].concat();
    node.helm_of(Helm::Four, &forced).expect_success();
    let bundles = release.bundles();
    assert_eq!(bundles.len(), 5);
    assert!(bundles.iter().all(|bundle| *bundle == bundles[0]), "{bundles:?}");
}
