//! Pods with one family of addresses, as clusters give them.

use std::net::{IpAddr, Ipv6Addr};

use serde_json::json;

use crate::pod::{Pod, injected, manifest};
use crate::site::{Families, ORDERS, PEER, POD, Site};
use crate::talk::{Server, curled, get, try_get};

const ANY: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// Calls both ways.
fn check(families: Families, variables: &[(&str, &str)]) {
    let site = Site::new(families);
    Server::start(site.peer, "orders", (ANY, 9080));
    // An application of a kernel that lets it have no socket for IPv6 has one for IPv4.
    let any = if families == Families::Ipv4Alone {
        [0; 4].into()
    } else {
        ANY
    };
    Server::start(site.pod, "app", (any, 8080));
    let manifest = manifest(&[("upstreams", "- orders.shop:8080")], &[("http", 8080)]);
    let mut pod = Pod::new(&site, injected(&manifest, variables));
    pod.init();
    pod.start_nginx();
    let said = curled(pod.space(), &["http://orders.shop:8080/out"]);
    let own = families.of(POD).next().unwrap();
    assert_eq!((&said["server"], &said["caller"]), (&json!("orders"), &json!(own)));
    assert_eq!(pod.passed_at("/out")[0]["remote"], json!(own));
    assert_eq!(get(site.peer, (own, 8080), "/in").body["caller"], "127.0.0.1");
    assert_eq!(
        pod.passed_at("/in")[0]["remote"],
        json!(families.of(PEER).next().unwrap())
    );
    let rules = pod.ruleset();
    let has = [ORDERS.v4.to_string(), ORDERS.v6.to_string()].map(|address| rules.contains(&address));
    assert_eq!(has, [families != Families::Ipv6, families == Families::Ipv6], "{rules}");
}

#[test]
fn ipv4_alone_is_carried() {
    check(Families::Ipv4, &[]);
}

#[test]
fn ipv6_alone_is_carried() {
    check(Families::Ipv6, &[]);
    check(Families::Ipv6, &[("OUTRIGGER_IP_FAMILIES", "ipv6")]);
}

#[test]
fn pods_without_ipv6_need_the_operators_setting() {
    check(Families::Ipv4Alone, &[("OUTRIGGER_IP_FAMILIES", "ipv4")]);
    let site = Site::new(Families::Ipv4Alone);
    let manifest = manifest(&[("upstreams", "- orders.shop:8080")], &[("http", 8080)]);
    let said = Pod::new(&site, injected(&manifest, &[])).failing_nginx();
    assert!(said.contains("bind() to [::1]:15100 failed"), "{said}");
}

/// As docs/limits.md says: what is redirected and not listened for is refused, and does not slip past.
#[test]
fn the_other_family_is_refused_where_the_operator_left_it_out() {
    let site = Site::new(Families::Dual);
    Server::start(site.peer, "orders", (ANY, 9080));
    Server::start(site.pod, "app", (ANY, 8080));
    let manifest = manifest(&[("upstreams", "- orders.shop:8080")], &[("http", 8080)]);
    let mut pod = Pod::new(&site, injected(&manifest, &[("OUTRIGGER_IP_FAMILIES", "ipv4")]));
    pod.init();
    pod.start_nginx();
    let calls = [(site.peer, POD), (site.pod, ORDERS)];
    for (from, to) in calls {
        assert_eq!(get(from, (to.v4, 8080), "/").status, 200);
        let refused = try_get(from, (to.v6, 8080), "/").unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    }
}
