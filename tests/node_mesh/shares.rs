//! Shares of traffic between several services: by request with HTTP and gRPC, by connection with TCP.

use std::collections::BTreeMap;

use crate::workloads::{Load, Mesh};
use crate::{caller, deploy, speaking_all};

/// How many calls are counted.
const CALLS: u32 = 2000;

/// How improbable a count has to be before it counts as wrong: each of the nine fails though the share is right once in
/// 500,000 runs at most, so the test once in 55,000.
const ERROR: f64 = 2e-6;

/// The services and their shares.
const SHARES: [(&str, f64); 3] = [("orders", 0.6), ("orders-v2", 0.3), ("orders-v3", 0.1)];

const UPSTREAMS: &str = "
- {service: orders:8080, split: [{service: orders-v2:8080, weight: 30}, {service: orders-v3:8080, weight: 10}]}
- {service: orders:9000, protocol: tcp, split: [{service: orders-v2:9000, weight: 30}, {service: orders-v3:9000, weight: 10}]}
- {service: orders:9100, protocol: grpc, split: [{service: orders-v2:9100, weight: 30}, {service: orders-v3:9100, weight: 10}]}
";

/// Whether so many of all calls are a share, by the bound of Chernoff and Hoeffding: where each call falls to the share by
/// itself, a count at least that far on either side is no more probable than e^(-n·d), d being the relative entropy of the
/// counted and the right share. 2,000 calls tell 10 % from 6.6 % and 13.8 %, 30 % from 24.7 % and 35.5 %.
fn is_share(count: u64, share: f64) -> bool {
    let (n, counted) = (f64::from(CALLS), count as f64 / f64::from(CALLS));
    let term = |a: f64, b: f64| if a == 0.0 { 0.0 } else { a * (a / b).ln() };
    let entropy = term(counted, share) + term(1.0 - counted, 1.0 - share);
    n * entropy <= (2.0 / ERROR).ln()
}

#[test]
fn the_bound_tells_shares_apart() {
    let accepted = |share| (0..=u64::from(CALLS)).filter(move |count| is_share(*count, share));
    let edges = |share| (accepted(share).min().unwrap(), accepted(share).max().unwrap());
    assert_eq!([0.1, 0.3, 0.6].map(edges), [(134, 274), (495, 709), (1085, 1314)]);
}

#[test]
fn calls_fall_to_services_by_their_shares() {
    let mesh = Mesh::shared();
    let shop = mesh.namespace("shares");
    let apps = SHARES.map(|(name, _)| speaking_all(name));
    deploy(&shop, &apps.each_ref(), &caller("web", UPSTREAMS));
    let pods: BTreeMap<String, &str> = SHARES.iter().map(|(app, _)| (shop.pod(app), *app)).collect();
    let calls = CALLS.to_string();
    for (kind, arguments) in [
        ("http", &["-connections=4", "http://orders:8080/"][..]),
        ("tcp", &["-tcp", "-fresh", "-connections=4", "orders:9000"]),
        // All on one connection of the caller.
        ("grpc", &["-grpc", "orders:9100"]),
    ] {
        let arguments = [&["-requests", &calls], arguments].concat();
        let load = shop.load(&shop.pod("web"), &arguments);
        assert_eq!((load.requests, load.failed), (CALLS.into(), 0), "{kind}: {load:?}");
        let counted = by_app(&load, &pods);
        for (app, share) in SHARES {
            let count = counted.get(app).copied().unwrap_or_default();
            assert!(is_share(count, share), "{kind}: {app} has {share} of {counted:?}");
        }
    }
    // A connection of TCP stays where it is.
    let kept = shop.load(&shop.pod("web"), &["-requests=50", "-tcp", "orders:9000"]);
    assert_eq!((kept.failed, kept.served_by.len()), (0, 1), "{kept:?}");
}

/// How many calls each application answered.
fn by_app<'a>(load: &Load, pods: &BTreeMap<String, &'a str>) -> BTreeMap<&'a str, u64> {
    let answered = load.served_by.iter();
    answered.map(|(pod, count)| (pods[pod], *count)).collect()
}
