//! An application that hangs: its port takes connections, and nobody answers.

use std::process::Command;

use crate::workloads::Namespace;

/// The stopped processes of a pod's application; they go on when this is dropped.
pub(crate) struct Stopped(Vec<u32>);

impl Stopped {
    /// Stops the container `app` of a pod.
    pub(crate) fn app(namespace: &Namespace<'_>, pod: &str) -> Self {
        let processes = namespace.node.container_processes(&namespace.name, pod, "app");
        assert!(!processes.is_empty(), "{pod} runs");
        signal("-STOP", &processes);
        Self(processes)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        signal("-CONT", &self.0);
    }
}

fn signal(signal: &str, processes: &[u32]) {
    let ids = processes.iter().map(ToString::to_string);
    let output = Command::new("kill").arg(signal).args(ids).output();
    assert!(output.expect("kill is a program").status.success(), "{processes:?} run");
}
