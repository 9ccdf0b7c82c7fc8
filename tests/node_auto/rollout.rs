//! A mesh that comes to applications while they are called, and turns strict while they are called.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use outrigger::names;
use serde_json::json;

use crate::capture::Capture;
use crate::workloads::{Echo, Load, Mesh, Namespace, client};
use crate::{GRPC, HTTP, Pair, app};

/// What the ids of requests begin with, by HTTP and by gRPC. HPACK would make these characters longer, so that they are on
/// the wire as they are (RFC 7541, appendix B).
const MARKERS: [&str; 2] = ["~|~|~|~|~|", "^|^|^|^|^|"];

/// Calls that go on until they are ended.
#[derive(Clone, Copy)]
enum Calls {
    /// Answered at once.
    Quick,
    /// Always some under way.
    Slow,
}

/// An application of two pods, one of which always serves, and which goes on for a while when it is to end. It writes the
/// id of each request into a folder of the machine.
fn lasting(name: &str, journal: &Path) -> Echo {
    let mut container = json!({"volumeMounts": [{"name": "journal", "mountPath": "/journal"}]});
    container["ports"] = crate::container_ports();
    let spec = json!({
        "terminationGracePeriodSeconds": 30,
        "containers": [crate::loader()],
        "volumes": [{"name": "journal", "hostPath": {"path": journal}}],
    });
    let app = app(name)
        .replicas(2)
        .argument("-drain=10s")
        .argument("-journal=/journal");
    app.container(container).spec(spec)
}

/// A caller of the mesh that stays.
fn caller(name: &str) -> Echo {
    client(name).label(names::INJECT, "enabled")
}

/// Ends all calls at its own end, which may be that of a test that has failed.
struct Until<'r>(&'r Rollout<'r>);

impl Drop for Until<'_> {
    fn drop(&mut self) {
        self.0.shop().end_loads(&self.0.caller);
    }
}

struct Rollout<'m> {
    pair: Pair<'m>,
    caller: String,
    journal: tempfile::TempDir,
}

impl<'m> Rollout<'m> {
    /// Six applications without a proxy, and one caller in the mesh.
    fn new(mesh: &'m Mesh) -> Self {
        let journal = tempfile::tempdir().unwrap();
        // The applications are not root.
        fs::set_permissions(journal.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let pair = Pair::new(mesh, "auto-rollout", false);
        pair.deploy(|name| lasting(name, journal.path()));
        for namespace in &pair.namespaces {
            let label = format!("{}=enabled", names::INJECT);
            namespace
                .kubectl(&["label", "namespace", &namespace.name, &label])
                .expect_success();
        }
        pair.annotate(&[]);
        let shop = &pair.namespaces[0];
        shop.deploy(&[&caller("caller")]);
        let caller = shop.pod("caller");
        Self { pair, caller, journal }
    }

    fn shop(&self) -> &Namespace<'m> {
        &self.pair.namespaces[0]
    }

    /// Every application with its namespace.
    fn apps(&self) -> Vec<(&Namespace<'m>, &'static str)> {
        let all = self.pair.apps();
        all.flat_map(|(namespace, apps)| apps.map(|app| (namespace, app)))
            .collect()
    }

    /// All pods of the applications.
    fn pods(&self) -> Vec<(&Namespace<'m>, String)> {
        let all = self.apps().into_iter();
        all.flat_map(|(namespace, app)| namespace.pods(app).into_iter().map(move |pod| (namespace, pod)))
            .collect()
    }

    /// Calls everybody in every way while something happens, and tells what became of each kind of call. The ids of this
    /// phase hold its letter.
    fn under_load(&self, phase: char, calls: Calls, happens: impl FnOnce()) -> Vec<(String, Load)> {
        thread::scope(|scope| {
            let loads: Vec<_> = self
                .loads(phase, calls)
                .into_iter()
                .map(|arguments| {
                    scope.spawn(move || {
                        let said: Vec<&str> = arguments.iter().map(String::as_str).collect();
                        let load = self.shop().load(&self.caller, &said);
                        (arguments.join(" "), load)
                    })
                })
                .collect();
            let until = Until(self);
            happens();
            drop(until);
            loads.into_iter().map(|load| load.join().expect("it reports")).collect()
        })
    }

