//! What must hold, as `case.md` says.

use outrigger::names::{self, PROXY_CONTAINER, REDIRECT_CONTAINER};
use outrigger::settings::SETTINGS;
use outrigger::settings::quantity::Quantity;
use serde_json::{Value, json};

use crate::guarantees::{container, is_lossless};
use crate::program::{Run, documents};
use crate::review::Call;
use crate::{call, everywhere};

const INPUT: &str = include_str!("input.yaml");
const KEYS: [(&str, &str); 4] = [
    (names::PROXY_CPU_REQUEST, "/requests/cpu"),
    (names::PROXY_CPU_LIMIT, "/limits/cpu"),
    (names::PROXY_MEMORY_REQUEST, "/requests/memory"),
    (names::PROXY_MEMORY_LIMIT, "/limits/memory"),
];

/// The pod of the manifests as a request.
fn counted() -> Call {
    let any = call(include_str!("../01-bare-pod/review.json"));
    any.with("", documents(INPUT).remove(2))
}

/// The same pod without an annotation.
fn silent() -> Call {
    counted().with("/metadata/annotations", json!({}))
}

fn default_of(key: &str) -> &'static str {
    SETTINGS.iter().find(|row| row.key == key).unwrap().default
}

/// What a container must state for a quota: four quantities, no request above its limit.
fn check_resources(container: &Value) {
    let quantity = |pointer: &str| -> Quantity {
        let value = container["resources"]
            .pointer(pointer)
            .unwrap_or_else(|| panic!("no {pointer}: {container}"));
        value.as_str().expect("a quantity is a string").parse().unwrap()
    };
    for resource in ["cpu", "memory"] {
        let (request, limit) = (
            quantity(&format!("/requests/{resource}")),
            quantity(&format!("/limits/{resource}")),
        );
        assert!(!request.exceeds(&limit), "{resource}: {request} > {limit}");
    }
}

fn proxy_resource(pod: &Value, pointer: &str) -> Value {
    container(pod, PROXY_CONTAINER)["resources"]
        .pointer(pointer)
        .unwrap()
        .clone()
}

#[test]
fn every_injected_container_states_requests_and_limits() {
    for (mode, call) in everywhere(&counted()) {
        let pod = call.mutate_in_library().injected();
        check_resources(container(&pod, PROXY_CONTAINER));
        if mode.contains("redirect") {
            check_resources(container(&pod, REDIRECT_CONTAINER));
        }
    }
}

#[test]
fn one_value_leaves_the_three_others() {
    for (key, pointer) in KEYS {
        let value = if key.contains("cpu") { "20m" } else { "100Mi" };
        let call = silent();
        let pod = call.annotated(key, value).mutate().injected();
        for (other, pointer_of_other) in KEYS {
            let expected = if other == key { value } else { default_of(other) };
            assert_eq!(proxy_resource(&pod, pointer_of_other), expected, "{key}: {pointer}");
        }
    }
}

#[test]
fn request_above_the_default_limit_raises_it() {
    let pod = counted().annotated(names::PROXY_CPU_REQUEST, "5").mutate().injected();
    assert_eq!(container(&pod, PROXY_CONTAINER)["resources"]["limits"]["cpu"], "5");
    let pod = counted()
        .annotated(names::PROXY_MEMORY_REQUEST, "1Gi")
        .mutate()
        .injected();
    check_resources(container(&pod, PROXY_CONTAINER));
    let both = counted()
        .annotated(names::PROXY_CPU_REQUEST, "5")
        .annotated(names::PROXY_CPU_LIMIT, "4");
    both.mutate()
        .denied("bad-setting", &[names::PROXY_CPU_REQUEST, names::PROXY_CPU_LIMIT]);
    let limit = counted().annotated(names::PROXY_CPU_LIMIT, "1m");
    limit.mutate().denied("bad-setting", &[names::PROXY_CPU_LIMIT]);
}

#[test]
fn value_that_is_no_quantity_is_refused_by_name() {
    for (key, _) in KEYS {
        for value in ["20 m", "lots", "", " ", "0", "-5m", "5mm", "1e999", "NaN"] {
            counted()
                .annotated(key, value)
                .mutate_in_library()
                .denied("bad-setting", &[key]);
            let call = silent().namespace_annotated(key, value);
            call.mutate_in_library()
                .denied("bad-setting", &["namespace annotation", key]);
        }
        counted()
            .annotated(key, json!(20))
            .mutate()
            .denied("bad-setting", &[key, "quotes"]);
    }
    for value in ["20 m", "lots", ""] {
        let call = counted().annotated(names::PROXY_CPU_REQUEST, value);
        call.mutate().denied("bad-setting", &[names::PROXY_CPU_REQUEST]);
        let run = Run::inject(&INPUT.replace("cpu-request: 20m", &format!("cpu-request: {value:?}")));
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{value}");
        assert!(run.stderr.contains(names::PROXY_CPU_REQUEST), "{}", run.stderr);
    }
}

#[test]
fn value_of_the_namespace_counts_unless_the_pod_has_its_own() {
    for (key, pointer) in KEYS {
        let value = if key.contains("cpu") { "30m" } else { "90Mi" };
        let pod = silent().namespace_annotated(key, value).mutate().injected();
        assert_eq!(proxy_resource(&pod, pointer), value, "{key}");
    }
    let call = counted().namespace_annotated(names::PROXY_CPU_REQUEST, "30m");
    assert_eq!(proxy_resource(&call.mutate().injected(), "/requests/cpu"), "20m");
}

#[test]
fn inject_leaves_quota_namespace_and_application() {
    let run = Run::inject(INPUT);
    run.reports("Pod shop/metered", "injected");
    let (before, after) = (documents(INPUT), run.documents());
    assert_eq!(after[..2], before[..2]);
    is_lossless(&before[2], &after[2]);
    assert_eq!(container(&after[2], "app"), &before[2]["spec"]["containers"][0]);
    assert_eq!(proxy_resource(&after[2], "/requests/cpu"), "20m");
    assert_eq!(
        proxy_resource(&after[2], "/limits/cpu"),
        default_of(names::PROXY_CPU_LIMIT)
    );
}
