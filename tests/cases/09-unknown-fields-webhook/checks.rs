//! What must hold, as `case.md` says.

use outrigger::names;
use serde_json::{Value, json};

use crate::guarantees::{container, is_lossless, items, names_in, patch};
use crate::program::Run;
use crate::review::Call;
use crate::{call, everywhere};

fn of_tomorrow() -> Call {
    call(include_str!("review.json"))
}

#[test]
fn every_field_survives() {
    let answer = of_tomorrow().mutate();
    let pod = answer.injected();
    for operation in patch(&answer.body).unwrap().as_array().unwrap() {
        assert_eq!(operation["op"], "add");
    }
    assert_eq!(container(&pod, "tail"), &answer.before()["spec"]["initContainers"][0]);
    let env = items(&container(&pod, "app")["env"]);
    let order: Vec<&str> = env.iter().map(crate::guarantees::name).collect();
    assert_eq!(order, ["HOST", "URL", "FROM_FILE"]);
    assert_eq!(names_in(&pod, "imagePullSecrets"), ["pull-one", "pull-two"]);
}

#[test]
fn every_field_survives_in_every_mode() {
    for (_, call) in everywhere(&of_tomorrow()) {
        call.mutate_in_library().injected();
    }
}

#[test]
fn numbers_are_not_rounded() {
    let pod = of_tomorrow().mutate().injected();
    let sizes = pod["spec"]["futureSetting"]["sizes"].to_string();
    assert_eq!(
        sizes,
        "[1,2.5,9007199254740993,-9007199254740993,1e+300,18446744073709551615]"
    );
    assert_eq!(pod["metadata"]["futureMeta"]["x"].as_u64(), Some(9_007_199_254_740_993));
}

#[test]
fn surprising_types_of_unread_fields_are_kept() {
    for (field, value) in [
        ("hostUsers", json!("maybe")),
        ("futureKnob", json!(3)),
        ("futureKnob", json!(null)),
        ("futureKnob", json!([[null], {"": ""}])),
        ("setHostnameAsFQDN", json!("yes")),
        ("imagePullSecrets", json!("pull")),
        ("tolerations", json!({"a": 1})),
        ("priority", json!(9_007_199_254_740_993_u64)),
    ] {
        let pod = of_tomorrow()
            .with(&format!("/spec/{field}"), value.clone())
            .mutate()
            .injected();
        assert_eq!(pod["spec"][field], value, "{field}");
    }
}

#[test]
fn surprising_types_of_read_fields_are_refused_by_name() {
    for (field, value) in [
        ("terminationGracePeriodSeconds", json!("30")),
        ("hostNetwork", json!("yes")),
        ("containers", json!({"name": "app"})),
        ("initContainers", json!("tail")),
        ("volumes", json!([7])),
        ("restartPolicy", json!(1)),
        ("nodeSelector", json!(["linux"])),
        ("securityContext", json!({"runAsUser": "root"})),
    ] {
        let call = of_tomorrow().with(&format!("/spec/{field}"), value);
        call.mutate().denied("bad-pod", &[field]);
    }
    of_tomorrow()
        .with("/metadata", json!([]))
        .mutate()
        .denied("bad-pod", &["metadata"]);
    of_tomorrow()
        .with("/metadata/labels", json!("app"))
        .mutate()
        .denied("bad-pod", &["labels"]);
}

#[test]
fn list_where_a_map_belongs_is_refused_and_not_a_crash() {
    for pointer in [
        "",
        "/metadata",
        "/metadata/annotations",
        "/metadata/labels",
        "/spec",
        "/spec/containers/0",
        "/spec/containers/0/livenessProbe",
        "/spec/containers/0/livenessProbe/grpc",
        "/spec/containers/0/securityContext",
        "/spec/initContainers/0",
        "/spec/volumes/0",
        "/spec/os",
        "/spec/securityContext",
    ] {
        for list in [json!([]), json!([{}]), json!(["x", "y"])] {
            let call = of_tomorrow().with(pointer, list.clone());
            call.mutate_in_library().denied("bad-pod", &[]);
            if pointer.is_empty() {
                continue;
            }
            let run = Run::inject(&outrigger::yaml::to_yaml(call.pod()));
            assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{pointer}: {}", run.stderr);
            assert!(run.stderr.contains("bad-pod"), "{pointer}: {}", run.stderr);
        }
    }
}

#[test]
fn deeply_nested_unknown_field_is_no_crash() {
    const DEPTH: usize = 5_000;
    let nested = format!("{}{}", "[".repeat(DEPTH), "]".repeat(DEPTH));
    let body = include_str!("review.json").replacen("\"hostUsers\": false", &format!("\"hostUsers\": {nested}"), 1);
    assert!(body.len() > DEPTH * 2, "the field was replaced");
    let mut program = crate::program::outrigger();
    let run = Run::from(program.args(["review"]).write_stdin(body));
    let answer: Value = serde_json::from_str(&run.stdout).expect(&run.stderr);
    assert_eq!(answer["response"]["allowed"], true, "{answer}");
}

#[test]
fn inject_keeps_every_field_too() {
    let call = of_tomorrow();
    let run = Run::inject(&outrigger::yaml::to_yaml(call.pod()));
    run.reports("Pod tomorrow-*", "injected");
    let pod = run.documents().remove(0);
    is_lossless(call.pod(), &pod);
    assert_eq!(
        pod["spec"]["futureSetting"]["sizes"][2].as_u64(),
        Some(9_007_199_254_740_993)
    );
    assert!(pod["metadata"]["annotations"][names::STATUS].is_string());
}
