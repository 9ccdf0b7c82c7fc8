//! Trace context over three calls: web, orders and stock, each of which passes on `traceparent` as a tracing library does.

use std::collections::BTreeSet;

use outrigger::names;
use serde_json::{Value, json};

use crate::caller;
use crate::workloads::{Echo, Mesh, Namespace, text};

/// Who calls whom.
const HOPS: [(&str, &str); 3] = [("client", "web"), ("web", "orders"), ("orders", "stock")];

const URL: &str = "http://web:8080/call?url=http://orders:8080/call?url=http://stock:8080/";

/// What the last application saw of a request that passed all; nothing where it did not come so far.
fn call(shop: &Namespace<'_>, headers: &[&str]) -> Option<Value> {
    let headers: Vec<&str> = headers.iter().flat_map(|header| ["-H", *header]).collect();
    let reply = shop.call_from(&shop.pod("client"), URL, &headers).ok()?;
    let inner = |body: &str| serde_json::from_str::<Value>(body).ok();
    let called = inner(inner(&reply.body)?["body"].as_str()?)?;
    inner(called["body"].as_str()?)
}

/// The trace of a header that the specification allows in version 00.
fn trace_of(traceparent: &str) -> String {
    let form = regex::Regex::new("^00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$").unwrap();
    let parts = form
        .captures(traceparent)
        .unwrap_or_else(|| panic!("{traceparent} is valid"));
    let zeros = |n: usize| parts[n].bytes().all(|digit| digit == b'0');
    assert!(!zeros(1) && !zeros(2), "{traceparent} is valid");
    parts[1].to_owned()
}

#[test]
fn the_calls_of_a_request_are_joined_by_its_trace() {
    let mesh = Mesh::shared();
    let shop = mesh.namespace("traces");
    let apps = [
        Echo::new("stock"),
        Echo::new("orders").upstreams("- stock:8080"),
        Echo::new("web").upstreams("- orders:8080"),
        caller("client", "- web:8080"),
    ];
    // The names of Services have to be there before pods that call them.
    apps.iter().for_each(|app| shop.apply(&app.service().to_string()));
    shop.deploy(&apps.each_ref());
    // The rules of a Service follow a moment after its pods.
    shop.eventually("all are reached", || call(&shop, &[]).is_some());

    let given = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = format!("traceparent: 00-{given}-00f067aa0ba902b7-00");
    let kept = call(&shop, &[&parent, "tracestate: vendor=1"]).unwrap()["headers"].take();
    assert_eq!(kept["Traceparent"], json!([parent["traceparent: ".len()..]]));
    assert_eq!(kept["Tracestate"], json!(["vendor=1"]));

    let invalid = format!("traceparent: 00-{given}-0000000000000000-00");
    let begun = [&[][..], &[], &[&invalid, "tracestate: vendor=1"]].map(|headers| {
        let seen = call(&shop, headers).unwrap()["headers"].take();
        assert_eq!(seen["Tracestate"], Value::Null, "the state of another trace");
        trace_of(seen["Traceparent"][0].as_str().unwrap())
    });

    let traces: BTreeSet<String> = begun.into_iter().chain([given.to_owned()]).collect();
    assert_eq!(traces.len(), 4, "each request has its own: {traces:?}");
    let known: Vec<_> = HOPS.iter().map(|(from, to)| Hop::new(&shop, from, to)).collect();
    let apps = apps.map(|app| shop.pod(&app.name));
    for trace in &traces {
        known.iter().for_each(|hop| hop.is_logged_by_both(&shop, trace));
        let lines = apps.iter().flat_map(|pod| shop.access_log(pod));
        let joined = lines.filter(|line| line["trace_id"] == **trace).count();
        assert_eq!(joined, 2 * HOPS.len(), "{trace}: all lines of all logs");
    }
}

/// A call from one pod to another.
struct Hop {
    from: String,
    from_address: String,
    to: String,
}

impl Hop {
    fn new(shop: &Namespace<'_>, from: &str, to: &str) -> Self {
        let (from, to) = (shop.pod(from), shop.pod(to));
        let from_address = shop.address(&from);
        Self { from, from_address, to }
    }

    /// Each proxy has one line of the call, and they agree.
    fn is_logged_by_both(&self, shop: &Namespace<'_>, trace: &str) {
        let line = |pod: &str, port: u16| {
            let lines = shop.logged(pod, &json!({"trace_id": trace, "port": port}));
            assert_eq!(lines.len(), 1, "{pod} logs a call once: {lines:?}");
            lines[0].clone()
        };
        let (out, into) = (
            line(&self.from, names::OUTBOUND_BASE),
            line(&self.to, names::INBOUND_BASE),
        );
        for field in ["trace_id", "request_id", "method", "host", "path", "protocol", "status"] {
            assert!(!out[field].is_null(), "{field}: {out}");
            assert_eq!(out[field], into[field], "{field}: {out} {into}");
        }
        assert_eq!(
            text(&out["upstream_status"]),
            into["status"].to_string(),
            "{out} {into}"
        );
        assert_eq!(
            text(&into["remote"]),
            self.from_address,
            "the caller's own address: {into}"
        );
        assert_eq!(text(&into["upstream"]), "127.0.0.1:8080", "{into}");
    }
}
