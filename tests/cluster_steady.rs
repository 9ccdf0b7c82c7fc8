//! No admission fails, whatever happens to Outrigger: the chart runs on a real node, pods are created at a steady rate
//! through the real API server with `failurePolicy: Fail`, and meanwhile replicas end, certificates change, and so on.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "support/cluster.rs"]
mod cluster;
#[path = "cluster_steady/disturbances.rs"]
mod disturbances;
#[path = "support/node.rs"]
mod node;
#[path = "support/release.rs"]
mod release;
#[path = "cluster_steady/rights.rs"]
mod rights;
#[path = "support/steady.rs"]
mod steady;

use std::time::Duration;

use disturbances::{DISTURBANCES, Disturbance};
use node::Node;
use release::Release;
use steady::{Steady, Tally};

/// What is created into.
const NAMESPACE: &str = "shop";

/// One test: the cluster is small, and one disturbance at a time is what is measured.
#[test]
fn no_creation_fails_whatever_happens_to_outrigger() {
    let node = Node::start();
    let release = Release::install(&node, &["--set=certificates.caOverlap=5s"]);
    node.cluster
        .create_namespace(NAMESPACE, &[("outrigger.mesh/inject", "enabled")]);
    let tallies = DISTURBANCES.iter().map(|disturbance| measure(&release, disturbance));
    let total = tallies.fold(Tally::default(), Tally::and);
    rights::are_those_that_were_used(&release);
    report(&total);
}

/// Runs the stream while one thing happens again and again.
fn measure(release: &Release<'_>, disturbance: &Disturbance) -> Tally {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let steady = runtime.block_on(async { Steady::start(release.node.cluster.client().await, NAMESPACE) });
    let mut times = 0;
    while steady.elapsed() < duration() {
        (disturbance.happens)(release);
        times += 1;
    }
    let tally = runtime.block_on(steady.stop());
    println!("{} ({times} times): {tally}", disturbance.name);
    judge(release, disturbance, &tally, times);
    tally
}

fn judge(release: &Release<'_>, disturbance: &Disturbance, tally: &Tally, times: usize) {
    let context = || format!("{}: {tally:#?}{}", disturbance.name, release.node.log_tails());
    assert!(times > 0 && tally.creations > 0, "{}", context());
    assert_eq!(tally.unmeshed, 0, "{}", context());
    let allowed = disturbance.may_fail * times;
    assert!(
        tally.failed.len() <= allowed,
        "at most {allowed} may fail: {}",
        context()
    );
    if !disturbance.stops_the_api_server {
        assert!(tally.unavailable.is_empty(), "{}", context());
    }
}

/// How long each disturbance goes on.
fn duration() -> Duration {
    #[allow(clippy::disallowed_methods, reason = "a setting of the test")]
    let seconds = std::env::var("TEST_STEADY_SECONDS").ok();
    Duration::from_secs(seconds.map_or(10, |seconds| seconds.parse().expect("a number of seconds")))
}

/// The line that `make test-steady` ends with.
fn report(total: &Tally) {
    println!("{total}");
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/steady.txt");
    std::fs::write(path, format!("{total}\n")).unwrap();
}
