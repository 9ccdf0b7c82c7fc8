//! What must hold, as `case.md` says.

use outrigger::names;
use serde_json::{Value, json};

use crate::guarantees::{container, items, names_in};
use crate::review::Call;
use crate::{call, everywhere};

fn bare() -> Call {
    call(include_str!("review.json"))
}

/// The pod without what a user may leave out or write as null.
fn shapes() -> Vec<(&'static str, Call)> {
    let bare = bare();
    vec![
        ("as given", bare.clone()),
        ("empty metadata", bare.with("/metadata", json!({}))),
        ("null metadata", bare.with("/metadata", Value::Null)),
        ("no metadata", bare.without("/metadata")),
        (
            "nulls in metadata",
            bare.with("/metadata", json!({"annotations": null, "labels": null})),
        ),
        (
            "empty maps",
            bare.with("/metadata", json!({"annotations": {}, "labels": {}})),
        ),
        ("null volumes", bare.with("/spec/volumes", Value::Null)),
        ("no volume in the list", bare.with("/spec/volumes", json!([]))),
        ("null init containers", bare.with("/spec/initContainers", Value::Null)),
        (
            "no init container in the list",
            bare.with("/spec/initContainers", json!([])),
        ),
        (
            "all null",
            bare.with("/metadata", json!({"annotations": null, "labels": null}))
                .with("/spec/volumes", Value::Null)
                .with("/spec/initContainers", Value::Null)
                .with("/spec/ephemeralContainers", Value::Null),
        ),
    ]
}

/// What the case asks of every injected bare pod.
fn check(name: &str, pod: &Value) {
    assert!(pod["metadata"]["annotations"][names::STATUS].is_string(), "{name}");
    assert_eq!(pod["spec"]["automountServiceAccountToken"], false, "{name}");
    assert!(container(pod, "app").get("volumeMounts").is_none(), "{name}");
    let volumes = pod["spec"]["volumes"].as_array().expect(name);
    assert!(!volumes.is_empty() && !volumes.contains(&Value::Null), "{name}");
}

#[test]
fn patch_applies_whatever_is_missing() {
    for (name, call) in shapes() {
        let pod = call.mutate().injected();
        check(name, &pod);
        assert_eq!(names_in(&pod, "containers"), ["proxy-sidecar", "app"], "{name}");
    }
}

#[test]
fn patch_applies_in_every_mode_whatever_is_missing() {
    for (shape, call) in shapes() {
        for (mode, call) in everywhere(&call) {
            check(&format!("{shape}: {mode}"), &call.mutate_in_library().injected());
        }
    }
}

#[test]
fn native_proxy_is_the_first_init_container_after_the_redirecting_one() {
    for (traffic, expected) in [
        ("redirect", &["proxy-redirect", "proxy-sidecar"][..]),
        ("explicit", &["proxy-sidecar"]),
    ] {
        let call = bare()
            .namespace_annotated(names::POSITION, "native")
            .namespace_annotated(names::TRAFFIC, traffic);
        let pod = call.mutate().injected();
        assert_eq!(names_in(&pod, "initContainers"), expected);
        assert_eq!(names_in(&pod, "containers"), ["app"]);
    }
}

#[test]
fn default_of_a_required_label_makes_the_map_it_needs() {
    let requirements = "labels:\n- {key: tier/of.the~app, default: front}\n";
    let requirements = requirements.replace('~', "-");
    for (name, call) in shapes() {
        let answer = call.requiring(&requirements).mutate();
        let pod = crate::guarantees::patched(&request_of(&call), &answer.body);
        assert_eq!(pod["metadata"]["labels"]["tier/of.the-app"], "front", "{name}");
    }
}

fn request_of(call: &Call) -> Value {
    let mut request: Value = serde_json::from_str(include_str!("review.json")).unwrap();
    request["request"]["object"] = call.pod().clone();
    request
}

#[test]
fn pod_without_containers_is_refused_and_not_a_crash() {
    for (name, call) in [
        ("no spec", bare().without("/spec")),
        ("null spec", bare().with("/spec", Value::Null)),
        ("null containers", bare().with("/spec/containers", Value::Null)),
        ("no container", bare().with("/spec/containers", json!([]))),
    ] {
        let answer = call.mutate();
        assert!(answer.denied("bad-pod", &["spec.containers"]).len() < 500, "{name}");
        assert!(items(&call.pod()["spec"]["containers"]).is_empty());
    }
}
