//! What must hold, as `case.md` says.

use outrigger::names;
use serde_json::json;

use crate::call;
use crate::review::Call;

const REQUIREMENTS: &str = "
labels:
- {key: team, pattern: '[a-z]+'}
action: deny
";

fn creation() -> Call {
    call(include_str!("../01-bare-pod/review.json")).requiring(REQUIREMENTS)
}

fn dying(call: &Call) -> Call {
    let call = call.with("/metadata/deletionTimestamp", "2026-03-01T12:00:00Z");
    let call = call.with("/metadata/deletionGracePeriodSeconds", 0);
    call.with("/metadata/finalizers", json!(["example.com/keep"]))
}

#[test]
fn a_pod_that_is_being_deleted_is_treated_as_any() {
    dying(&creation()).mutate().injected();
    dying(&creation()).validate().denied("requirements", &["team"]);
    let update = call(include_str!("../04-pod-update-finalizer/review.json")).requiring(REQUIREMENTS);
    let changed = update
        .labelled("team", "4")
        .requesting("/oldObject/metadata/labels/team", "a");
    changed.validate().denied("requirements", &["team", "4"]);
    dying(&changed).validate().denied("requirements", &["team", "4"]);
}

#[test]
fn nothing_that_a_pod_says_exempts_it_from_the_labels_of_its_namespace() {
    for (key, value) in [
        ("kyverno.io/exclude", "true"),
        ("outrigger.mesh/exempt", "true"),
        ("sidecar.istio.io/inject", "false"),
        ("admission.gatekeeper.sh/ignore", "true"),
    ] {
        for call in [creation().labelled(key, value), creation().annotated(key, value)] {
            call.validate().denied("requirements", &["team"]);
        }
    }
    let out = creation().labelled(names::INJECT, "disabled");
    out.mutate().skipped("pod-disabled");
    out.validate().denied("requirements", &["team"]);
}

#[test]
fn a_pattern_is_the_whole_value() {
    for value in ["payments1", "1payments", "pay-ments", "x\npayments", "payments\n", ""] {
        let call = creation().labelled("team", value);
        call.validate().denied("requirements", &["team"]);
    }
}
