//! Child processes that never outlive the test that started them.
//!
//! Dropping [`Processes`] kills them, also when the test panics. When the whole test process is killed, the kernel kills
//! them: `setpriv --pdeathsig` asks for that. The signal comes when the *thread* that started the child ends, so one
//! thread does nothing but start children and lives as long as they do; a test's own thread would end too early.
//! [`Processes::through`] starts them otherwise, such as in other namespaces.
#![allow(dead_code, reason = "each suite uses its own part of the support modules")]

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a start, or a controller's reaction, may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Running programs, each with a log file, killed in the reverse order of their start.
pub(crate) struct Processes {
    running: Vec<Process>,
    starter: Option<Starter>,
    logs: PathBuf,
    through: Vec<OsString>,
}

impl Processes {
    /// No process yet; their logs will be `<name>.log` in the folder.
    pub(crate) fn new(logs: &Path) -> Self {
        Self::through(logs, ends_with_its_parent())
    }

    /// The same, with a command that starts each program: program and arguments are put after it.
    pub(crate) fn through(logs: &Path, command: Vec<OsString>) -> Self {
        Self {
            running: Vec::new(),
            starter: Some(Starter::new()),
            logs: logs.to_owned(),
            through: command,
        }
    }

    /// Starts a program with nothing in its environment but `PATH` and with its output in its log.
    ///
    /// # Panics
    /// When the program or the log file cannot be started or made.
    pub(crate) fn start(&mut self, name: &'static str, program: &Path, arguments: &[String]) {
        let log = self.log(name);
        File::create(&log).unwrap_or_else(|e| panic!("cannot make {}: {e}", log.display()));
        let mut arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        arguments.insert(0, program.into());
        let child = Mutex::new(self.spawn(name, &arguments));
        self.running.push(Process { name, arguments, child });
    }

    /// Kills a process and starts it again as it was started, with the same log.
    ///
    /// # Panics
    /// When no process of that name was started, or it cannot be started again.
    pub(crate) fn restart(&self, name: &str) {
        let process = self
            .running
            .iter()
            .find(|process| process.name == name)
            .unwrap_or_else(|| panic!("no process {name} was started"));
        let mut child = process.child();
        // Where a command stands between, the program is its child. The command ends once all threads of the program
        // have, and so its ports are free; killed itself, it would end before.
        match &children(child.id())[..] {
            [] => drop(child.kill()),
            programs => programs.iter().copied().for_each(kill),
        }
        let _ = child.wait();
        *child = self.spawn(process.name, &process.arguments);
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

    fn spawn(&self, name: &str, arguments: &[OsString]) -> Child {
        let log = self.log(name);
        let output = OpenOptions::new()
            // At the end each time: a program that opens /dev/stdout itself would write over what comes another way.
            .append(true)
            .open(&log)
            .unwrap_or_else(|e| panic!("cannot open {}: {e}", log.display()));
        let errors = output.try_clone().expect("an open file can be cloned");
        let mut words = self.through.iter().chain(arguments);
        let mut command = Command::new(words.next().expect("a program at least"));
        command.args(words);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let starter = self.starter.as_ref().expect("the starter lives until the drop");
        starter
            .spawn(command)
            .unwrap_or_else(|e| panic!("cannot start {name} through {:?}: {e}", self.through))
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

/// Waits until a condition holds; an ended process or too long a time is a failure that shows the logs.
pub(crate) fn wait(groups: &[&Processes], what: &str, mut holds: impl FnMut() -> bool) -> Result<(), String> {
    let tails = || groups.iter().map(|group| group.log_tails()).collect::<String>();
    let started = Instant::now();
    while !holds() {
        if let Some(ended) = groups.iter().find_map(|group| group.ended()) {
            return Err(format!("waiting until {what}: {ended}{}", tails()));
        }
        if started.elapsed() > PATIENCE {
            return Err(format!(
                "{}s were not enough until {what}{}",
                PATIENCE.as_secs(),
                tails()
            ));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

/// The command that has the kernel kill a program when whoever starts it ends.
pub(crate) fn ends_with_its_parent() -> Vec<OsString> {
    ["/usr/bin/setpriv", "--pdeathsig", "KILL", "--"]
        .map(OsString::from)
        .into()
}

/// The children that a process has at this moment, whichever of its threads started them.
pub(crate) fn children(id: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{id}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let listed = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let ids = |list: String| list.split(' ').filter_map(|id| id.parse().ok()).collect::<Vec<u32>>();
    listed.flat_map(ids).collect()
}

/// Kills a process, whoever started it; it may have ended already.
pub(crate) fn kill(id: u32) {
    signal("KILL", id);
}

/// Sends a signal to a process, whoever started it; it may have ended already.
pub(crate) fn signal(name: &str, id: u32) {
    let output = Command::new("kill").args(["-s", name, &id.to_string()]).output();
    output.expect("kill is a program");
}

/// Whether a process is gone, or waits for its parent to ask how it ended.
pub(crate) fn has_ended(id: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{id}/stat")) else {
        return true;
    };
    // The name in parentheses may hold anything. The state is the first thread's alone: others may still hold ports.
    let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
    let threads = std::fs::read_dir(format!("/proc/{id}/task")).map_or(0, Iterator::count);
    state.starts_with(['Z', 'X']) && threads <= 1
}

struct Process {
    name: &'static str,
    /// The program and its arguments.
    arguments: Vec<OsString>,
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
