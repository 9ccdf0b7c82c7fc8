//! Bad input of every kind gets a clear answer that names the field, nothing panics, and the next
//! request is served.

use std::sync::LazyLock;

use outrigger::inject::{Injector, InjectorOptions};
use outrigger::names;
use outrigger::namespace::NamespaceInfo;
use outrigger::requirements::Requirements;
use outrigger::review::{Answer, Endpoint, decode};
use serde_json::{Value, json};

static INJECTOR: LazyLock<Injector> =
    LazyLock::new(|| Injector::new(InjectorOptions::default()).expect("the defaults are valid"));

fn good_pod() -> Value {
    json!({"metadata": {"name": "web", "labels": {"environment": "dev"}}, "spec": {"containers": [{"name": "app"}]}})
}

fn review(object: &str) -> String {
    format!(
        r#"{{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {{"uid": "u1", "namespace": "shop",
            "operation": "CREATE", "resource": {{"group": "", "version": "v1", "resource": "pods"}}, "object": {object}}}}}"#
    )
}

/// What the endpoint answers to a body that is a review.
fn answered(endpoint: Endpoint, body: &str) -> Answer {
    let review = decode(body.as_bytes()).expect("a review");
    INJECTOR
        .answer(endpoint, &review, Some(&NamespaceInfo::enabled()))
        .expect("never a fault of ours")
}

fn response(answer: &Answer) -> Value {
    let body: Value = serde_json::from_slice(&answer.body).expect("the answer is JSON");
    assert_eq!(body["response"]["uid"], "u1");
    body["response"].clone()
}

/// The word and the message of a refusal; afterwards the next request is served.
fn denied(object: &Value) -> (String, String) {
    denied_raw(&object.to_string())
}

fn denied_raw(object: &str) -> (String, String) {
    let answer = answered(Endpoint::Mutate, &review(object));
    let response = response(&answer);
    assert_eq!(response["allowed"], false, "{object:.300}");
    assert_eq!(response["status"]["code"], 403);
    assert_eq!(response["status"]["reason"], "Forbidden");
    assert!(response.get("patch").is_none());
    assert_next_is_served();
    (
        answer.outcome.to_string(),
        response["status"]["message"].as_str().expect("a message").to_owned(),
    )
}

fn assert_next_is_served() {
    let answer = answered(Endpoint::Mutate, &review(&good_pod().to_string()));
    assert_eq!(answer.outcome.as_str(), "injected");
}

