//! Generated pods: every part absent, null, empty or filled, with fields that nobody knows at every level.

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Map, Value, json};

/// Texts that need care in JSON pointers, JSON and YAML.
const ODD: [&str; 16] = [
    "",
    "/",
    "~",
    "~1",
    "a/b",
    "a~0/b~1",
    "\"",
    "\\",
    "ü/ñ",
    "日本",
    "yes",
    "0x1",
    "a b",
    "- x",
    "{{json x}}",
    "\u{1f680}\u{2028}",
];

/// Any JSON, nested a little.
fn json_value() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        proptest::num::f64::NORMAL.prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            btree_map(text(), inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
    .boxed()
}

/// A text, often an odd one.
pub(crate) fn text() -> BoxedStrategy<String> {
    prop_oneof![select(&ODD[..]).prop_map(str::to_owned), "[a-z]{1,6}", "\\PC{0,8}"].boxed()
}

/// Fields that nobody knows, by names that no known field has.
fn unknown() -> BoxedStrategy<Map<String, Value>> {
    let fields = btree_map(text().prop_map(|name| format!("x-{name}")), json_value(), 0..3);
    fields.prop_map(|map| map.into_iter().collect()).boxed()
}

/// An object of the known fields that are there, in any order, among unknown ones.
fn object(known: Vec<(&'static str, BoxedStrategy<Option<Value>>)>) -> BoxedStrategy<Value> {
    let (names, values): (Vec<_>, Vec<_>) = known.into_iter().unzip();
    let made = (values, unknown()).prop_map(move |(values, unknown)| {
        let filled = names
            .iter()
            .zip(values)
            .filter_map(|(name, value)| Some(((*name).to_owned(), value?)));
        filled.chain(unknown).collect::<Vec<_>>()
    });
    made.prop_shuffle()
        .prop_map(|fields| Value::Object(fields.into_iter().collect()))
        .boxed()
}

/// Absent, null, or a value.
fn perhaps(value: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Option<Value>> {
    prop_oneof![1 => Just(None), 1 => Just(Some(Value::Null)), 4 => value.prop_map(Some)].boxed()
}

fn always(value: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Option<Value>> {
    value.prop_map(Some).boxed()
}

fn word(words: &'static [&'static str]) -> BoxedStrategy<Value> {
    select(words).prop_map(Value::from).boxed()
}

fn string_map() -> BoxedStrategy<Map<String, Value>> {
    let value = prop_oneof![4 => text().prop_map(Value::from), 1 => Just(Value::Null)];
    btree_map(text(), value, 0..4)
        .prop_map(|map| map.into_iter().collect())
        .boxed()
}

/// Valid values of each annotation; they fit together whichever are chosen.
const ANNOTATIONS: [(&str, &[&str]); 18] = [
    ("outrigger.mesh/inject", &["enabled", "TRUE"]),
    ("outrigger.mesh/template", &["mtls", "proxy-sidecar"]),
    ("outrigger.mesh/position", &["first", "last", "native"]),
    ("outrigger.mesh/traffic", &["redirect", "explicit"]),
    ("outrigger.mesh/mtls", &["strict", "permissive"]),
    (
        "outrigger.mesh/inbound-ports",
        &["8080/http, 9000/tcp", "", "7000/grpc"],
    ),
    ("outrigger.mesh/exclude-inbound-ports", &["8080", "", "1, 2"]),
    ("outrigger.mesh/exclude-outbound-ports", &["3306"]),
    (
        "outrigger.mesh/upstreams",
        &[
            "auto",
            "none",
            "- orders.shop:8080\n- ledger:9000",
            "- {service: a:80, protocol: tcp, identity: b/c, split: [{service: d:1, weight: 10}]}",
            "- {service: e:82, protocol: grpc, retries: 1, timeout: 5s, maxFails: 2, failTimeout: 1s, listen: 7100}",
            "- {service: f:83, retries: 3, split: [{service: g:1, weight: 50}]}",
        ],
    ),
    ("outrigger.mesh/upstream-namespaces", &["*", "a, b"]),
    ("outrigger.mesh/probes", &["path", "node", "off"]),
    ("outrigger.mesh/allow-from", &["shop/web, shop/*", ""]),
    ("outrigger.mesh/proxy-image", &["registry.example.com/nginx@sha256:00"]),
    ("outrigger.mesh/proxy-cpu-request", &["1", "2500m"]),
    ("outrigger.mesh/proxy-memory-limit", &["1Gi", "256M"]),
    ("outrigger.mesh/proxy-log-level", &["debug"]),
    ("outrigger.mesh/identity-secret", &["tls"]),
    ("outrigger.mesh/unheard-of", &["x"]),
];

fn annotations() -> BoxedStrategy<Value> {
    let ours = subsequence(&ANNOTATIONS[..], 0..=6).prop_flat_map(|rows| {
        rows.into_iter()
            .map(|(key, values)| select(values).prop_map(move |v| (key, v)))
            .collect::<Vec<_>>()
    });
    (string_map(), ours)
        .prop_map(|(mut map, ours)| {
            map.extend(
                ours.into_iter()
                    .map(|(key, value)| (key.to_owned(), Value::from(value))),
            );
            // What keeps callers out needs a template with mTLS.
            if map.contains_key("outrigger.mesh/allow-from") || map.get("outrigger.mesh/mtls") == Some(&"strict".into())
            {
                map.insert("outrigger.mesh/template".to_owned(), "mtls".into());
            }
            Value::Object(map)
        })
        .boxed()
}

fn labels() -> BoxedStrategy<Value> {
    (string_map(), option::of(word(&["dev", "prod"])))
        .prop_map(|(mut map, environment)| {
            map.extend(environment.map(|value| ("environment".to_owned(), value)));
            Value::Object(map)
        })
        .boxed()
}

fn metadata() -> BoxedStrategy<Value> {
    object(vec![
        ("name", perhaps(text().prop_map(Value::from))),
        ("generateName", perhaps(text().prop_map(Value::from))),
        ("labels", perhaps(labels())),
        ("annotations", perhaps(annotations())),
    ])
}

fn port() -> BoxedStrategy<Value> {
    object(vec![
        ("name", perhaps(word(&["http", "grpc-api", "http2", "tcp", ""]))),
        (
            "containerPort",
            always(prop_oneof![1i64..10_000, Just(0), Just(-1), Just(i64::MAX)].prop_map(Value::from)),
        ),
        ("protocol", perhaps(word(&["TCP", "UDP", "SCTP", ""]))),
    ])
}

fn probe() -> BoxedStrategy<Value> {
    let target = object(vec![
        (
            "port",
            perhaps(prop_oneof![
                word(&["http", "grpc-api", ""]),
                (1i64..10_000).prop_map(Value::from)
            ]),
        ),
        (
            "path",
            perhaps(prop_oneof![
                text().prop_map(Value::from),
                word(&["/ready", "/a?b=c", "/$x;{}"])
            ]),
        ),
        ("scheme", perhaps(word(&["HTTP", "HTTPS"]))),
    ]);
    let kind = select(&["httpGet", "tcpSocket", "grpc", "exec"][..]);
    (kind, target)
        .prop_map(|(kind, target)| json!({kind: target, "periodSeconds": 1}))
        .boxed()
}

/// A container without its name.
fn container() -> BoxedStrategy<Value> {
    object(vec![
        ("image", perhaps(text().prop_map(Value::from))),
        ("ports", perhaps(vec(port(), 0..3).prop_map(Value::Array))),
        ("livenessProbe", perhaps(probe())),
        ("readinessProbe", perhaps(probe())),
        ("startupProbe", perhaps(probe())),
        (
            "securityContext",
            perhaps(object(vec![(
                "runAsUser",
                perhaps((1000i64..2000).prop_map(Value::from)),
            )])),
        ),
    ])
}

/// Items with names of their own, the name at any place among the other fields.
fn named(prefix: &'static str, item: BoxedStrategy<Value>, least: usize) -> BoxedStrategy<Value> {
    let name = move |(index, mut item): (usize, Value)| {
        item["name"] = format!("{prefix}{index}").into();
        item
    };
    vec(item, least..4)
        .prop_map(move |items| items.into_iter().enumerate().map(name).collect())
        .boxed()
}

fn spec() -> BoxedStrategy<Value> {
    object(vec![
        ("containers", always(named("app", container(), 1))),
        ("initContainers", perhaps(named("init", container(), 0))),
        ("ephemeralContainers", perhaps(named("debug", container(), 0))),
        (
            "volumes",
            perhaps(named("v", object(vec![("emptyDir", perhaps(json_value()))]), 0)),
        ),
        ("restartPolicy", perhaps(word(&["Always", "Never", "OnFailure"]))),
        ("serviceAccountName", perhaps(text().prop_map(Value::from))),
        (
            "terminationGracePeriodSeconds",
            perhaps(any::<i64>().prop_map(Value::from)),
        ),
        ("nodeSelector", perhaps(string_map().prop_map(Value::Object))),
        ("hostNetwork", perhaps(Just(Value::Bool(false)))),
        ("os", perhaps(Just(json!({"name": "linux"})))),
        ("securityContext", perhaps(Just(json!({"runAsUser": 1000})))),
    ])
}

/// A pod that is to be injected, whatever else it has.
pub(crate) fn pod() -> BoxedStrategy<Value> {
    object(vec![("metadata", perhaps(metadata())), ("spec", always(spec()))])
}
