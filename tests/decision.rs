//! The decision table and the precedence of settings, checked against independent tables.
//!
//! `TABLE` says in its own words what is decided when; all combinations of what a pod, its namespace
//! and the operator can say are held against it.

use std::collections::{BTreeMap, BTreeSet};

use outrigger::decision::{Decision, Policy, Subject, decide};
use outrigger::names;
use outrigger::namespace::NamespaceInfo;
use outrigger::pod::PodView;
use outrigger::settings::values::Toggle;
use outrigger::settings::{Origin, SettingError};
use serde_json::json;

#[path = "decision/settings.rs"]
mod settings;

/// What a switch says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    Nothing,
    On,
    Off,
    Nonsense,
}
use Says::{Nonsense, Nothing, Off, On};

impl Says {
    const ALL: [Self; 4] = [Nothing, On, Off, Nonsense];

    const fn text(self) -> Option<&'static str> {
        match self {
            Nothing => None,
            On => Some(" Enabled "),
            Off => Some("FALSE"),
            Nonsense => Some("perhaps"),
        }
    }
}

/// How a pod says that it runs on Windows.
const WINDOWS: [Option<&str>; 4] = [
    None,
    Some(r#""os": {"name": "windows"}"#),
    Some(r#""nodeSelector": {"kubernetes.io/os": "windows"}"#),
    Some(r#""nodeSelector": {"beta.kubernetes.io/os": "windows"}"#),
];
const NAMESPACES: [(&str, bool); 3] = [("shop", false), ("kube-system", true), ("outrigger-system", true)];

/// One combination.
#[derive(Debug, Clone, Copy)]
struct Case {
    namespace_label: Says,
    pod_label: Says,
    pod_annotation: Says,
    on_by_default: bool,
    host_network: bool,
    windows: Option<&'static str>,
    mirror: bool,
    namespace: (&'static str, bool),
    has_proxy: bool,
    create: bool,
}

/// What is expected: the outcome, and for a refusal the origins of the bad values.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Expected {
    Skipped(&'static str),
    Injected,
    Refused(Vec<Origin>),
}
use Expected::{Injected, Refused, Skipped};

/// A row: its number, when it holds, and what then becomes of the pod.
type Row = (u8, fn(&Case) -> bool, fn(&Case) -> Expected);

/// The first row that holds decides.
const TABLE: &[Row] = &[
    (1, |c| !c.create, |_| Skipped("not-a-pod-create")),
    (2, |c| c.namespace.1, |_| Skipped("system-namespace")),
    (3, |c| c.mirror, |_| Skipped("mirror-pod")),
    (4, |c| c.windows.is_some(), |_| Skipped("windows")),
    (5, |c| c.host_network, |_| Skipped("host-network")),
    (
        6,
        |c| c.namespace_label == Nonsense,
        |_| Refused(vec![Origin::NamespaceLabel]),
    ),
    (6, |c| c.namespace_label == Off, |_| Skipped("namespace-disabled")),
    (7, Case::pod_talks_nonsense, |c| Refused(c.nonsense_of_pod())),
    (7, |c| c.pod_label == Off, |_| Skipped("pod-disabled")),
    (
        10,
        |c| c.pod_label == On && c.has_proxy,
        |_| Skipped("already-injected"),
    ),
    (7, |c| c.pod_label == On, |_| Injected),
    (8, |c| c.pod_annotation == Off, |_| Skipped("pod-disabled")),
    (
        10,
        |c| c.pod_annotation == On && c.has_proxy,
        |_| Skipped("already-injected"),
    ),
    (8, |c| c.pod_annotation == On, |_| Injected),
    (
        9,
        |c| c.namespace_label != On && !c.on_by_default,
        |_| Skipped("namespace-not-enabled"),
    ),
    (10, |c| c.has_proxy, |_| Skipped("already-injected")),
    (12, |_| true, |_| Injected),
];

impl Case {
    fn pod_talks_nonsense(&self) -> bool {
        !self.nonsense_of_pod().is_empty()
    }

    fn nonsense_of_pod(&self) -> Vec<Origin> {
        let switches = [(self.pod_label, Origin::PodLabel), (self.pod_annotation, Origin::Pod)];
        let bad = switches.into_iter().filter(|(says, _)| *says == Nonsense);
        bad.map(|(_, origin)| origin).collect()
    }

    /// The words by which the expected warnings are known, in their order.
    fn warnings(&self, row: u8) -> Vec<&'static str> {
        let asked = self.pod_label == On || (self.pod_label == Nothing && self.pod_annotation == On);
        let disagree = matches!((self.pod_label, self.pod_annotation), (On, Off) | (Off, On));
        let host_network = (row == 5 && asked).then_some("hostNetwork");
        host_network
            .into_iter()
            .chain((row >= 7 && disagree).then_some("the label wins"))
            .collect()
    }

    fn pod(&self) -> String {
        let switch = |says: Says| says.text().map(|text| (names::INJECT, text));
        let labels: BTreeMap<&str, &str> = switch(self.pod_label).into_iter().collect();
        let mut annotations: BTreeMap<&str, &str> = switch(self.pod_annotation).into_iter().collect();
        if self.mirror {
            annotations.insert(names::MIRROR_POD, "hash");
        }
        if self.has_proxy {
            annotations.insert(
                names::STATUS,
                r#"{"version": "1", "template": "t", "digest": "d", "containers": ["proxy-sidecar"]}"#,
            );
        }
        let windows = self.windows.map(|field| format!("{field}, ")).unwrap_or_default();
        format!(
            r#"{{"metadata": {}, "spec": {{{windows}"hostNetwork": {},
                "containers": [{{"name": "proxy-sidecar"}}, {{"name": "app"}}]}}}}"#,
            json!({"labels": labels, "annotations": annotations}),
            self.host_network
        )
    }

    fn decide(&self) -> Result<Decision, Vec<SettingError>> {
        let raw = self.pod();
        let label = self
            .namespace_label
            .text()
            .map(|t| (names::INJECT.to_owned(), t.to_owned()));
        let info = NamespaceInfo {
            labels: label.into_iter().collect(),
            annotations: BTreeMap::new(),
        };
        let policy = Policy {
            excluded_namespaces: vec!["outrigger-system".to_owned()],
            default: if self.on_by_default {
                Toggle::Enabled
            } else {
                Toggle::Disabled
            },
        };
        let subject = Subject {
            is_pod_create: self.create,
            namespace: self.namespace.0,
            info: &info,
            pod: &PodView::from_json(&raw).expect("the case is a pod"),
            services: outrigger::service::View::Off,
        };
        decide(subject, &policy)
    }

    fn check(&self) -> u8 {
        let (row, _, outcome) = TABLE
            .iter()
            .find(|(_, holds, _)| holds(self))
            .expect("the last row always holds");
        match (self.decide(), outcome(self)) {
            (Err(errors), Refused(origins)) => {
                assert_eq!(errors.iter().map(|e| e.origin).collect::<Vec<_>>(), origins, "{self:?}");
            }
            (Ok(decision), expected) => {
                let found = decision.skip.map_or(Injected, |reason| Skipped(reason.as_str()));
                assert_eq!((decision.row, found), (*row, expected), "{self:?}");
                let words = self.warnings(*row);
                assert_eq!(
                    decision.warnings.len(),
                    words.len(),
                    "{self:?}: {:?}",
                    decision.warnings
                );
                for (warning, word) in decision.warnings.iter().zip(words) {
                    assert!(warning.contains(word), "{self:?}: {warning}");
                }
            }
            (Err(errors), expected) => panic!("{self:?}: expected {expected:?}, got {errors:?}"),
        }
        *row
    }
}

