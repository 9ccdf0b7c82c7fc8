//! What must hold, as `case.md` says.

use outrigger::names;
use serde_json::{Value, json};

use crate::call;
use crate::review::Call;

fn colliding() -> Call {
    call(include_str!("review.json"))
}

/// The pod without a collision: `app` alone.
fn plain() -> Call {
    colliding()
        .with("/spec/containers/0/name", "app")
        .without("/spec/containers/0/volumeMounts")
        .without("/spec/volumes")
        .without("/spec/initContainers")
}

fn a_container(name: &str) -> Value {
    json!([{"name": name, "image": "registry.example.com/demo/app:2"}])
}

#[test]
fn pod_with_all_names_taken_is_refused() {
    colliding().mutate().denied(
        "name-taken",
        &["\"proxy-sidecar\"", "\"proxy-redirect\"", "\"outrigger-config\""],
    );
}

#[test]
fn each_taken_name_alone_is_refused_and_named() {
    let volumes = json!([{"name": "outrigger-config", "emptyDir": {}}]);
    let tmp = json!([{"name": "outrigger-tmp", "hostPath": {"path": "/srv"}}]);
    for (part, call) in [
        (
            "container \"proxy-sidecar\"",
            plain().with("/spec/containers/0/name", "proxy-sidecar"),
        ),
        (
            "\"proxy-redirect\"",
            plain().with("/spec/initContainers", a_container("proxy-redirect")),
        ),
        ("volume \"outrigger-config\"", plain().with("/spec/volumes", volumes)),
        ("volume \"outrigger-tmp\"", plain().with("/spec/volumes", tmp)),
        // The same name in another list of containers collides too.
        (
            "\"proxy-sidecar\"",
            plain().with("/spec/initContainers", a_container("proxy-sidecar")),
        ),
        (
            "\"proxy-sidecar\"",
            plain().with("/spec/ephemeralContainers", a_container("proxy-sidecar")),
        ),
        (
            "\"proxy-redirect\"",
            plain().with("/spec/containers/0/name", "proxy-redirect"),
        ),
    ] {
        for position in crate::POSITIONS {
            let call = position.map_or_else(|| call.clone(), |p| call.annotated(names::POSITION, p));
            call.mutate_in_library().denied("name-taken", &[part]);
        }
        call.mutate().denied("name-taken", &[part]);
    }
    plain().mutate().injected();
}

#[test]
fn names_of_the_template_mtls_are_guarded_too() {
    let call = plain().with("/spec/volumes", json!([{"name": "outrigger-identity", "emptyDir": {}}]));
    call.annotated(names::TEMPLATE, "mtls")
        .mutate()
        .denied("name-taken", &["outrigger-identity"]);
}

#[test]
fn annotations_that_outrigger_writes_are_guarded_too() {
    for key in [names::NGINX_CONF, names::STATUS] {
        for value in [json!("events {}"), json!(""), json!(null), json!({"a": 1})] {
            plain().annotated(key, value).mutate().denied("name-taken", &[key]);
        }
    }
}

#[test]
fn record_that_does_not_name_the_proxy_of_the_pod_does_not_pass_for_the_proxy() {
    let status = |containers: Value| {
        json!({"version": "0", "template": "t", "digest": "d", "containers": containers}).to_string()
    };
    for containers in [
        json!([]),
        json!(["app"]),
        json!(["proxy-sidecar"]),
        json!(["app", "proxy-sidecar"]),
    ] {
        let call = plain().annotated(names::STATUS, status(containers));
        call.mutate().denied("name-taken", &[names::STATUS]);
    }
}

#[test]
fn ports_of_the_proxy_are_guarded_in_every_position() {
    let port = json!([{"containerPort": 15021}]);
    for position in ["first", "last", "native"] {
        let call = plain()
            .annotated(names::POSITION, position)
            .with("/spec/containers/0/ports", port.clone());
        call.mutate().denied("port-taken", &["15021", "app"]);
    }
    let other = json!([{"containerPort": 15021, "protocol": "UDP"}]);
    plain().with("/spec/containers/0/ports", other).mutate().injected();
}
