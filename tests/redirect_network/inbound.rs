//! Calls of others to the application, which is called on its own ports as ever.

use std::net::IpAddr;

use serde_json::json;

use crate::pod::{Pod, manifest};
use crate::site::{Both, Families, PEER, POD, Site};
use crate::talk::{Server, ask_udp, connect, get, say, start_udp, try_get};

const ALL: [u8; 16] = [0; 16];

#[test]
fn callers_reach_the_application_through_nginx() {
    let site = Site::new(Families::Dual);
    let app = Server::start(site.pod, "app", (ALL, 8080));
    let pod = Pod::started(&site, &manifest(&[], &[("http", 8080)]));
    for (n, (from, to)) in site.families().of(PEER).zip(site.families().of(POD)).enumerate() {
        let path = format!("/in-{n}");
        let answer = get(site.peer, (to, 8080), &path);
        // What the application sees is its proxy; the rest is as the caller said it.
        let loopback: IpAddr = [127, 0, 0, 1].into();
        assert_eq!(
            answer.body,
            json!({
                "server": "app", "caller": loopback, "called": loopback, "port": 8080,
                "said": format!("GET {path} HTTP/1.1"), "host": "web.shop",
            })
        );
        let lines = pod.passed_at(&path);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert_eq!((&lines[0]["remote"], &lines[0]["port"]), (&json!(from), &json!(15200)));
        assert_eq!(
            (&lines[0]["upstream"], &lines[0]["status"]),
            (&json!("127.0.0.1:8080"), &json!(200))
        );
    }
    assert_eq!(app.calls(), 2 + 2, "two calls and two marks");
}

#[test]
fn tcp_that_is_no_http_passes_too() {
    let site = Site::new(Families::Dual);
    Server::start(site.pod, "http", (ALL, 8080));
    Server::start(site.pod, "raw", (ALL, 5000));
    let pod = Pod::started(&site, &manifest(&[], &[("http", 8080), ("raw", 5000)]));
    for (from, to) in site.families().of(PEER).zip(site.families().of(POD)) {
        let socket = connect(site.peer, (to, 5000)).unwrap();
        let answers = ["one", "two"].map(|line| say(&socket, line));
        assert_eq!(answers.map(|answer| answer["said"].clone()), ["one", "two"]);
        drop(socket);
        let lines = pod.passed();
        let line = lines.iter().find(|line| line["remote"] == json!(from)).unwrap();
        assert_eq!(
            (&line["port"], &line["upstream"]),
            (&json!(15201), &json!("127.0.0.1:5000"))
        );
    }
}

/// Calls that go to the application past nginx: it sees the caller itself.
fn check_direct(pod: &Pod<'_>, site: &Site, (to, port): (IpAddr, u16), from: IpAddr) {
    let before = pod.passed();
    let answer = get(site.peer, (to, port), "/direct");
    assert_eq!(
        (&answer.body["caller"], &answer.body["port"]),
        (&json!(from), &json!(port)),
        "{to}:{port}"
    );
    assert_eq!(pod.passed(), before, "{to}:{port}");
}

#[test]
fn excluded_and_undeclared_ports_are_reached_directly() {
    let site = Site::new(Families::Dual);
    for port in [8080, 9090, 7777] {
        Server::start(site.pod, "app", (ALL, port));
    }
    let ports = [("http", 8080), ("http-metrics", 9090)];
    let pod = Pod::started(&site, &manifest(&[("exclude-inbound-ports", "9090")], &ports));
    for (from, to) in site.families().of(PEER).zip(site.families().of(POD)) {
        check_direct(&pod, &site, (to, 9090), from);
        check_direct(&pod, &site, (to, 7777), from);
        let answer = get(site.peer, (to, 8080), "/meshed");
        assert_eq!(answer.body["caller"], "127.0.0.1", "the other port is in the mesh");
    }
}

#[test]
fn a_list_of_ports_counts_instead_of_the_declared_ones() {
    let site = Site::new(Families::Ipv4);
    for port in [8080, 9090, 7777] {
        Server::start(site.pod, "app", (ALL, port));
    }
    let list = [("inbound-ports", "8080/http, 7777/http")];
    let pod = Pod::started(&site, &manifest(&list, &[("http", 8080), ("http-metrics", 9090)]));
    check_direct(&pod, &site, (POD.v4.into(), 9090), PEER.v4.into());
    assert_eq!(get(site.peer, (POD.v4, 7777), "/meshed").body["caller"], "127.0.0.1");
    assert_eq!(pod.passed_at("/meshed")[0]["port"], 15201);
}

#[test]
fn udp_is_left_alone_on_the_very_port() {
    let site = Site::new(Families::Dual);
    Server::start(site.pod, "app", (ALL, 8080));
    start_udp(site.pod, "app", (ALL, 8080));
    let _pod = Pod::started(&site, &manifest(&[], &[("http", 8080)]));
    for (from, to) in site.families().of(PEER).zip(site.families().of(POD)) {
        assert_eq!(ask_udp(site.peer, (to, 8080)), format!("app {from}"));
    }
}

#[test]
fn the_pod_calls_itself_without_nginx() {
    let site = Site::new(Families::Dual);
    Server::start(site.pod, "app", (ALL, 8080));
    let pod = Pod::started(&site, &manifest(&[], &[("http", 8080)]));
    let loopback = Both {
        v4: [127, 0, 0, 1].into(),
        v6: [0, 0, 0, 0, 0, 0, 0, 1].into(),
    };
    for own in [loopback, POD] {
        for address in site.families().of(own) {
            let path = format!("/self-{address}");
            let answer = get(site.pod, (address, 8080), &path);
            assert_eq!(answer.body["caller"], json!(address));
            assert_eq!(pod.passed_at(&path), Vec::<serde_json::Value>::new());
        }
    }
}

/// As docs/limits.md says: nginx calls 127.0.0.1.
#[test]
fn an_application_has_to_listen_on_loopback() {
    let site = Site::new(Families::Dual);
    Server::start(site.pod, "all", (ALL, 8080));
    Server::start(site.pod, "own", (POD.v4, 8081));
    Server::start(site.pod, "loopback", ([127, 0, 0, 1], 8082));
    let ports = [("http", 8080), ("http-own", 8081), ("http-lo", 8082)];
    let _pod = Pod::started(&site, &manifest(&[], &ports));
    assert_eq!(get(site.peer, (POD.v4, 8081), "/").status, 502);
    assert_eq!(get(site.peer, (POD.v4, 8082), "/").body["server"], "loopback");
}

#[test]
fn nothing_but_the_own_ports_of_nginx_is_open_to_others() {
    let site = Site::new(Families::Dual);
    Server::start(site.pod, "app", (ALL, 8080));
    let _pod = Pod::started(
        &site,
        &manifest(&[("upstreams", "- orders.shop:8080")], &[("http", 8080)]),
    );
    for to in site.families().of(POD) {
        assert!(
            try_get(site.peer, (to, 15100), "/").is_err(),
            "outbound ports are the pod's own"
        );
        assert_eq!(get(site.peer, (to, 15021), "/healthz").status, 200);
        assert_eq!(get(site.peer, (to, 15021), "/status").status, 403);
        // The node is a caller like any other.
        assert_eq!(get(site.node, (to, 8080), "/node").body["caller"], "127.0.0.1");
    }
}