/// Every combination of the values.
fn every_case() -> impl Iterator<Item = Case> {
    let switches = Says::ALL.iter().flat_map(|a| Says::ALL.iter().map(move |b| (*a, *b)));
    let switches = switches.flat_map(|(a, b)| Says::ALL.iter().map(move |c| (a, b, *c)));
    let places = NAMESPACES
        .iter()
        .flat_map(|namespace| WINDOWS.iter().map(move |windows| (*namespace, *windows)));
    switches.flat_map(move |(namespace_label, pod_label, pod_annotation)| {
        places.clone().flat_map(move |(namespace, windows)| {
            (0..32u8).map(move |bits| Case {
                namespace_label,
                pod_label,
                pod_annotation,
                on_by_default: bits & 1 != 0,
                host_network: bits & 2 != 0,
                windows,
                mirror: bits & 4 != 0,
                namespace,
                has_proxy: bits & 8 != 0,
                create: bits & 16 != 0,
            })
        })
    })
}

#[test]
fn every_combination_is_decided_by_the_first_row_that_holds() {
    let rows: Vec<u8> = every_case().map(|case| case.check()).collect();
    assert_eq!(rows.len(), 4 * 4 * 4 * 3 * 4 * 32, "a combination is missing");
    let reached: BTreeSet<u8> = rows.into_iter().collect();
    assert_eq!(
        reached,
        BTreeSet::from([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12]),
        "a row was never reached"
    );
}

#[test]
fn a_status_that_does_not_hold_is_no_way_around_injection() {
    for status in [
        "",
        "{}",
        "null",
        r#"{"version": "1", "template": "t", "digest": "d"}"#,
        r#"{"version": "1", "template": "t", "digest": "d", "volumes": ["v"]}"#,
        r#"{"version": "1", "template": "t", "digest": "d", "containers": ["other"]}"#,
        r#"{"version": "1", "template": "t", "digest": "d", "initContainers": ["app"]}"#,
    ] {
        let pod = json!({"metadata": {"annotations": {names::STATUS: status}},
                         "spec": {"containers": [{"name": "app"}], "volumes": [{"name": "v"}]}})
        .to_string();
        let subject = Subject {
            is_pod_create: true,
            namespace: "shop",
            info: &NamespaceInfo::enabled(),
            pod: &PodView::from_json(&pod).expect("a pod"),
            services: outrigger::service::View::Off,
        };
        let policy = Policy {
            excluded_namespaces: Vec::new(),
            default: Toggle::Disabled,
        };
        assert_eq!(decide(subject, &policy).expect("decided").skip, None, "{status}");
    }
}
