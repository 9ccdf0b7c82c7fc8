#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::*;

const POLICY: Policy = Policy {
    excluded_namespaces: Vec::new(),
    default: Toggle::Disabled,
};

fn service(namespace: &str, name: &str, annotations: &Value, spec: &Value) -> Service {
    let metadata = json!({"namespace": namespace, "name": name, "annotations": annotations});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

/// A Service with a port of HTTP.
fn http(namespace: &str, name: &str, port: u16) -> Service {
    service(
        namespace,
        name,
        &json!({}),
        &json!({"ports": [{"port": port, "name": "http"}]}),
    )
}

/// Services in enabled namespaces.
fn services(all: &[Service]) -> Services {
    let mut services = Services::of(all);
    services.enable_unknown();
    services
}

fn found(services: &Services, others: &str, most: usize) -> Found {
    let others: NamespaceList = others.parse().unwrap();
    services.find(&Reach {
        own: ("shop", &NamespaceInfo::enabled()),
        others: Some(&others),
        excluded: &[],
        most,
        policy: &POLICY,
    })
}

fn names(found: &Found) -> Vec<String> {
    let name = |p: &FoundPort| format!("{}.{}:{}", p.service, p.namespace, p.port.number);
    found.ports.iter().map(name).collect()
}

#[test]
fn a_port_is_found_by_app_protocol_or_name() {
    let rows = [
        (json!({"name": "http"}), Some("http")),
        (json!({"name": "http-web"}), Some("http")),
        (json!({"name": "http2"}), Some("grpc")),
        (json!({"name": "grpc-api"}), Some("grpc")),
        (json!({"name": "web"}), None),
        (json!({}), None),
        (json!({"name": "https"}), None),
        (json!({"name": "http", "protocol": "TCP"}), Some("http")),
        (json!({"name": "http", "protocol": "UDP"}), None),
        (json!({"appProtocol": "http"}), Some("http")),
        (json!({"appProtocol": "HTTP"}), Some("http")),
        (json!({"appProtocol": "grpc"}), Some("grpc")),
        (json!({"appProtocol": "http2"}), Some("grpc")),
        (json!({"appProtocol": "kubernetes.io/h2c"}), Some("grpc")),
        (json!({"appProtocol": "kubernetes.io/ws"}), Some("http")),
        (json!({"appProtocol": "kubernetes.io/wss"}), None),
        (json!({"appProtocol": "https"}), None),
        // It says what the name only hints at.
        (json!({"appProtocol": "tcp", "name": "http"}), None),
        (json!({"appProtocol": "grpc", "name": "http"}), Some("grpc")),
    ];
    for (mut port, expected) in rows {
        port["port"] = json!(80);
        let all = services(&[service("shop", "a", &json!({}), &json!({"ports": [port.clone()]}))]);
        let found = found(&all, "", 9);
        let protocol = found.ports.first().map(|found| found.port.protocol.as_str());
        assert_eq!(protocol, expected, "{port}");
    }
}

#[test]
fn a_service_without_an_address_or_switched_off_is_not_found() {
    let ports = json!([{"port": 80, "name": "http"}]);
    for (annotations, spec, is_found) in [
        (json!({}), json!({"ports": ports}), true),
        (
            json!({}),
            json!({"ports": ports, "clusterIP": "10.96.0.7", "type": "NodePort"}),
            true,
        ),
        (json!({}), json!({"ports": ports, "clusterIP": "None"}), false),
        (json!({}), json!({"ports": ports, "type": "ExternalName"}), false),
        (json!({names::INJECT: "enabled"}), json!({"ports": ports}), true),
        (json!({names::INJECT: "disabled"}), json!({"ports": ports}), false),
        (json!({names::INJECT: " False "}), json!({"ports": ports}), false),
        (json!({names::INJECT: "perhaps"}), json!({"ports": ports}), false),
        (json!({}), json!({}), false),
    ] {
        let all = services(&[service("shop", "a", &annotations, &spec)]);
        assert_eq!(!found(&all, "", 9).ports.is_empty(), is_found, "{annotations} {spec}");
    }
}

#[test]
fn names_that_no_cluster_has_are_passed_over() {
    for (namespace, name) in [
        ("shop", "a b"),
        ("shop", "a.b"),
        ("Shop", "a"),
        ("shop;", "a"),
        ("shop", "$a"),
    ] {
        assert!(
            !Services::default().apply(&http(namespace, name, 80)),
            "{namespace} {name}"
        );
    }
}

#[test]
fn the_own_namespace_stands_first_then_names_count() {
    let both = json!([{"port": 90, "name": "http"}, {"port": 80, "name": "grpc"}]);
    let all = services(&[
        http("zoo", "a", 80),
        http("bank", "b", 80),
        http("bank", "a", 80),
        service("shop", "web", &json!({}), &json!({"ports": both})),
        http("shop", "cart", 80),
    ]);
    let own = ["cart.shop:80", "web.shop:80", "web.shop:90"];
    let all_names = [&own[..], &["a.bank:80", "b.bank:80", "a.zoo:80"]].concat();
    assert_eq!(names(&found(&all, "", 9)), own);
    assert_eq!(names(&found(&all, "*", 9)), all_names);
    assert_eq!(names(&found(&all, "zoo, bank, shop, zoo, gone", 9)), all_names);
    assert_eq!(names(&found(&all, "zoo", 9)), [&own[..], &["a.zoo:80"]].concat());
}

#[test]
fn namespaces_that_take_no_part_are_passed_over() {
    let mut all = Services::default();
    for namespace in ["shop", "off", "unlabelled", "unknown", "kube-system", "on"] {
        all.apply(&http(namespace, "a", 80));
    }
    let labelled = |value: &str| NamespaceInfo {
        labels: [(names::INJECT.to_owned(), value.to_owned())].into(),
        annotations: [("team".to_owned(), "shop".to_owned())].into(),
    };
    all.namespace("off", Some(&labelled("disabled")));
    all.namespace("unlabelled", Some(&NamespaceInfo::default()));
    all.namespace("kube-system", Some(&labelled("enabled")));
    all.namespace("on", Some(&labelled("true")));
    for others in ["*", "off, unlabelled, unknown, kube-system, on"] {
        assert_eq!(names(&found(&all, others, 9)), ["a.shop:80", "a.on:80"], "{others}");
    }
    all.namespace("on", None);
    assert_eq!(names(&found(&all, "*", 9)), ["a.shop:80"]);
    let disabled = labelled("disabled");
    let reach = Reach {
        own: ("shop", &disabled),
        others: None,
        excluded: &[],
        most: 9,
        policy: &POLICY,
    };
    assert_eq!(
        all.find(&reach),
        Found::default(),
        "of a pod that alone was switched on"
    );
}

#[test]
fn those_beyond_the_limit_are_counted_and_the_first_named() {
    let many: Vec<Service> = (0..40)
        .flat_map(|n| ["shop", "bank", "zoo"].map(|namespace| http(namespace, &format!("s{n:02}"), 80)))
        .collect();
    let all = services(&many);
    for (most, more) in [(0, 120), (1, 119), (39, 81), (40, 80), (119, 1), (120, 0), (121, 0)] {
        let found = found(&all, "*", most);
        assert_eq!((found.ports.len(), found.more), (120 - more, more));
        assert_eq!(found.first.len(), more.min(3));
        assert_eq!(found.warning().is_some(), more > 0);
    }
    let warning = found(&all, "*", 118).warning().unwrap();
    assert!(warning.contains("found 120 ports, of which 118"), "{warning}");
    assert!(warning.contains("not s38.zoo:80, s39.zoo:80; list"), "{warning}");
    let warning = found(&all, "*", 40).warning().unwrap();
    assert!(
        warning.contains("not s00.bank:80, s01.bank:80, s02.bank:80 and 77 more;"),
        "{warning}"
    );
}

#[test]
fn excluded_ports_take_no_room() {
    let all = services(&[
        http("shop", "a", 80),
        http("shop", "b", 81),
        http("bank", "c", 80),
        http("bank", "d", 81),
    ]);
    let info = NamespaceInfo::enabled();
    let policy = POLICY;
    let reach = |most| Reach {
        own: ("shop", &info),
        others: Some(&NamespaceList::All),
        excluded: &[80],
        most,
        policy: &policy,
    };
    assert_eq!(names(&all.find(&reach(9))), ["b.shop:81", "d.bank:81"]);
    assert_eq!(all.find(&reach(1)).more, 1);
}

#[test]
fn changes_leave_what_a_list_would_give() {
    let mut all = Services::default();
    assert!(all.apply(&http("shop", "a", 80)));
    assert!(!all.apply(&http("shop", "a", 80)), "nothing changed");
    assert!(all.apply(&http("shop", "a", 81)));
    assert!(all.apply(&http("shop", "b", 80)));
    assert_eq!(all.counts(), (1, 2));
    assert!(all.remove("shop", "b"));
    assert!(!all.remove("shop", "b"));
    let mut listed = Services::default();
    listed.apply(&http("shop", "a", 81));
    assert_eq!(all, listed);
    assert!(all.remove("shop", "a"));
    assert_eq!(all, Services::default());
}
