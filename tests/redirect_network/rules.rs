//! The rules as the kernel has them: put in force at once, again and anew.

use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::nft;
use crate::pod::{NET_ADMIN, Pod, finished, injected, manifest};
use crate::processes::Processes;
use crate::site::{Families, ORDERS, POD, Site};
use crate::talk::{PATIENCE, Server, ask, connect, connect_from, get, say};

const ANY: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// A pod with every kind of rule.
fn with_all_rules(site: &Site) -> Pod<'_> {
    let mut manifest = manifest(&[("upstreams", "- orders.shop:8080")], &[("http", 8080), ("raw", 5000)]);
    manifest["spec"]["containers"][0]["livenessProbe"] = serde_json::json!({"tcpSocket": {"port": 5000}});
    Pod::new(site, injected(&manifest, &[]))
}

#[test]
fn the_kernel_has_what_was_printed() {
    let site = Site::new(Families::Dual);
    let pod = with_all_rules(&site);
    let run = pod.try_init(&[]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    expect_test::expect![[r"
        table inet outrigger
        delete table inet outrigger
        table inet outrigger {
          chain inbound {
            type nat hook prerouting priority dstnat; policy accept;
            tcp flags & (fin | syn | rst | ack) != syn return
            ip saddr 10.244.1.1 tcp dport 5000 return
            ip saddr 172.30.0.2 tcp dport 5000 return
            ip6 saddr fd00:30::2 tcp dport 5000 return
            ip6 saddr fd00:244:1::1 tcp dport 5000 return
            tcp dport 8080 redirect to :15200
            tcp dport 5000 redirect to :15201
          }
          chain outbound {
            type nat hook output priority -100; policy accept;
            tcp flags & (fin | syn | rst | ack) != syn return
            meta skuid 101 return
            ip daddr 10.96.0.20 tcp dport 8080 redirect to :15100
            ip6 daddr fd00:96::20 tcp dport 8080 redirect to :15100
          }
        }
    "]]
    .assert_eq(&run.stdout);
    let listed = pod.space().run("nft --numeric-priority list ruleset");
    let [listed, printed] = [listed, run.stdout].map(|text| rules(&text));
    // Made and deleted first, whatever was there.
    assert_eq!(listed, printed[2..]);
}

/// The lines without what nft writes in one way or another, by its version.
fn rules(script: &str) -> Vec<String> {
    let one_way = [
        ("priority dstnat", "priority -100"),
        (
            "tcp flags != syn / fin,syn,rst,ack",
            "tcp flags & (fin | syn | rst | ack) != syn",
        ),
    ];
    let replaced = one_way
        .iter()
        .fold(script.to_owned(), |text, (other, one)| text.replace(other, one));
    let lines = replaced.lines().map(|line| line.trim().to_owned());
    lines.filter(|line| !line.is_empty()).collect()
}

#[test]
fn a_second_run_changes_nothing() {
    let site = Site::new(Families::Dual);
    let pod = with_all_rules(&site);
    let mut seen = Vec::new();
    for _ in 0..3 {
        pod.init();
        seen.push(pod.ruleset());
    }
    assert!(
        seen[0].contains("redirect to :15200") && seen.iter().all(|rules| *rules == seen[0]),
        "{seen:?}"
    );
}

#[test]
fn a_dry_run_prints_and_changes_nothing() {
    let site = Site::new(Families::Dual);
    let pod = with_all_rules(&site);
    let dry = pod.try_init(&["--dry-run"]);
    assert_eq!((dry.code, pod.ruleset().as_str()), (0, ""), "{}", dry.stderr);
    let real = pod.try_init(&[]);
    assert_eq!(dry.stdout, real.stdout);
}

#[test]
fn other_arguments_replace_all_rules_and_leave_those_of_others() {
    let site = Site::new(Families::Dual);
    let pod = with_all_rules(&site);
    pod.space().run(
        "nft -f - <<'END'
         table ip others { chain c { type nat hook prerouting priority dstnat; tcp dport 1 redirect to :2; }; }
         table inet outriggers { chain inbound { tcp dport 3 counter accept; }; }
END",
    );
    let others = pod.ruleset();
    pod.init();
    assert_eq!(pod.ruleset().matches("redirect to :15").count(), 4);
    let redirect = |arguments: &[&str]| finished(pod.outrigger(NET_ADMIN).arg("redirect").args(arguments));
    assert_eq!(redirect(&["--proxy-uid=101", "--inbound=7000:15200"]).code, 0);
    let changed = pod.ruleset();
    assert!(changed.contains("tcp dport 7000 redirect to :15200"), "{changed}");
    assert_eq!(changed.matches("redirect to :15").count(), 1, "{changed}");
    let (kept, own) = changed.split_at(others.len());
    assert_eq!(kept, others);
    assert!(own.starts_with("table inet outrigger {"), "{own}");
}

/// What `nft monitor` tells of the changes of a namespace.
struct Monitor<'p> {
    pod: &'p Pod<'p>,
    processes: Processes,
    _folder: tempfile::TempDir,
}

impl<'p> Monitor<'p> {
    fn start(pod: &'p Pod<'p>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut processes = Processes::new(folder.path());
        let mut words = pod.space().entry();
        words.extend(["stdbuf", "-oL", "nft", "monitor"].map(str::to_owned));
        processes.start("monitor", Path::new(&words[0]), &words[1..]);
        let monitor = Self {
            pod,
            processes,
            _folder: folder,
        };
        monitor.until("begin");
        monitor
    }

    /// All up to now: a table made for the purpose comes last.
    fn until(&self, name: &str) -> String {
        let started = Instant::now();
        loop {
            // It may not have listened yet.
            self.pod
                .space()
                .run(&format!("nft add table ip {name}; nft delete table ip {name}"));
            let text = std::fs::read_to_string(self.processes.log("monitor")).unwrap();
            if let Some((before, _)) = text.split_once(&format!("add table ip {name}")) {
                return before.to_owned();
            }
            assert!(started.elapsed() < PATIENCE, "{text}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn all_rules_come_in_force_in_one_step() {
    let site = Site::new(Families::Dual);
    let pod = with_all_rules(&site);
    pod.init();
    let monitor = Monitor::start(&pod);
    pod.init();
    let text = monitor.until("end");
    let changes = text.rsplit("delete table ip begin").next().unwrap();
    let steps: Vec<&str> = changes.split("# new generation").collect();
    // After the end of the step that deleted the mark: the old rules go and the new ones come.
    assert_eq!(steps.len(), 3, "{text}");
    for part in [
        "delete table inet outrigger",
        "add table inet outrigger",
        "add rule inet outrigger outbound",
    ] {
        assert!(steps[1].contains(part), "{text}");
    }
}

#[test]
fn no_call_slips_past_while_the_rules_are_written_again() {
    let site = Site::new(Families::Dual);
    Server::start(site.pod, "app", (ANY, 8080));
    let pod = Pod::started(&site, &manifest(&[], &[("http", 8080)]));
    let (done, peer) = (AtomicBool::new(false), site.peer);
    let callers = thread::scope(|scope| {
        let calls = scope.spawn(|| {
            let mut callers: Vec<Value> = Vec::new();
            while !done.load(Ordering::SeqCst) {
                callers.push(get(peer, (POD.v4, 8080), "/").body["caller"].clone());
            }
            callers
        });
        (0..30).for_each(|_| pod.init());
        done.store(true, Ordering::SeqCst);
        calls.join().unwrap()
    });
    assert!(callers.len() > 30, "{} calls", callers.len());
    assert!(callers.iter().all(|caller| caller == "127.0.0.1"), "{callers:?}");
}

#[test]
fn connections_keep_their_way_and_new_ones_take_the_new_one() {
    let site = Site::new(Families::Dual);
    Server::start(site.pod, "app", (ANY, 8080));
    Server::start(site.pod, "second", (ANY, 8081));
    let mut pod = Pod::new(
        &site,
        injected(&manifest(&[], &[("http", 8080), ("http-b", 8081)]), &[]),
    );
    pod.start_nginx();
    let before = connect(site.peer, (POD.v4, 8080)).unwrap();
    // Swapped, so that it shows which rules were asked.
    let swapped = [
        "redirect",
        "--proxy-uid=101",
        "--inbound=8080:15201",
        "--inbound=8081:15200",
    ];
    assert_eq!(finished(pod.outrigger(NET_ADMIN).args(swapped)).code, 0);
    // From the same port, so that the kernel could mistake it for the connection before.
    let again = || {
        let socket = connect_from(site.peer, 40_000, (POD.v4, 8080)).unwrap();
        ask(socket, "/").unwrap().body["server"].clone()
    };
    assert_eq!(again(), "second");
    let between = connect(site.peer, (POD.v4, 8080)).unwrap();
    pod.init();
    assert_eq!(again(), "app");
    assert_ne!(
        ask(before, "/").unwrap().body["caller"],
        "127.0.0.1",
        "made before there were rules"
    );
    assert_eq!(
        ask(between, "/").unwrap().body["server"],
        "second",
        "made by the former rules"
    );
    assert_eq!(get(site.peer, (POD.v4, 8081), "/").body["server"], "second");
}

/// A sidecar that runs before proxy-redirect, such as a native one of the pod's own, may hold a connection already.
#[test]
fn a_call_that_began_before_there_were_rules_goes_on() {
    let site = Site::new(Families::Dual);
    Server::start(site.peer, "orders", (ANY, 9080));
    let pod = with_all_rules(&site);
    let begun: Vec<_> = site
        .families()
        .of(ORDERS)
        .map(|address| connect(site.pod, (address, 8080)).unwrap())
        .collect();
    pod.init();
    for socket in &begun {
        let answers = ["one", "two"].map(|line| say(socket, line)["said"].clone());
        assert_eq!(answers, ["one", "two"]);
    }
    assert!(
        connect(site.pod, (ORDERS.v4, 8080)).is_err(),
        "a new one is redirected, and nginx does not run"
    );
}

/// The property test of a stranger's text goes by a reader of its own, which has to see what nft would do.
#[test]
fn the_reader_of_the_property_test_sees_the_rules_that_nft_writes() {
    let site = Site::new(Families::Dual);
    let pod = with_all_rules(&site);
    let script = pod.try_init(&["--dry-run"]).stdout;
    let mut taken = 0;
    for text in [
        "8080",
        "8080 return; tcp dport 1",
        "8080 # ",
        "8080 return\n",
        "!= 8080",
        "8080; } chain evil {",
        "8080 return\n}\nchain evil { type filter hook input priority 0;",
        "8080 \\\n",
        "$port",
        "8080 }",
        "8080 {",
        "\"8080",
    ] {
        let script = script.replacen("tcp dport 8080", &format!("tcp dport {text}"), 1);
        // Emptied, so that what remains is what was written.
        pod.space().run("nft flush ruleset");
        pod.space().run("mkdir -p /run/scripts");
        std::fs::write(pod.space().path("/run/scripts/rules"), &script).unwrap();
        let is_taken = pod.space().try_run("nft -f /run/scripts/rules").status.success();
        let listed: Value = serde_json::from_str(&pod.space().run("nft -j list ruleset")).unwrap();
        let written = listed["nftables"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|object| object["rule"].is_object())
            .count();
        match nft::parse(&script) {
            Ok(statements) if is_taken => assert_eq!(nft::count_rules(&statements), written, "{script}"),
            Ok(_) => assert_eq!(written, 0),
            Err(error) => assert!(!is_taken, "{error}: {script}"),
        }
        taken += usize::from(is_taken);
    }
    assert!(taken >= 5, "nft took {taken} scripts");
}
