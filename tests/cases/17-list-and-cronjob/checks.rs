//! What must hold, as `case.md` says.

use serde_json::{Value, json};

use crate::guarantees::{has_one_proxy, is_lossless, is_valid_pod, names_in};
use crate::program::{Run, documents};

const INPUT: &str = include_str!("input.yaml");
const POD_TEMPLATE: &str = "/spec/template";

fn pod() -> Value {
    json!({"spec": {"containers": [{"name": "app", "image": "registry.example.com/demo/app:2"}]}})
}

/// What was injected at a pointer, and there alone. Gives the pod.
fn injected_at(before: &Value, after: &Value, pointer: &str) -> Value {
    let (old, new) = (before.pointer(pointer).unwrap(), after.pointer(pointer).unwrap());
    is_lossless(old, new);
    is_valid_pod(new);
    has_one_proxy(new, None);
    let mut rest = after.clone();
    *rest.pointer_mut(pointer).unwrap() = old.clone();
    assert_eq!(rest, *before);
    new.clone()
}

#[test]
fn list_comes_out_with_the_same_items_in_the_same_order() {
    let run = Run::inject(INPUT);
    let (before, after) = (documents(INPUT), run.documents());
    assert_eq!(after.len(), 1);
    let (old, new) = (
        before[0]["items"].as_array().unwrap(),
        after[0]["items"].as_array().unwrap(),
    );
    assert_eq!(new.len(), 6);
    for unchanged in [0, 4, 5] {
        assert_eq!(new[unchanged], old[unchanged]);
    }
    let job = injected_at(&old[1], &new[1], "/spec/jobTemplate/spec/template");
    assert_eq!(names_in(&job, "containers"), ["invoice"]);
    assert!(names_in(&job, "initContainers").contains(&"proxy-sidecar"));
    injected_at(&old[2], &new[2], "");
    injected_at(&old[3], &new[3], "/template");
    assert_eq!(after[0]["metadata"], before[0]["metadata"]);
}

#[test]
fn report_has_a_line_for_each_item() {
    let run = Run::inject(INPUT);
    for (object, outcome) in [
        ("Service basket", "no-pod"),
        ("CronJob invoice", "injected"),
        ("Pod alone", "injected"),
        ("PodTemplate mould", "injected"),
        ("Deployment stranger", "no-pod"),
        ("List (no name)", "no-pod"),
    ] {
        run.reports(object, outcome);
    }
    assert_eq!(run.stderr.lines().count(), 6, "{}", run.stderr);
}

#[test]
fn every_kind_with_a_pod_template_is_injected() {
    for (version, kind) in [
        ("apps/v1", "Deployment"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "DaemonSet"),
        ("apps/v1", "ReplicaSet"),
        ("v1", "ReplicationController"),
        ("batch/v1", "Job"),
    ] {
        let object =
            json!({"apiVersion": version, "kind": kind, "metadata": {"name": "one"}, "spec": {"template": pod()}});
        let run = Run::inject(&outrigger::yaml::to_yaml(&object));
        run.reports(&format!("{kind} one"), "injected");
        injected_at(&object, &run.documents()[0], POD_TEMPLATE);
    }
}

#[test]
fn kinds_of_other_groups_and_versions_are_left_alone() {
    for (version, kind) in [
        ("example.com/v1", "Pod"),
        ("apps/v2", "Deployment"),
        ("v1", "Deployment"),
        ("apps/v1", "deployment"),
        ("batch/v1", "ReplicationController"),
    ] {
        let object =
            json!({"apiVersion": version, "kind": kind, "metadata": {"name": "one"}, "spec": {"template": pod()}});
        let run = Run::inject(&outrigger::yaml::to_yaml(&object));
        run.reports(&format!("{kind} one"), "no-pod");
        assert_eq!(run.documents(), [object]);
    }
}

#[test]
fn items_of_typed_lists_need_no_kind_of_their_own() {
    let template = json!({"metadata": {"name": "one"}, "spec": {"template": pod()}});
    let mut alone = pod();
    alone["metadata"] = json!({"name": "one"});
    let nested = json!({"metadata": {"name": "one"}, "spec": {"jobTemplate": {"spec": {"template": pod()}}}});
    for (version, kind, item, pointer) in [
        ("apps/v1", "Deployment", &template, POD_TEMPLATE),
        ("apps/v1", "StatefulSet", &template, POD_TEMPLATE),
        ("batch/v1", "Job", &template, POD_TEMPLATE),
        ("batch/v1", "CronJob", &nested, "/spec/jobTemplate/spec/template"),
        ("v1", "Pod", &alone, ""),
    ] {
        let list = json!({"apiVersion": version, "kind": format!("{kind}List"), "metadata": {"resourceVersion": "9"}, "items": [item, item]});
        let run = Run::inject(&list.to_string());
        run.reports(&format!("{kind} one"), "injected");
        let after: Value = serde_json::from_str(&run.stdout).expect("JSON stays JSON");
        for index in [0, 1] {
            injected_at(item, &after["items"][index], pointer);
        }
        assert_eq!(after["metadata"], list["metadata"]);
    }
}

#[test]
fn lists_in_lists_are_looked_into() {
    let mut inner = pod();
    inner["apiVersion"] = json!("v1");
    inner["kind"] = json!("Pod");
    let list = |items: Value| json!({"apiVersion": "v1", "kind": "List", "items": items});
    let document = list(json!([list(json!([list(json!([inner]))]))]));
    let run = Run::inject(&outrigger::yaml::to_yaml(&document));
    let pointer = "/items/0/items/0/items/0";
    injected_at(&document, &run.documents()[0], pointer);
}

#[test]
fn odd_lists_are_no_crash_and_stay_as_they_are() {
    for items in ["null", "{}", "[null]", "[[]]", "[1, x]", "[{}]"] {
        let text = format!("apiVersion: v1\nkind: List\nitems: {items}\n");
        let run = Run::inject(&text);
        assert_eq!(
            (run.code, run.stdout.as_str()),
            (0, text.as_str()),
            "{items}: {}",
            run.stderr
        );
    }
}

#[test]
fn workload_without_a_template_is_refused_and_not_a_crash() {
    for template in ["null", "{}", "{spec: null}", "{spec: {containers: []}}"] {
        let text =
            format!("apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: one}}\nspec: {{template: {template}}}\n");
        let run = Run::inject(&text);
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{template}");
        run.reports("Deployment one", "bad-pod");
    }
}
