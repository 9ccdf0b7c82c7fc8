//! Calls of the application to others, which it calls as ever.

use std::net::{IpAddr, Ipv6Addr};

use serde_json::{Value, json};

use crate::pod::{Pod, manifest};
use crate::site::{Both, Families, LEDGER, NEW_ORDERS, ORDERS, OTHER, PEER, POD, Site};
use crate::talk::{Server, ask_udp, connect, curled, get, say, start_udp};

const ANY: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

const LISTED: &str = "- orders.shop:8080\n- {service: ledger.bank:9000, protocol: tcp}";

/// A pod that calls both, with one port of its own.
fn calling<'s>(site: &'s Site, annotations: &[(&str, &str)]) -> Pod<'s> {
    Server::start(site.pod, "app", (ANY, 8080));
    Pod::started(site, &manifest(annotations, &[("http", 8080)]))
}

fn text(address: impl Into<IpAddr>) -> Value {
    json!(address.into())
}

#[test]
fn services_are_called_by_name_through_nginx() {
    let site = Site::new(Families::Dual);
    let orders = Server::start(site.peer, "orders", (ANY, 9080));
    let pod = calling(&site, &[("upstreams", LISTED)]);
    for (n, (family, own)) in [("--ipv4", text(POD.v4)), ("--ipv6", text(POD.v6))]
        .into_iter()
        .enumerate()
    {
        let path = format!("/out-{n}");
        let said = curled(pod.space(), &[family, &format!("http://orders.shop:8080{path}")]);
        // nginx calls by either family, whichever the application has used.
        assert!([text(POD.v4), text(POD.v6)].contains(&said["caller"]), "{said}");
        let expected = (
            &json!("orders"),
            &json!("orders.shop:8080"),
            &json!(format!("GET {path} HTTP/1.1")),
        );
        assert_eq!((&said["server"], &said["host"], &said["said"]), expected);
        let lines = pod.passed_at(&path);
        assert_eq!(lines.len(), 1, "nginx's own call is not redirected again: {lines:?}");
        assert_eq!((&lines[0]["port"], &lines[0]["remote"]), (&json!(15100), &own));
    }
    assert_eq!(orders.calls(), 2);
}

#[test]
fn tcp_that_is_no_http_passes_too() {
    let site = Site::new(Families::Dual);
    Server::start(site.peer, "ledger", (ANY, 9900));
    let pod = calling(&site, &[("upstreams", LISTED)]);
    for address in site.families().of(LEDGER) {
        let socket = connect(pod.space(), (address, 9000)).unwrap();
        assert_eq!(say(&socket, "one")["server"], "ledger");
        assert_eq!(say(&socket, "two")["said"], "two");
    }
    let lines = pod.passed();
    assert_eq!(
        lines.iter().filter(|line| line["port"] == 15101).count(),
        2,
        "{lines:?}"
    );
}

/// A call that goes past nginx, which would log it in one way or another.
fn check_direct(pod: &Pod<'_>, (to, port): (IpAddr, u16), server: &str) {
    let before = pod.passed();
    let answer = get(pod.space(), (to, port), "/direct");
    assert_eq!(answer.body["server"], server, "{answer:?}");
    assert_eq!(pod.passed(), before, "{to}:{port}");
}

#[test]
fn what_is_excluded_or_not_listed_is_called_directly() {
    let site = Site::new(Families::Dual);
    Server::start(site.peer, "orders", (ANY, 9080));
    Server::start(site.peer, "ledger", (ANY, 9900));
    site.set_services(&[
        (ORDERS, 8080, PEER, 9080),
        (ORDERS, 8081, PEER, 9080),
        (LEDGER, 9000, PEER, 9900),
        (NEW_ORDERS, 8080, OTHER, 9080),
    ]);
    let pod = calling(&site, &[("upstreams", LISTED), ("exclude-outbound-ports", "9000")]);
    for address in site.families().of(ORDERS) {
        assert_eq!(get(pod.space(), (address, 8080), "/listed").body["server"], "orders");
        check_direct(&pod, (address, 8081), "orders");
    }
    site.families()
        .of(LEDGER)
        .for_each(|address| check_direct(&pod, (address, 9000), "ledger"));
    site.families()
        .of(NEW_ORDERS)
        .for_each(|address| check_direct(&pod, (address, 8080), "orders"));
    // The pods of a listed Service, called by their own addresses.
    site.families()
        .of(PEER)
        .for_each(|address| check_direct(&pod, (address, 9080), "orders"));
    assert_eq!(pod.passed_at("/listed").len(), 2);
}

