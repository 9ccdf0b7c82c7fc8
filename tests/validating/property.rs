//! A denial names every violated rule and no other, whatever the rules and labels are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::LazyLock;

use outrigger::inject::{Injector, InjectorOptions};
use outrigger::namespace::NamespaceInfo;
use outrigger::review::{Endpoint, decode};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::table::keys_in;

const KEYS: [&str; 6] = ["environment", "App", "app", "a.example/app", "tier-1", "x"];
const VALUES: [&str; 9] = ["", "a", "ab", "b", "A", "a\n", "v1", "v12", "1v"];

/// A rule: what stands in the file, and whether a value keeps it, said without a regular expression.
type Rule = (&'static str, fn(&str) -> bool);

const RULES: [Rule; 7] = [
    ("", |value| !value.is_empty()),
    ("values: [a, b]", |value| value == "a" || value == "b"),
    ("values: [v1]", |value| value == "v1"),
    ("pattern: 'a|b'", |value| value == "a" || value == "b"),
    ("pattern: 'v[0-9]+'", |value| {
        value
            .strip_prefix('v')
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    }),
    ("pattern: '.*'", |value| !value.is_empty() && !value.contains('\n')),
    ("pattern: '|ab'", |value| value == "ab"),
];

type Labels = BTreeMap<&'static str, &'static str>;

fn labels() -> impl Strategy<Value = Labels> {
    prop::collection::btree_map(
        prop::sample::select(&KEYS[..]),
        prop::sample::select(&VALUES[..]),
        0..=KEYS.len(),
    )
}

fn rules() -> impl Strategy<Value = BTreeMap<&'static str, Rule>> {
    prop::collection::btree_map(
        prop::sample::select(&KEYS[..]),
        prop::sample::select(&RULES[..]),
        1..=KEYS.len(),
    )
}

/// Making one renders every template; the one test here gives it its requirements each time.
static INJECTOR: LazyLock<Injector> = LazyLock::new(|| Injector::new(InjectorOptions::default()).unwrap());

/// The answer to the creation of a pod, or to a change of its labels.
fn answer(rules: &BTreeMap<&str, Rule>, old: Option<&Labels>, new: &Labels) -> Value {
    let mut requirements = "labels:\n".to_owned();
    for (key, (text, _)) in rules {
        let _ = writeln!(requirements, "- key: {key}\n  {text}");
    }
    INJECTOR.replace_requirements(&requirements).unwrap();
    let pod = |labels: &Labels| json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app"}]}});
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u", "operation": if old.is_some() { "UPDATE" } else { "CREATE" }, "namespace": "shop",
            "resource": {"group": "", "version": "v1", "resource": "pods"}, "object": pod(new), "oldObject": old.map(pod),
        },
    });
    let body = review.to_string();
    let review = decode(body.as_bytes()).unwrap();
    let answer = INJECTOR
        .answer(
            Endpoint::Validate,
            &review,
            Some(&NamespaceInfo::enabled()),
            outrigger::service::View::Off,
        )
        .unwrap();
    serde_json::from_slice::<Value>(&answer.body).unwrap()["response"].take()
}

fn broken(rules: &BTreeMap<&str, Rule>, old: Option<&Labels>, new: &Labels) -> BTreeSet<String> {
    let broken = rules.iter().filter(|(key, (_, keeps))| {
        let changed = old.is_none_or(|old| old.get(*key) != new.get(*key));
        changed && !keeps(new.get(*key).copied().unwrap_or_default())
    });
    broken.map(|(key, _)| (*key).to_owned()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_denial_names_every_violated_rule_and_no_other(
        rules in rules(), old in prop::option::of(labels()), new in labels(),
    ) {
        let response = answer(&rules, old.as_ref(), &new);
        let expected = broken(&rules, old.as_ref(), &new);
        prop_assert_eq!(response["allowed"].as_bool(), Some(expected.is_empty()));
        let message = response["status"]["message"].as_str().unwrap_or_default();
        prop_assert_eq!(keys_in(message), expected, "{}", message);
        prop_assert_eq!(message.matches("; it has to be").count(), keys_in(message).len(), "each once: {}", message);
    }
}