    fn loads(&self, phase: char, calls: Calls) -> Vec<Vec<String>> {
        let hosts = self.pair.hosts();
        // Each application is made to call the next one, too.
        let next = hosts.iter().cycle().skip(1);
        let (how, path, service) = match calls {
            Calls::Quick => (["-rate=10", "-for=10m"], "/", ""),
            Calls::Slow => (["-connections=4", "-for=10m"], "/slow?for=300ms", "slow"),
        };
        let kinds = hosts.iter().zip(next).flat_map(|(host, next)| {
            let onward = format!("/call?relay=1&url=http://{next}:{HTTP}{path}");
            let http = |path: &str, more: &[&str]| {
                (
                    0,
                    more.iter()
                        .map(|m| (*m).to_owned())
                        .chain([format!("http://{host}:{HTTP}{path}")])
                        .collect(),
                )
            };
            let grpc = vec![
                "-grpc".to_owned(),
                format!("-service={service}"),
                format!("{host}:{GRPC}"),
            ];
            let all: [(usize, Vec<String>); 3] = [
                http(path, &["-method=POST", "-fresh"]),
                http(&onward, &["-method=POST"]),
                (1, grpc),
            ];
            all
        });
        let numbered = kinds.enumerate().map(|(n, (marker, rest))| {
            let ids = format!("-ids={}{phase}{n}.", MARKERS[marker]);
            let how = how.map(str::to_owned).into_iter().chain([ids]);
            how.chain(rest).collect()
        });
        numbered.collect()
    }

    /// Restarts all Deployments in random order, two at a time, each whole before the next, until none of the pods is left
    /// that there were.
    fn restart_all(&self) {
        let before = self.pods();
        let mut all = self.apps();
        all.sort_by_cached_key(|_| RandomState::new().build_hasher().finish());
        for pair in all.chunks(2) {
            for (namespace, app) in pair {
                namespace
                    .kubectl(&["rollout", "restart", &format!("deployment/{app}")])
                    .expect_success();
            }
            pair.iter()
                .for_each(|(namespace, app)| namespace.wait_until_served(app));
        }
        for (namespace, pod) in before {
            namespace.wait_for("delete", &format!("pod/{pod}"));
        }
    }

    /// Ends three applications and three proxies, each of another workload, while the other pod of it goes on.
    fn kill_some(&self) {
        for (n, (namespace, app)) in self.apps().into_iter().enumerate() {
            let container = if n % 2 == 0 { "app" } else { names::PROXY_CONTAINER };
            namespace
                .node
                .kill_container(&namespace.name, &namespace.pods(app)[0], container);
            thread::sleep(Duration::from_secs(1));
        }
        for (namespace, app) in self.apps() {
            namespace.eventually("both pods of it are ready", || {
                namespace.get(&["deployment", app])["status"]["readyReplicas"] == 2
            });
        }
    }

