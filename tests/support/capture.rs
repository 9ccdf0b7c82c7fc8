//! What is seen on the wire, by tcpdump.
//!
//! Needs the modules `cluster` and `workloads` beside it.

use std::path::Path;
use std::process::{Child, Stdio};

use crate::cluster::processes::signal;
use crate::workloads::Namespace;

/// What passes the node.
pub(crate) struct Capture {
    tcpdump: Child,
    folder: tempfile::TempDir,
}

impl Capture {
    /// Starts with what this filter of tcpdump lets pass, such as `["host", "10.0.0.1"]`.
    pub(crate) fn start(shop: &Namespace<'_>, filter: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("packets");
        let mut tcpdump = shop.node.in_network("tcpdump");
        // -U writes each packet at once; root keeps its rights to write into the folder.
        tcpdump
            .args(["-i", "any", "-U", "-Z", "root", "-s", "0", "-w"])
            .arg(&file)
            .args(filter)
            .stderr(Stdio::null());
        let capture = Self {
            tcpdump: tcpdump.spawn().unwrap(),
            folder,
        };
        // The header of the file is written when packets are seen from then on.
        shop.eventually("tcpdump listens", || file.metadata().is_ok_and(|file| file.len() > 0));
        capture
    }

    /// All of it, in tcpdump's format.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        std::fs::read(self.path()).unwrap()
    }

    fn path(&self) -> std::path::PathBuf {
        Path::new(self.folder.path()).join("packets")
    }

    /// Whether it holds these bytes, within one packet.
    pub(crate) fn holds(&self, text: &[u8]) -> bool {
        self.bytes().windows(text.len()).any(|window| window == text)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        signal("TERM", self.tcpdump.id());
        let _ = self.tcpdump.wait();
    }
}
