//! Everything that a node has outside of its own processes, and how it is removed, by its number alone: after a test, after
//! a crash, and for a node that was kept.

use std::fs;
use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::cgroups;
use crate::cluster::processes::{has_ended, kill};

/// Where nodes keep their files.
const FILES: &str = "/var/cache/outrigger-cluster";

/// How long killed processes may take to be gone.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a node is called on this machine: its interface's outer end, its cgroup, the argument that marks its first process.
pub(crate) fn name(number: u8) -> String {
    format!("outrigger-{number}")
}

/// The files of a node.
pub(crate) fn folder(number: u8) -> PathBuf {
    Path::new(FILES).join(number.to_string())
}

/// The address of the machine on the line to the node.
pub(crate) fn outside(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(172, 30, number, 1)
}

/// The address of the node.
pub(crate) fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(172, 30, number, 2)
}

/// The network of the node's pods.
pub(crate) fn pods(number: u8) -> String {
    format!("10.244.{number}.0/24")
}

/// The same in IPv6.
pub(crate) mod v6 {
    /// The addresses of all Services.
    pub(crate) const SERVICES: &str = "fd00:10:96::/112";

    /// The address of the machine on the line to the node.
    pub(crate) fn outside(number: u8) -> String {
        format!("fd00:172:30:{number}::1")
    }

    /// The address of the node.
    pub(crate) fn address(number: u8) -> String {
        format!("fd00:172:30:{number}::2")
    }

    /// The network of the node's pods.
    pub(crate) fn pods(number: u8) -> String {
        format!("fd00:10:244:{number}::/64")
    }
}

/// Ends what runs of a node and removes what is left of it; nothing there is fine.
pub(crate) fn remove(number: u8) -> Result<(), String> {
    end_processes(&name(number))?;
    remove_interface(&name(number));
    cgroups::remove(&name(number))?;
    remove_folder(&folder(number))
}

/// The processes that carry a node's mark: its first one, and the one that waits for that.
pub(crate) fn marked(mark: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|id| carries(*id, mark)).collect()
}

fn carries(id: u32, mark: &str) -> bool {
    let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0)
        .any(|argument| argument == mark.as_bytes())
}

/// The first process takes all others of its process namespace with it, and has ended only after them.
pub(crate) fn end_processes(mark: &str) -> Result<(), String> {
    // What is ending shows no mark any more, so they are looked for once.
    let processes = marked(mark);
    processes.iter().copied().for_each(kill);
    let started = Instant::now();
    while !processes.iter().all(|id| has_ended(*id)) {
        if started.elapsed() > PATIENCE {
            return Err(format!("the processes {processes:?} of {mark} do not end"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn remove_interface(name: &str) {
    // It goes with the network namespace, but a moment later; that it is gone already is no failure.
    let removed = Command::new("ip").args(["link", "delete", name]).output();
    removed.expect("ip is a program");
}

fn remove_folder(folder: &Path) -> Result<(), String> {
    let started = Instant::now();
    loop {
        match fs::remove_dir_all(folder) {
            // Killed a moment ago with their test, programs may still be writing.
            Err(e) if e.kind() == ErrorKind::DirectoryNotEmpty && started.elapsed() < PATIENCE => {}
            Err(e) if e.kind() != ErrorKind::NotFound => {
                return Err(format!("cannot remove {}: {e}", folder.display()));
            }
            _ => return Ok(()),
        }
    }
}
