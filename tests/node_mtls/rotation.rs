//! New leaves, new roots, and a signer that is away, while calls go on.
//!
//! Whatever happens here happens to the whole mesh, so these tests have one of their own and run one after the other.

use outrigger::names;
use serde_json::{Value, json};

use crate::cluster::processes::signal;
use crate::identities::Identity;
use crate::release::{NAMESPACE, eventually};
use crate::workloads::{Load, Mesh, Namespace, text};
use crate::{caller, mtls};

/// How long a new root is published before it signs: kubelets and proxies of the test node learn of it within 12 s.
pub(crate) const OVERLAP: &str = "identity.caOverlap=30s";

/// A load that runs in a pod of the mesh by itself, whatever happens to the kubelet.
struct Running<'m> {
    shop: &'m Namespace<'m>,
    pod: String,
}

impl<'m> Running<'m> {
    /// Calls `ledger` 50 times a second; with `fresh`, each time on a connection of its own.
    fn start(shop: &'m Namespace<'m>, fresh: bool) -> Self {
        let name = format!("load-{}", if fresh { "fresh" } else { "kept" });
        let fresh = format!("-fresh={fresh}");
        let url = "http://ledger:8080/";
        let arguments = json!(["load", "-rate=50", "-connections=4", "-for=1h", fresh, url]);
        let load = caller(&name, "- ledger:8080")
            .annotation(names::MTLS, "strict")
            .annotation(names::POSITION, "native")
            .container(json!({"image": crate::node::images::ECHO, "command": ["/echo"], "args": arguments}))
            .spec(json!({"containers": [], "restartPolicy": "Never"}));
        shop.apply(&load.bare_pod().to_string());
        shop.wait_for("condition=Ready", &format!("pod/{name}"));
        Self { shop, pod: name }
    }

    fn end(self) -> Load {
        let processes = self.shop.node.container_processes(&self.shop.name, &self.pod, "app");
        assert!(
            !processes.is_empty(),
            "{} has ended: {}",
            self.pod,
            self.shop.described()
        );
        processes.into_iter().for_each(|id| signal("TERM", id));
        self.shop
            .eventually("the load is counted", || self.log().ends_with("}\n"));
        serde_json::from_str(&self.log()).unwrap()
    }

    fn log(&self) -> String {
        self.shop.log(&self.pod, "app")
    }
}

/// The strict server and both loads on it.
fn loaded<'m>(shop: &'m Namespace<'m>) -> [Running<'m>; 2] {
    // A kubelet that starts takes its pods for unready until it has probed them; that is not what is shown here.
    let ledger = mtls("ledger").annotation(names::MTLS, "strict").reached_at_any_time();
    shop.deploy_unreached(&[&ledger]);
    [false, true].map(|fresh| Running::start(shop, fresh))
}

