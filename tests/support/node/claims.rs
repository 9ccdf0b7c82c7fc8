//! Which nodes there are on this machine. Each has a number, from which its addresses, its cgroup and its folder follow.
//!
//! A node holds a lock as long as the process that started it lives, so a number whose lock is free, and which is not
//! marked as kept, is what a crash left: the next start removes it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use super::remains;

const RUNTIME: &str = "/run/outrigger-cluster";
const NUMBERS: std::ops::RangeInclusive<u8> = 1..=200;

/// The right to a number, until it is dropped; what is left of the node is removed then.
pub(crate) struct Claim {
    number: u8,
    lock: File,
}

/// Which nodes were removed, and which a running test has.
#[derive(Default)]
pub(crate) struct Removal {
    pub(crate) removed: Vec<u8>,
    pub(crate) in_use: Vec<u8>,
}

impl Claim {
    /// Claims a free number, having removed what crashed.
    pub(crate) fn take() -> Result<Self, String> {
        let _all = lock_all()?;
        for number in known() {
            if !is_kept(number) {
                remove_unless_in_use(number)?;
            }
        }
        let taken = known();
        let number = NUMBERS
            .into_iter()
            .find(|number| !taken.contains(number))
            .ok_or_else(|| format!("{} nodes run already: run make cluster-down", taken.len()))?;
        remains::remove(number)?;
        let lock = lock_file(number)?;
        lock.lock().map_err(|e| format!("cannot lock number {number}: {e}"))?;
        Ok(Self { number, lock })
    }

    pub(crate) fn number(&self) -> u8 {
        self.number
    }

    /// Gives the number up without removing anything: the node outlives whoever started it.
    pub(crate) fn keep(&self) {
        let mark = kept(self.number);
        File::create(&mark).unwrap_or_else(|e| panic!("cannot make {}: {e}", mark.display()));
        self.lock.unlock().expect("it is locked");
    }
}

impl Drop for Claim {
    #[allow(clippy::print_stderr, reason = "a second panic would end the test program")]
    fn drop(&mut self) {
        let removed = lock_all().and_then(|_all| remove(self.number));
        match removed {
            Err(failure) if std::thread::panicking() => eprintln!("{failure}"),
            // What is left would be found by nobody.
            Err(failure) => panic!("{failure}"),
            Ok(()) => {}
        }
    }
}

/// Removes every node that no running test holds.
pub(crate) fn remove_all() -> Result<Removal, String> {
    let _all = lock_all()?;
    let mut removal = Removal::default();
    for number in known() {
        let list = if remove_unless_in_use(number)? {
            &mut removal.removed
        } else {
            &mut removal.in_use
        };
        list.push(number);
    }
    Ok(removal)
}

/// Removes a node, kept or left, and says whether it did: not when a running test has it.
pub(crate) fn remove_one(number: u8) -> Result<bool, String> {
    let _all = lock_all()?;
    remove_unless_in_use(number)
}

fn remove_unless_in_use(number: u8) -> Result<bool, String> {
    match lock_file(number)?.try_lock() {
        Ok(()) => remove(number).map(|()| true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(e)) => Err(format!("cannot lock number {number}: {e}")),
    }
}

fn remove(number: u8) -> Result<(), String> {
    remains::remove(number)?;
    let folder = runtime(number);
    fs::remove_dir_all(&folder).map_err(|e| format!("cannot remove {}: {e}", folder.display()))
}

/// The numbers in use, kept or left.
fn known() -> Vec<u8> {
    let entries = fs::read_dir(RUNTIME).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

fn runtime(number: u8) -> PathBuf {
    Path::new(RUNTIME).join(number.to_string())
}

fn kept(number: u8) -> PathBuf {
    runtime(number).join("kept")
}

fn is_kept(number: u8) -> bool {
    kept(number).exists()
}

/// One at a time claims or removes.
fn lock_all() -> Result<File, String> {
    fs::create_dir_all(RUNTIME).map_err(|e| format!("cannot make {RUNTIME}: {e}"))?;
    let lock = open(&Path::new(RUNTIME).join("lock"))?;
    lock.lock().map_err(|e| format!("cannot lock {RUNTIME}: {e}"))?;
    Ok(lock)
}

fn lock_file(number: u8) -> Result<File, String> {
    let folder = runtime(number);
    fs::create_dir_all(&folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
    open(&folder.join("lock"))
}

fn open(path: &Path) -> Result<File, String> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    options
        .open(path)
        .map_err(|e| format!("cannot open {}: {e}", path.display()))
}
