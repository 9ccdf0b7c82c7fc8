//! The body of an admission request → review → answer, by differently configured servers.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use outrigger::decision::SkipReason;
use outrigger::error::Outcome;
use outrigger::inject::{Injector, InjectorOptions};
use outrigger::names;
use outrigger::namespace::NamespaceInfo;
use outrigger::requirements::REQUIREMENTS;
use outrigger::review::{Answer, Endpoint, Review, decode};
use outrigger::service::{Services, View};
use outrigger::uninject::{Uninjected, uninject};
use serde_json::{Value, json};

use crate::additive::{has_no_duplicate, keeps, names_of};
use crate::guarantees::{answers, has_no_patch, patched};
use crate::nginx;

/// A server, and the cluster that it knows.
struct Setup {
    injector: Injector,
    namespace: NamespaceInfo,
    services: Option<Services>,
}

static SETUPS: LazyLock<[Setup; 3]> = LazyLock::new(|| [built_in(), with_defaults(), with_everything()]);

/// Checks an input.
pub(crate) fn check(input: &[u8]) {
    let review = match decode(input) {
        Ok(review) => review,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    // An answer comes without the request being JSON to every reader: it may be nested too deeply for this one.
    let request = serde_json::from_slice(input).ok();
    for setup in SETUPS.iter() {
        let [mutated, _] = [Endpoint::Mutate, Endpoint::Validate].map(|endpoint| {
            let answer = setup.answer(endpoint, &review);
            let body: Value = serde_json::from_slice(&answer.body).expect("an answer is JSON");
            if let Some(request) = &request {
                answers(request, &body);
            }
            (answer, body)
        });
        if let Some(request) = &request {
            setup.check_mutation(request, &mutated);
        }
    }
}

impl Setup {
    fn answer(&self, endpoint: Endpoint, review: &Review<'_>) -> Answer {
        let services = self.services.as_ref().map_or(View::Off, View::Known);
        let answer = self.injector.answer(endpoint, review, Some(&self.namespace), services);
        answer.expect("what a stranger writes is never a fault of ours")
    }

    fn check_mutation(&self, request: &Value, (answer, body): &(Answer, Value)) {
        let refused = body["response"]["status"]["code"] == 403;
        assert_ne!(body["response"]["allowed"], refused, "{body}");
        if answer.outcome != Outcome::INJECTED {
            return has_no_patch(body);
        }
        let (before, after) = (&request["request"]["object"], patched(request, body));
        assert_eq!(keeps(before, &after, ""), Ok(()), "{before}");
        adds_new_names(before, &after);
        let conf = after["metadata"]["annotations"][names::NGINX_CONF].as_str();
        nginx::parse(conf.expect("there is a configuration")).expect("it is one of nginx");
        let mut rest = after.clone();
        assert_eq!(uninject(&mut rest), Uninjected::Done);
        assert_eq!(rest.to_string(), before.to_string());
        self.check_injected(request, after);
    }

    /// The injected pod is left as it is, and the validating webhook finds nothing wrong but labels.
    fn check_injected(&self, request: &Value, after: Value) {
        let mut again = request.clone();
        again["request"]["object"] = after;
        let again = again.to_string();
        let review = decode(again.as_bytes()).expect("it is a review still");
        let answer = self.answer(Endpoint::Mutate, &review);
        assert_eq!(answer.outcome, SkipReason::AlreadyInjected.into(), "{again}");
        let answer = self.answer(Endpoint::Validate, &review);
        let message = answer.message.unwrap_or_default();
        let broken = format!("{REQUIREMENTS}: label ");
        let admitted = answer.outcome == Outcome::ADMITTED;
        assert!(admitted || message.starts_with(&broken), "{message}: {again}");
        assert!(
            !message.contains(names::PROXY_CONTAINER) || message.contains("label"),
            "{message}"
        );
    }
}

/// Nothing that was added has a name that was there.
fn adds_new_names(before: &Value, after: &Value) {
    const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];
    for lists in [&CONTAINERS[..], &["volumes"]] {
        let [old, new] = [before, after].map(|pod| lists.iter().flat_map(|list| names_of(pod, list)).collect());
        let mut added: Vec<&str> = new;
        for name in &old {
            let place = added.iter().position(|new| new == name);
            added.remove(place.expect("it was kept"));
        }
        assert!(has_no_duplicate(added.clone()), "{added:?}");
        let old: Vec<&str> = old;
        assert!(added.iter().all(|name| !old.contains(name)), "{added:?} beside {old:?}");
    }
}

fn built_in() -> Setup {
    Setup {
        injector: Injector::new(InjectorOptions::default()).expect("the defaults are valid"),
        namespace: NamespaceInfo::enabled(),
        services: None,
    }
}

/// Injects where nobody asks, sets labels, knows of Services.
fn with_defaults() -> Setup {
    let requirements = "labels:\n  - {key: environment, values: [dev, prod], default: dev}\n  \
                        - {key: team.example/name, default: none}\nproxy: require\naction: deny\nworkloads: deny\n";
    let settings = [(names::TEMPLATE, "mtls"), (names::UPSTREAMS, "auto")];
    let options = InjectorOptions {
        inject_by_default: true,
        requirements: Some(requirements.to_owned()),
        setting_defaults: variables(&settings),
        ..InjectorOptions::default()
    };
    Setup {
        injector: Injector::new(options).expect("the options are valid"),
        namespace: NamespaceInfo::default(),
        services: Some(services()),
    }
}

/// What the namespace says is what the operator did not.
fn with_everything() -> Setup {
    let options = InjectorOptions {
        requirements: Some("labels: [{key: a, pattern: '[a-z]+', default: b}]\naction: warn\n".to_owned()),
        setting_defaults: variables(&[(names::TRAFFIC, "explicit"), (names::PROXY_LOG_LEVEL, "debug")]),
        ..InjectorOptions::default()
    };
    let mut namespace = NamespaceInfo::enabled();
    let settings = [
        (names::TEMPLATE, "mtls"),
        (names::MTLS, "strict"),
        (names::POSITION, "first"),
    ];
    let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned()));
    namespace.annotations.extend(settings);
    Setup {
        injector: Injector::new(options).expect("the options are valid"),
        namespace,
        services: Some(services()),
    }
}

fn variables(settings: &[(&str, &str)]) -> BTreeMap<String, String> {
    let variable = |(key, value): &(&str, &str)| (names::variable_of(key), (*value).to_owned());
    settings.iter().map(variable).collect()
}

/// A few Services of every sort, in the pods' namespace and in another.
fn services() -> Services {
    let service = |namespace: &str, name: &str, ports: Value| {
        let metadata = json!({"name": name, "namespace": namespace});
        let spec =
            json!({"ports": ports, "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"], "selector": {"a": "b"}});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).expect("a Service")
    };
    let all = [
        service(
            "shop",
            "orders",
            json!([{"name": "http", "port": 80, "targetPort": 8080}]),
        ),
        service("shop", "db", json!([{"name": "tcp-db", "port": 5432}])),
        service(
            "bank",
            "rates",
            json!([{"name": "grpc", "port": 9000, "appProtocol": "grpc"}]),
        ),
    ];
    let mut services = Services::of(&all);
    services.namespace("shop", Some(&NamespaceInfo::enabled()));
    services.enable_unknown();
    services
}
