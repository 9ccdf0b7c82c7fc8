//! Traffic `explicit`: nothing is hidden. Services lead to the proxy's port, and the application calls the proxy.

use outrigger::names;
use serde_json::{Value, json};

use crate::workloads::{Echo, Mesh};

pub(crate) const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// An application whose Service leads to its proxy.
pub(crate) fn explicit(name: &str) -> Echo {
    Echo::new(name)
        .annotation(names::TRAFFIC, "explicit")
        .ports(json!([{"name": "http", "port": 8080, "targetPort": names::INBOUND_BASE}]))
}

/// The only line of the list.
pub(crate) fn only(mut lines: Vec<Value>) -> Value {
    assert_eq!(lines.len(), 1, "one call, one line: {lines:#?}");
    lines.remove(0)
}

/// Caller, web, orders: three lines of two proxies.
pub(crate) fn calls_pass_both_proxies(mesh: &Mesh) {
    let shop = mesh.namespace("explicit");
    shop.deploy(&[&explicit("orders"), &explicit("web").upstreams("- orders:8080")]);
    let (web, orders) = (shop.pod("web"), shop.pod("orders"));
    let traceparent = format!("00-{TRACE}-b7ad6b7169203331-01");
    let onward = format!("/call?url=http://127.0.0.1:{}/list", names::OUTBOUND_BASE);

    let given = [
        "-H",
        "X-Request-Id: from-outside",
        "-H",
        &format!("Traceparent: {traceparent}"),
    ];
    let reply = shop.call_service("web", 8080, &onward, &given).unwrap();

    assert_eq!((reply.status, reply.served_by()), (200, &*web));
    let called = reply.json();
    assert_eq!((&called["status"], &called["served_by"]), (&json!(200), &json!(orders)));

    let inbound = only(shop.logged(&web, &json!({"request_id": "from-outside"})));
    let expected = json!({"port": names::INBOUND_BASE, "method": "GET", "path": "/call", "status": 200,
        "upstream_status": "200", "trace_id": TRACE});
    assert_fields(&inbound, &expected);
    assert_seconds(&inbound);

    // The application passed on the trace, and no id; so the proxy gave one.
    let outbound = only(shop.logged(&web, &json!({"port": names::OUTBOUND_BASE})));
    let expected =
        json!({"method": "GET", "path": "/list", "status": 200, "upstream_status": "200", "trace_id": TRACE});
    assert_fields(&outbound, &expected);
    assert_seconds(&outbound);
    let at_orders = only(shop.logged(&orders, &json!({"request_id": outbound["request_id"]})));
    assert_fields(
        &at_orders,
        &json!({"port": names::INBOUND_BASE, "path": "/list", "status": 200, "trace_id": TRACE}),
    );

    let seen: Value = serde_json::from_str(called["body"].as_str().unwrap()).unwrap();
    assert_eq!(seen["headers"]["X-Request-Id"][0], outbound["request_id"]);
    assert_eq!(seen["headers"]["Traceparent"][0], *traceparent);
}

pub(crate) fn assert_fields(line: &Value, fields: &Value) {
    for (key, value) in fields.as_object().unwrap() {
        assert_eq!(line[key], *value, "{key} of {line}");
    }
}

/// How long the application, or the service that was called, took to answer.
fn assert_seconds(line: &Value) {
    let seconds = line["upstream_seconds"].as_str().unwrap().parse::<f64>();
    assert!(seconds.is_ok_and(|seconds| (0.0..30.0).contains(&seconds)), "{line}");
}
