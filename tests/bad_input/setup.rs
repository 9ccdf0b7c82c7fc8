//! Templates and requirements that cannot be used are refused at start, with file and path.

use outrigger::inject::{Injector, InjectorOptions};
use outrigger::requirements::Requirements;

use crate::assert_next_is_served;

/// Templates that use what they may not, or that give no overlay; a part of the message.
const BROKEN: [(&str, &str); 15] = [
    ("{{#if proxy}}", "1:14"),
    (
        "{{proxy.image}}",
        "line 1: {{proxy.image}}: a value is printed by {{json x}}",
    ),
    ("{{{proxy.image}}}", "without an encoder"),
    ("{{&proxy.image}}", "without an encoder"),
    ("{{> other}}", "no partials"),
    ("{{json (lookup proxy \"a\")}}", "line 1: no subexpressions"),
    ("{{#with proxy}}{{/with}}", "only if, unless and each"),
    ("{{json proxy.nothing}}", "proxy.nothing"),
    ("{{#if proxy.nothing}}{{/if}}", "proxy.nothing"),
    ("{{nginx proxy}}", "no word of nginx"),
    ("a: [", "not YAML"),
    ("{}", "no container"),
    ("[{}, {}, [], [], []]", "invalid type: sequence"),
    ("colour: red\n", "colour"),
    ("containers: 7\n", "containers"),
];

/// Further fields of a container, and the path of the one that is refused.
const FIELDS: [(&str, &str); 4] = [
    ("    imagePolicy: x\n", "imagePolicy"),
    (
        "    ports: [{containerPort: http}]\n",
        "containers[0].ports[0].containerPort",
    ),
    (
        "    ports: [{containerPort: 1, name: http}]\n",
        "containers[0].ports[0].name",
    ),
    (
        "    volumeMounts: [{name: v, mountPath: /v}]\n",
        "containers[0].volumeMounts: no volume called v",
    ),
];

const CONTAINER: &str = "containers:\n  - name: proxy-sidecar\n    image: b\n";
const RESOURCES: &str = "    resources: {requests: {cpu: 1, memory: 1}, limits: {cpu: 1, memory: 1}}\n";

/// Why an injector with these options cannot be made.
fn setup_error(options: InjectorOptions) -> String {
    Injector::new(options).expect_err("refused").to_string()
}

#[track_caller]
fn assert_refused(file: &str, text: &str, part: &str) {
    let error = setup_error(InjectorOptions {
        templates: vec![(file.to_owned(), text.to_owned())],
        ..InjectorOptions::default()
    });
    assert!(error.contains(file) && error.contains(part), "{text:.200}: {error}");
}

#[test]
fn a_broken_template_never_serves_and_is_named_with_its_path() {
    for (text, part) in BROKEN {
        assert_refused("x.yaml.hbs", text, part);
    }
    for (fields, part) in FIELDS {
        assert_refused("x.yaml.hbs", &format!("{CONTAINER}{RESOURCES}{fields}"), part);
    }
    assert_refused("x.yaml.hbs", CONTAINER, "containers[0].resources.requests.cpu");
    assert_refused("nginx.conf.hbs", "{{nginx proxy.nothing}}", "proxy.nothing");
    assert_refused("Bad Name.yaml.hbs", "{}", "NAME a DNS label");
    assert_refused("readme.hbs", "{}", "NAME.yaml.hbs");
    assert_next_is_served();
}

#[test]
fn a_template_beyond_the_bounds_never_serves() {
    let deep = "{{#if proxy}}".repeat(3000) + &"{{/if}}".repeat(3000);
    // A few bytes that give more than is allowed: loops inside loops.
    let endless = "{{#each @root.inbound}}".repeat(12) + &"x".repeat(1000) + &"{{/each}}".repeat(12);
    assert_refused("x.yaml.hbs", &deep, "3000 blocks; at most 200");
    assert_refused("x.yaml.hbs", &"{{#if (".repeat(30_000), "30000 blocks; at most 200");
    assert_refused("x.yaml.hbs", &"x".repeat(300 << 10), "more than 262144 bytes");
    assert_refused("x.yaml.hbs", &endless, "more than 1048576 bytes of output");
    assert_next_is_served();
}

#[test]
fn a_requirements_file_that_cannot_be_used_says_why() {
    for (text, part) in [
        ("", "exactly one document"),
        ("[", "not YAML"),
        ("7", "expected"),
        ("[]", "expected"),
        ("labels: {}", "labels"),
        ("labels: [{}]", "key"),
        ("labels: [{key: a, colour: red}]", "colour"),
        ("colour: red", "colour"),
        ("action: explode", "action"),
        ("proxy: maybe", "proxy"),
        ("namespaces: {a: never}", "namespaces"),
        ("namespaces: [a]", "namespaces"),
        ("labels: [{key: a, values: b}]", "values"),
        ("labels: [{key: a, values: []}]", "no pod could pass"),
        ("labels: [{key: a, values: ['']}]", "no pod could pass"),
        ("labels: [{key: a, values: [a b, -x]}]", "no pod could pass"),
        ("labels: [{key: a, default: a b}]", "no label can have this value"),
        ("labels: [{key: a, default: ''}]", "no label can have this value"),
        ("labels: [{key: a}, {key: a}]", "a rule for this label already"),
        ("labels: [{key: a, pattern: 'a)|(b'}]", "pattern"),
        ("labels: [{key: a, link: 'javascript:x'}]", "no URL"),
        ("labels: [{key: a, message: ' '}]", "message"),
        ("namespaces: {Not a name: warn}", "no namespace can have this name"),
        ("labels: [{key: a, values: [1]}]", "labels[0].values[0]"),
        ("labels: [{key: a, values: [b], pattern: b}]", "exclude each other"),
        ("labels: [{key: a, pattern: '('}]", "pattern"),
        ("labels: [{key: a, pattern: 'a{1000}{1000}{1000}'}]", "pattern"),
        ("labels: [{key: a, values: [b], default: c}]", "default \"c\""),
        ("labels: [{key: a, pattern: 'b+', default: bc}]", "default \"bc\""),
        ("labels: [{key: a, default: ''}]", "default"),
        ("labels: [{key: ''}]", "no label key"),
        ("labels: [{key: 'a b'}]", "no label key"),
        ("labels: [{key: 'A/b/c'}]", "no label key"),
        ("labels: [{key: ok}, {key: -a}]", "labels[1]"),
        ("labels: []\n---\nlabels: []", "exactly one document"),
        ("action: deny\naction: warn", "action"),
    ] {
        let error = Requirements::parse(text).map(|_| ()).expect_err(text).to_string();
        assert!(error.contains(part), "{text}: {error}");
        let options = InjectorOptions {
            requirements: Some(text.to_owned()),
            ..InjectorOptions::default()
        };
        assert!(setup_error(options).starts_with("requirements: "), "{text}");
    }
}
