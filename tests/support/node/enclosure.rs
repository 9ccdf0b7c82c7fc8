//! What holds a node: a mount, a network and a process namespace, a line to the machine, a cgroup and a folder.
//!
//! The three namespaces live as long as their first process. It takes all others with it, mounts and network too, so
//! neither a panic nor a SIGKILL of the test leaves a container running. Inside, /run, /var/lib and /var/log are folders of
//! the node: its programs have their usual paths, and those of other nodes on the machine are not seen.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::claims::Claim;
use super::life::Life;
use super::{cgroups, remains};
use crate::cluster::control_plane::{Ports, SERVICES};
use crate::cluster::processes::{Processes, children, wait};
use crate::cluster::{Answer, Authority, Site};

/// The namespaces, the line, the cgroup and the folder of a node; dropping it ends and removes all.
pub(crate) struct Enclosure {
    // Fields are dropped in this order: the processes end, then what they leave is removed.
    first: Processes,
    /// The first process, as the test sees it.
    first_id: u32,
    life: Life,
    claim: Claim,
}

impl Enclosure {
    /// Makes one.
    ///
    /// # Errors
    /// When this machine does not let us.
    pub(crate) fn new(life: Life) -> Result<Self, String> {
        let claim = Claim::take()?;
        let folder = remains::folder(claim.number());
        std::fs::create_dir_all(&folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
        cgroups::make(&remains::name(claim.number()))?;
        let (first, first_id) = start_first_process(&folder, &remains::name(claim.number()), life)?;
        let enclosure = Self {
            first,
            first_id,
            life,
            claim,
        };
        enclosure.connect()?;
        enclosure.furnish()?;
        Ok(enclosure)
    }

    /// Lets it stay; whoever has it forgets it.
    pub(crate) fn keep(&self) {
        self.claim.keep();
    }

    pub(crate) fn number(&self) -> u8 {
        self.claim.number()
    }

    /// What the node is called on this machine, its cgroup too.
    pub(crate) fn name(&self) -> String {
        remains::name(self.number())
    }

    /// All files of the node.
    pub(crate) fn folder(&self) -> PathBuf {
        remains::folder(self.number())
    }

    pub(crate) fn audit_log(&self) -> PathBuf {
        self.folder().join("audit.log")
    }

    /// The command that starts one of the node's programs inside, put before it.
    pub(crate) fn entry(&self) -> Vec<OsString> {
        let mut command = self.life.command();
        command.extend(self.nsenter(&["--mount", "--net", "--pid"]));
        if self.life == Life::Test {
            // nsenter stays outside and waits for the program, which must not outlive it.
            command.extend(self.life.command());
        }
        command
    }

    /// A program in the node's network alone: with the files and processes of this machine.
    pub(crate) fn in_network(&self, program: &OsStr) -> Command {
        self.entered(&["--net"], program)
    }

    /// A program inside, for a moment.
    pub(crate) fn inside(&self, program: &OsStr) -> Command {
        self.entered(&["--mount", "--net", "--pid"], program)
    }

    /// The place for a control plane: inside, reached from the machine and from pods.
    pub(crate) fn site(&self) -> Site {
        let (folder, address) = (self.folder(), remains::address(self.number()));
        let authority = Authority::new(&folder);
        let kubelet_client = authority.client("kubelet-client", Some("system:masters"));
        let policy = folder.join("audit.yaml");
        std::fs::write(&policy, include_str!("../../cluster/node/audit.yaml")).expect("the folder is new");
        let flags = vec![
            format!("--advertise-address={address}"),
            // Of both families, of which the later flag counts.
            format!("--service-cluster-ip-range={SERVICES},{}", remains::v6::SERVICES),
            format!("--kubelet-client-certificate={}", kubelet_client.certificate.display()),
            format!("--kubelet-client-key={}", kubelet_client.key.display()),
            // The node's name is no name that the API server could resolve.
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
            format!("--audit-policy-file={}", policy.display()),
            format!("--audit-log-path={}", self.audit_log().display()),
        ];
        Site {
            processes: Processes::through(&folder, self.entry()),
            folder,
            authority,
            address,
            ports: Ports {
                etcd: 2379,
                etcd_peers: 2380,
                api_server: 6443,
            },
            api_server: flags,
        }
    }

    /// Lays a line between the machine and the node, and the way to the pods.
    fn connect(&self) -> Result<(), String> {
        let (name, number) = (self.name(), self.number());
        let (outside, inside) = (remains::outside(number), remains::address(number));
        let script = format!(
            "ip link add {name} type veth peer name eth0 netns {}
             ip address add {outside}/24 dev {name}
             ip link set {name} up
             ip route add {pods} via {inside}",
            self.first_id,
            pods = remains::pods(number),
        );
        run(Command::new("bash"), &script, "a node needs a network device (veth)")
    }

    /// Prepares what the node's programs see.
    fn furnish(&self) -> Result<(), String> {
        let (outside, inside) = (remains::outside(self.number()), remains::address(self.number()));
        let script = format!(
            "ip link set lo up
             ip address add {inside}/24 dev eth0
             ip link set eth0 up
             ip route add default via {outside}
             ip address add {inside6}/64 dev eth0 nodad
             ip route add default via {outside6}
             echo 1 >/proc/sys/net/ipv4/ip_forward
             echo 1 >/proc/sys/net/ipv6/conf/all/forwarding
             mount --make-rshared /
             for place in run var/lib var/log; do
               mkdir -p {folder}/$place
               mount --bind {folder}/$place /$place
             done",
            folder = self.folder().display(),
            inside6 = remains::v6::address(self.number()),
            outside6 = remains::v6::outside(self.number()),
        );
        let shell = self.inside(OsStr::new("bash"));
        run(shell, &script, "a node needs a network and mounts of its own")
    }

    fn entered(&self, namespaces: &[&str], program: &OsStr) -> Command {
        let words = self.nsenter(namespaces);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(program);
        command
    }

    fn nsenter(&self, namespaces: &[&str]) -> Vec<OsString> {
        let target = format!("--target={}", self.first_id);
        let words = ["/usr/bin/nsenter", &target];
        words
            .iter()
            .chain(namespaces)
            .chain(&["--"])
            .map(OsString::from)
            .collect()
    }
}

impl Drop for Enclosure {
    fn drop(&mut self) {
        // The first process by itself, so that its end can be waited for; the claim says when it does not end.
        let _ = remains::end_processes(&self.name());
    }
}

/// Starts the process that the namespaces live by. The shell waits, and collects whoever loses its parent inside.
fn start_first_process(folder: &Path, mark: &str, life: Life) -> Result<(Processes, u32), String> {
    let mut first = Processes::through(folder, life.command());
    let arguments = [
        "--mount",
        "--net",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "--",
        "bash",
        "-c",
        "while :; do sleep infinity; done",
        mark,
    ];
    first.start("first", Path::new("/usr/bin/unshare"), &arguments.map(str::to_owned));
    let mut found = None;
    // It is there from the fork on, but carries its mark only once /proc is mounted and the shell runs.
    let outcome = wait(&[&first], "the first process runs", || {
        found = children(first.ids()[0]).into_iter().find(|id| is_shell(*id));
        found.is_some()
    });
    outcome.map_err(|_| {
        let log = std::fs::read_to_string(first.log("first")).unwrap_or_default();
        format!(
            "a node needs namespaces of its own, which this machine refuses: {}",
            log.trim()
        )
    })?;
    Ok((first, found.expect("the condition holds")))
}

fn is_shell(id: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name.trim() == "bash")
}

fn run(command: Command, script: &str, need: &str) -> Result<(), String> {
    let mut command = command;
    command.args(["-e", "-u"]);
    let answer = Answer::of(command, script);
    if answer.success {
        Ok(())
    } else {
        Err(format!("{need}: {}", answer.errors.trim()))
    }
}
