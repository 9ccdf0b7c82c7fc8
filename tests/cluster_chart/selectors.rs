//! Which pods are asked about: the rendered selectors, evaluated over every combination of labels, against what the
//! program would decide. `calls` asks the real API server.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use outrigger::decision::{Policy, SkipReason, Subject, decide};
use outrigger::inject::{Injector, InjectorOptions};
use outrigger::names;
use outrigger::namespace::NamespaceInfo;
use outrigger::pod::PodView;
use serde_json::{Value, json};

use crate::helm::{NAMESPACE, only, rendered};

/// What a label can say; `None`: it is not there. Spellings that the selectors name, and those that they leave to the
/// program.
pub(crate) const WORDS: [Option<&str>; 14] = [
    None,
    Some("enabled"),
    Some("Enabled"),
    Some("ENABLED"),
    Some("true"),
    Some("True"),
    Some("disabled"),
    Some("Disabled"),
    Some("DISABLED"),
    Some("false"),
    Some("FALSE"),
    Some("dIsabled"),
    Some("perhaps"),
    Some(""),
];

/// A spelling of "off" that the selectors do not list: asked about, and passed over by the program.
const ODD_OFF: &str = "dIsabled";

const NAMESPACES: [&str; 6] = [
    "shop",
    "kube-system",
    "kube-public",
    "kube-node-lease",
    NAMESPACE,
    "storage",
];

/// A combination.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    pub(crate) on_by_default: bool,
    pub(crate) namespace: &'static str,
    pub(crate) namespace_label: Option<&'static str>,
    pub(crate) pod_label: Option<&'static str>,
}

impl Case {
    fn pod(&self) -> String {
        let labels: BTreeMap<&str, &str> = self.pod_label.map(|word| (names::INJECT, word)).into_iter().collect();
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app"}]}}).to_string()
    }

    fn info(&self) -> NamespaceInfo {
        let own = (names::METADATA_NAME.to_owned(), self.namespace.to_owned());
        let label = self
            .namespace_label
            .map(|word| (names::INJECT.to_owned(), word.to_owned()));
        NamespaceInfo {
            labels: label.into_iter().chain([own]).collect(),
            annotations: BTreeMap::new(),
        }
    }

    /// What the program makes of it: whether the mutating webhook has something to do or to say, and whether the validating
    /// one has. Only labels and names decide here, which is all that a selector sees.
    ///
    /// A namespace's label that means nothing is for the validating webhook to refuse where the pod opts out: a selector
    /// of the mutating one cannot tell it from `enabled`, where such a pod is none of its business.
    pub(crate) fn wanted(&self) -> (bool, bool) {
        let (raw, info) = (self.pod(), self.info());
        let pod = PodView::from_json(&raw).unwrap();
        let subject = Subject {
            is_pod_create: true,
            namespace: self.namespace,
            info: &info,
            pod: &pod,
            services: outrigger::service::View::Off,
        };
        let injector = injector(self.on_by_default);
        let mutated = match decide(subject, injector.policy()) {
            Err(_) => !self.pod_opts_out(),
            Ok(decision) => decision.skip.is_none(),
        };
        (mutated, injector.is_judged(subject))
    }

    fn pod_opts_out(&self) -> bool {
        self.pod_label.is_some_and(is_off)
    }

    /// Whether the selectors may ask though the program passes it over.
    pub(crate) fn is_odd(&self) -> bool {
        [self.namespace_label, self.pod_label].contains(&Some(ODD_OFF))
    }
}

fn is_off(word: &str) -> bool {
    matches!(word.to_ascii_lowercase().as_str(), "disabled" | "false")
}

/// The program as the chart configures it.
fn injector(on_by_default: bool) -> &'static Injector {
    static BOTH: LazyLock<[Injector; 2]> = LazyLock::new(|| {
        [false, true].map(|inject_by_default| {
            Injector::new(InjectorOptions {
                excluded_namespaces: vec![NAMESPACE.to_owned(), "storage".to_owned()],
                inject_by_default,
                ..InjectorOptions::default()
            })
            .unwrap()
        })
    });
    &BOTH[usize::from(on_by_default)]
}

fn values(on_by_default: bool) -> Value {
    let default = if on_by_default { "enabled" } else { "disabled" };
    json!({"injection": {"default": default, "excludedNamespaces": ["storage"]}})
}