#[test]
fn rejects_bodies_that_are_no_review_and_says_why() {
    let request = r#""request": {"uid": "u1"}"#;
    let bodies: [(&str, &str); 16] = [
        ("", "EOF"),
        ("not json", "expected"),
        ("{", "EOF"),
        ("null", "expected"),
        ("[]", "NoKind"),
        (r#""text""#, "expected"),
        ("{}", "kind \"\""),
        (r#"{"kind": "Pod", "apiVersion": "v1"}"#, "kind \"Pod\" of \"v1\""),
        (
            r#"{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1", "request": {"uid": "u"}}"#,
            "v1beta1",
        ),
        (
            r#"{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}"#,
            "has no request",
        ),
        (
            r#"{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": null}"#,
            "has no request",
        ),
        (
            r#"{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {}}"#,
            "request.uid",
        ),
        (
            r#"{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"uid": ""}}"#,
            "request.uid",
        ),
        (
            r#"{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"uid": 7}}"#,
            "expected a string",
        ),
        (
            r#"{"kind": 7, "apiVersion": "admission.k8s.io/v1"}"#,
            "expected a string",
        ),
        ("\u{feff}{}", "expected value"),
    ];
    for (body, part) in bodies {
        let error = decode(body.as_bytes()).expect_err(body).to_string();
        assert!(part == "NoKind" || error.contains(part), "{body}: {error}");
        assert!(!error.is_empty() && error.len() < 300, "{body}: {error}");
    }
    for bytes in [&b"\xff\xfe{\0}\0"[..], b"{\"kind\": \"\xc3\x28\"}", b"\0"] {
        assert!(decode(bytes).is_err(), "{bytes:?}");
    }
    let whole = format!(r#"{{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", {request}}} trailing"#);
    assert!(
        decode(whole.as_bytes())
            .expect_err("refused")
            .to_string()
            .contains("trailing")
    );
    assert_next_is_served();
}

#[test]
fn a_review_cut_off_anywhere_is_refused() {
    let body = review(&good_pod().to_string());
    for end in 0..body.len() {
        assert!(decode(&body.as_bytes()[..end]).is_err(), "{end}");
    }
    assert_next_is_served();
}

#[test]
fn refuses_a_request_without_an_object() {
    for object in ["null", "7", "\"x\"", "[]", "true"] {
        let (outcome, message) = denied_raw(object);
        assert_eq!(outcome, "bad-pod", "{object}: {message}");
    }
    let (_, message) = denied_raw("null");
    assert!(message.contains("request.object: missing or null"), "{message}");
}

#[test]
fn deep_nesting_is_answered_and_not_a_crash() {
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
    for (place, outcome) in [
        (
            r#"{"x-unknown": DEEP, "spec": {"containers": [{"name": "app"}]}}"#,
            "injected",
        ),
        (
            r#"{"metadata": {"labels": {"a": DEEP}}, "spec": {"containers": [{"name": "app"}]}}"#,
            "injected",
        ),
        (r#"{"spec": {"containers": [{"name": "app", "x": DEEP}]}}"#, "injected"),
        (r#"{"spec": {"containers": [{"name": DEEP}]}}"#, "bad-pod"),
        ("DEEP", "bad-pod"),
    ] {
        for nested in [deep("[", "]"), deep("[{\"a\":", "}]")] {
            let body = review(&place.replace("DEEP", &nested));
            assert_eq!(answered(Endpoint::Mutate, &body).outcome.as_str(), outcome, "{place}");
            let answer = response(&answered(Endpoint::Validate, &body));
            assert_eq!(answer["allowed"], false, "{place}");
        }
        let unclosed = review(&place.replace("DEEP", &"[".repeat(100_000)));
        assert!(decode(unclosed.as_bytes()).is_err(), "{place}");
        assert_next_is_served();
    }
}

#[test]
fn unknown_fields_nested_a_little_are_nobodys_business() {
    let mut pod = good_pod();
    pod["spec"]["x-future"] = serde_json::from_str(&format!("{}{}", "[".repeat(60), "]".repeat(60))).expect("JSON");
    let answer = answered(Endpoint::Mutate, &review(&pod.to_string()));
    assert_eq!(answer.outcome.as_str(), "injected");
}

#[test]
fn a_wrong_type_in_a_field_that_is_read_is_named_by_its_path() {
    for (pointer, value, path) in [
        ("/metadata", json!("x"), "metadata"),
        ("/metadata/name", json!(7), "metadata.name"),
        ("/metadata/labels", json!([]), "metadata.labels"),
        ("/metadata/annotations", json!("x"), "metadata.annotations"),
        ("/spec", json!([1]), "spec"),
        ("/spec/containers", json!({}), "spec.containers"),
        ("/spec/containers/0", json!(null), "spec.containers[0]"),
        ("/spec/containers/0/name", json!({}), "spec.containers[0].name"),
        ("/spec/containers/0/ports", json!("80"), "spec.containers[0].ports"),
        (
            "/spec/containers/0/ports",
            json!([{"containerPort": "80"}]),
            "spec.containers[0].ports[0].containerPort",
        ),
        (
            "/spec/containers/0/livenessProbe",
            json!({"httpGet": {"port": []}}),
            "spec.containers[0].livenessProbe.httpGet.port",
        ),
        (
            "/spec/containers/0/securityContext",
            json!({"runAsUser": 1.5}),
            "spec.containers[0].securityContext.runAsUser",
        ),
        ("/spec/initContainers", json!(7), "spec.initContainers"),
        ("/spec/volumes", json!([7]), "spec.volumes[0]"),
        ("/spec/hostNetwork", json!("true"), "spec.hostNetwork"),
        ("/spec/nodeSelector", json!(7), "spec.nodeSelector"),
        ("/spec/os", json!("linux"), "spec.os"),
        ("/spec/restartPolicy", json!(false), "spec.restartPolicy"),
        (
            "/spec/terminationGracePeriodSeconds",
            json!("30"),
            "spec.terminationGracePeriodSeconds",
        ),
    ] {
        let mut pod = good_pod();
        set(&mut pod, pointer, value);
        let (outcome, message) = denied(&pod);
        assert_eq!(outcome, "bad-pod", "{pointer}: {message}");
        assert!(message.contains(&format!("{path}: ")), "{pointer}: {message}");
    }
}

fn set(pod: &mut Value, pointer: &str, value: Value) {
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    let parent = pod.pointer_mut(parent).expect("the parent is there");
    match parent {
        Value::Array(list) => list[key.parse::<usize>().expect("an index")] = value,
        parent => parent[key] = value,
    }
}

/// What serde's derived code would take for a struct: its fields' values, by their order.
#[test]
fn a_list_is_no_object() {
    for pod in [
        json!([null, {"containers": [{"name": "app"}]}]),
        json!({"spec": [[{"name": "app"}]]}),
        json!({"spec": {"containers": [["app"]]}}),
        json!({"metadata": ["name"], "spec": {"containers": [{"name": "app"}]}}),
    ] {
        assert_eq!(denied(&pod).0, "bad-pod", "{pod}");
    }
    let request = r#"["u1", {"resource": "pods", "version": "v1"}, null, "shop", "CREATE"]"#;
    for body in [
        format!(r#"["admission.k8s.io/v1", "AdmissionReview", {request}]"#),
        format!(r#"{{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {request}}}"#),
    ] {
        assert!(decode(body.as_bytes()).is_err(), "{body}");
    }
}

#[test]
fn refuses_a_pod_without_containers() {
    for pod in [
        json!({}),
        json!({"spec": null}),
        json!({"spec": {}}),
        json!({"spec": {"containers": null}}),
        json!({"spec": {"containers": []}}),
    ] {
        let (outcome, message) = denied(&pod);
        assert_eq!(outcome, "bad-pod");
        assert!(message.contains("spec.containers: missing or empty"), "{message}");
    }
}

fn annotated(annotations: Value) -> Value {
    let mut pod = good_pod();
    pod["metadata"]["annotations"] = annotations;
    pod
}

#[test]
fn one_refusal_lists_every_malformed_annotation() {
    let bad = [
        (names::TEMPLATE, json!("No Template")),
        (names::POSITION, json!("middle")),
        (names::TRAFFIC, json!("teleport")),
        (names::MTLS, json!("maybe")),
        (names::INBOUND_PORTS, json!("80/quic")),
        (names::EXCLUDE_INBOUND_PORTS, json!("0")),
        (names::EXCLUDE_OUTBOUND_PORTS, json!("65536")),
        (names::UPSTREAMS, json!("- {")),
        (names::UPSTREAM_NAMESPACES, json!("A")),
        (names::PROBES, json!("some")),
        (names::ALLOW_FROM, json!("everybody")),
        (names::PROXY_IMAGE, json!("a b")),
        (names::PROXY_CPU_REQUEST, json!("much")),
        (names::PROXY_CPU_LIMIT, json!("-1")),
        (names::PROXY_MEMORY_REQUEST, json!(64)),
        (names::PROXY_MEMORY_LIMIT, json!("")),
        (names::PROXY_LOG_LEVEL, json!("loud\u{1b}[31m\n")),
        (names::IDENTITY_SECRET, json!("a/b")),
    ];
    let (outcome, message) = denied(&annotated(
        bad.iter()
            .cloned()
            .map(|(k, v)| (k.to_owned(), v))
            .collect::<serde_json::Map<_, _>>()
            .into(),
    ));
    assert_eq!(outcome, "bad-setting");
    for (key, _) in bad {
        assert!(message.contains(&format!("pod annotation {key}: ")), "{key}: {message}");
    }
    assert!(message.contains("allowed: first, last, native"), "{message}");
    assert!(!message.chars().any(char::is_control), "{message}");
}

#[test]
fn refuses_a_template_that_is_not_there_and_lists_those_that_are() {
    let (_, message) = denied(&annotated(json!({names::TEMPLATE: "none"})));
    assert!(
        message.contains("no such template; there are: mtls, proxy-sidecar"),
        "{message}"
    );
}

#[test]
fn a_switch_that_means_nothing_is_refused_wherever_it_stands() {
    let mut pod = annotated(json!({names::INJECT: "perhaps"}));
    pod["metadata"]["labels"][names::INJECT] = json!(true);
    let (outcome, message) = denied(&pod);
    assert_eq!(outcome, "bad-setting");
    assert!(
        message.contains("pod annotation outrigger.mesh/inject: \"perhaps\""),
        "{message}"
    );
    assert!(message.contains("the boolean true"), "{message}");
}

#[test]
fn taken_names_ports_and_uids_are_refused_with_both_sides_named() {
    for (pointer, value, outcome, parts) in [
        (
            "/spec/containers/0/name",
            json!("proxy-sidecar"),
            "name-taken",
            ["container \"proxy-sidecar\"", "the proxy needs"],
        ),
        (
            "/spec/initContainers",
            json!([{"name": "proxy-redirect"}]),
            "name-taken",
            ["container \"proxy-redirect\"", "rename it"],
        ),
        (
            "/spec/ephemeralContainers",
            json!([{"name": "proxy-sidecar"}]),
            "name-taken",
            ["\"proxy-sidecar\"", "rename it"],
        ),
        (
            "/spec/volumes",
            json!([{"name": "outrigger-tmp"}]),
            "name-taken",
            ["volume \"outrigger-tmp\"", "rename it"],
        ),
        (
            "/metadata/annotations",
            json!({names::NGINX_CONF: "x"}),
            "name-taken",
            ["annotation", "outrigger.mesh/nginx.conf"],
        ),
        (
            "/metadata/annotations",
            json!({names::STATUS: "{}"}),
            "name-taken",
            ["annotation", "outrigger.mesh/status"],
        ),
        (
            "/spec/containers/0/ports",
            json!([{"containerPort": 15021}]),
            "port-taken",
            ["container \"app\" declares port 15021", "the proxy listens"],
        ),
        (
            "/spec/containers/0/ports",
            json!([{"containerPort": 15200}]),
            "port-taken",
            ["15200", "the proxy listens"],
        ),
        (
            "/spec/containers/0/securityContext",
            json!({"runAsUser": 101}),
            "uid-taken",
            ["container \"app\" runs as uid 101", "the proxy's own"],
        ),
        (
            "/spec/securityContext",
            json!({"runAsUser": 101}),
            "uid-taken",
            ["container \"app\" runs as uid 101", "choose another"],
        ),
    ] {
        let mut pod = good_pod();
        set(&mut pod, pointer, value);
        let (found, message) = denied(&pod);
        assert_eq!(found, outcome, "{pointer}: {message}");
        for part in parts {
            assert!(message.contains(part), "{pointer}: {message}");
        }
    }
}

#[test]
fn one_refusal_lists_every_conflict() {
    let pod = json!({"spec": {
        "containers": [{"name": "proxy-sidecar", "ports": [{"containerPort": 15021}], "securityContext": {"runAsUser": 101}}],
        "volumes": [{"name": "outrigger-config"}],
    }});
    let (_, message) = denied(&pod);
    for part in [
        "container \"proxy-sidecar\"",
        "volume \"outrigger-config\"",
        "port 15021",
        "uid 101",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[test]
fn a_uid_is_free_where_nothing_is_redirected() {
    let mut pod = annotated(json!({names::TRAFFIC: "explicit"}));
    pod["spec"]["securityContext"] = json!({"runAsUser": 101});
    assert_eq!(
        answered(Endpoint::Mutate, &review(&pod.to_string())).outcome.as_str(),
        "injected"
    );
}

#[test]
fn a_port_list_longer_than_the_range_is_refused() {
    let ports: Vec<String> = (1..=101).map(|port| port.to_string()).collect();
    let (outcome, message) = denied(&annotated(json!({names::INBOUND_PORTS: ports.join(",")})));
    assert_eq!(outcome, "bad-setting");
    assert!(message.contains("101 inbound ports; at most 100"), "{message}");
}

#[test]
fn annotations_that_would_be_too_large_are_refused() {
    let entry = |n: usize| {
        let name = format!("{n}{}", "a".repeat(60));
        let shares: Vec<String> = (0..9)
            .map(|m| format!("{{service: \"{name}{m}.{name}:80\", weight: 11}}"))
            .collect();
        format!(
            "- {{service: \"{name}.{name}:80\", retries: 10, split: [{}]}}\n",
            shares.join(", ")
        )
    };
    let upstreams: String = (0..100).map(entry).collect();
    let (outcome, message) = denied(&annotated(json!({names::UPSTREAMS: upstreams})));
    assert_eq!(outcome, "config-too-large", "{message:.300}");
    assert!(message.contains("at most 262144"), "{message}");
    let (outcome, _) = denied(&annotated(json!({"note": "x".repeat(260 << 10)})));
    assert_eq!(outcome, "config-too-large");
}

#[test]
fn bad_lists_of_upstreams_are_refused_with_the_entry() {
    let bomb = "a: &a [1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\n\
                e: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f]\n";
    let many = "- a:80\n".repeat(101);
    let deep = "[".repeat(100_000);
    for (text, part) in [
        ("orders:80", "YAML list"),
        ("- orders", "entry 0"),
        ("- a:80\n- b:99999", "entry 1"),
        ("- {service: a:80, colour: red}", "colour"),
        ("- {protocol: http}", "service"),
        ("- {service: a:80, retries: many}", "retries"),
        ("- {service: a:80, listen: 70000}", "listen"),
        ("- {service: a:80, listen: 15021}", "15021"),
        (
            "- {service: a:80, listen: 7000}\n- {service: b:80, listen: 7000}",
            "7000",
        ),
        ("- a:80\n- {service: b:80, listen: 15100}", "15100"),
        ("- {service: a:80, identity: x}", "identity"),
        ("- [a:80]", "entry 0"),
        ("- [\"a:80\", null, null, null, null, null, null, null, []]", "entry 0"),
        ("- null", "entry 0"),
        ("- a:80\n---\n- b:80", "exactly one document"),
        ("- {service: a:80, service: b:80}", "service"),
        ("- &x a:80\n- *y", "anchor"),
        ("- !!binary x", "base64"),
        ("- a:80\n\t- b:80", "tab"),
        (bomb, "aliases"),
        (&many, "101 entries; at most 100"),
        (&deep, "recursion limit"),
    ] {
        let (outcome, message) = denied(&annotated(json!({names::UPSTREAMS: text})));
        assert_eq!(outcome, "bad-setting", "{text:.200}: {message}");
        assert!(
            message.contains(names::UPSTREAMS) && message.contains(part),
            "{text:.200}: {message}"
        );
        assert!(message.len() < 1000, "{text:.200}: {message}");
    }
}

/// Why an injector with these options cannot be made.
fn setup_error(options: InjectorOptions) -> String {
    Injector::new(options).expect_err("refused").to_string()
}

#[test]
fn a_broken_template_never_serves_and_is_named_with_its_path() {
    let containers = |fields: &str| format!("containers:\n  - name: a\n    image: b\n{fields}");
    let resources = "    resources: {requests: {cpu: 1, memory: 1}, limits: {cpu: 1, memory: 1}}\n";
    for (file, text, parts) in [
        ("x.yaml.hbs", "{{#if proxy}}".to_owned(), vec!["x.yaml.hbs"]),
        (
            "x.yaml.hbs",
            "{{proxy.image}}".to_owned(),
            vec!["x.yaml.hbs", "line 1", "{{json x}}"],
        ),
        (
            "x.yaml.hbs",
            "{{{proxy.image}}}".to_owned(),
            vec!["x.yaml.hbs", "without an encoder"],
        ),
        (
            "x.yaml.hbs",
            "{{&proxy.image}}".to_owned(),
            vec!["x.yaml.hbs", "without an encoder"],
        ),
        ("x.yaml.hbs", "{{> other}}".to_owned(), vec!["x.yaml.hbs", "partials"]),
        (
            "x.yaml.hbs",
            "{{json (lookup proxy \"a\")}}".to_owned(),
            vec!["x.yaml.hbs", "subexpressions"],
        ),
        (
            "x.yaml.hbs",
            "{{#with proxy}}{{/with}}".to_owned(),
            vec!["x.yaml.hbs", "with", "if, unless and each"],
        ),
        (
            "x.yaml.hbs",
            "{{json proxy.nothing}}".to_owned(),
            vec!["x.yaml.hbs", "nothing"],
        ),
        (
            "x.yaml.hbs",
            "{{nginx proxy}}".to_owned(),
            vec!["x.yaml.hbs", "no word of nginx"],
        ),
        ("x.yaml.hbs", "a: [".to_owned(), vec!["x.yaml.hbs", "not YAML"]),
        ("x.yaml.hbs", "{}".to_owned(), vec!["x.yaml.hbs", "no container"]),
        ("x.yaml.hbs", "colour: red\n".to_owned(), vec!["x.yaml.hbs", "colour"]),
        (
            "x.yaml.hbs",
            "containers: 7\n".to_owned(),
            vec!["x.yaml.hbs", "containers"],
        ),
        (
            "x.yaml.hbs",
            containers(&format!("{resources}    imagePolicy: x\n")),
            vec!["x.yaml.hbs", "unknown field", "containers", "imagePolicy"],
        ),
        (
            "x.yaml.hbs",
            containers(&format!("{resources}    ports: [{{containerPort: http}}]\n")),
            vec!["x.yaml.hbs", "containers[0].ports[0].containerPort"],
        ),
        (
            "x.yaml.hbs",
            containers(&format!("{resources}    ports: [{{containerPort: 1, name: http}}]\n")),
            vec!["x.yaml.hbs", "containers[0].ports[0].name"],
        ),
        (
            "x.yaml.hbs",
            containers(&format!("{resources}    volumeMounts: [{{name: v, mountPath: /v}}]\n")),
            vec!["x.yaml.hbs", "containers[0].volumeMounts", "v"],
        ),
        (
            "x.yaml.hbs",
            containers(""),
            vec!["x.yaml.hbs", "containers[0].resources.requests.cpu"],
        ),
        (
            "nginx.conf.hbs",
            "{{nginx proxy.nothing}}".to_owned(),
            vec!["nginx.conf.hbs", "nothing"],
        ),
        (
            "Bad Name.yaml.hbs",
            "{}".to_owned(),
            vec!["Bad Name.yaml.hbs", "DNS label"],
        ),
        ("readme.hbs", "{}".to_owned(), vec!["readme.hbs", "NAME.yaml.hbs"]),
        (
            "x.yaml.hbs",
            "{{#if proxy}}".repeat(3000) + &"{{/if}}".repeat(3000),
            vec!["x.yaml.hbs", "3000 blocks"],
        ),
        ("x.yaml.hbs", "{{#if (".repeat(30_000), vec!["x.yaml.hbs", "at most"]),
        ("x.yaml.hbs", "x".repeat(300 << 10), vec!["x.yaml.hbs", "bytes"]),
        ("x.yaml.hbs", endless(), vec!["x.yaml.hbs", "bytes of output"]),
    ] {
        let error = setup_error(InjectorOptions {
            templates: vec![(file.to_owned(), text.clone())],
            ..InjectorOptions::default()
        });
        for part in parts {
            assert!(error.contains(part), "{text:.200}: {error}");
        }
    }
    assert_next_is_served();
}

/// A template of few bytes that gives more than is allowed: loops inside loops.
fn endless() -> String {
    let loops = 12;
    format!(
        "{}{}{}",
        "{{#each @root.inbound}}".repeat(loops),
        "x".repeat(1000),
        "{{/each}}".repeat(loops)
    )
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

#[test]
fn an_update_with_an_unreadable_old_object_is_refused() {
    let body = review(&good_pod().to_string())
        .replace("CREATE", "UPDATE")
        .replace("\"object\"", "\"oldObject\": {\"metadata\": 7}, \"object\"");
    let answer = answered(Endpoint::Validate, &body);
    assert_eq!(answer.outcome.as_str(), "bad-pod");
    assert_next_is_served();
}

#[test]
fn a_namespace_that_is_no_name_is_refused() {
    for namespace in ["", "a b", "a;b", "$x", "A", "a.b", "x\\n--proxy-uid=0"] {
        let body = review(&good_pod().to_string()).replace("\"shop\"", &format!("\"{namespace}\""));
        let answer = answered(Endpoint::Mutate, &body);
        assert_eq!(answer.outcome.as_str(), "bad-pod", "{namespace}");
        assert!(
            answer.message.is_some_and(|m| m.contains("metadata.namespace: ")),
            "{namespace}"
        );
    }
    assert_next_is_served();
}
