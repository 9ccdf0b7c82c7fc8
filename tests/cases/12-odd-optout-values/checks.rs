//! What must hold, as `case.md` says.

use std::time::{Duration, Instant};

use outrigger::names::INJECT;
use serde_json::{Value, json};

use crate::call;
use crate::program::{Run, documents};
use crate::review::Call;

const UNQUOTED: &str = include_str!("unquoted.yaml");
const ON: [&str; 6] = ["enabled", "true", "True", "TRUE", " ENABLED ", "enabled\n"];
const OFF: [&str; 8] = [
    "disabled",
    "false",
    "False",
    "FALSE",
    " false ",
    "false\n",
    "DISABLED",
    "\tdisabled",
];
const UNKNOWN: [&str; 12] = [
    "no", "off", "0", "n", "flase", "enable", "ture", "disable", "yes", "on", "1", "false;",
];

fn opted_out() -> Call {
    call(include_str!("review.json"))
}

/// The pod with the switch nowhere.
fn plain() -> Call {
    opted_out().with("/metadata/annotations", json!({}))
}

#[test]
fn documented_values_count_in_any_case_and_with_spaces() {
    opted_out().mutate().skipped("pod-disabled");
    for value in OFF {
        plain().annotated(INJECT, value).mutate().skipped("pod-disabled");
        plain().labelled(INJECT, value).mutate().skipped("pod-disabled");
    }
    for value in ON {
        plain().annotated(INJECT, value).mutate().injected();
        plain().labelled(INJECT, value).mutate().injected();
    }
}

#[test]
fn unknown_value_is_refused_with_key_and_value() {
    for value in UNKNOWN {
        plain()
            .annotated(INJECT, value)
            .mutate()
            .denied("bad-setting", &["annotation", INJECT, value]);
        plain()
            .labelled(INJECT, value)
            .mutate()
            .denied("bad-setting", &["label", INJECT, value]);
    }
    for value in ["", " ", "\n"] {
        plain()
            .annotated(INJECT, value)
            .mutate()
            .denied("bad-setting", &[INJECT]);
    }
}

#[test]
fn unknown_value_is_refused_whatever_the_other_switches_say() {
    let bad = plain().annotated(INJECT, "flase");
    bad.labelled(INJECT, "enabled")
        .mutate()
        .denied("bad-setting", &["flase"]);
    bad.labelled(INJECT, "disabled")
        .mutate()
        .denied("bad-setting", &["flase"]);
    bad.requesting("/namespace", "plain")
        .mutate()
        .denied("bad-setting", &["flase"]);
    let both = bad.labelled(INJECT, "ture");
    both.mutate().denied("bad-setting", &["flase", "ture"]);
}

#[test]
fn unknown_value_of_a_namespace_is_refused_by_name() {
    for value in ["flase", "yes", ""] {
        let call = plain().in_namespace("/metadata/labels/outrigger.mesh~1inject", value);
        call.mutate().denied("bad-setting", &["namespace label", INJECT, value]);
    }
    plain()
        .in_namespace("/metadata/labels/outrigger.mesh~1inject", " Enabled ")
        .mutate()
        .injected();
    let off = plain().in_namespace("/metadata/labels/outrigger.mesh~1inject", "FALSE");
    off.mutate().skipped("namespace-disabled");
}

#[test]
fn long_value_is_answered_in_time_and_not_echoed() {
    for text in ["x".repeat(200_000), "\u{1F600}".repeat(50_000), "\n".repeat(200_000)] {
        let begin = Instant::now();
        let answer = plain().annotated(INJECT, text).mutate();
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
        assert!(answer.denied("bad-setting", &[INJECT]).len() < 1_000);
    }
}

#[test]
fn value_that_is_no_string_is_refused_by_name_or_absent() {
    for value in [
        json!(false),
        json!(true),
        json!(0),
        json!(1.5),
        json!(["x"]),
        json!({"a": {}}),
    ] {
        plain()
            .annotated(INJECT, value.clone())
            .mutate()
            .denied("bad-setting", &[INJECT, "string"]);
        plain()
            .labelled(INJECT, value)
            .mutate()
            .denied("bad-setting", &[INJECT, "string"]);
    }
    plain().annotated(INJECT, Value::Null).mutate().injected();
    plain()
        .annotated(INJECT, Value::Null)
        .requesting("/namespace", "plain")
        .mutate()
        .skipped("namespace-not-enabled");
}

#[test]
fn inject_refuses_an_unquoted_boolean() {
    for text in [
        UNQUOTED.to_owned(),
        UNQUOTED.replace("inject: false", "inject: no"),
        UNQUOTED.replace("inject: false", "inject: 0"),
    ] {
        let run = Run::inject(&text);
        assert!(run.code == 0 || run.code == 1, "{}", run.stderr);
        for part in [INJECT, "string", "quotes", "Deployment shop/bare-boolean"] {
            assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
        }
        if !run.stdout.is_empty() {
            assert_eq!(run.documents(), documents(&text));
        }
    }
}

#[test]
fn inject_names_an_unquoted_boolean_of_a_namespace() {
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {outrigger.mesh/inject: false}}\n";
    let run = Run::inject(&format!("{namespace}---\n{UNQUOTED}"));
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    assert!(
        run.stderr.contains(INJECT) && run.stderr.contains("quotes"),
        "{}",
        run.stderr
    );
}

#[test]
fn label_wins_over_annotation_with_a_warning() {
    let on = plain()
        .labelled(INJECT, "enabled")
        .annotated(INJECT, "disabled")
        .mutate();
    on.injected();
    let off = plain().labelled(INJECT, "false").annotated(INJECT, "true").mutate();
    off.skipped("pod-disabled");
    for answer in [on, off] {
        assert!(answer.warnings().contains("label wins"), "{}", answer.warnings());
    }
    let agree = plain().labelled(INJECT, "enabled").annotated(INJECT, "True").mutate();
    assert!(!agree.warnings().contains("label wins"));
}

#[test]
fn pod_cannot_override_a_disabled_namespace_and_may_ask_in_a_silent_one() {
    let in_other = plain().requesting("/namespace", "other");
    in_other
        .annotated(INJECT, "enabled")
        .mutate()
        .skipped("namespace-disabled");
    in_other
        .labelled(INJECT, "enabled")
        .mutate()
        .skipped("namespace-disabled");
    let in_plain = plain().requesting("/namespace", "plain");
    in_plain.annotated(INJECT, "enabled").mutate().injected();
    in_plain.labelled(INJECT, "enabled").mutate().injected();
    in_plain.mutate().skipped("namespace-not-enabled");
    let unknown = plain().requesting("/namespace", "nowhere");
    unknown.labelled(INJECT, "enabled").mutate().injected();
    unknown.mutate().skipped("namespace-not-enabled");
}