fn every_case() -> impl Iterator<Item = Case> {
    let labels = WORDS.iter().flat_map(|a| WORDS.iter().map(move |b| (*a, *b)));
    let places = NAMESPACES
        .iter()
        .flat_map(move |name| labels.clone().map(move |pair| (*name, pair)));
    [false, true].into_iter().flat_map(move |on_by_default| {
        places
            .clone()
            .map(move |(namespace, (namespace_label, pod_label))| Case {
                on_by_default,
                namespace,
                namespace_label,
                pod_label,
            })
    })
}

/// Whether labels match a selector, by the rules of `metav1.LabelSelector`: all of it has to hold, and `NotIn` holds where
/// the label is missing.
pub(crate) fn matches(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    let exact = selector["matchLabels"].as_object().into_iter().flatten();
    let mut expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    exact
        .clone()
        .all(|(key, value)| labels.get(key).map(String::as_str) == value.as_str())
        && expressions.all(|expression| {
            let value = labels.get(expression["key"].as_str().unwrap());
            let listed = value.is_some_and(|value| {
                expression["values"]
                    .as_array()
                    .unwrap_or(&Vec::new())
                    .contains(&json!(value))
            });
            match expression["operator"].as_str().unwrap() {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                other => panic!("operator {other}"),
            }
        })
}

