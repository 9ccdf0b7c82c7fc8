//! What must hold, as `case.md` says.

use outrigger::names;
use serde_json::{Value, json};

use crate::call;
use crate::review::Call;

const REQUIREMENTS: &str = include_str!("requirements.yaml");

fn update() -> Call {
    call(include_str!("review.json"))
}

#[test]
fn update_of_a_pod_that_missed_its_injection_is_not_touched() {
    update().mutate().skipped("not-a-pod-create");
}

#[test]
fn update_that_leaves_the_labels_is_not_judged() {
    update().requiring(REQUIREMENTS).validate().skipped("admitted");
}

#[test]
fn update_of_labels_is_judged_only_for_what_it_changes() {
    let update = update().requiring(REQUIREMENTS);
    update.labelled("team", "billing").validate().skipped("admitted");
    update
        .with("/metadata/labels", Value::Null)
        .validate()
        .skipped("admitted");
    update.labelled("environment", "prod").validate().skipped("admitted");
    update
        .labelled("environment", "moon")
        .validate()
        .denied("requirements", &["environment", "moon"]);
    let before = "/oldObject/metadata/labels/environment";
    update
        .requesting(before, "prod")
        .validate()
        .denied("requirements", &["environment"]);
}

#[test]
fn deletion_is_admitted_by_both_webhooks() {
    for object in [Value::Null, update().pod().clone()] {
        for options in ["DELETE", "CONNECT"] {
            let call = update()
                .requesting("/operation", options)
                .requesting("/object", object.clone())
                .requiring(REQUIREMENTS);
            call.mutate().skipped("not-a-pod-create");
            call.validate().skipped("not-a-pod-create");
        }
    }
}

#[test]
fn subresources_and_other_kinds_are_not_touched() {
    let create = update()
        .requesting("/operation", "CREATE")
        .requesting("/oldObject", Value::Null);
    for subresource in [
        "binding",
        "eviction",
        "exec",
        "attach",
        "portforward",
        "ephemeralcontainers",
        "resize",
    ] {
        let call = create
            .requesting("/subResource", subresource)
            .requesting("/object", json!({"kind": "Binding", "target": {"name": "worker-3"}}));
        call.mutate().skipped("not-a-pod-create");
        call.validate().skipped("not-a-pod-create");
    }
    for (group, resource) in [
        ("apps", "deployments"),
        ("metrics.k8s.io", "pods"),
        ("", "podtemplates"),
    ] {
        let call = create
            .requesting("/resource/group", group)
            .requesting("/resource/resource", resource);
        call.mutate().skipped("not-a-pod-create");
    }
}

#[test]
fn creation_of_the_same_pod_is_injected() {
    let create = update()
        .requesting("/operation", "CREATE")
        .requesting("/oldObject", Value::Null);
    create.mutate().injected();
    create
        .requiring(REQUIREMENTS)
        .validate()
        .denied("requirements", &["environment", names::PROXY_CONTAINER]);
}

#[test]
fn creation_without_an_object_is_refused_and_not_a_crash() {
    let create = update()
        .requesting("/operation", "CREATE")
        .requesting("/object", Value::Null);
    create.mutate().denied("bad-pod", &["request.object"]);
    create.validate().denied("bad-pod", &["request.object"]);
}
