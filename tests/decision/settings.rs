//! Pod over namespace over configuration over what is built in, for every row of the table of settings.

use std::collections::BTreeMap;

use outrigger::names;
use outrigger::namespace::NamespaceInfo;
use outrigger::pod::PodView;
use outrigger::settings::{Origin, Resolved, SETTINGS, Scope};
use serde_json::{Value, json};

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
    (names::operator::AUTO_UPSTREAMS_LIMIT, ["0", "1", "256"]),
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
