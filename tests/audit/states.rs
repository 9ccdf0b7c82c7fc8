//! One pod, and what is said of it.

use outrigger::audit::WorkloadRow;
use outrigger::decision::Subject;
use outrigger::inject::{Injector, InjectorOptions, Verdict};
use outrigger::namespace::NamespaceInfo;
use outrigger::pod::PodView;
use outrigger::service::{Services, View};

use super::*;

fn pod(labels: &Value, annotations: &Value) -> Value {
    json!({"metadata": {"name": "p", "namespace": "shop", "labels": labels, "annotations": annotations},
           "spec": {"containers": [{"name": "app", "image": "app"}]}})
}

fn only(pod: Value, requirements: &str) -> (WorkloadRow, bool) {
    let audit = audit(Some(requirements.to_owned()), &[shop()], &[pod]).unwrap();
    let has_problems = audit.has_problems();
    (audit.workloads.into_iter().next().unwrap(), has_problems)
}

fn injected(pod: &Value) -> Value {
    injected_among(pod, View::Off)
}

fn injected_among(pod: &Value, services: View<'_>) -> Value {
    let injector = Injector::new(InjectorOptions::default()).unwrap();
    let (text, info) = (pod.to_string(), NamespaceInfo::enabled());
    let view = PodView::from_json(&text).unwrap();
    let subject = Subject {
        is_pod_create: true,
        namespace: "shop",
        info: &info,
        pod: &view,
        services,
    };
    let Verdict::Inject(patch) = injector.inject(subject).unwrap().verdict else {
        panic!("not injected")
    };
    let patch: json_patch::Patch = serde_json::from_str(&patch).unwrap();
    let mut pod = pod.clone();
    json_patch::patch(&mut pod, &patch).unwrap();
    pod
}

#[test]
fn what_the_webhook_made_is_found_injected() {
    let (row, problem) = only(
        injected(&pod(&json!({"environment": "dev"}), &json!({}))),
        "labels: [{key: environment}]\nproxy: require",
    );
    assert_eq!((row.judgement.state, problem), (State::Injected, false));
    let proxy = row.judgement.proxy.unwrap();
    assert_eq!(
        (proxy.template.as_str(), proxy.version.as_str()),
        ("proxy-sidecar", env!("CARGO_PKG_VERSION"))
    );
    assert_eq!(row.judgement.violations, []);
}

#[test]
fn a_status_without_its_containers_is_no_proxy() {
    let mut pod = injected(&pod(&json!({}), &json!({})));
    pod["spec"]["containers"]
        .as_array_mut()
        .unwrap()
        .retain(|container| container["name"] == "app");
    assert_eq!(only(pod, "labels: []").0.judgement.state, State::Missing);
}

#[test]
fn only_what_is_refused_or_lacks_the_proxy_is_a_problem() {
    let good = injected(&pod(&json!({}), &json!({})));
    let opted_out = pod(&json!({}), &json!({"outrigger.mesh/inject": "disabled"}));
    let bare = pod(&json!({}), &json!({}));
    let rules = |action: &str| format!("labels: [{{key: team}}]\naction: {action}");
    for (pod, requirements, problem) in [
        (&good, "labels: []".to_owned(), false),
        (&good, rules("deny"), true),
        (&good, rules("warn"), false),
        (&opted_out, rules("audit"), false),
        (&opted_out, rules("deny"), true),
        (&bare, "labels: []\nproxy: off".to_owned(), true),
        (&bare, "labels: []\nproxy: require\naction: audit".to_owned(), true),
    ] {
        assert_eq!(only(pod.clone(), &requirements).1, problem, "{requirements}: {pod}");
    }
}

#[test]
fn a_pod_that_lacks_the_proxy_is_told_what_keeps_it_from_getting_it() {
    let mut pod = pod(&json!({}), &json!({}));
    pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 15021}]);
    let (row, _) = only(pod, "labels: []\nproxy: off");
    let rules: Vec<&str> = row.judgement.violations.iter().map(|broken| broken.rule).collect();
    assert_eq!((row.judgement.state, rules), (State::Missing, vec!["port-taken"]));
}

/// Services of the namespace `shop`, by name, address and port.
fn services(all: &[(&str, &[&str], u16)]) -> Services {
    let listed: Vec<_> = all
        .iter()
        .map(|(name, addresses, port)| {
            let service = json!({"metadata": {"name": name, "namespace": "shop"},
                "spec": {"clusterIP": addresses[0], "clusterIPs": addresses, "ports": [{"name": "http", "port": port}]}});
            serde_json::from_value(service).unwrap()
        })
        .collect();
    let mut services = Services::of(&listed);
    services.enable_unknown();
    services
}

#[test]
fn found_upstreams_are_held_against_the_services_of_today() {
    const ORDERS: (&str, &[&str], u16) = ("orders", &["10.96.0.1", "fd00::1"], 80);
    const STOCK: (&str, &[&str], u16) = ("stock", &["10.96.0.2"], 8080);
    let auto = pod(
        &json!({"environment": "dev"}),
        &json!({"outrigger.mesh/upstreams": "auto"}),
    );
    let then = services(&[ORDERS, STOCK]);
    let found = injected_among(&auto, View::Known(&then));
    let plain = injected_among(&pod(&json!({}), &json!({})), View::Known(&then));
    let audited = |pod: &Value, now: Services| {
        let injector = Injector::new(InjectorOptions::default()).unwrap();
        let mut auditor = Auditor::new(&injector, source(), &[shop()]).unwrap().knowing(now);
        auditor.add(&pod.to_string()).unwrap();
        let audit = auditor.finish();
        let row = &audit.workloads[0];
        assert_eq!(row.judgement.state, State::Injected);
        assert_eq!(
            audit.summary.outdated_upstreams,
            usize::from(row.judgement.upstreams.is_some())
        );
        (row.judgement.why.clone(), row.judgement.upstreams.clone())
    };
    assert_eq!(audited(&found, services(&[STOCK, ORDERS])).1, None);
    assert_eq!(audited(&plain, services(&[])).1, None, "it looks for none");
    let moved = ("orders", &["10.96.0.9", "fd00::1"][..], 80);
    let (why, outdated) = audited(&found, services(&[moved, ("new", &["10.96.0.3"], 81)]));
    let outdated = outdated.unwrap();
    assert_eq!(outdated.missing, ["new.shop:81", "orders.shop:80"]);
    assert_eq!(outdated.gone, ["10.96.0.1:80", "10.96.0.2:8080"]);
    assert_eq!(
        why,
        "it has the proxy, whose upstreams are out of date: it lacks new.shop:81, orders.shop:80; has 10.96.0.1:80, \
         10.96.0.2:8080, gone since; create it anew"
    );
    assert_eq!(
        only(found, "labels: []").0.judgement.upstreams,
        None,
        "nobody knows the Services"
    );
}
