//! A network and mount namespace. It lives as long as the process that holds it, which ends with the test.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::processes::Processes;
use crate::talk::PATIENCE;

const NSENTER: &str = "/usr/bin/nsenter";

/// A namespace, by the process that holds it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Space {
    id: u32,
}

impl Space {
    /// Makes one, held by a process of `holders`.
    pub(crate) fn new(holders: &mut Processes, name: &'static str) -> Self {
        let arguments = ["--net", "--mount", "--", "sleep", "infinity"].map(str::to_owned);
        holders.start(name, Path::new("/usr/bin/unshare"), &arguments);
        let id = *holders.ids().last().expect("it was started");
        let started = Instant::now();
        // setpriv becomes unshare, and that becomes sleep, which is in the namespaces.
        while std::fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name.trim() != "sleep") {
            assert!(started.elapsed() < PATIENCE, "no namespace{}", holders.log_tails());
            thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(holders.ended(), None, "{}", holders.log_tails());
        Self { id }
    }

    /// The holder, whose number stands for the namespace in arguments of `ip`.
    pub(crate) fn id(self) -> u32 {
        self.id
    }

    /// A file as it is seen inside.
    pub(crate) fn path(self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.id))
    }

    /// What has to stand before a program, so that it runs inside.
    pub(crate) fn entry(self) -> Vec<String> {
        [NSENTER, &format!("--target={}", self.id), "--net", "--mount", "--"]
            .map(str::to_owned)
            .into()
    }

    /// A program inside, with nothing in its environment but `PATH`.
    pub(crate) fn command(self, program: &str) -> Command {
        let entry = self.entry();
        let mut command = Command::new(&entry[0]);
        command.args(&entry[1..]).arg(program);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command
    }

    /// Runs a script inside; what it prints.
    pub(crate) fn run(self, script: &str) -> String {
        let output = self.try_run(script);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}\n{errors}");
        String::from_utf8(output.stdout).expect("it prints text")
    }

    /// Runs a script that may fail.
    pub(crate) fn try_run(self, script: &str) -> Output {
        let mut bash = self.command("bash");
        bash.args(["-euc", script]).output().expect("bash can be run")
    }

    /// Does something inside, such as opening a socket, which stays inside wherever it is used.
    pub(crate) fn enter<T: Send>(self, action: impl FnOnce() -> T + Send) -> T {
        let inside = move || {
            let link = File::open(format!("/proc/{}/ns/net", self.id)).expect("the holder runs");
            move_into_link_name_space(link.as_fd(), Some(LinkNameSpaceType::Network)).expect("root may enter");
            action()
        };
        // The namespace is that of the thread.
        thread::scope(|scope| scope.spawn(inside).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
