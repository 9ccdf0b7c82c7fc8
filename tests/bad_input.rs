//! Bad input of every kind gets a clear answer that names the field, nothing panics, and the next
//! request is served.

use std::sync::LazyLock;

use outrigger::inject::{Injector, InjectorOptions};
use outrigger::namespace::NamespaceInfo;
use outrigger::review::{Answer, Endpoint, decode};
use serde_json::{Value, json};

#[path = "bad_input/annotations.rs"]
mod annotations;
#[path = "bad_input/pods.rs"]
mod pods;
#[path = "bad_input/setup.rs"]
mod setup;

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
        .answer(
            endpoint,
            &review,
            Some(&NamespaceInfo::enabled()),
            outrigger::service::View::Off,
        )
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

fn annotated(annotations: Value) -> Value {
    let mut pod = good_pod();
    pod["metadata"]["annotations"] = annotations;
    pod
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
fn an_update_with_an_unreadable_old_object_is_refused() {
    let body = review(&good_pod().to_string())
        .replace("CREATE", "UPDATE")
        .replace("\"object\"", "\"oldObject\": {\"metadata\": 7}, \"object\"");
    let answer = answered(Endpoint::Validate, &body);
    assert_eq!(answer.outcome.as_str(), "bad-pod");
    assert_next_is_served();
}

#[test]
fn a_creation_has_no_old_object_whatever_the_request_says() {
    let pod = json!({"spec": {"containers": [{"name": "app"}]}});
    for old in ["\"a\"", "{\"metadata\": 7}", &pod.to_string()] {
        let body = review(&pod.to_string()).replace("\"object\"", &format!("\"oldObject\": {old}, \"object\""));
        assert_eq!(answered(Endpoint::Mutate, &body).outcome.as_str(), "injected", "{old}");
        let answer = answered(Endpoint::Validate, &body);
        assert_eq!(answer.outcome.as_str(), "requirements", "{old}");
    }
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
