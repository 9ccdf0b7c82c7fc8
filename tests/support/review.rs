//! An admission request and its answer: by the library, and by the program, which has to agree.
#![allow(dead_code, reason = "each suite uses its own part of the support modules")]

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use outrigger::inject::{Injector, InjectorOptions};
use outrigger::manifest::{Namespaces, Source, parse};
use outrigger::names;
use outrigger::review::{Endpoint, decode};
use serde_json::{Map, Value};

use crate::guarantees::{answers, has_no_patch, has_one_proxy, is_lossless, is_valid_pod, patched};
use crate::program::outrigger;

/// Making an injector renders every template, so the one without a configuration is made once.
static BUILT_IN: OnceLock<Arc<Injector>> = OnceLock::new();

/// A request, the namespaces that are known, and how Outrigger is configured. Changes give a new one.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    request: Value,
    namespaces: Vec<Value>,
    settings: BTreeMap<String, String>,
    requirements: Option<String>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    request: Value,
    /// The AdmissionReview.
    pub(crate) body: Value,
    /// How logs name the pod.
    pub(crate) pod: String,
    traffic: Option<String>,
}

impl Call {
    /// The request of an AdmissionReview in JSON, in a cluster with the namespaces of a YAML stream.
    pub(crate) fn new(review: &str, namespaces: &str) -> Self {
        Self {
            request: serde_json::from_str(review).expect("the review is JSON"),
            namespaces: crate::program::documents(namespaces),
            settings: BTreeMap::new(),
            requirements: None,
        }
    }

    /// `request.object`
    pub(crate) fn pod(&self) -> &Value {
        &self.request["request"]["object"]
    }

    /// With another value at a pointer into the pod; parents that are missing are made.
    pub(crate) fn with(&self, pointer: &str, value: impl Into<Value>) -> Self {
        let mut call = self.clone();
        *place(&mut call.request["request"]["object"], pointer) = value.into();
        call
    }

    /// Without the key at a pointer into the pod.
    pub(crate) fn without(&self, pointer: &str) -> Self {
        let mut call = self.clone();
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer has a slash");
        let parent = call.request["request"]["object"].pointer_mut(parent);
        let map = parent.and_then(Value::as_object_mut).expect("the parent is a map");
        let key = key.replace("~1", "/").replace("~0", "~");
        map.shift_remove(&key).expect("the key is there");
        call
    }

    /// With a pod annotation.
    pub(crate) fn annotated(&self, key: &str, value: impl Into<Value>) -> Self {
        self.with(&format!("/metadata/annotations/{}", escaped(key)), value)
    }

    /// With a pod label.
    pub(crate) fn labelled(&self, key: &str, value: impl Into<Value>) -> Self {
        self.with(&format!("/metadata/labels/{}", escaped(key)), value)
    }

    /// With another value at a pointer into `request`.
    pub(crate) fn requesting(&self, pointer: &str, value: impl Into<Value>) -> Self {
        let mut call = self.clone();
        *place(&mut call.request["request"], pointer) = value.into();
        call
    }

    /// With an annotation of the request's namespace.
    pub(crate) fn namespace_annotated(&self, key: &str, value: &str) -> Self {
        self.in_namespace(&format!("/metadata/annotations/{}", escaped(key)), value)
    }

    /// With another value at a pointer into the request's namespace.
    pub(crate) fn in_namespace(&self, pointer: &str, value: &str) -> Self {
        let mut call = self.clone();
        let name = &self.request["request"]["namespace"];
        let namespace = call.namespaces.iter_mut().find(|n| n["metadata"]["name"] == *name);
        *place(namespace.expect("the namespace is known"), pointer) = value.into();
        call
    }

    /// With a requirements file.
    pub(crate) fn requiring(&self, requirements: &str) -> Self {
        Self {
            requirements: Some(requirements.to_owned()),
            ..self.clone()
        }
    }

    /// With an operator's default of the setting `key`.
    pub(crate) fn configured(&self, key: &str, value: &str) -> Self {
        let mut call = self.clone();
        call.settings.insert(names::variable_of(key), value.to_owned());
        call
    }

    /// The mutating webhook's answer, by the library and the program alike.
    pub(crate) fn mutate(&self) -> Answer {
        self.both(Endpoint::Mutate)
    }

    /// The validating webhook's answer, by the library and the program alike.
    pub(crate) fn validate(&self) -> Answer {
        self.both(Endpoint::Validate)
    }

    /// The mutating webhook's answer by the library alone, for matrices.
    pub(crate) fn mutate_in_library(&self) -> Answer {
        self.by_library(Endpoint::Mutate)
    }

    fn both(&self, endpoint: Endpoint) -> Answer {
        let answer = self.by_library(endpoint);
        assert_eq!(
            self.by_program(endpoint),
            answer.body,
            "the program answers as the library does"
        );
        answer
    }

