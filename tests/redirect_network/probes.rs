//! The kubelet's probes, which come from the node: from the pod's gateway, or from the node's own address.

use std::net::{IpAddr, Ipv6Addr};

use serde_json::{Value, json};

use crate::pod::{Pod, injected, manifest};
use crate::site::{Both, Families, GATEWAY, NODE, PEER, POD, Site};
use crate::talk::{Server, connect, curled, get};

const ANY: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// A pod with an HTTP probe of 8080 and a TCP probe of 5000.
fn probed(annotations: &[(&str, &str)]) -> Value {
    let mut manifest = manifest(annotations, &[("http", 8080), ("raw", 5000)]);
    let container = &mut manifest["spec"]["containers"][0];
    container["readinessProbe"] = json!({"httpGet": {"path": "/ready", "port": "http"}});
    container["livenessProbe"] = json!({"tcpSocket": {"port": "raw"}});
    manifest
}

/// A request of the node from one of its addresses; who the application says has called.
fn probe(site: &Site, from: IpAddr, port: u16) -> Value {
    let to = if from.is_ipv4() {
        POD.v4.to_string()
    } else {
        format!("[{}]", POD.v6)
    };
    let url = format!("http://{to}:{port}/ready");
    curled(site.node, &["--interface", &from.to_string(), &url])["caller"].clone()
}

fn of_the_node(site: &Site) -> Vec<IpAddr> {
    [GATEWAY, NODE]
        .iter()
        .flat_map(|address: &Both| site.families().of(*address))
        .collect()
}

#[test]
fn http_probes_pass_nginx_and_tcp_probes_reach_the_application() {
    let site = Site::new(Families::Dual);
    let pod = Pod::started(&site, &probed(&[]));
    for to in site.families().of(POD) {
        assert!(
            connect(site.node, (to, 5000)).is_err(),
            "nobody listens yet, whatever nginx would say"
        );
        assert_eq!(get(site.node, (to, 8080), "/ready").status, 502, "nobody listens yet");
    }
    Server::start(site.pod, "app", (ANY, 8080));
    Server::start(site.pod, "raw", (ANY, 5000));
    for from in of_the_node(&site) {
        assert_eq!(probe(&site, from, 8080), "127.0.0.1", "{from}");
        assert_eq!(probe(&site, from, 5000), json!(from));
    }
    for (from, to) in site.families().of(PEER).zip(site.families().of(POD)) {
        assert_eq!(
            get(site.peer, (to, 5000), "/").body["caller"],
            "127.0.0.1",
            "{from} is not the node"
        );
    }
    assert_eq!(pod.passed_at("/ready").len(), 2 + 4);
}

/// As docs/annotations.md says: nginx takes the connection, whether the application would or not.
#[test]
fn with_probes_off_a_tcp_probe_says_nothing() {
    let site = Site::new(Families::Ipv4);
    let _pod = Pod::started(&site, &probed(&[("probes", "off")]));
    assert!(connect(site.node, (POD.v4, 5000)).is_ok());
}

/// Strict mTLS without nginx: what is redirected is refused, and what is let through gets an answer.
#[test]
fn under_strict_the_node_is_let_through_where_the_pod_wants_it() {
    let strict = [("template", "mtls"), ("mtls", "strict")];
    for (probes, is_open) in [("node", true), ("path", false), ("off", false)] {
        let site = Site::new(Families::Dual);
        let annotations = [&strict[..], &[("probes", probes)]].concat();
        let pod = Pod::new(&site, injected(&probed(&annotations), &[]));
        Server::start(site.pod, "app", (ANY, 8080));
        Server::start(site.pod, "raw", (ANY, 5000));
        pod.init();
        for to in site.families().of(POD) {
            assert_eq!(connect(site.node, (to, 5000)).is_ok(), is_open, "{probes}");
            assert!(
                connect(site.node, (to, 8080)).is_err(),
                "{probes}: it has an HTTP probe"
            );
            assert!(
                connect(site.peer, (to, 5000)).is_err(),
                "{probes}: the peer is not the node"
            );
        }
    }
}
