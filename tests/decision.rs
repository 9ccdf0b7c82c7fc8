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
use outrigger::settings::{Origin, Resolved, SETTINGS, Scope, SettingError};
use serde_json::{Value, json};

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
        };
        let policy = Policy {
            excluded_namespaces: Vec::new(),
            default: Toggle::Disabled,
        };
        assert_eq!(decide(subject, &policy).expect("decided").skip, None, "{status}");
    }
}

/// Three valid values of each setting, all different: of the configuration, a namespace and a pod.
const SAMPLES: &[(&str, [&str; 3])] = &[
    (names::TEMPLATE, ["mtls", "one", "two"]),
    (names::POSITION, ["last", "native", "first"]),
    (names::TRAFFIC, ["explicit", "redirect", "explicit"]),
    (names::MTLS, ["strict", "permissive", "strict"]),
    (names::INBOUND_PORTS, ["1", "2/http", "3"]),
    (names::EXCLUDE_INBOUND_PORTS, ["1", "2", "3"]),
    (names::EXCLUDE_OUTBOUND_PORTS, ["1", "2", "3"]),
    (names::UPSTREAMS, ["auto", "none", "- a:80"]),
    (names::UPSTREAM_NAMESPACES, ["*", "a", "b"]),
    (names::PROBES, ["node", "off", "path"]),
    (names::ALLOW_FROM, ["a/b", "a/*", ""]),
    (names::PROXY_IMAGE, ["a:1", "b:2", "c:3"]),
    (names::PROXY_CPU_REQUEST, ["11m", "12m", "13m"]),
    (names::PROXY_CPU_LIMIT, ["2", "3", "4"]),
    (names::PROXY_MEMORY_REQUEST, ["33Mi", "34Mi", "35Mi"]),
    (names::PROXY_MEMORY_LIMIT, ["129Mi", "130Mi", "131Mi"]),
    (names::PROXY_LOG_LEVEL, ["info", "error", "crit"]),
    (names::IDENTITY_SECRET, ["a", "b", "c"]),
    (names::operator::REDIRECT_IMAGE, ["a:1", "b:2", "c:3"]),
    (names::operator::TRUST_DOMAIN, ["a.example", "b.example", "c.example"]),
    (names::operator::CLUSTER_DOMAIN, ["a.example", "b.example", "c.example"]),
    (names::operator::RESOLVER, ["10.0.0.1", "10.0.0.2", "10.0.0.3"]),
    (names::operator::IP_FAMILIES, ["ipv4", "ipv6", "dual"]),
];

fn sample_of(key: &str) -> [&'static str; 3] {
    let row = SAMPLES.iter().find(|(known, _)| *known == key);
    row.unwrap_or_else(|| panic!("{key} has no row in SAMPLES: add three valid values"))
        .1
}

/// The settings where configuration, namespace and pod each say something or nothing.
fn resolve(key: &str, values: [Option<&str>; 3]) -> Resolved {
    let [configuration, namespace, pod] = values;
    let base = Resolved::base(configuration.map(|value| (key, value)).into_iter()).expect("a valid configuration");
    let info = NamespaceInfo {
        labels: BTreeMap::new(),
        annotations: namespace
            .map(|value| (key.to_owned(), value.to_owned()))
            .into_iter()
            .collect(),
    };
    let annotations: BTreeMap<&str, &str> = pod.map(|value| (key, value)).into_iter().collect();
    let raw = json!({"metadata": {"annotations": annotations}}).to_string();
    base.overlaid(&info, &PodView::from_json(&raw).expect("a pod"))
        .expect("valid values")
}

/// The place whose value counts.
fn winner(scope: Scope, values: [Option<&'static str>; 3]) -> (Origin, Option<&'static str>) {
    let [configuration, namespace, pod] = values;
    let places = [
        (Origin::Pod, pod.filter(|_| scope != Scope::Operator)),
        (Origin::Namespace, namespace.filter(|_| scope == Scope::PodAndNamespace)),
        (Origin::Configuration, configuration),
    ];
    let first = places.into_iter().find(|(_, value)| value.is_some());
    first.unwrap_or((Origin::BuiltIn, None))
}

#[test]
fn the_nearest_place_that_may_set_a_setting_wins() {
    for (index, row) in SETTINGS.iter().enumerate() {
        let all = sample_of(row.key);
        for bits in 0..8u8 {
            let values: [Option<&'static str>; 3] =
                std::array::from_fn(|place| (bits >> place & 1 == 1).then_some(all[place]));
            let resolved = resolve(row.key, values);
            let (origin, value) = winner(row.scope, values);
            assert_eq!(resolved.origins[index], origin, "{} {values:?}", row.key);
            let alone = resolve(row.key, [value, None, None]);
            assert_eq!(resolved.settings, alone.settings, "{} {values:?}", row.key);
            let others = resolved.origins.iter().enumerate().filter(|(other, _)| *other != index);
            assert!(
                others.clone().all(|(_, o)| *o == Origin::BuiltIn),
                "{} sets another, too",
                row.key
            );
            let misplaced = usize::from(values[1].is_some() && row.scope != Scope::PodAndNamespace)
                + usize::from(values[2].is_some() && row.scope == Scope::Operator);
            assert_eq!(
                resolved.warnings.len(),
                misplaced,
                "{} {values:?}: {:?}",
                row.key,
                resolved.warnings
            );
        }
    }
}

#[test]
fn the_values_of_a_sample_differ_in_meaning() {
    for row in SETTINGS {
        let [a, b, c] = sample_of(row.key).map(|value| resolve(row.key, [Some(value), None, None]).settings);
        assert!(a != b && b != c, "{}: neighbouring samples mean the same", row.key);
    }
}

#[test]
fn every_built_in_value_can_be_written_as_configuration() {
    let written = SETTINGS.iter().filter(|row| !row.default.is_empty());
    let base = Resolved::base(std::iter::empty()).expect("the defaults parse");
    let same = Resolved::base(written.map(|row| (row.key, row.default))).expect("the defaults parse");
    assert_eq!(base.settings, same.settings);
}

#[test]
fn a_value_that_is_no_string_is_refused_on_a_pod() {
    let settings = SETTINGS.iter().filter(|row| row.scope != Scope::Operator);
    for (row, value) in settings.flat_map(|row| [json!(1), json!(true), json!([]), json!({})].map(|v| (row, v))) {
        let raw = json!({"metadata": {"annotations": {row.key: value}}}).to_string();
        let base = Resolved::base(std::iter::empty()).expect("the defaults parse");
        let errors = base
            .overlaid(&NamespaceInfo::default(), &PodView::from_json(&raw).expect("a pod"))
            .expect_err("refused");
        assert_eq!(errors.len(), 1, "{}: {value}", row.key);
        assert!(errors[0].to_string().contains("has to be a string"), "{}", errors[0]);
    }
    let null = json!({"metadata": {"annotations": {names::POSITION: Value::Null}}}).to_string();
    let base = Resolved::base(std::iter::empty()).expect("the defaults parse");
    let pod = PodView::from_json(&null).expect("a pod");
    assert!(base.overlaid(&NamespaceInfo::default(), &pod).is_ok(), "null is absent");
}
