//! Traffic `redirect`: the application is called, and calls, as without a mesh.

use outrigger::names;
use serde_json::{Value, json};

use crate::explicit::{assert_fields, only};
use crate::workloads::{Echo, Mesh, Namespace, text};

/// The address of whoever opened the connection, as the application saw it: the proxy, on loopback, or the caller itself.
fn remote(seen: &Value) -> String {
    let remote = text(&seen["remote"]);
    remote.rsplit_once(':').unwrap().0.to_owned()
}

/// An application behind its proxy, which calls `orders.shop:8080` under that very name.
pub(crate) fn calls_pass_both_proxies(mesh: &Mesh) {
    let shop = mesh.namespace("shop");
    shop.deploy(&[&Echo::new("orders")]);
    shop.deploy(&[&Echo::new("web").upstreams("- orders.shop:8080")]);
    let (web, orders) = (shop.pod("web"), shop.pod("orders"));

    let id = ["-H", "X-Request-Id: from-outside"];
    let reply = shop
        .call_service("web", 8080, "/call?url=http://orders.shop:8080/list", &id)
        .unwrap();

    assert_eq!((reply.status, reply.served_by()), (200, &*web));
    let called = reply.json();
    assert_eq!((&called["status"], &called["served_by"]), (&json!(200), &json!(orders)));

    let inbound = only(shop.logged(&web, &json!({"request_id": "from-outside"})));
    assert_fields(
        &inbound,
        &json!({"port": names::INBOUND_BASE, "path": "/call", "status": 200}),
    );
    // Were the proxy's own call redirected too, it would call itself without an end.
    let outbound = only(shop.logged(&web, &json!({"port": names::OUTBOUND_BASE})));
    let expected = json!({"path": "/list", "host": "orders.shop", "status": 200, "trace_id": inbound["trace_id"]});
    assert_fields(&outbound, &expected);
    let address = text(&shop.get(&["service", "orders"])["spec"]["clusterIP"]);
    assert_eq!(outbound["upstream"], format!("{address}:8080"), "{outbound}");
    let at_orders = only(shop.logged(&orders, &json!({"request_id": outbound["request_id"]})));
    assert_fields(
        &at_orders,
        &json!({"port": names::INBOUND_BASE, "path": "/list", "trace_id": inbound["trace_id"]}),
    );

    let seen: Value = serde_json::from_str(called["body"].as_str().unwrap()).unwrap();
    assert_eq!(remote(&seen), "127.0.0.1", "the proxy of orders");
    assert_eq!(seen["host"], "orders.shop:8080");
}

/// Services of IPv6 alone: in, by the pod's and the Service's address, and out, by name.
pub(crate) fn carries_ipv6(mesh: &Mesh) {
    let shop = mesh.namespace("six");
    shop.deploy(&[&Echo::new("orders").families(&["IPv6"])]);
    let web = Echo::new("web").families(&["IPv6"]).upstreams("- orders:8080");
    shop.deploy(&[&web]);
    let (web, orders) = (shop.pod("web"), shop.pod("orders"));
    let of_pod = text(&shop.get(&["pod", &web])["status"]["podIPs"][1]["ip"]);
    let of_service = text(&shop.get(&["service", "web"])["spec"]["clusterIP"]);

    for address in [of_pod, of_service] {
        assert!(address.contains(':'), "{address}");
        let (id, path) = (format!("to-{address}"), format!("/by-{address}"));
        let url = format!("http://[{address}]:8080/call?url=http://orders:8080{path}");
        let reply = shop.call(&url, &["-H", &format!("X-Request-Id: {id}")]).unwrap();

        assert_eq!((reply.status, reply.served_by()), (200, &*web));
        assert_eq!(reply.json()["served_by"], *orders);
        let inbound = only(shop.logged(&web, &json!({"request_id": id})));
        assert!(text(&inbound["remote"]).contains(':'), "{inbound}");
        let outbound = only(shop.logged(&web, &json!({"path": path, "port": names::OUTBOUND_BASE})));
        assert!(text(&outbound["upstream"]).starts_with("[fd00:"), "{outbound}");
        let at_orders = only(shop.logged(&orders, &json!({"request_id": outbound["request_id"]})));
        assert_fields(&at_orders, &json!({"port": names::INBOUND_BASE, "path": path}));
    }
}

pub(crate) fn leaves_excluded_ports_alone(mesh: &Mesh) {
    let shop = mesh.namespace("excluded");
    let two_ports = json!([{"name": "http", "port": 8080}, {"name": "other", "port": 8081, "targetPort": 8080}]);
    shop.deploy(&[&Echo::new("orders").ports(two_ports)]);
    let ports = json!({"ports": [{"containerPort": 8080, "name": "http"}, {"containerPort": 8443, "name": "https"}]});
    let web = Echo::new("web")
        .argument("-https=:8443")
        .container(ports)
        .annotation(names::EXCLUDE_INBOUND_PORTS, "8443")
        .upstreams("- orders:8080\n- orders:8081")
        .annotation(names::EXCLUDE_OUTBOUND_PORTS, "8081");
    shop.deploy(&[&web]);

    let pod = shop.pod("web");
    let address = shop.address(&pod);
    let meshed = shop.call(&format!("http://{address}:8080/"), &[]).unwrap().json();
    assert_eq!(remote(&meshed), "127.0.0.1");
    let excluded = shop.call(&format!("https://{address}:8443/"), &["-k"]).unwrap().json();
    assert_ne!(remote(&excluded), "127.0.0.1");

    assert_eq!(outbound_calls(&shop, &pod, 8080), 1);
    assert_eq!(outbound_calls(&shop, &pod, 8081), 0);
}

/// How many calls of this one the caller's proxy saw.
fn outbound_calls(shop: &Namespace<'_>, pod: &str, port: u16) -> usize {
    let (path, id) = (format!("/on-{port}"), format!("called-{port}"));
    let header = format!("X-Request-Id: {id}");
    let called = shop.call_through("web", &format!("http://orders:{port}{path}"), &["-H", &header]);
    let called = called.unwrap();
    assert_eq!(called["served_by"], *shop.pod("orders"));
    // A call is logged when it is complete, so before the one that it was made for.
    shop.logged(pod, &json!({"request_id": id}));
    let log = shop.access_log(pod);
    log.iter().filter(|line| line["path"] == path).count()
}
