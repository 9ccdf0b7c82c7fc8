//! What holds for every pod, shown on generated ones. `PROPTEST_CASES=5000 cargo test --test properties`
//! tries more of them than the usual 85 a property.

use std::sync::LazyLock;

use additive::{has_no_duplicate, inject_as, keeps, names_of};
use hostile::Spot;
use outrigger::decision::SkipReason;
use outrigger::inject::{Injection, Injector, InjectorOptions, Verdict};
use outrigger::names;
use outrigger::namespace::NamespaceInfo;
use outrigger::settings::quantity::Quantity;
use outrigger::uninject::{Uninjected, uninject};
use proptest::prelude::*;
use serde_json::Value;

#[path = "support/additive.rs"]
mod additive;
#[path = "support/attacks.rs"]
mod attacks;
#[path = "support/hostile.rs"]
mod hostile;
#[path = "support/manifests.rs"]
mod manifests;
#[path = "support/nft.rs"]
mod nft;
#[path = "support/nginx.rs"]
mod nginx;
#[path = "support/pods.rs"]
mod pods;
#[path = "support/strict_patch.rs"]
mod strict_patch;
#[path = "support/twin.rs"]
mod twin;

/// Two labels are added where they are absent, one of them with a `/` in its key.
const REQUIREMENTS: &str =
    "labels:\n  - {key: environment, values: [dev, prod], default: dev}\n  - {key: team.example/name, default: none}\n";

static INJECTOR: LazyLock<Injector> = LazyLock::new(|| {
    let options = InjectorOptions {
        requirements: Some(REQUIREMENTS.to_owned()),
        ..InjectorOptions::default()
    };
    Injector::new(options).expect("the options are valid")
});

/// No file is written for a failed case: its input is in the message. A third of proptest's usual
/// number of cases keeps the file fast; `PROPTEST_CASES` counts as it is.
fn config() -> ProptestConfig {
    const USUAL: u32 = 256;
    let default = ProptestConfig::default();
    ProptestConfig {
        cases: if default.cases == USUAL {
            USUAL / 3
        } else {
            default.cases
        },
        failure_persistence: None,
        ..default
    }
}

fn inject_in(namespace: &str, pod: &Value) -> Injection {
    inject_as(&INJECTOR, namespace, &NamespaceInfo::enabled(), pod)
}

fn patch_of(pod: &Value) -> Value {
    match inject_in("shop", pod).verdict {
        Verdict::Inject(patch) => serde_json::from_str(&patch).expect("a patch is JSON"),
        other => panic!("{other:?}: {pod}"),
    }
}

fn injected(pod: &Value) -> Value {
    strict_patch::apply(pod, &patch_of(pod)).unwrap_or_else(|e| panic!("{e}\nto {pod}"))
}

/// The containers that were added.
fn added<'v>(before: &Value, after: &'v Value) -> Vec<&'v Value> {
    let lists = ["containers", "initContainers"];
    let all = lists
        .iter()
        .flat_map(|list| after["spec"].get(list).and_then(Value::as_array).into_iter().flatten());
    let own: Vec<&str> = lists.iter().flat_map(|list| names_of(before, list)).collect();
    all.filter(|container| container["name"].as_str().is_some_and(|name| !own.contains(&name)))
        .collect()
}

fn quantity(container: &Value, part: &str, resource: &str) -> Quantity {
    let value = container["resources"][part][resource].as_str();
    value
        .unwrap_or_else(|| panic!("no {part} of {resource}: {container}"))
        .parse()
        .expect("a quantity")
}

#[test]
fn a_harmless_value_of_every_place_is_injected_and_passes_the_check() {
    let written = names::WRITTEN.map(Spot::Annotation);
    assert_eq!(hostile::check_harmless(), written, "only Outrigger writes these two");
}

#[test]
fn the_check_notices_text_that_shapes_the_configuration() {
    hostile::check_itself();
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn patches_apply_strictly_and_as_json_patch_applies_them(pod in pods::pod()) {
        let patch = patch_of(&pod);
        let strict = strict_patch::apply(&pod, &patch);
        let mut lenient = pod;
        let operations: json_patch::Patch = serde_json::from_value(patch).expect("a patch");
        prop_assert_eq!(json_patch::patch(&mut lenient, &operations).map_err(|e| e.to_string()), Ok(()));
        prop_assert_eq!(strict, Ok(lenient));
    }

    /// At most two containers (the proxy and the redirecting one), three volumes, three annotations
    /// (nginx.conf, the default container, the status) and a label for each default, however large the pod is.
    #[test]
    fn patches_have_a_bounded_number_of_operations(pod in pods::pod()) {
        const LABEL_DEFAULTS: usize = 2;
        prop_assert!(patch_of(&pod).as_array().map_or(0, Vec::len) <= 2 + 3 + 3 + LABEL_DEFAULTS);
    }

    #[test]
    fn nothing_of_the_pod_is_lost_changed_or_reordered(pod in pods::pod()) {
        prop_assert_eq!(keeps(&pod, &injected(&pod), ""), Ok(()));
    }

    #[test]
    fn uninject_restores_the_pod_exactly(pod in pods::pod()) {
        let mut result = injected(&pod);
        prop_assert_eq!(uninject(&mut result), Uninjected::Done);
        prop_assert_eq!(result.to_string(), pod.to_string());
        prop_assert_eq!(uninject(&mut result), Uninjected::NotInjected);
    }

    #[test]
    fn a_second_injection_is_skipped(pod in pods::pod()) {
        let verdict = inject_in("shop", &injected(&pod)).verdict;
        prop_assert_eq!(verdict, Verdict::Skip(SkipReason::AlreadyInjected));
    }

    #[test]
    fn the_result_is_a_pod_that_kubernetes_takes(pod in pods::pod()) {
        let result = injected(&pod);
        let volumes = names_of(&result, "volumes");
        let containers = ["containers", "initContainers", "ephemeralContainers"].map(|list| names_of(&result, list));
        prop_assert!(has_no_duplicate(containers.concat()), "{}", result);
        prop_assert!(has_no_duplicate(volumes.clone()), "{}", result);
        let added = added(&pod, &result);
        prop_assert!(!added.is_empty());
        for container in added {
            for resource in ["cpu", "memory"] {
                let [request, limit] = ["requests", "limits"].map(|part| quantity(container, part, resource));
                prop_assert!(!request.exceeds(&limit), "{}", container);
            }
            for mount in container["volumeMounts"].as_array().into_iter().flatten() {
                prop_assert!(mount["name"].as_str().is_some_and(|name| volumes.contains(&name)), "{}", mount);
            }
        }
    }

    #[test]
    fn manifests_are_injected_once_and_uninjected_exactly(pod in pods::pod(), form in manifests::form()) {
        manifests::check(&pod, form);
    }
}

proptest! {
    // Most of these pods are refused at once, so that there is time for more of them.
    #![proptest_config(ProptestConfig { cases: 12 * config().cases, ..config() })]

    #[test]
    fn a_strangers_text_never_shapes_the_configuration((place, text) in attacks::case()) {
        hostile::check(place, &text);
    }
}
