//! Pods with fields of a wrong type, and pods that have what the proxy needs.

use outrigger::names;
use outrigger::review::Endpoint;
use serde_json::{Value, json};

use crate::{annotated, answered, denied, good_pod, review};

#[test]
fn a_wrong_type_in_a_field_that_is_read_is_named_by_its_path() {
    for (pointer, value, path) in [
        ("/metadata", json!("x"), "metadata"),
        ("/metadata/name", json!(7), "metadata.name"),
        ("/metadata/labels", json!([]), "metadata.labels"),
        ("/metadata/annotations", json!("x"), "metadata.annotations"),
        ("/spec", json!([1]), "spec"),
        ("/spec/containers", json!({}), "spec.containers"),
        ("/spec/containers/0", json!(null), "spec.containers[0]"),
        ("/spec/containers/0/name", json!({}), "spec.containers[0].name"),
        ("/spec/containers/0/ports", json!("80"), "spec.containers[0].ports"),
        (
            "/spec/containers/0/ports",
            json!([{"containerPort": "80"}]),
            "spec.containers[0].ports[0].containerPort",
        ),
        (
            "/spec/containers/0/livenessProbe",
            json!({"httpGet": {"port": []}}),
            "spec.containers[0].livenessProbe.httpGet.port",
        ),
        (
            "/spec/containers/0/securityContext",
            json!({"runAsUser": 1.5}),
            "spec.containers[0].securityContext.runAsUser",
        ),
        ("/spec/initContainers", json!(7), "spec.initContainers"),
        ("/spec/volumes", json!([7]), "spec.volumes[0]"),
        ("/spec/hostNetwork", json!("true"), "spec.hostNetwork"),
        ("/spec/nodeSelector", json!(7), "spec.nodeSelector"),
        ("/spec/os", json!("linux"), "spec.os"),
        ("/spec/restartPolicy", json!(false), "spec.restartPolicy"),
        (
            "/spec/terminationGracePeriodSeconds",
            json!("30"),
            "spec.terminationGracePeriodSeconds",
        ),
    ] {
        let mut pod = good_pod();
        set(&mut pod, pointer, value);
        let (outcome, message) = denied(&pod);
        assert_eq!(outcome, "bad-pod", "{pointer}: {message}");
        assert!(message.contains(&format!("{path}: ")), "{pointer}: {message}");
    }
}

fn set(pod: &mut Value, pointer: &str, value: Value) {
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    let parent = pod.pointer_mut(parent).expect("the parent is there");
    match parent {
        Value::Array(list) => list[key.parse::<usize>().expect("an index")] = value,
        parent => parent[key] = value,
    }
}

#[test]
fn refuses_a_pod_without_containers() {
    for pod in [
        json!({}),
        json!({"spec": null}),
        json!({"spec": {}}),
        json!({"spec": {"containers": null}}),
        json!({"spec": {"containers": []}}),
    ] {
        let (outcome, message) = denied(&pod);
        assert_eq!(outcome, "bad-pod");
        assert!(message.contains("spec.containers: missing or empty"), "{message}");
    }
}

const APP_UID: &str = "container \"app\" runs as uid 101";

fn port(number: u16) -> Value {
    json!([{"containerPort": number}])
}

/// A pointer into a pod, what is put there, the word of the refusal, and a part of the message that
/// names the pod's side; the other side is always the proxy.
fn conflicts() -> Vec<(&'static str, Value, &'static str, &'static str)> {
    let (container, uid) = ("/spec/containers/0", json!({"runAsUser": 101}));
    let named = |name: &str| json!([{ "name": name }]);
    let annotation = |key: &str| json!({ key: "{}" });
    vec![
        (
            "/spec/containers",
            named("proxy-sidecar"),
            "name-taken",
            "container \"proxy-sidecar\"",
        ),
        (
            "/spec/initContainers",
            named("proxy-redirect"),
            "name-taken",
            "container \"proxy-redirect\"",
        ),
        (
            "/spec/ephemeralContainers",
            named("proxy-sidecar"),
            "name-taken",
            "container \"proxy-sidecar\"",
        ),
        (
            "/spec/volumes",
            named("outrigger-tmp"),
            "name-taken",
            "volume \"outrigger-tmp\"",
        ),
        (
            "/metadata/annotations",
            annotation(names::NGINX_CONF),
            "name-taken",
            names::NGINX_CONF,
        ),
        (
            "/metadata/annotations",
            annotation(names::STATUS),
            "name-taken",
            names::STATUS,
        ),
        (
            "/spec/containers/0/ports",
            port(15021),
            "port-taken",
            "container \"app\" declares port 15021",
        ),
        (
            "/spec/containers/0/ports",
            port(15200),
            "port-taken",
            "container \"app\" declares port 15200",
        ),
        (
            container,
            json!({"name": "app", "securityContext": uid}),
            "uid-taken",
            APP_UID,
        ),
        ("/spec/securityContext", uid, "uid-taken", APP_UID),
    ]
}

#[test]
fn taken_names_ports_and_uids_are_refused_with_both_sides_named() {
    for (pointer, value, outcome, part) in conflicts() {
        let mut pod = good_pod();
        set(&mut pod, pointer, value);
        let (found, message) = denied(&pod);
        assert_eq!(found, outcome, "{pointer}: {message}");
        assert!(
            message.contains(part) && (message.contains("the proxy") || message.contains("by Outrigger alone")),
            "{pointer}: {message}"
        );
    }
}

#[test]
fn one_refusal_lists_every_conflict() {
    let pod = json!({"spec": {
        "containers": [{"name": "proxy-sidecar", "ports": [{"containerPort": 15021}], "securityContext": {"runAsUser": 101}}],
        "volumes": [{"name": "outrigger-config"}],
    }});
    let (_, message) = denied(&pod);
    for part in [
        "container \"proxy-sidecar\"",
        "volume \"outrigger-config\"",
        "port 15021",
        "uid 101",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[test]
fn a_uid_is_free_where_nothing_is_redirected() {
    let mut pod = annotated(json!({names::TRAFFIC: "explicit"}));
    pod["spec"]["securityContext"] = json!({"runAsUser": 101});
    assert_eq!(
        answered(Endpoint::Mutate, &review(&pod.to_string())).outcome.as_str(),
        "injected"
    );
}