    /// The markers that are on the wire in plain during some seconds.
    fn seen_on_the_wire(&self) -> Vec<&'static str> {
        let ports = format!("tcp port {HTTP} or tcp port {GRPC}");
        let capture = Capture::start(self.shop(), &[&ports]);
        self.shop()
            .eventually("there is traffic", || capture.bytes().len() > 100_000);
        MARKERS
            .into_iter()
            .filter(|marker| capture.holds(marker.as_bytes()))
            .collect()
    }

    /// The ids that each application was sent, each with the pods that were.
    fn journals(&self) -> BTreeMap<&'static str, BTreeMap<String, Vec<String>>> {
        let mut journals: BTreeMap<_, BTreeMap<String, Vec<String>>> = BTreeMap::new();
        for entry in fs::read_dir(self.journal.path()).unwrap().map(Result::unwrap) {
            let pod = entry.file_name().into_string().unwrap();
            let (_, app) = self
                .apps()
                .into_iter()
                .find(|(_, app)| pod.starts_with(&format!("{app}-")))
                .unwrap();
            let ids = journals.entry(app).or_default();
            for id in fs::read_to_string(entry.path()).unwrap().lines() {
                ids.entry(id.to_owned()).or_default().push(pod.clone());
            }
        }
        journals
    }

    /// No application was sent a request twice, and each that was answered was sent.
    fn expect_each_once(&self, phase: char, loads: &[(String, Load)]) {
        let journals = self.journals();
        for (app, ids) in &journals {
            let twice: BTreeMap<_, _> = ids.iter().filter(|(_, pods)| pods.len() > 1).collect();
            let told = twice.keys().map(|id| self.said_of(id)).collect::<String>();
            assert!(twice.is_empty(), "{app} was sent twice: {twice:?}\n{told}");
        }
        let marked = |id: &&String| MARKERS.iter().any(|m| id.starts_with(&format!("{m}{phase}")));
        let sent: BTreeSet<&String> = journals.values().flat_map(BTreeMap::keys).filter(marked).collect();
        let (made, failed) = loads.iter().fold((0, 0), |(made, failed), (_, load)| {
            (made + load.requests, failed + load.failed)
        });
        let sent = u64::try_from(sent.len()).unwrap();
        assert!(
            (made - failed..=made).contains(&sent),
            "{sent} of {made}, {failed} failed"
        );
    }

    /// What the caller's proxy said of calls that failed, for the message of a failure.
    fn complaints(&self) -> String {
        let log = self.shop().log(&self.caller, names::PROXY_CONTAINER);
        // A server without a proxy is no failure.
        let usual = |line: &&str| line.contains("SSL_do_handshake") || line.contains("\"status\":20");
        log.lines().filter(|line| !usual(line)).collect::<Vec<_>>().join("\n")
    }

    /// What all proxies said of a request, for the message of a failure.
    fn said_of(&self, id: &str) -> String {
        let caller = (self.shop(), self.caller.clone());
        let mut said = String::new();
        for (namespace, pod) in self.pods().into_iter().chain([caller]) {
            let log = namespace.log(&pod, names::PROXY_CONTAINER);
            for line in log.lines().filter(|line| line.contains(id)) {
                said += &format!("{pod}: {line}\n");
            }
        }
        said
    }

    fn expect_none_failed(&self, loads: &[(String, Load)]) {
        let failed: Vec<_> = loads.iter().filter(|(_, load)| load.failed > 0).collect();
        assert!(failed.is_empty(), "{failed:#?}\n{}", self.complaints());
        for (name, load) in loads {
            assert!(load.requests > 50, "{name}: {load:?}");
            // Pods of before, and those that came after.
            assert!(load.served_by.len() >= 2, "{name}: {load:?}");
        }
    }

    /// Each application is called by HTTP and gRPC, and from now on by the mesh alone.
    fn expect_mtls(&self) {
        let before = self.inbound();
        let [http, grpc] = crate::TLS.map(u64::from);
        for (n, (namespace, app)) in self.apps().into_iter().enumerate() {
            let mut ports = Vec::new();
            namespace.eventually(&format!("{app} is called in both ways"), || {
                ports = inbound(namespace, app).split_off(before[n].len());
                ports.len() > 20 && ports.contains(&http) && ports.contains(&grpc)
            });
            assert!(ports.iter().all(|port| [http, grpc].contains(port)), "{app}: {ports:?}");
        }
    }

    fn inbound(&self) -> Vec<Vec<u64>> {
        let all = self.apps().into_iter();
        all.map(|(namespace, app)| inbound(namespace, app)).collect()
    }
}

/// The ports of the proxies on which an application was called, in the order of time. Probes come from the node.
fn inbound(namespace: &Namespace<'_>, app: &str) -> Vec<u64> {
    let mut calls: Vec<(String, u64)> = Vec::new();
    for pod in namespace.pods(app) {
        let log = namespace.access_log(&pod).into_iter();
        let others = log.filter(|line| !line["remote"].as_str().unwrap().ends_with(".1"));
        let timed = others.map(|line| (line["time"].to_string(), line["port"].as_u64().unwrap()));
        calls.extend(timed.filter(|(_, port)| (15_200..15_500).contains(port)));
    }
    // The sort is stable.
    calls.sort_by(|(one, _), (other, _)| one.cmp(other));
    calls.into_iter().map(|(_, port)| port).collect()
}

#[test]
fn no_call_fails_while_applications_are_restarted_into_the_mesh_and_to_strict() {
    let mesh: Arc<Mesh> = Mesh::shared();
    let rollout = Rollout::new(&mesh);

    let loads = rollout.under_load('a', Calls::Quick, || {
        assert_eq!(rollout.seen_on_the_wire(), MARKERS, "plain calls are seen");
        rollout.restart_all();
        rollout.expect_mtls();
        assert!(rollout.seen_on_the_wire().is_empty());
    });
    rollout.expect_none_failed(&loads);
    rollout.expect_each_once('a', &loads);

    let loads = rollout.under_load('b', Calls::Slow, || rollout.kill_some());
    let failed: u64 = loads.iter().map(|(_, load)| load.failed).sum();
    assert!(failed > 0, "calls were under way at those that were killed");
    rollout.expect_each_once('b', &loads);

    rollout.pair.annotate(&[&format!("{}=strict", names::MTLS)]);
    let loads = rollout.under_load('c', Calls::Quick, || {
        rollout.restart_all();
        rollout.expect_mtls();
        assert!(rollout.seen_on_the_wire().is_empty());
    });
    rollout.expect_none_failed(&loads);
    rollout.expect_each_once('c', &loads);
    for (namespace, app) in rollout.apps() {
        // Its probe alone is answered in plain.
        let refused = namespace.call_service(app, HTTP, "/called", &[]).unwrap();
        assert_eq!((refused.status, &refused.header("x-served-by")), (403, &None), "{app}");
    }
}