/// The entries that ask about a pod of the case.
fn entries(configuration: &Value, case: &Case) -> Vec<String> {
    let pod: Value = serde_json::from_str(&case.pod()).unwrap();
    let labels: BTreeMap<String, String> = serde_json::from_value(pod["metadata"]["labels"].clone()).unwrap();
    let namespace: BTreeMap<String, String> = case.info().labels.into_iter().collect();
    let for_pods = |webhook: &&Value| webhook["rules"].to_string().contains("\"pods\"");
    let asks = |webhook: &&Value| {
        matches(&webhook["namespaceSelector"], &namespace) && matches(&webhook["objectSelector"], &labels)
    };
    let webhooks = configuration["webhooks"].as_array().unwrap().iter();
    webhooks
        .filter(for_pods)
        .filter(asks)
        .map(|w| w["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn one_entry_asks_about_what_the_program_would_look_at_and_none_about_the_rest() {
    let charts = [false, true].map(|on_by_default| rendered(&values(on_by_default)));
    let (mut cases, mut asked) = (0, 0);
    for case in every_case() {
        let objects = &charts[usize::from(case.on_by_default)];
        let (mutated, judged) = case.wanted();
        for (kind, wanted) in [
            ("MutatingWebhookConfiguration", mutated),
            ("ValidatingWebhookConfiguration", judged),
        ] {
            let entries = entries(only(objects, kind), &case);
            assert!(entries.len() <= 1, "{kind} {case:?}: {entries:?}");
            let agrees = entries.len() == usize::from(wanted) || (case.is_odd() && !wanted);
            assert!(agrees, "{kind} {case:?}: wanted {wanted}, asked by {entries:?}");
            asked += entries.len();
        }
        cases += 1;
    }
    assert_eq!(cases, 2 * NAMESPACES.len() * WORDS.len() * WORDS.len());
    assert!(asked > 100, "the selectors match nothing");
}

/// A spelling that is left to the program must not be one that people write.
#[test]
fn the_usual_words_for_off_are_not_asked_about() {
    let objects = rendered(&values(true));
    for word in WORDS.iter().flatten().filter(|word| **word != ODD_OFF) {
        let case = Case {
            on_by_default: true,
            namespace: "shop",
            namespace_label: Some(word),
            pod_label: None,
        };
        for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
            assert_eq!(
                entries(only(&objects, kind), &case).is_empty(),
                is_off(word),
                "{kind} {word}"
            );
        }
    }
}

/// The excluded namespaces are the program's own list and the values', in every entry.
#[test]
fn every_entry_leaves_out_the_namespaces_that_the_program_leaves_out() {
    let objects = rendered(&values(true));
    let webhooks = objects
        .iter()
        .filter_map(|object| object["webhooks"].as_array())
        .flatten();
    for webhook in webhooks {
        for namespace in names::SYSTEM_NAMESPACES.iter().chain(&[NAMESPACE, "storage"]) {
            let labels = [
                (names::METADATA_NAME.to_owned(), (*namespace).to_owned()),
                (names::INJECT.to_owned(), "enabled".to_owned()),
            ];
            assert!(
                !matches(&webhook["namespaceSelector"], &labels.into()),
                "{}: {namespace}",
                webhook["name"]
            );
        }
    }
}

#[test]
fn selectors_of_the_user_are_added_to_the_charts_own() {
    let user = json!({"webhook": {
        "namespaceSelector": {"matchLabels": {"tier": "applications"}},
        "objectSelector": {"matchExpressions": [{"key": "mesh", "operator": "In", "values": ["yes"]}]},
    }});
    let (plain, narrowed) = (rendered(&json!({})), rendered(&user));
    let namespace = |extra: &[(&str, &str)]| {
        labels(
            &[
                &[
                    ("outrigger.mesh/inject", "enabled"),
                    ("kubernetes.io/metadata.name", "shop"),
                ],
                extra,
            ]
            .concat(),
        )
    };
    for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
        let pairs = only(&plain, kind)["webhooks"]
            .as_array()
            .unwrap()
            .iter()
            .zip(only(&narrowed, kind)["webhooks"].as_array().unwrap());
        for (before, after) in pairs {
            let name = before["name"].as_str().unwrap();
            let (old, new) = (&before["namespaceSelector"], &after["namespaceSelector"]);
            let tier = namespace(&[("tier", "applications")]);
            assert!(!matches(new, &namespace(&[])), "{name}");
            assert_eq!(matches(new, &tier), matches(old, &tier), "{name}");
            let off = labels(&[("tier", "applications"), ("outrigger.mesh/inject", "disabled")]);
            assert!(!matches(new, &off), "{name}: the user's selector opens nothing");
            let (old, new) = (&before["objectSelector"], &after["objectSelector"]);
            if name.starts_with("workload.") {
                assert_eq!(old, new);
            } else {
                assert!(
                    !matches(new, &labels(&[("outrigger.mesh/inject", "enabled")])),
                    "{name}"
                );
                assert!(
                    matches(new, &labels(&[("outrigger.mesh/inject", "enabled"), ("mesh", "yes")])),
                    "{name}"
                );
            }
        }
    }
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

/// Every entry is there whatever is switched off: an installer and the server both own its name.
#[test]
fn workloads_are_switched_off_by_an_entry_that_matches_nothing() {
    for on_by_default in [false, true] {
        let off = crate::merged(&values(on_by_default), &json!({"webhook": {"workloads": false}}));
        let [on, off] = [values(on_by_default), off].map(|values| rendered(&values));
        let webhooks = |objects: &[Value]| {
            let webhooks = &only(objects, "ValidatingWebhookConfiguration")["webhooks"];
            webhooks.as_array().unwrap().clone()
        };
        let names = |objects: &[Value]| webhooks(objects).iter().map(|w| w["name"].clone()).collect::<Vec<_>>();
        assert_eq!(names(&on), names(&off));
        let asked = |objects: &[Value]| {
            let entry = webhooks(objects)
                .into_iter()
                .find(|w| w["name"] == "workload.validate.outrigger.mesh");
            let selector = entry.unwrap()["namespaceSelector"].take();
            every_case()
                .filter(|case| matches(&selector, &case.info().labels.into_iter().collect()))
                .count()
        };
        assert!(asked(&on) > 0);
        assert_eq!(asked(&off), 0);
    }
}

/// The reasons for which a pod is passed over by labels and names alone are those that the selectors know.
#[test]
fn the_program_has_no_other_reason_that_a_selector_could_see() {
    let by_selector = |reason: SkipReason| {
        matches!(
            reason,
            SkipReason::SystemNamespace
                | SkipReason::NamespaceDisabled
                | SkipReason::PodDisabled
                | SkipReason::NamespaceNotEnabled
        )
    };
    for case in every_case() {
        let (raw, info) = (case.pod(), case.info());
        let pod = PodView::from_json(&raw).unwrap();
        let subject = Subject {
            is_pod_create: true,
            namespace: case.namespace,
            info: &info,
            pod: &pod,
            services: outrigger::service::View::Off,
        };
        let policy: &Policy = injector(case.on_by_default).policy();
        if let Ok(decision) = decide(subject, policy) {
            assert!(decision.skip.is_none_or(by_selector), "{case:?}: {decision:?}");
        }
    }
}
