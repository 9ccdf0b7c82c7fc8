//! The inputs from which fuzzers start: golden cases, cases, bad input and the corpus of YAML.

use std::path::{Path, PathBuf};

use outrigger::settings::SETTINGS;
use outrigger::{names, requirements};
use proptest::strategy::{Strategy, ValueTree as _};
use proptest::test_runner::TestRunner;
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519};
use serde_json::{Value, json};

use crate::golden::{cases, review_of};
use crate::hostile::{Spot, harmless, spots};
use crate::settings::word;
use crate::{SEPARATOR, attacks, pods};

/// Admission requests: all of the cases, and variants of a plain one.
pub(crate) fn review() -> Vec<Vec<u8>> {
    let pods = cases().into_iter().flat_map(|case| case.pods());
    let mut reviews: Vec<Value> = pods.map(|pod| review_of("u1", "shop", &pod.pod)).collect();
    reviews.extend(workloads());
    reviews.extend(
        generated(&pods::pod(), 60)
            .iter()
            .map(|pod| review_of("u3", "shop", pod)),
    );
    let base = reviews[0].clone();
    for (pointer, value) in [
        ("/request/operation", json!("UPDATE")),
        ("/request/operation", json!("DELETE")),
        ("/request/subResource", json!("ephemeralcontainers")),
        ("/request/dryRun", json!(true)),
        ("/request/object", Value::Null),
        ("/request/uid", json!("")),
        ("/kind", json!("Pod")),
    ] {
        let mut review = base.clone();
        match review.pointer_mut(pointer) {
            Some(place) => *place = value,
            None => drop(
                review["request"]
                    .as_object_mut()
                    .unwrap()
                    .insert("subResource".to_owned(), value),
            ),
        }
        review["request"]["oldObject"] = review["request"]["object"].clone();
        reviews.push(review);
    }
    let mut seeds: Vec<Vec<u8>> = reviews.iter().map(|review| review.to_string().into_bytes()).collect();
    seeds.extend(files("../tests/cases", "review.json"));
    seeds
}

/// A Deployment of each case's pod, as its own request.
fn workloads() -> impl Iterator<Item = Value> {
    let pods = cases().into_iter().flat_map(|case| case.pods()).step_by(3);
    pods.map(|pod| {
        let mut review = review_of(
            "u2",
            "shop",
            &json!({"metadata": {"name": "web"}, "spec": {"template": pod.pod}}),
        );
        review["request"]["resource"] = json!({"group": "apps", "version": "v1", "resource": "deployments"});
        review
    })
}

/// Every place with a harmless text, in each mode, and several of them; each place with each attack.
pub(crate) fn settings() -> Vec<Vec<u8>> {
    let spots = spots();
    let entry = |index: usize| {
        let spot = spots[index % spots.len()];
        format!("{}={}", word(spot), harmless(spot))
    };
    let mut seeds = Vec::new();
    for (index, mode) in (0..spots.len()).zip(["strict", "permissive", "plain"].iter().cycle()) {
        seeds.push(joined(&[mode, &entry(index)]));
        seeds.push(joined(&[mode, &entry(index), &entry(index + 1), &entry(index + 7)]));
    }
    for upstreams in [
        "- {service: a:1, identity: b/c, maxFails: 3, failTimeout: 1m, split: [{service: d.e:2, weight: 9}]}",
        "- a:1\n- {service: b.c.svc:2, protocol: grpc, timeout: 5s, retries: 2, listen: 7000}",
        "auto",
        "none",
    ] {
        seeds.push(joined(&["permissive", &format!("upstreams={upstreams}")]));
    }
    for variable in [
        "OUTRIGGER_MTLS=strict",
        "OUTRIGGER_PROXY_IMAGE=a/b:1",
        "OUTRIGGER_LISTEN=0.0.0.0:1",
        "OUTRIGGER_X=1",
    ] {
        seeds.push(joined(&["plain", &format!("env/{variable}")]));
    }
    let own = spots
        .iter()
        .filter(|spot| !matches!(spot, Spot::NamespaceAnnotation(_)));
    for (spot, attack) in own.flat_map(|spot| attacks::ATTACKS.map(|attack| (*spot, attack))) {
        seeds.push(joined(&[
            "strict",
            &format!("{}={}{attack}", word(spot), harmless(spot)),
        ]));
    }
    for ((spot, template, mtls), text) in generated(&attacks::case(), 150) {
        let mode = if template == "mtls" { mtls } else { "plain" };
        seeds.push(joined(&[mode, &format!("{}={text}", word(spot))]));
    }
    seeds
}

/// The manifests of all cases, injected ones too, and the corpus of YAML.
pub(crate) fn manifest() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for case in cases() {
        seeds.extend(case.output().map(String::into_bytes));
        seeds.push(case.input.text.into_bytes());
    }
    seeds.extend(files("../tests/cases", ".yaml"));
    seeds.extend(files("../tests/data/yaml", ".yaml"));
    seeds.extend(files("../docs/examples", ".yaml"));
    seeds.retain(|seed| seed.len() < MOST_BYTES);
    seeds
}

/// Longer inputs are not worked on by fuzzers, which are to try many.
const MOST_BYTES: usize = 16 << 10;

