//! Endpoints that are left out after failures, behind a headless Service whose name has the addresses of its pods.

use serde_json::{Value, json};

use crate::cluster::Answer;
use crate::stopped::Stopped;
use crate::workloads::{Load, Mesh, Namespace, text};
use crate::{RAW, caller, speaking_all};

/// A Service of the application's pods by address, also of those that are not ready: that they are left out is the
/// proxy's doing alone.
fn headless() -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "orders-pods"}, "spec": {
        "clusterIP": "None", "publishNotReadyAddresses": true, "selector": {"app": "orders"},
        "ports": [{"name": "http", "port": 8080}, {"name": "raw", "port": RAW}],
    }})
}

/// Two pods of an application, one of which is going to fail, and their caller.
struct Pair<'m> {
    shop: Namespace<'m>,
    web: String,
    failing: String,
    good: String,
}

impl<'m> Pair<'m> {
    fn deploy(mesh: &'m Mesh, namespace: &str, upstreams: &str) -> Self {
        let shop = mesh.namespace(namespace);
        shop.apply(&headless().to_string());
        shop.deploy(&[&speaking_all("orders").replicas(2)]);
        shop.deploy(&[&caller("web", upstreams)]);
        let [failing, good] = &shop.pods("orders")[..] else {
            panic!("two pods");
        };
        let (failing, good, web) = (failing.clone(), good.clone(), shop.pod("web"));
        Self {
            shop,
            web,
            failing,
            good,
        }
    }

    fn load(&self, arguments: &[&str]) -> Load {
        self.shop.load(&self.web, arguments)
    }

    /// Waits until both pods answer, and nothing fails.
    fn both_answer(&self, arguments: &[&str]) {
        self.shop.eventually("both pods answer", || {
            let load = self.load(arguments);
            load.failed == 0 && load.served_by.len() == 2
        });
    }

    fn stop_both(&self) -> [Stopped; 2] {
        [&self.failing, &self.good].map(|pod| Stopped::app(&self.shop, pod))
    }

    /// How so many calls fail, one after the other.
    fn failures(&self, calls: usize) -> Vec<String> {
        let load = self.load(&[&format!("-requests={calls}"), HTTP[2]]);
        load.failures.into_iter().map(|failure| failure.reason).collect()
    }

    /// The lines of the caller's proxy that name the failing pod, from a number of lines on.
    fn lines_of_failing(&self, from: usize) -> Vec<Value> {
        let address = self.shop.address(&self.failing);
        let log = self.shop.access_log(&self.web).split_off(from);
        log.into_iter()
            .filter(|line| text(&line["upstream"]).contains(&address))
            .collect()
    }
}

const HTTP: [&str; 3] = ["-requests=200", "-rate=100", "http://orders-pods:8080/"];

#[test]
fn a_pod_that_does_not_answer_is_left_out_and_taken_back() {
    let mesh = Mesh::shared();
    let upstream = "- {service: orders-pods:8080, timeout: 300ms, maxFails: 3, failTimeout: 8s}";
    let pair = Pair::deploy(&mesh, "left-out", upstream);
    pair.both_answer(&HTTP);
    let before = pair.shop.access_log(&pair.web).len();
    let stopped = Stopped::app(&pair.shop, &pair.failing);

    let load = pair.load(&HTTP);

    let failed: Vec<&str> = load.failures.iter().map(|failure| &*failure.reason).collect();
    assert_eq!(failed, ["status 504"; 3], "as many as maxFails: {load:?}");
    assert_eq!(load.served_by.get(&pair.good), Some(&197), "{load:?}");
    assert_eq!(pair.lines_of_failing(before).len(), 3);

    drop(stopped);
    pair.both_answer(&HTTP);
    let stopped = pair.stop_both();
    // Three for each, and then nobody is left to ask.
    let expected = [["status 504"; 6].as_slice(), &["status 502"; 4]].concat();
    assert_eq!(pair.failures(10), expected);
    drop(stopped);
    pair.both_answer(&HTTP);
}

#[test]
fn a_retry_goes_to_another_pod() {
    let mesh = Mesh::shared();
    let upstream = "- {service: orders-pods:8080, timeout: 300ms, retries: 2, maxFails: 3, failTimeout: 8s}";
    let pair = Pair::deploy(&mesh, "tried-elsewhere", upstream);
    pair.both_answer(&HTTP);
    let before = pair.shop.access_log(&pair.web).len();
    let stopped = Stopped::app(&pair.shop, &pair.failing);

    let load = pair.load(&HTTP);

    assert_eq!(
        (load.failed, load.served_by.get(&pair.good)),
        (0, Some(&200)),
        "{load:?}"
    );
    let lines = pair.lines_of_failing(before);
    assert_eq!(lines.len(), 3, "as many as maxFails: {lines:?}");
    let answers: Vec<_> = lines.iter().map(|line| text(&line["upstream_status"])).collect();
    assert_eq!(answers, ["504, 200"; 3]);

    drop(stopped);
    pair.both_answer(&HTTP);
    let stopped = pair.stop_both();
    // Whoever asks for retries gets them, also where all are left out.
    assert_eq!(pair.failures(5), ["status 504"; 5]);
    drop(stopped);
    pair.both_answer(&HTTP);
}

const TCP: [&str; 5] = ["-tcp", "-fresh", "-requests=200", "-rate=100", "orders-pods:9000"];

#[test]
fn a_pod_that_takes_no_connection_is_left_out_and_taken_back() {
    let mesh = Mesh::shared();
    let upstream = "- {service: orders-pods:9000, protocol: tcp, maxFails: 3, failTimeout: 8s}";
    let pair = Pair::deploy(&mesh, "refused", upstream);
    pair.both_answer(&TCP);
    let before = pair.shop.access_log(&pair.web).len();
    let wall = Wall::before(&pair.shop, &pair.failing);

    let load = pair.load(&TCP);

    // A connection that cannot be opened is opened to another pod.
    assert_eq!(
        (load.failed, load.served_by.get(&pair.good)),
        (0, Some(&200)),
        "{load:?}"
    );
    assert_eq!(pair.lines_of_failing(before).len(), 3, "as many as maxFails");
    assert_eq!(wall.refused(), 3);

    drop(wall);
    pair.both_answer(&TCP);
}

/// A rule of the node that refuses connections to a pod's port for lines; it is removed when this is dropped.
struct Wall<'s, 'm>(&'s Namespace<'m>);

impl<'s, 'm> Wall<'s, 'm> {
    fn before(shop: &'s Namespace<'m>, pod: &str) -> Self {
        let address = shop.address(pod);
        let wall = Self(shop);
        wall.nft(&format!(
            "table ip wall {{
               chain forward {{
                 type filter hook forward priority 0;
                 ip daddr {address} tcp dport {RAW} tcp flags & (syn | ack) == syn counter reject with tcp reset
               }}
             }}"
        ));
        wall
    }

    /// How many connections it has refused.
    fn refused(&self) -> u64 {
        let rules = self.nft("list table ip wall");
        let (_, count) = rules.split_once("counter packets ").expect("the rule counts");
        count.split_whitespace().next().unwrap().parse().unwrap()
    }

    fn nft(&self, script: &str) -> String {
        let mut nft = self.0.node.in_network("nft");
        nft.args(["-f", "-"]);
        Answer::of(nft, script).expect_success()
    }
}

impl Drop for Wall<'_, '_> {
    fn drop(&mut self) {
        self.nft("delete table ip wall");
    }
}
