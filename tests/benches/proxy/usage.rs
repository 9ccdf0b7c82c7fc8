//! What a container uses, by its cgroup of version 1 or 2.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

use crate::node::cgroups::Cgroup;
use crate::workloads::Namespace;

/// A container that is watched.
pub(crate) struct Container(Cgroup);

impl Container {
    pub(crate) fn new(shop: &Namespace<'_>, app: &str, container: &str) -> Self {
        Self(shop.node.container_cgroup(&shop.name, &shop.pod(app), container))
    }

    /// The CPU time that it has had, in microseconds.
    pub(crate) fn cpu(&self) -> f64 {
        if let Some(nanoseconds) = self.0.read("cpuacct.usage") {
            return number(nanoseconds.trim()) / 1000.0;
        }
        self.line("cpu.stat", "usage_usec")
    }

    /// The memory that it could not do without, in bytes: all but the pages of files that were not used lately, as the
    /// kubelet counts it.
    pub(crate) fn memory(&self) -> f64 {
        if let Some(usage) = self.0.read("memory.usage_in_bytes") {
            return number(usage.trim()) - self.line("memory.stat", "total_inactive_file");
        }
        let usage = self.0.read("memory.current").expect("a cgroup of version 1 or 2");
        number(usage.trim()) - self.line("memory.stat", "inactive_file")
    }

    /// The most memory that it had while something is done, by ten looks a second.
    pub(crate) fn most_memory<T>(&self, work: impl FnOnce() -> T) -> (T, f64) {
        let done = AtomicBool::new(false);
        scope(|scope| {
            let watching = scope.spawn(|| {
                let mut most = self.memory();
                while !done.load(Ordering::Relaxed) {
                    sleep(Duration::from_millis(100));
                    most = most.max(self.memory());
                }
                most
            });
            let outcome = work();
            done.store(true, Ordering::Relaxed);
            (outcome, watching.join().unwrap())
        })
    }

    fn line(&self, file: &str, key: &str) -> f64 {
        let text = self.0.read(file).expect("every cgroup has it");
        let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        number(value.expect("every cgroup has it"))
    }
}

fn number(text: &str) -> f64 {
    text.parse().unwrap()
}