/// Stubs of every kind of key, and lines before them that are good and bad.
pub(crate) fn stub() -> Vec<Vec<u8>> {
    let heads = [
        "shop\nweb\n86400\n\n",
        "shop\na.b-c.d\n3600\n\n",
        "shop\nweb\n\nexample.com/admin=yes\n",
        "a/sa/b\nweb\n-1\n\n",
        "a.b\nweb\n\n\n",
        "\n\n\n\n",
    ];
    let mut seeds = Vec::new();
    for algorithm in [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384, &PKCS_ED25519] {
        for (params, head) in params().iter().cycle().zip(heads) {
            let key = KeyPair::generate_for(algorithm).unwrap();
            let stub = params.serialize_request(&key).unwrap().der().to_vec();
            seeds.push([head.as_bytes(), &stub].concat());
        }
    }
    seeds
}

fn params() -> [CertificateParams; 2] {
    let mut named = CertificateParams::new(vec!["api.internal".to_owned()]).unwrap();
    named.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    [CertificateParams::default(), named]
}

/// Requirements of every sort, each with values of labels.
pub(crate) fn requirements() -> Vec<Vec<u8>> {
    let files = [
        requirements::BUILT_IN,
        "labels: [{key: a, pattern: '[a-z]+|v\\d{1,3}', default: b, message: why, link: 'https://example.com/x'}]",
        "labels:\n- key: team.example/name\n  default: none\n- {key: b, values: [x, 'y', \"z\"]}\nworkloads: off\n",
        "action: warn\nnamespaces: {shop: audit, bank: deny}\nproxy: require\nlabels: []\n",
        "labels: [{key: a, values: [], pattern: x}]",
        "labels: [{key: -a}]\nactoin: deny",
        "labels: [{key: a, pattern: 'a)|(b'}, {key: a, pattern: '(?i)^\\pL*?$|\\bx'}]",
        "{}",
    ];
    files
        .iter()
        .map(|file| joined(&[file, "dev", "", "b", "none", "a.b_c-d"]))
        .collect()
}

/// Words that stand for something in one of the inputs, as libFuzzer's dictionaries have them.
pub(crate) fn dictionary() -> String {
    let keys = SETTINGS
        .iter()
        .flat_map(|row| [row.key.to_owned(), names::variable_of(row.key)]);
    let places = spots().into_iter().map(|spot| format!("{}=", word(spot)));
    let attacks = attacks::ATTACKS.iter().map(|text| (*text).to_owned());
    let mut words: Vec<String> = keys.chain(places).chain(attacks).collect();
    words.extend(WORDS.iter().map(|word| (*word).to_owned()));
    words.extend([names::INJECT, names::STATUS, names::NGINX_CONF, names::PROXY_CONTAINER].map(str::to_owned));
    words.iter().map(|word| format!("\"{}\"\n", escaped(word))).collect()
}

const WORDS: [&str; 60] = [
    "\"metadata\":{",
    "\"labels\":{",
    "\"annotations\":{",
    "\"spec\":{",
    "\"containers\":[",
    "\"initContainers\":[",
    "\"volumes\":[",
    "\"name\":",
    "\"ports\":[{\"containerPort\":",
    "\"restartPolicy\":\"Always\"",
    "null",
    "true",
    "[]",
    "{}",
    "1e400",
    "\"hostNetwork\":true",
    "\"securityContext\":{\"runAsUser\":",
    "\"CREATE\"",
    "\"UPDATE\"",
    "\"oldObject\":",
    "apiVersion: v1\n",
    "apiVersion: apps/v1\n",
    "kind: Pod\n",
    "kind: List\n",
    "kind: Namespace\n",
    "kind: Service\n",
    "items:\n",
    "metadata:\n",
    "spec:\n",
    "template:\n",
    "containers:\n",
    "- name: a\n",
    "---\n",
    "...\n",
    "\n# c\n",
    "&a ",
    "*a",
    "<<: ",
    "!!str ",
    "|-\n",
    ">+\n",
    "? ",
    "- - ",
    "\t",
    "\r\n",
    "0x1f",
    "1_000",
    ".inf",
    "~",
    "on",
    "0o7",
    "%YAML 1.1\n",
    "labels:\n",
    "- key: ",
    "values: [",
    "pattern: ",
    "default: ",
    "action: ",
    "namespaces:\n",
    "workloads: ",
];

/// Whatever is no plain character of ASCII, by its bytes.
fn escaped(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\' || byte == b' ';
    let escaped = |byte| {
        if plain(byte) {
            char::from(byte).to_string()
        } else {
            format!("\\x{byte:02x}")
        }
    };
    word.bytes().map(escaped).collect()
}

/// The same values at each run.
fn generated<S: Strategy>(strategy: &S, count: usize) -> Vec<S::Value> {
    let mut runner = TestRunner::deterministic();
    let values = (0..count).map(|_| {
        strategy
            .new_tree(&mut runner)
            .expect("no filter is this strict")
            .current()
    });
    values.collect()
}

fn joined(parts: &[&str]) -> Vec<u8> {
    let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
    parts.join(&SEPARATOR)
}

/// The files below a folder whose names end so, in the order of their names.
fn files(folder: &str, end: &str) -> Vec<Vec<u8>> {
    let mut paths = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), end, &mut paths);
    paths.sort();
    paths.into_iter().map(|path| std::fs::read(path).unwrap()).collect()
}

fn collect(folder: &Path, end: &str, found: &mut Vec<PathBuf>) {
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, end, found);
        } else if path.to_string_lossy().ends_with(end) {
            found.push(path);
        }
    }
}
