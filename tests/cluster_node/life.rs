//! Beginning and end: of the API server, of a node, of a test that is killed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::cluster::processes::{children, has_ended};
use crate::node::claims::{Claim, remove_one};
use crate::node::enclosure::Enclosure;
use crate::node::{Life, Node, cgroups, remains};
use crate::{eventually, field, serve};

/// What there is of a node on this machine, in words for a failed assertion.
fn remains_of(number: u8) -> Vec<String> {
    let (name, folder) = (remains::name(number), remains::folder(number));
    let cgroups = cgroups::hierarchies()
        .into_iter()
        .map(|hierarchy| hierarchy.join(&name));
    let interface = Path::new("/sys/class/net").join(&name);
    let files = cgroups.chain([interface, folder.clone()]).filter(|path| path.exists());
    let mut found: Vec<String> = files.map(|path| path.display().to_string()).collect();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let ours = |line: &&str| line.contains(&*folder.to_string_lossy()) || line.contains(&name);
    found.extend(mounts.lines().filter(ours).map(str::to_owned));
    found.extend(remains::marked(&name).iter().map(|id| format!("process {id}")));
    found
}

/// The process that the namespaces of a node live by.
fn first_process(number: u8) -> u32 {
    let outside = namespace("pid", std::process::id());
    let marked = remains::marked(&remains::name(number));
    marked.into_iter().find(|id| namespace("pid", *id) != outside).unwrap()
}

fn namespace(kind: &str, id: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{id}/ns/{kind}")).ok()
}

fn name_of(id: u32) -> String {
    fs::read_to_string(format!("/proc/{id}/comm"))
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// The processes that share a namespace of that kind with a process.
fn sharing(kind: &str, id: u32) -> Vec<u32> {
    let wanted = namespace(kind, id);
    assert!(wanted.is_some(), "{id} runs");
    processes().filter(|id| namespace(kind, *id) == wanted).collect()
}

/// All processes on this machine.
fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
}

/// The session of a process, which a terminal ends as a whole.
fn session(id: u32) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    let fields = stat.rsplit(')').next().unwrap();
    fields.split_whitespace().nth(3).unwrap().parse().unwrap()
}

/// The node that a running program has started by now.
fn number_of(run: &mut Child) -> u8 {
    eventually("it starts a node", || started_by(run.id()).is_some());
    started_by(run.id()).unwrap()
}

fn started_by(starter: u32) -> Option<u8> {
    let of_child = |id: u32| {
        let line = fs::read_to_string(format!("/proc/{id}/cmdline")).ok()?;
        line.split('\0')
            .find_map(|argument| argument.strip_prefix("outrigger-")?.parse().ok())
    };
    children(starter).into_iter().find_map(of_child)
}

#[test]
fn goes_on_after_the_api_server_is_restarted() {
    let node = Node::start();
    serve(&node, "restart");

    let started = || {
        let metrics = node.cluster.kubectl(&["get", "--raw", "/metrics"]).expect_success();
        let line = metrics
            .lines()
            .find(|line| line.starts_with("process_start_time_seconds "));
        line.unwrap().to_owned()
    };
    let before = started();

    node.restart_api_server();

    assert_ne!(started(), before);
    assert_eq!(field(&node, "restart", "pod/web", ".status.phase"), "Running");
    node.cluster
        .kubectl(&["delete", "pod", "web", "-n", "restart"])
        .expect_success();
    serve(&node, "restarted");
    let log = fs::read_to_string(node.audit_log()).unwrap();
    let requests = log
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let creations: Vec<_> = requests
        .filter(|request| request["verb"] == "create" && request["objectRef"]["resource"] == "pods")
        .filter(|request| request["user"]["username"] == "admin")
        .map(|request| request["objectRef"]["namespace"].clone())
        .collect();
    assert_eq!(creations, ["restart", "restarted"]);
}

#[test]
fn leaves_nothing_behind() {
    let node = Node::start();
    serve(&node, "left");
    let number = node.number();
    let [container] = node.container_processes("left", "web", "app")[..] else {
        panic!("httpd runs alone");
    };
    let first = first_process(number);
    let inside = sharing("pid", first);
    let names: Vec<String> = inside.iter().map(|id| name_of(*id)).collect();
    for program in [
        "etcd",
        "kube-apiserver",
        "containerd",
        "containerd-shim",
        "kubelet",
        "kube-proxy",
    ] {
        assert!(
            names.iter().any(|name| program.starts_with(name)),
            "{program}: {names:?}"
        );
    }
    let before = remains_of(number);
    assert!(before.len() > 5, "{before:?}");

    drop(node);

    assert_eq!(remains_of(number), Vec::<String>::new());
    let left: Vec<u32> = inside
        .into_iter()
        .chain([container])
        .filter(|id| !has_ended(*id))
        .collect();
    assert_eq!(left, Vec::<u32>::new());
}

/// Another run of this program with one of its tests, killed when its pods run.
#[test]
fn removes_what_a_killed_run_left() {
    let mut run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "life::leaves_nothing_behind"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let number = number_of(&mut run);
    eventually("its pods run", || {
        !cgroups::processes(&remains::name(number)).is_empty()
    });
    let containers = cgroups::processes(&remains::name(number));
    let file = remains::folder(number).join("ca.crt");
    let certificate = fs::read(&file).unwrap();
    assert!(run.try_wait().unwrap().is_none(), "it is still at it");
    run.kill().unwrap();
    run.wait().unwrap();

    eventually("the kernel ends its containers", || {
        containers.iter().all(|id| has_ended(*id))
    });
    assert_eq!(fs::read(&file).unwrap(), certificate, "its files are left");

    // What each start does first.
    drop(Claim::take().unwrap());

    eventually("its remains are gone", || match fs::read(&file) {
        // Another node got the number in between.
        Ok(other) => other != certificate,
        Err(_) => remains_of(number).is_empty(),
    });
}

#[test]
fn keeps_what_is_to_be_kept_until_it_is_removed() {
    let enclosure = Enclosure::new(Life::Kept).unwrap();
    let number = enclosure.number();
    enclosure.keep();
    std::mem::forget(enclosure);

    drop(Claim::take().unwrap());

    let waiting = remains::marked(&remains::name(number));
    assert_eq!(waiting.len(), 2, "no start removes it");
    assert!(waiting.iter().all(|id| session(*id) != session(std::process::id())));

    assert_eq!(remove_one(number), Ok(true));
    assert_eq!(remains_of(number), Vec::<String>::new());
}

/// This program with one of its tests, under a `setpriv` that takes rights away; what it said when it failed.
fn failure_with(rights: &[&str]) -> String {
    // Where anybody may read it.
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("tests");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let output = Command::new("setpriv")
        .args(rights)
        .arg("--")
        .arg(program)
        .args(["--exact", "pods::is_one_ready_node_of_the_same_version"])
        .output()
        .unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn says_what_it_is_not_allowed() {
    let nobody = failure_with(&["--reuid=65534", "--regid=65534", "--clear-groups"]);
    assert!(nobody.contains("which only root may: run this as root"), "{nobody}");

    let bound = failure_with(&["--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]);
    assert!(
        bound.contains("a node needs namespaces of its own, which this machine refuses"),
        "{bound}"
    );
}
