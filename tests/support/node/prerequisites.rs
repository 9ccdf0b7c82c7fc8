//! What this machine must have and allow, so that a node fails with a sentence and not with a log.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::cgroups;

/// The programs beside those that are built, all of them Debian's, and where they are looked for.
const PROGRAMS: [&str; 8] = [
    "ip", "iptables", "mount", "nft", "nsenter", "runc", "setpriv", "unshare",
];
const FOLDERS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
const NETWORK_PLUGINS: [&str; 4] = ["host-local", "loopback", "portmap", "ptp"];

/// Says what is missing and what to do.
pub(crate) fn check() -> Result<(), String> {
    let user = std::fs::metadata("/proc/self").map_err(|e| format!("a node needs /proc: {e}"))?;
    if user.uid() != 0 {
        return Err("a node makes namespaces, mounts and cgroups, which only root may: run this as root".to_owned());
    }
    let missing = missing_programs();
    if !missing.is_empty() {
        let missing = missing.join(", ");
        return Err(format!(
            "a node needs programs that are not installed: {missing}; run tests/install-packages"
        ));
    }
    if !Path::new("/proc/net/if_inet6").exists() {
        return Err("a node has addresses of both families: switch IPv6 on in the kernel (ipv6.disable=0)".to_owned());
    }
    if cgroups::hierarchies().is_empty() {
        return Err(
            "a node limits its pods by cgroups, and none is mounted: mount them, or give this container its own"
                .to_owned(),
        );
    }
    Ok(())
}

fn missing_programs() -> Vec<&'static str> {
    let found = |program: &&str| FOLDERS.iter().any(|folder| Path::new(folder).join(program).is_file());
    let plugin = |program: &&str| Path::new("/usr/lib/cni").join(program).is_file();
    let programs = PROGRAMS.into_iter().filter(|program| !found(program));
    programs
        .chain(NETWORK_PLUGINS.into_iter().filter(|program| !plugin(program)))
        .collect()
}
