//! What must hold, as `case.md` says.

use outrigger::names;
use serde_json::Value;

use crate::call;
use crate::guarantees::patch;
use crate::program::{Run, outrigger};
use crate::review::Call;

fn generated() -> Call {
    call(include_str!("review.json"))
}

#[test]
fn pod_without_name_and_namespace_is_injected() {
    let answer = generated().mutate();
    answer.injected();
    assert!(answer.pod.starts_with("basket-5d9c-"), "{}", answer.pod);
    assert!(
        answer.pod.len() > "basket-5d9c-".len(),
        "a marker stands for the part that is not made yet"
    );
}

#[test]
fn logs_never_name_a_pod_by_nothing() {
    for call in [
        generated().without("/metadata/generateName"),
        generated()
            .with("/metadata/name", "")
            .with("/metadata/generateName", ""),
        generated().without("/metadata"),
    ] {
        assert!(!call.mutate().pod.is_empty());
    }
}

#[test]
fn injected_text_names_the_namespace_of_the_request_and_no_other() {
    for template in crate::TEMPLATES {
        for position in ["first", "native"] {
            let call = generated()
                .annotated(names::TEMPLATE, template)
                .annotated(names::POSITION, position)
                .annotated(
                    names::UPSTREAMS,
                    "[orders:8080, {service: \"ledger:9000\", protocol: tcp}]",
                );
            for namespace in ["shop", "market"] {
                let answer = call.requesting("/namespace", namespace).mutate();
                answer.injected();
                check_text(&patch(&answer.body).unwrap().to_string(), namespace);
            }
        }
    }
}

fn check_text(text: &str, namespace: &str) {
    let other = if namespace == "shop" { "market" } else { "shop" };
    assert!(text.contains(&format!("orders.{namespace}.svc.")), "{text}");
    assert!(!text.contains(other), "{other}: {text}");
    for wrong in [
        ".default.svc",
        "/ns/default",
        "/ns//",
        "..svc",
        ".default.ns.",
        "orders..",
        "OU=,",
    ] {
        assert!(!text.contains(wrong), "{wrong}: {text}");
    }
}

#[test]
fn excluded_namespaces_are_those_of_the_request_whatever_their_label() {
    for namespace in ["kube-system", "kube-public", "kube-node-lease", "outrigger-system"] {
        let call = generated().requesting("/namespace", namespace);
        call.mutate().skipped("system-namespace");
        call.labelled(names::INJECT, "enabled")
            .mutate()
            .skipped("system-namespace");
        call.validate().skipped("admitted");
    }
}

#[test]
fn namespace_of_the_object_does_not_count() {
    for namespace in ["other", "kube-system", "outrigger-system", "plain", ""] {
        generated().with("/metadata/namespace", namespace).mutate().injected();
    }
    let to = |namespace: &str| {
        generated()
            .with("/metadata/namespace", "shop")
            .requesting("/namespace", namespace)
    };
    to("other").mutate().skipped("namespace-disabled");
    to("plain").mutate().skipped("namespace-not-enabled");
    to("kube-system").mutate().skipped("system-namespace");
}

#[test]
fn release_namespace_and_excluded_ones_are_those_of_the_configuration() {
    let review = |namespace: &str| {
        let mut review: Value = serde_json::from_str(include_str!("review.json")).unwrap();
        review["request"]["namespace"] = namespace.into();
        review["request"]["object"]["metadata"]["annotations"][names::INJECT] = "enabled".into();
        review.to_string()
    };
    for (namespace, outcome) in [
        ("mesh", "system-namespace"),
        ("vault", "system-namespace"),
        ("kube-system", "system-namespace"),
        ("outrigger-system", "injected"),
        ("shop", "injected"),
    ] {
        let mut program = outrigger();
        program
            .envs([
                ("OUTRIGGER_RELEASE_NAMESPACE", "mesh"),
                ("OUTRIGGER_EXCLUDED_NAMESPACES", "vault"),
            ])
            .args(["review", "--endpoint", "mutate"])
            .write_stdin(review(namespace));
        let run = Run::from(&mut program);
        let answer: Value = serde_json::from_str(&run.stdout).expect(&run.stderr);
        assert_eq!(
            answer["response"]["auditAnnotations"]["outcome"], outcome,
            "{namespace}"
        );
    }
}
