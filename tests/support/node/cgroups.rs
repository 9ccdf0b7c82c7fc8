//! The cgroups of a node: one of its name in each hierarchy, with those of its pods below.
//!
//! Version 1 has a hierarchy a controller, version 2 one in all; both are handled alike.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where the hierarchies are mounted.
pub(crate) fn hierarchies() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (place, kind) = (fields.next()?, fields.next()?);
            matches!(kind, "cgroup" | "cgroup2").then(|| PathBuf::from(place))
        })
        .collect()
}

/// Makes the cgroup of a node.
pub(crate) fn make(name: &str) -> Result<(), String> {
    hierarchies().into_iter().try_for_each(|hierarchy| {
        let path = hierarchy.join(name);
        fs::create_dir_all(&path).map_err(|e| {
            format!(
                "a node needs a cgroup of its own and {} cannot be made: {e}; mount the cgroups writable",
                path.display()
            )
        })
    })
}

/// The cgroup called so somewhere below that of a node, such as a container's by its id.
pub(crate) struct Cgroup {
    pub(crate) node: String,
    pub(crate) name: String,
}

impl Cgroup {
    /// What a file of it says, in the first hierarchy that has the file.
    pub(crate) fn read(&self, file: &str) -> Option<String> {
        hierarchies().into_iter().find_map(|hierarchy| {
            let folder = find(&hierarchy.join(&self.node), &self.name)?;
            fs::read_to_string(folder.join(file)).ok()
        })
    }
}

/// Removes the cgroup of a node and all below; its processes have ended.
pub(crate) fn remove(name: &str) -> Result<(), String> {
    hierarchies()
        .into_iter()
        .map(|hierarchy| hierarchy.join(name))
        .filter(|path| path.exists())
        .try_for_each(|path| remove_tree(&path).map_err(|e| format!("cannot remove {}: {e}", path.display())))
}

/// The processes of the cgroup called so below that of a node.
pub(crate) fn processes_below(node: &str, name: &str) -> Vec<u32> {
    first_not_empty(|hierarchy| {
        let found = find(&hierarchy.join(node), name);
        found.map(|path| processes_of(&path)).unwrap_or_default()
    })
}

/// All processes of a node's pods.
pub(crate) fn processes(node: &str) -> Vec<u32> {
    first_not_empty(|hierarchy| processes_of_tree(&hierarchy.join(node)))
}

/// Not every hierarchy need hold a process, but those that do agree.
fn first_not_empty(list: impl Fn(&Path) -> Vec<u32>) -> Vec<u32> {
    let lists = hierarchies().into_iter().map(|hierarchy| list(&hierarchy));
    lists.into_iter().find(|list| !list.is_empty()).unwrap_or_default()
}

fn processes_of(path: &Path) -> Vec<u32> {
    let listed = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
    listed.lines().filter_map(|id| id.parse().ok()).collect()
}

fn processes_of_tree(path: &Path) -> Vec<u32> {
    let below = children(path).unwrap_or_default();
    let below = below.iter().flat_map(|child| processes_of_tree(child));
    processes_of(path).into_iter().chain(below).collect()
}

fn find(parent: &Path, name: &str) -> Option<PathBuf> {
    children(parent).ok()?.into_iter().find_map(|child| {
        if child.file_name().is_some_and(|found| found == name) {
            Some(child)
        } else {
            find(&child, name)
        }
    })
}

fn children(path: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
    let folders = entries
        .into_iter()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    Ok(folders.map(|entry| entry.path()).collect())
}

fn remove_tree(path: &Path) -> io::Result<()> {
    // The kernel lets a cgroup go a moment after its last process.
    const PATIENCE: Duration = Duration::from_secs(10);
    children(path)?.iter().try_for_each(|child| remove_tree(child))?;
    let started = Instant::now();
    loop {
        match fs::remove_dir(path) {
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy && started.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            outcome => return outcome,
        }
    }
}