fn no_request_fails(loads: [Running<'_>; 2]) {
    for load in loads {
        let (shop, pod, load) = (load.shop, load.pod.clone(), load.end());
        let said = || [&*pod, &shop.pod("ledger")].map(|pod| errors(shop, pod));
        assert!(load.requests > 500 && load.failed == 0, "{pod}: {load:?}{:#?}", said());
    }
}

/// What a proxy says besides its access log.
fn errors(shop: &Namespace<'_>, pod: &str) -> Vec<String> {
    let log = shop.log(pod, names::PROXY_CONTAINER);
    log.lines()
        .filter(|line| !line.starts_with('{'))
        .map(str::to_owned)
        .collect()
}

fn serial(shop: &Namespace<'_>, pod: &str) -> String {
    Identity::of(shop, pod).serial()
}

/// The kubelet asks anew for all of its pods when it starts: a renewal without the wait of hours.
fn renew_leaves(shop: &Namespace<'_>, pods: &[&str]) {
    let before: Vec<String> = pods.iter().map(|pod| serial(shop, pod)).collect();
    shop.node.restart_kubelet();
    for (pod, before) in pods.iter().zip(&before) {
        shop.eventually(&format!("{pod} has a new certificate"), || {
            Identity::read(shop, pod).is_ok_and(|identity| identity.serial() != *before)
        });
    }
}

pub(crate) fn of_leaves_fails_no_request(mesh: &Mesh) {
    let shop = mesh.namespace("leaves");
    let loads = loaded(&shop);
    let ledger = shop.pod("ledger");
    for _ in 0..5 {
        renew_leaves(&shop, &[&ledger, &loads[0].pod, &loads[1].pod]);
    }
    no_request_fails(loads);
}

/// What the Secret of the signer holds.
fn entry(mesh: &Mesh, key: &str) -> Option<String> {
    let secret = ["get", "secret", "outrigger-identity", "-n", NAMESPACE, "-o=json"];
    let secret: Value = serde_json::from_str(&mesh.node.cluster.kubectl(&secret).expect_success()).unwrap();
    Some(text(&secret["data"][key])).filter(|value| !value.is_empty())
}

fn roots(shop: &Namespace<'_>, pod: &str) -> usize {
    let file = std::fs::read_to_string(Identity::of(shop, pod).file("ca.pem")).unwrap();
    file.matches("BEGIN CERTIFICATE").count()
}

pub(crate) fn of_the_root_fails_no_request(mesh: &Mesh) {
    let shop = mesh.namespace("roots");
    let loads = loaded(&shop);
    let ledger = shop.pod("ledger");
    let issuer = |pod: &str| Identity::of(&shop, pod).issuer();
    let before = issuer(&ledger);
    let rotate = [
        "annotate",
        "secret",
        "outrigger-identity",
        "-n",
        NAMESPACE,
        "outrigger.mesh/rotate=ca",
    ];
    mesh.node.cluster.kubectl(&rotate).expect_success();
    for pod in [&*ledger, &*loads[0].pod, &*loads[1].pod] {
        shop.eventually(&format!("{pod} has both roots"), || roots(&shop, pod) == 2);
    }
    eventually("the next authority signs", || entry(mesh, "retire-at").is_some());
    assert_eq!(entry(mesh, "next-ca.key"), None);

    // A pod with a leaf of the new root, beside those that have one of the old.
    let late = caller("late", "- ledger:8080").annotation(names::MTLS, "strict");
    shop.deploy_unreached(&[&late]);
    let late = shop.pod("late");
    assert_ne!(issuer(&late), before);
    assert_eq!(issuer(&ledger), before);
    for _ in 0..20 {
        let reply = shop.call_from(&late, "http://ledger:8080/", &[]).unwrap();
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    // And those that renew one by one: the caller before the server, here.
    renew_leaves(&shop, &[&loads[0].pod, &loads[1].pod, &ledger]);
    assert_ne!(issuer(&ledger), before);
    no_request_fails(loads);
}

pub(crate) fn waits_for_a_signer_that_is_away(mesh: &Mesh) {
    let shop = mesh.namespace("away");
    shop.deploy_unreached(&[&mtls("ledger").annotation(names::MTLS, "strict")]);
    shop.deploy_unreached(&[&caller("web", "- ledger:8080").annotation(names::MTLS, "strict")]);
    // The server may answer no request any more, and goes on with all else: it admits pods.
    let role = mesh
        .node
        .cluster
        .kubectl(&["get", "clusterrole", "outrigger", "-o=json"])
        .expect_success();
    let mut without: Value = serde_json::from_str(&role).unwrap();
    let rules = without["rules"].as_array_mut().unwrap();
    rules.retain(|rule| rule["resources"] != json!(["podcertificaterequests/status"]));
    let replace = |role: &Value| {
        let mut role = role.clone();
        role["metadata"]["resourceVersion"].take();
        mesh.node
            .cluster
            .kubectl_reading(&role.to_string(), &["replace", "-f", "-"])
            .expect_success();
    };
    replace(&without);

    shop.create(&mtls("late").annotation(names::MTLS, "strict"));
    shop.eventually("the pod says what it waits for", || {
        let events = shop.get(&["events"])["items"].take();
        let messages: Vec<String> = events
            .as_array()
            .unwrap()
            .iter()
            .map(|event| text(&event["message"]))
            .collect();
        messages.iter().any(|message| message.contains("not issued yet"))
    });
    let reply = shop.call_from(&shop.pod("web"), "http://ledger:8080/", &[]).unwrap();
    assert_eq!(reply.status, 200, "those that run go on");

    replace(&serde_json::from_str(&role).unwrap());
    shop.wait_until_served("late");
}
