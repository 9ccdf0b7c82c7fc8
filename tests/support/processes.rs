//! Child processes that never outlive the test that started them.
//!
//! Dropping [`Processes`] kills them, also when the test panics. When the whole test process is killed, the kernel kills
//! them: `setpriv --pdeathsig` asks for that. The signal comes when the *thread* that started the child ends, so one
//! thread does nothing but start children and lives as long as they do; a test's own thread would end too early.
#![allow(dead_code, reason = "each suite uses its own part of the support modules")]

use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Running programs, each with a log file, killed in the reverse order of their start.
pub(crate) struct Processes {
    running: Vec<Process>,
    starter: Option<Starter>,
    logs: PathBuf,
}

impl Processes {
    /// No process yet; their logs will be `<name>.log` in the folder.
    pub(crate) fn new(logs: &Path) -> Self {
        Self {
            running: Vec::new(),
            starter: Some(Starter::new()),
            logs: logs.to_owned(),
        }
    }

    /// Starts a program with nothing in its environment but `PATH` and with its output in its log.
    ///
    /// # Panics
    /// When the program or the log file cannot be started or made.
    pub(crate) fn start(&mut self, name: &'static str, program: &Path, arguments: &[String]) {
        let log = self.log(name);
        // At the end each time: a program that opens /dev/stdout itself would write over what comes another way.
        let output = File::options().append(true).create(true).open(&log);
        let output = output.unwrap_or_else(|e| panic!("cannot make {}: {e}", log.display()));
        let errors = output.try_clone().expect("an open file can be cloned");
        let mut command = Command::new("/usr/bin/setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program).args(arguments);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let starter = self.starter.as_ref().expect("the starter lives until the drop");
        let child = starter
            .spawn(command)
            .unwrap_or_else(|e| panic!("cannot start {name} with setpriv: {e}"));
        self.running.push(Process {
            name,
            child: Mutex::new(child),
        });
    }

    /// The name of a process that has ended, with its exit status.
    pub(crate) fn ended(&self) -> Option<String> {
        self.running
            .iter()
            .find_map(|process| match process.child().try_wait() {
                Ok(None) => None,
                Ok(Some(status)) => Some(format!("{} ended with {status}", process.name)),
                Err(e) => Some(format!("{} cannot be watched: {e}", process.name)),
            })
    }

    /// The end of every log, for the message of a failure.
    pub(crate) fn log_tails(&self) -> String {
        const LINES: usize = 25;
        self.running.iter().fold(String::new(), |mut tails, process| {
            let text = std::fs::read(self.log(process.name)).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let lines: Vec<&str> = text.lines().collect();
            let tail = lines[lines.len().saturating_sub(LINES)..].join("\n");
            write!(tails, "\n--- the end of {}.log\n{tail}", process.name).expect("a string takes any text");
            tails
        })
    }

    /// The log file of a process.
    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.logs.join(format!("{name}.log"))
    }

    /// The process ids, in the order of the start.
    pub(crate) fn ids(&self) -> Vec<u32> {
        self.running.iter().map(|process| process.child().id()).collect()
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for process in self.running.iter().rev() {
            // No grace: nothing they hold is wanted, and an API server that has lost its etcd waits for a minute.
            // An error means that the process has ended already.
            let _ = process.child().kill();
            let _ = process.child().wait();
        }
        drop(self.starter.take());
    }
}

struct Process {
    name: &'static str,
    child: Mutex<Child>,
}

impl Process {
    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread that starts children; it ends when this is dropped.
struct Starter {
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

struct Order {
    command: Command,
    answer: Sender<io::Result<Child>>,
}

impl Starter {
    fn new() -> Self {
        let (orders, incoming) = channel::<Order>();
        let thread = std::thread::spawn(move || {
            for mut order in incoming {
                // Whoever ordered waits for the answer.
                let _ = order.answer.send(order.command.spawn());
            }
        });
        Self {
            orders: Some(orders),
            thread: Some(thread),
        }
    }

    fn spawn(&self, command: Command) -> io::Result<Child> {
        let (answer, child) = channel();
        let orders = self.orders.as_ref().expect("open until the drop");
        orders
            .send(Order { command, answer })
            .expect("the starter waits for orders");
        child.recv().expect("the starter answers each order")
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        drop(self.orders.take());
        if let Some(thread) = self.thread.take() {
            // It cannot have panicked; and a drop must not.
            let _ = thread.join();
        }
    }
}
