//! Annotations that mean nothing: one refusal lists all of them.

use outrigger::names;
use serde_json::json;

use crate::{annotated, denied};

#[test]
fn one_refusal_lists_every_malformed_annotation() {
    let bad = [
        (names::TEMPLATE, json!("No Template")),
        (names::POSITION, json!("middle")),
        (names::TRAFFIC, json!("teleport")),
        (names::MTLS, json!("maybe")),
        (names::INBOUND_PORTS, json!("80/quic")),
        (names::EXCLUDE_INBOUND_PORTS, json!("0")),
        (names::EXCLUDE_OUTBOUND_PORTS, json!("65536")),
        (names::UPSTREAMS, json!("- {")),
        (names::UPSTREAM_NAMESPACES, json!("A")),
        (names::PROBES, json!("some")),
        (names::ALLOW_FROM, json!("everybody")),
        (names::PROXY_IMAGE, json!("a b")),
        (names::PROXY_CPU_REQUEST, json!("much")),
        (names::PROXY_CPU_LIMIT, json!("-1")),
        (names::PROXY_MEMORY_REQUEST, json!(64)),
        (names::PROXY_MEMORY_LIMIT, json!("")),
        (names::PROXY_LOG_LEVEL, json!("loud\u{1b}[31m\n")),
        (names::IDENTITY_SECRET, json!("a/b")),
    ];
    let (outcome, message) = denied(&annotated(
        bad.iter()
            .cloned()
            .map(|(k, v)| (k.to_owned(), v))
            .collect::<serde_json::Map<_, _>>()
            .into(),
    ));
    assert_eq!(outcome, "bad-setting");
    for (key, _) in bad {
        assert!(message.contains(&format!("pod annotation {key}: ")), "{key}: {message}");
    }
    assert!(message.contains("allowed: first, last, native"), "{message}");
    assert!(!message.chars().any(char::is_control), "{message}");
}

#[test]
fn refuses_a_template_that_is_not_there_and_lists_those_that_are() {
    let (_, message) = denied(&annotated(json!({names::TEMPLATE: "none"})));
    assert!(
        message.contains("no such template; there are: mtls, proxy-sidecar"),
        "{message}"
    );
}

#[test]
fn a_switch_that_means_nothing_is_refused_wherever_it_stands() {
    let mut pod = annotated(json!({names::INJECT: "perhaps"}));
    pod["metadata"]["labels"][names::INJECT] = json!(true);
    let (outcome, message) = denied(&pod);
    assert_eq!(outcome, "bad-setting");
    assert!(
        message.contains("pod annotation outrigger.mesh/inject: \"perhaps\""),
        "{message}"
    );
    assert!(message.contains("the boolean true"), "{message}");
}

#[test]
fn a_port_list_longer_than_the_range_is_refused() {
    let ports: Vec<String> = (1..=101).map(|port| port.to_string()).collect();
    let (outcome, message) = denied(&annotated(json!({names::INBOUND_PORTS: ports.join(",")})));
    assert_eq!(outcome, "bad-setting");
    assert!(message.contains("more than 100 entries"), "{message}");
}

#[test]
fn annotations_that_would_be_too_large_are_refused() {
    let entry = |n: usize| {
        let name = format!("{n}{}", "a".repeat(60));
        let shares: Vec<String> = (0..9)
            .map(|m| format!("{{service: \"{name}{m}.{name}:80\", weight: 11}}"))
            .collect();
        format!(
            "- {{service: \"{name}.{name}:80\", retries: 10, split: [{}]}}\n",
            shares.join(", ")
        )
    };
    let upstreams: String = (0..100).map(entry).collect();
    let (outcome, message) = denied(&annotated(json!({names::UPSTREAMS: upstreams})));
    assert_eq!(outcome, "config-too-large", "{message:.300}");
    assert!(message.contains("at most 262144"), "{message}");
    let (outcome, _) = denied(&annotated(json!({"note": "x".repeat(260 << 10)})));
    assert_eq!(outcome, "config-too-large");
}

#[test]
fn bad_lists_of_upstreams_are_refused_with_the_entry() {
    let bomb = "a: &a [1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\n\
                e: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f]\n";
    let many = "- a:80\n".repeat(101);
    let deep = "[".repeat(100_000);
    for (text, part) in [
        ("orders:80", "YAML list"),
        ("- orders", "entry 0"),
        ("- a:80\n- b:99999", "entry 1"),
        ("- {service: a:80, colour: red}", "colour"),
        ("- {protocol: http}", "service"),
        ("- {service: a:80, retries: many}", "retries"),
        ("- {service: a:80, listen: 70000}", "listen"),
        ("- {service: a:80, listen: 15021}", "15021"),
        (
            "- {service: a:80, listen: 7000}\n- {service: b:80, listen: 7000}",
            "7000",
        ),
        ("- a:80\n- {service: b:80, listen: 15100}", "15100"),
        ("- {service: a:80, identity: x}", "identity"),
        ("- [a:80]", "entry 0"),
        ("- [\"a:80\", null, null, null, null, null, null, null, []]", "entry 0"),
        ("- null", "entry 0"),
        ("- a:80\n---\n- b:80", "exactly one document"),
        ("- {service: a:80, service: b:80}", "service"),
        ("- &x a:80\n- *y", "anchor"),
        ("- !!binary x", "base64"),
        ("- a:80\n\t- b:80", "tab"),
        (bomb, "aliases"),
        (&many, "101 entries; at most 100"),
        (&deep, "recursion limit"),
    ] {
        let (outcome, message) = denied(&annotated(json!({names::UPSTREAMS: text})));
        assert_eq!(outcome, "bad-setting", "{text:.200}: {message}");
        assert!(
            message.contains(names::UPSTREAMS) && message.contains(part),
            "{text:.200}: {message}"
        );
        assert!(message.len() < 1000, "{text:.200}: {message}");
    }
}
