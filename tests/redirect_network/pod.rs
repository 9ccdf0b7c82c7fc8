//! An injected pod in the small cluster: its files, its init container and its nginx, all as the injected manifest says.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use crate::processes::Processes;
use crate::program::{Run, outrigger};
use crate::site::{NODE, POD, Site};
use crate::space::Space;
use crate::talk::{MARK, PATIENCE, get, try_get};
use crate::tools::tool;

/// Where the pod has its programs; their own folders may be closed to its users.
const PROGRAMS: &str = "/run/programs";

/// The capabilities of the init container, by its securityContext.
pub(crate) const NET_ADMIN: &str = "-all,+net_admin";
/// None.
pub(crate) const NOTHING: &str = "-all";

/// The pod's manifest: annotations without their prefix, and ports by name.
pub(crate) fn manifest(annotations: &[(&str, &str)], ports: &[(&str, u16)]) -> Value {
    let annotations: BTreeMap<String, &str> = annotations
        .iter()
        .map(|(key, value)| (format!("outrigger.mesh/{key}"), *value))
        .collect();
    let ports: Vec<Value> = ports
        .iter()
        .map(|(name, port)| json!({"name": name, "containerPort": port}))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop", "annotations": annotations},
        "spec": {"containers": [{"name": "app", "image": "app:1", "ports": ports}]},
    })
}

/// What `outrigger inject` makes of it, with these of Outrigger's own variables.
pub(crate) fn injected(manifest: &Value, variables: &[(&str, &str)]) -> Value {
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "shop", "labels": {"outrigger.mesh/inject": "enabled"}},
    });
    let mut program = outrigger();
    program.envs(variables.iter().copied()).args(["inject", "-f", "-"]);
    let run = Run::from(program.write_stdin(format!("{namespace}\n---\n{manifest}\n")));
    let pod = run.documents().pop().expect("the pod comes last");
    assert!(run.stderr.contains("injected"), "{}", run.stderr);
    pod
}

/// The pod. Its nginx ends with this.
pub(crate) struct Pod<'s> {
    site: &'s Site,
    injected: Value,
    nginx: Option<Processes>,
    marks: Cell<usize>,
    /// How many lines there were before the test began.
    before: usize,
}

impl<'s> Pod<'s> {
    /// The pod's files; nothing runs yet.
    pub(crate) fn new(site: &'s Site, injected: Value) -> Self {
        let pod = Self {
            site,
            injected,
            nginx: None,
            marks: Cell::new(0),
            before: 0,
        };
        pod.furnish();
        pod
    }

    /// A pod in which the init container has run and nginx serves.
    pub(crate) fn started(site: &'s Site, manifest: &Value) -> Self {
        let mut pod = Self::new(site, injected(manifest, &[]));
        pod.init();
        pod.start_nginx();
        pod
    }

