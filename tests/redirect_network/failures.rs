//! What the init container says where it cannot write rules: each time the cause and what to do.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::pod::{NET_ADMIN, NOTHING, Pod, finished, injected, manifest};
use crate::program::Run;
use crate::site::{Families, Site};

fn pod(site: &Site) -> Pod<'_> {
    Pod::new(site, injected(&manifest(&[], &[("http", 8080)]), &[]))
}

fn check(run: &Run, pod: &Pod<'_>, parts: &[&str]) {
    assert_eq!(
        (run.code, run.stdout.as_str(), pod.ruleset().as_str()),
        (2, "", ""),
        "{}",
        run.stderr
    );
    for part in parts {
        assert!(run.stderr.contains(part), "no {part:?} in {}", run.stderr);
    }
}

#[test]
fn without_the_capability() {
    let site = Site::new(Families::Ipv4);
    let pod = pod(&site);
    let parts = [
        "NET_ADMIN",
        "PodSecurity",
        "outrigger.mesh/traffic: explicit",
        "Operation not permitted",
    ];
    check(&finished(pod.outrigger(NOTHING).args(pod.arguments())), &pod, &parts);
    // A user that is not root has no capability, whatever the container has.
    let mut command = pod.space().command("setpriv");
    command.args(["--reuid=65534", "--clear-groups", "--", "/run/programs/outrigger"]);
    check(&finished(command.args(pod.arguments())), &pod, &parts);
}

#[test]
fn without_nft() {
    let site = Site::new(Families::Ipv4);
    let pod = pod(&site);
    let mut command = pod.outrigger(NET_ADMIN);
    let run = finished(command.env("PATH", "/run/programs").args(pod.arguments()));
    check(&run, &pod, &["nft is not installed here", "OUTRIGGER_REDIRECT_IMAGE"]);
}

/// This kernel has nat for IP. It has none for bridges, so the same script for those is refused as a kernel without nat
/// refuses it: by the same function, for a chain type that it does not know.
#[test]
fn without_nat_in_the_kernel() {
    let site = Site::new(Families::Ipv4);
    let pod = pod(&site);
    let nft = pod.space().path("/run/programs/nft");
    let script =
        "#!/bin/bash\nsed 's/table inet/table bridge/; s/dstnat/-100/; /redirect to/d' | /usr/sbin/nft \"$@\"\n";
    fs::write(&nft, script).unwrap();
    fs::set_permissions(&nft, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = pod.outrigger(NET_ADMIN);
    let run = finished(command.env("PATH", "/run/programs:/usr/bin:/bin").args(pod.arguments()));
    let parts = [
        "the node's kernel cannot redirect",
        "nft_chain_nat",
        "explicit",
        "No such file or directory",
    ];
    check(&run, &pod, &parts);
}
