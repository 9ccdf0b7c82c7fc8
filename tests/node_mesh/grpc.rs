//! Upstreams of gRPC.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::stopped::Stopped;
use crate::workloads::Mesh;
use crate::{caller, deploy, speaking_all};

const UPSTREAM: &str = "- {service: orders:9100, protocol: grpc, timeout: 1s, retries: 2}";

#[test]
fn calls_pass_both_proxies_with_their_status() {
    let mesh = Mesh::shared();
    let shop = mesh.namespace("grpc");
    deploy(&shop, &[&speaking_all("orders")], &caller("web", UPSTREAM));
    let (web, orders) = (shop.pod("web"), shop.pod("orders"));
    let load = |more: &[&str]| shop.load(&web, &[&["-grpc"], more, &["orders:9100"]].concat());

    let good = load(&["-requests=100", "-connections=4"]);
    assert_eq!((good.failed, good.served_by.get(&orders)), (0, Some(&100)), "{good:?}");

    // A status other than OK comes without a body, in the head of the answer.
    let unknown = load(&["-requests=1", "-service=nobody"]);
    assert!(
        unknown.failures[0]
            .reason
            .contains("code = NotFound desc = unknown service"),
        "{unknown:?}"
    );

    // Each call is one line in either log, of the same trace.
    let lines = |pod: &str, port: u16| {
        let log = shop.access_log(pod).into_iter();
        let calls = log.filter(|line| line["port"] == port && line["path"] == "/grpc.health.v1.Health/Check");
        calls.collect::<Vec<_>>()
    };
    shop.eventually("all calls are logged", || {
        [lines(&web, 15100).len(), lines(&orders, 15202).len()] == [101, 101]
    });
    let as_logged = |lines: &[Value]| {
        let known = ["trace_id", "protocol", "status"];
        let facts = lines.iter().map(|line| known.map(|field| line[field].to_string()));
        facts.collect::<BTreeSet<_>>()
    };
    let (out, into) = (as_logged(&lines(&web, 15100)), as_logged(&lines(&orders, 15202)));
    assert_eq!((&out, out.len()), (&into, 101));
    assert!(
        out.iter()
            .all(|[_, protocol, status]| protocol == "\"HTTP/2.0\"" && status == "200"),
        "{out:?}"
    );
}

#[test]
fn a_call_that_takes_too_long_is_given_up_and_not_made_twice() {
    let mesh = Mesh::shared();
    let shop = mesh.namespace("late-grpc");
    deploy(&shop, &[&speaking_all("orders")], &caller("web", UPSTREAM));
    let (web, orders) = (shop.pod("web"), shop.pod("orders"));
    let stopped = Stopped::app(&shop, &orders);

    let late = shop.load(&web, &["-grpc", "-requests=1", "orders:9100"]);

    // The status of gRPC for an answer of HTTP that is none of its own.
    assert!(late.failures[0].reason.contains("code = Unavailable"), "{late:?}");
    let [line] = &shop.logged(&web, &json!({"port": 15100}))[..] else {
        panic!("one call, one line");
    };
    assert_eq!(
        (&line["status"], &line["upstream_status"]),
        (&json!(504), &json!("504")),
        "{line}"
    );
    drop(stopped);
    shop.eventually("calls are answered again", || {
        shop.load(&web, &["-grpc", "-requests=1", "orders:9100"]).failed == 0
    });
}