    fn furnish(&self) {
        let space = self.site.pod;
        space.run(&format!(
            "mount -t tmpfs tmpfs /run; mkdir -p {PROGRAMS} /run/etc/outrigger"
        ));
        for (name, file) in [
            ("outrigger", PathBuf::from(env!("CARGO_BIN_EXE_outrigger"))),
            ("nginx", tool("TEST_NGINX")),
        ] {
            space.run(&format!(
                "touch {PROGRAMS}/{name}; mount --bind {} {PROGRAMS}/{name}",
                file.display()
            ));
        }
        let search = "shop.svc.cluster.local svc.cluster.local cluster.local wild.test";
        let resolv = format!("nameserver {}\nsearch {search}\noptions ndots:5\n", self.site.dns());
        self.write("/run/etc/resolv.conf", &resolv);
        let conf = &self.injected["metadata"]["annotations"]["outrigger.mesh/nginx.conf"];
        self.write(
            "/run/etc/outrigger/nginx.conf",
            conf.as_str().expect("the pod is injected"),
        );
        space.run(
            "mount -t overlay -o lowerdir=/run/etc:/etc overlay /etc
             mount -t tmpfs -o mode=1777 tmpfs /tmp",
        );
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.space().path(path), text).expect("the folder is there");
    }

    pub(crate) fn space(&self) -> Space {
        self.site.pod
    }

    fn container(&self, list: &str, name: &str) -> &Value {
        let containers = self.injected["spec"][list].as_array().into_iter().flatten();
        let mut found = containers.filter(|container| container["name"] == name);
        found.next().unwrap_or_else(|| panic!("no {name} in {}", self.injected))
    }

    /// The arguments of the init container, with its variables put in as the kubelet does.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let container = self.container("initContainers", "proxy-redirect");
        let arguments = strings(&container["args"]);
        let host_ips: Vec<String> = self
            .site
            .families()
            .of(NODE)
            .map(|address| address.to_string())
            .collect();
        let variables = container["env"].as_array().into_iter().flatten();
        variables.fold(arguments, |arguments, variable| {
            assert_eq!(
                variable["valueFrom"]["fieldRef"]["fieldPath"], "status.hostIPs",
                "{variable}"
            );
            let reference = format!("$({})", variable["name"].as_str().expect("it has a name"));
            let with_value = |argument: String| argument.replace(&reference, &host_ips.join(","));
            arguments.into_iter().map(with_value).collect()
        })
    }

    /// `outrigger` in the pod: as root with these capabilities and no way to more.
    pub(crate) fn outrigger(&self, capabilities: &str) -> Command {
        let mut command = self.space().command("/usr/bin/setpriv");
        command.args([&format!("--bounding-set={capabilities}"), "--no-new-privs", "--"]);
        command.arg(format!("{PROGRAMS}/outrigger"));
        command
    }

    /// Runs the init container with the capabilities that it has.
    pub(crate) fn try_init(&self, more: &[&str]) -> Run {
        let security = &self.container("initContainers", "proxy-redirect")["securityContext"];
        assert_eq!(security["runAsUser"], 0);
        assert_eq!(security["capabilities"], json!({"drop": ["ALL"], "add": ["NET_ADMIN"]}));
        let mut command = self.outrigger(NET_ADMIN);
        finished(command.args(self.arguments()).args(more))
    }

    /// Runs the init container to success.
    pub(crate) fn init(&self) {
        let run = self.try_init(&[]);
        assert_eq!(run.code, 0, "{}", run.stderr);
    }

    /// Starts nginx by the container's own command and waits until it serves and knows its upstreams.
    pub(crate) fn start_nginx(&mut self) {
        self.start_nginx_early();
        self.wait_for_upstreams();
        self.before = self.lines().iter().filter(|line| !is_mark(line)).count();
    }

    /// Starts nginx and waits no longer than the kubelet does.
    pub(crate) fn start_nginx_early(&mut self) {
        let processes = self.new_nginx();
        self.wait_for_health(&processes);
        self.nginx = Some(processes);
    }

    /// Starts nginx where it cannot serve; what it says.
    pub(crate) fn failing_nginx(&self) -> String {
        let processes = self.new_nginx();
        let started = Instant::now();
        while processes.ended().is_none() {
            assert!(started.elapsed() < PATIENCE, "nginx runs{}", processes.log_tails());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        processes.log_tails()
    }

    fn new_nginx(&self) -> Processes {
        let log = self.log();
        // nginx opens what stands behind /dev/stdout anew, as its own user.
        fs::write(&log, "").expect("it can be made");
        fs::set_permissions(&log, fs::Permissions::from_mode(0o666)).expect("it is ours");
        let container = self.container("containers", "proxy-sidecar");
        let uid = &container["securityContext"]["runAsUser"];
        let mut words = self.space().entry();
        // In a process namespace of its own, as in a container: its workers end with it.
        words.extend(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--"].map(str::to_owned));
        words.extend(["setpriv", "--clear-groups", "--bounding-set=-all", "--no-new-privs"].map(str::to_owned));
        // After the user, since a change of it forgets the signal.
        words.extend([
            format!("--reuid={uid}"),
            format!("--regid={uid}"),
            "--pdeathsig=KILL".to_owned(),
        ]);
        let mut command = strings(&container["command"]);
        command[0] = format!("{PROGRAMS}/{}", command[0]);
        words.extend(["--".to_owned()].into_iter().chain(command));
        let mut processes = Processes::new(self.site.folder());
        processes.start("nginx", Path::new(&words[0]), &words[1..]);
        processes
    }

    fn wait_for_health(&self, processes: &Processes) {
        let started = Instant::now();
        while !try_get(self.space(), (self.address(), 15021), "/healthz").is_ok_and(|answer| answer.status == 200) {
            assert_eq!(processes.ended(), None, "{}", processes.log_tails());
            assert!(
                started.elapsed() < PATIENCE,
                "nginx does not serve{}",
                processes.log_tails()
            );
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// nginx serves before DNS has told it where its upstreams are (docs/limits.md), so calls could come too early.
    pub(crate) fn wait_for_upstreams(&self) {
        let loopback: IpAddr = [127, 0, 0, 1].into();
        let arguments = self.arguments();
        let outbound = arguments
            .iter()
            .filter_map(|argument| argument.strip_prefix("--outbound="));
        for port in outbound.filter_map(|target| target.rsplit(':').next()?.parse::<u16>().ok()) {
            let started = Instant::now();
            let knows = |line: &Value| {
                // Without one it logs the name of the group in the address's place.
                line["port"] == port && line["upstream"].as_str().is_some_and(|upstream| upstream.contains(':'))
            };
            while !self.lines().iter().any(knows) {
                assert!(
                    started.elapsed() < PATIENCE,
                    "nginx does not know its upstream on {port}"
                );
                // Refused or answered: the log tells.
                let _ = try_get(self.space(), (loopback, port), "/mark-start");
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
    }

    fn address(&self) -> IpAddr {
        self.site.families().of(POD).next().expect("a pod has a family")
    }

    fn log(&self) -> PathBuf {
        self.site.folder().join("nginx.log")
    }

    /// The access log so far.
    fn lines(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.log()).expect("nginx was started");
        let lines = text.lines().filter(|line| line.starts_with('{') && line.ends_with('}'));
        lines.map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// All that has passed nginx since its start, as it wrote it. A call of its own, which comes after all others, is the
    /// sign that nothing is missing.
    pub(crate) fn passed(&self) -> Vec<Value> {
        let mark = format!("{MARK}{}", self.marks.replace(self.marks.get() + 1));
        get(self.space(), (self.address(), 15200), &mark);
        let started = Instant::now();
        loop {
            let lines = self.lines();
            if lines.iter().any(|line| line["path"] == mark.as_str()) {
                return lines
                    .into_iter()
                    .filter(|line| !is_mark(line))
                    .skip(self.before)
                    .collect();
            }
            assert!(started.elapsed() < PATIENCE, "no {mark} in the log: {lines:?}");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// The lines of the access log for a path.
    pub(crate) fn passed_at(&self, path: &str) -> Vec<Value> {
        self.passed().into_iter().filter(|line| line["path"] == path).collect()
    }

    /// The rules of the pod as the kernel has them.
    pub(crate) fn ruleset(&self) -> String {
        self.space().run("nft list ruleset")
    }
}

/// Runs a command to its end.
pub(crate) fn finished(command: &mut Command) -> Run {
    let output = command.output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("it prints text");
    Run {
        code: output.status.code().expect("it ends by itself"),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// A call of the test's own.
fn is_mark(line: &Value) -> bool {
    line["path"].as_str().is_some_and(|path| path.starts_with(MARK))
}

fn strings(list: &Value) -> Vec<String> {
    let items = list.as_array().expect("a list").iter();
    items
        .map(|item| item.as_str().expect("of strings").to_owned())
        .collect()
}