#[test]
fn calls_of_the_uid_of_nginx_are_left_alone() {
    let site = Site::new(Families::Dual);
    Server::start(site.peer, "orders", (ANY, 9080));
    let pod = calling(&site, &[("upstreams", LISTED)]);
    for (n, uid) in ["101", "102"].iter().enumerate() {
        let mut curl = pod.space().command("setpriv");
        curl.args([&format!("--reuid={uid}"), "--clear-groups", "--", "curl", "--silent"]);
        let output = curl.arg(format!("http://orders.shop:8080/uid-{uid}")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(pod.passed_at(&format!("/uid-{uid}")).len(), n, "{uid}");
    }
}

#[test]
fn udp_is_left_alone_on_the_very_address_and_port() {
    let site = Site::new(Families::Dual);
    start_udp(site.peer, "orders", (ANY, 9080));
    let pod = calling(&site, &[("upstreams", LISTED)]);
    for (own, address) in site.families().of(POD).zip(site.families().of(ORDERS)) {
        assert_eq!(ask_udp(pod.space(), (address, 8080)), format!("orders {own}"));
    }
}

#[test]
fn the_own_service_is_called_through_both_directions() {
    let site = Site::new(Families::Ipv4);
    site.set_services(&[(ORDERS, 8080, POD, 8080)]);
    let pod = calling(&site, &[("upstreams", "- orders.shop:8080")]);
    let answer = get(pod.space(), (ORDERS.v4, 8080), "/self");
    assert_eq!(
        (&answer.body["server"], &answer.body["caller"]),
        (&json!("app"), &json!("127.0.0.1"))
    );
    let ports: Vec<Value> = pod.passed_at("/self").iter().map(|line| line["port"].clone()).collect();
    assert_eq!(ports, [15200, 15100], "each hop is logged when it ends");
}

/// As docs/limits.md says: the rules hold the addresses of the pod's start, nginx asks DNS.
fn check_moved(name: &str, port: u16, (old, new): (Both, Both), expected: [&str; 2]) {
    let site = Site::new(Families::Ipv4);
    Server::start(site.peer, "old", (PEER.v4, 9080));
    Server::start(site.peer, "new", (OTHER.v4, 9080));
    site.set_services(&[(old, port, PEER, 9080), (new, port, OTHER, 9080)]);
    Server::start(site.pod, "app", (ANY, 8080));
    let upstreams = format!("- {name}:{port}");
    let injected = crate::pod::injected(&manifest(&[("upstreams", &upstreams)], &[("http", 8080)]), &[]);
    let mut pod = Pod::new(&site, injected);
    site.set_names(&[(name, old)]);
    site.wait_for_name(name, old);
    pod.init();
    site.set_names(&[(name, new)]);
    site.wait_for_name(name, new);
    pod.start_nginx();
    let called = [old, new].map(|address| get(pod.space(), (address.v4, port), "/moved").body["server"].clone());
    assert_eq!(called, expected);
    let passed = pod.passed_at("/moved");
    assert_eq!(passed.len(), 1, "calls to the new address go past nginx: {passed:?}");
}

#[test]
fn a_service_that_is_made_anew_is_called_past_nginx() {
    check_moved("orders.shop", 8080, (ORDERS, NEW_ORDERS), ["new", "new"]);
}

#[test]
fn a_headless_service_is_meshed_as_far_as_its_pods_at_the_start() {
    check_moved("orders.shop", 9080, (PEER, OTHER), ["new", "new"]);
}