    fn by_library(&self, endpoint: Endpoint) -> Answer {
        let injector = self.injector();
        let body = self.request.to_string();
        let review = decode(body.as_bytes()).expect("the request is an AdmissionReview");
        let source = [self.namespace_file()];
        let namespaces = Namespaces::collect(&parse(&source).expect("JSON is YAML")).expect("they can be read");
        let answer = injector
            .answer(
                endpoint,
                &review,
                namespaces.get(review.namespace()),
                namespaces.services(),
            )
            .expect("no fault of ours");
        let body = serde_json::from_slice(&answer.body).expect("the answer is JSON");
        self.answered(body, answer.pod)
    }

    fn injector(&self) -> Arc<Injector> {
        let make = || {
            Arc::new(
                Injector::new(InjectorOptions {
                    excluded_namespaces: vec!["outrigger-system".to_owned()],
                    setting_defaults: self.settings.clone(),
                    requirements: self.requirements.clone(),
                    ..InjectorOptions::default()
                })
                .expect("the configuration is right"),
            )
        };
        if self.settings.is_empty() && self.requirements.is_none() {
            return BUILT_IN.get_or_init(make).clone();
        }
        make()
    }

    fn answered(&self, body: Value, pod: String) -> Answer {
        answers(&self.request, &body);
        let of_pod = self
            .pod()
            .pointer("/metadata/annotations")
            .and_then(|a| a.get(names::TRAFFIC));
        let name = &self.request["request"]["namespace"];
        let namespace = self.namespaces.iter().find(|n| n["metadata"]["name"] == *name);
        let of_namespace = || namespace?.pointer("/metadata/annotations")?.get(names::TRAFFIC);
        let traffic = of_pod.or_else(of_namespace).and_then(Value::as_str).map(str::to_owned);
        Answer {
            request: self.request.clone(),
            body,
            pod,
            traffic,
        }
    }

    fn by_program(&self, endpoint: Endpoint) -> Value {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("it can be written");
        write("namespaces.yaml", &self.namespace_file().text);
        let mut command = outrigger();
        command
            .current_dir(folder.path())
            .envs(&self.settings)
            .args([
                "review",
                "--endpoint",
                endpoint.as_str(),
                "--namespace-file",
                "namespaces.yaml",
            ])
            .write_stdin(self.request.to_string());
        if let Some(requirements) = &self.requirements {
            write("requirements.yaml", requirements);
            command.args(["--requirements", "requirements.yaml"]);
        }
        let output = command.output().expect("the program starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        serde_json::from_slice(&output.stdout).expect("standard output holds the answer alone")
    }

    fn namespace_file(&self) -> Source {
        let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": self.namespaces});
        Source {
            name: "namespaces.yaml".to_owned(),
            text: list.to_string(),
        }
    }
}

impl Answer {
    /// The pod was injected, and everything holds that holds of injected pods. Gives the pod.
    pub(crate) fn injected(&self) -> Value {
        let pod = patched(&self.request, &self.body);
        is_lossless(self.before(), &pod);
        is_valid_pod(&pod);
        has_one_proxy(&pod, self.traffic.as_deref());
        assert_eq!(self.outcome(), "injected");
        pod
    }

    /// The pod was admitted as it is, for this reason.
    pub(crate) fn skipped(&self, reason: &str) -> &Self {
        assert_eq!(self.body["response"]["allowed"], true, "{}", self.body);
        has_no_patch(&self.body);
        assert_eq!(self.outcome(), reason, "{}", self.body);
        self
    }

    /// The pod was refused with this word, in a message that says all of `said`.
    pub(crate) fn denied(&self, id: &str, said: &[&str]) -> &str {
        let response = &self.body["response"];
        assert_eq!(response["allowed"], false, "{}", self.body);
        assert!(response.get("patch").is_none(), "{}", self.body);
        assert_eq!(response["status"]["code"], 403);
        assert_eq!(self.outcome(), id, "{}", self.body);
        let message = response["status"]["message"].as_str().expect("a denial has a message");
        for part in said {
            assert!(message.contains(part), "{part:?} is not in {message:?}");
        }
        message
    }

    /// The request's object.
    pub(crate) fn before(&self) -> &Value {
        &self.request["request"]["object"]
    }

    /// The stable word, as the audit annotation holds it.
    pub(crate) fn outcome(&self) -> &str {
        let outcome = &self.body["response"]["auditAnnotations"]["outcome"];
        outcome.as_str().expect("every answer names its outcome")
    }

    /// The warnings, as one text.
    pub(crate) fn warnings(&self) -> String {
        let warnings = crate::guarantees::items(&self.body["response"]["warnings"]);
        let texts: Vec<&str> = warnings.iter().filter_map(Value::as_str).collect();
        texts.join("\n")
    }
}

/// A key as a token of a pointer (RFC 6901).
pub(crate) fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// The place at a pointer, made where it is missing.
fn place<'v>(root: &'v mut Value, pointer: &str) -> &'v mut Value {
    pointer.split('/').skip(1).fold(root, |value, token| {
        let key = token.replace("~1", "/").replace("~0", "~");
        match value {
            Value::Array(list) => {
                let index: usize = key.parse().expect("a list has numbers for keys");
                &mut list[index]
            }
            Value::Object(map) => map.entry(key).or_insert(Value::Null),
            other => {
                *other = Value::Object(Map::new());
                &mut other[key]
            }
        }
    })
}
