//! What happens to Outrigger and around it. Each row happens again and again while pods are created.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::release::{Release, eventually};
use crate::steady::PERIOD;

/// One thing that happens.
pub(crate) struct Disturbance {
    pub(crate) name: &'static str,
    /// Lets it happen once, and returns when all is as before.
    pub(crate) happens: fn(&Release<'_>),
    /// How many creations may fail each time.
    pub(crate) may_fail: usize,
    /// Whether the API server itself is away meanwhile.
    pub(crate) stops_the_api_server: bool,
}

/// A killed process takes along what it was answering, and new connections are refused until its endpoint is gone, about
/// a second later. The API server tries neither again, so nothing that Outrigger does could help. Two seconds' worth of
/// creations is far more than was ever seen (docs/operations.md).
const KILLED: usize = (2000 / PERIOD.as_millis()) as usize;

const fn row(name: &'static str, happens: fn(&Release<'_>)) -> Disturbance {
    Disturbance {
        name,
        happens,
        may_fail: 0,
        stops_the_api_server: false,
    }
}

pub(crate) const DISTURBANCES: &[Disturbance] = &[
    row("nothing happens", |_| std::thread::sleep(Duration::from_secs(1))),
    row("the replicas are restarted one by one", restarted),
    row("the chart is upgraded", upgraded),
    row("the certificate is renewed", |release| release.rotate("certificate")),
    row("the CA is rotated", |release| release.rotate("ca")),
    row("the leader ends in the middle of a rotation", leader_ends),
    Disturbance {
        may_fail: KILLED,
        ..row("a replica is killed", killed)
    },
    Disturbance {
        may_fail: KILLED,
        ..row("the leader is killed in the middle of a rotation", leader_killed)
    },
    Disturbance {
        stops_the_api_server: true,
        ..row("the API server is restarted", api_server_restarted)
    },
];

fn restarted(release: &Release<'_>) {
    release.kubectl(&["rollout", "restart", "deployment/outrigger"]);
    release.wait_until_complete();
}

fn upgraded(release: &Release<'_>) {
    static TIMES: AtomicUsize = AtomicUsize::new(0);
    // Another value each time, so that pods are replaced, caBundle and certificate being what they are.
    let change = format!(
        "--set-string=podAnnotations.upgrade={}",
        TIMES.fetch_add(1, Ordering::Relaxed)
    );
    release.upgrade(&[&change]);
    release.wait_until_complete();
}

fn api_server_restarted(release: &Release<'_>) {
    release.node.restart_api_server();
}

fn killed(release: &Release<'_>) {
    // A container that fails again and again is restarted ever later.
    let fewest = release.restarts().into_iter().min_by_key(|(_, restarts)| *restarts);
    release.kill(&fewest.unwrap().0);
}

fn leader_ends(release: &Release<'_>) {
    in_the_middle_of_a_rotation(release, |leader| {
        release.kubectl(&["delete", "pod", leader, "--wait=false"]);
    });
}

fn leader_killed(release: &Release<'_>) {
    in_the_middle_of_a_rotation(release, |leader| release.kill(leader));
}

/// The middle: the new CA is there, but nothing is signed by it yet.
fn in_the_middle_of_a_rotation(release: &Release<'_>, happens: impl Fn(&str)) {
    let before = release.authorities();
    assert_eq!(before.len(), 1, "a rotation is under way already");
    release.ask_for_rotation("ca");
    eventually("the rotation begins", || release.authorities().len() == 2);
    happens(&release.leader());
    eventually("another replica ends the rotation", || {
        let now = release.authorities();
        now.len() == 1 && now != before
    });
    release.wait_until_complete();
}
