//! Traffic `explicit`: nothing is hidden. Services lead to the proxy's port, and the application calls the proxy.

use outrigger::names;
use serde_json::json;

use crate::workloads::{Echo, Mesh};

fn explicit(name: &str) -> Echo {
    Echo::new(name)
        .annotation(names::TRAFFIC, "explicit")
        .ports(json!([{"name": "http", "port": 8080, "targetPort": names::INBOUND_BASE}]))
}

#[test]
fn explicit_calls_pass_the_proxy() {
    let mesh = Mesh::shared();
    let shop = mesh.namespace("explicit");
    shop.deploy(&[&explicit("orders"), &explicit("web").upstreams("- orders:8080")]);
    let web = shop.pod("web");

    let reply = shop
        .call_service("web", 8080, "/", &["-H", "X-Request-Id: from-outside"])
        .unwrap();

    assert_eq!((reply.status, reply.served_by()), (200, &*web));
    let seen = &reply.json()["headers"];
    assert_eq!(seen["X-Request-Id"][0], "from-outside");
    let [line] = &shop.logged(&web, &json!({"request_id": "from-outside"}))[..] else {
        panic!("one request, one line");
    };
    assert_eq!((&line["method"], &line["status"]), (&json!("GET"), &json!(200)));
    assert!(
        line["upstream_seconds"].as_str().unwrap().parse::<f64>().is_ok(),
        "{line}"
    );
}
