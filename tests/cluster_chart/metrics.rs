//! Every query of the dashboard and of the alerts, against the metrics that a running server and API server really
//! export: names, labels, and the values that are asked for.

use std::collections::{BTreeMap, BTreeSet};

use promql_parser::label::MatchOp;
use promql_parser::parser::{self, AggregateExpr, Expr, LabelModifier, VectorSelector};
use regex::Regex;
use serde_json::{Value, json};

use crate::helm::{NAMESPACE, rendered};
use crate::webhooks::{Mesh, eventually, page};

/// Labels that Prometheus adds to what it reads by the ServiceMonitor.
const TARGET: [&str; 6] = ["namespace", "pod", "container", "service", "job", "instance"];

/// What is exported: by a metric's name its labels, and each label's values.
#[derive(Default)]
struct Exported(BTreeMap<String, BTreeMap<String, BTreeSet<String>>>);

impl Exported {
    /// Reads the text format. Values that hold what breaks it do not occur here.
    fn add(&mut self, page: &str, target: &[&str]) {
        let label = Regex::new(r#"([a-zA-Z_]+)="([^"]*)""#).unwrap();
        let series = Regex::new(r"^([a-zA-Z_:]+)(\{.*\})? ").unwrap();
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            let Some(found) = series.captures(line) else { continue };
            let labels = self.0.entry(found[1].to_owned()).or_default();
            for name in target {
                labels.entry((*name).to_owned()).or_default();
            }
            for pair in found.get(2).iter().flat_map(|text| label.captures_iter(text.as_str())) {
                labels.entry(pair[1].to_owned()).or_default().insert(pair[2].to_owned());
            }
        }
    }

    fn labels(&self, metric: &str) -> &BTreeMap<String, BTreeSet<String>> {
        self.0.get(metric).unwrap_or_else(|| panic!("nobody exports {metric}"))
    }
}

/// A query, where it stands, and the labels that its results are asked for.
struct Query {
    place: String,
    text: String,
    wanted: Vec<String>,
}

/// The words after a mark: `{{outcome}}`, `$labels.name`.
fn words(text: &str, pattern: &str) -> Vec<String> {
    let pattern = Regex::new(pattern).unwrap();
    pattern.captures_iter(text).map(|found| found[1].to_owned()).collect()
}

fn dashboard() -> Value {
    let objects = rendered(&json!({"grafanaDashboard": {"enabled": true}}));
    let map = objects
        .iter()
        .find(|o| o["metadata"]["name"] == "outrigger-dashboard")
        .unwrap();
    serde_json::from_str(map["data"]["outrigger.json"].as_str().unwrap()).unwrap()
}

fn queries() -> Vec<Query> {
    let mut queries = Vec::new();
    for panel in dashboard()["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            queries.push(Query {
                place: format!("panel {}", panel["title"]),
                text: target["expr"]
                    .as_str()
                    .unwrap()
                    .replace("$__rate_interval", "5m")
                    .replace("$namespace", NAMESPACE),
                wanted: words(target["legendFormat"].as_str().unwrap(), r"\{\{(\w+)\}\}"),
            });
        }
    }
    let rules = rendered(&json!({"prometheusRule": {"enabled": true}}));
    let rules = rules.iter().find(|object| object["kind"] == "PrometheusRule").unwrap();
    for rule in rules["spec"]["groups"][0]["rules"].as_array().unwrap() {
        queries.push(Query {
            place: format!("alert {}", rule["alert"]),
            text: rule["expr"].as_str().unwrap().to_owned(),
            wanted: words(&rule["annotations"].to_string(), r"\$labels\.(\w+)"),
        });
    }
    queries
}

/// The selectors of an expression.
fn selectors(expr: &Expr) -> Vec<&VectorSelector> {
    match expr {
        Expr::VectorSelector(selector) => vec![selector],
        Expr::MatrixSelector(matrix) => vec![&matrix.vs],
        _ => children(expr).into_iter().flat_map(selectors).collect(),
    }
}

/// The aggregations of an expression.
fn aggregations(expr: &Expr) -> Vec<&AggregateExpr> {
    let own = match expr {
        Expr::Aggregate(aggregate) => Some(aggregate),
        _ => None,
    };
    own.into_iter()
        .chain(children(expr).into_iter().flat_map(aggregations))
        .collect()
}

fn children(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::Aggregate(inner) => vec![&inner.expr],
        Expr::Unary(inner) => vec![&inner.expr],
        Expr::Binary(inner) => vec![&inner.lhs, &inner.rhs],
        Expr::Paren(inner) => vec![&inner.expr],
        Expr::Subquery(inner) => vec![&inner.expr],
        Expr::Call(call) => call.args.args.iter().map(|argument| &**argument).collect(),
        Expr::NumberLiteral(_) | Expr::StringLiteral(_) | Expr::VectorSelector(_) | Expr::MatrixSelector(_) => {
            Vec::new()
        }
        Expr::Extension(_) => panic!("PromQL has no extensions"),
    }
}

/// What a selector asks for exists: the metric, its labels, and every value that it names.
fn check_selector(exported: &Exported, place: &str, selector: &VectorSelector) {
    let metric = selector
        .name
        .as_deref()
        .unwrap_or_else(|| panic!("{place}: a selector without a metric"));
    let labels = exported.labels(metric);
    for matcher in &selector.matchers.matchers {
        let known = labels
            .get(&matcher.name)
            .unwrap_or_else(|| panic!("{place}: {metric} has no label {}", matcher.name));
        if TARGET.contains(&&*matcher.name) {
            continue;
        }
        let found = match &matcher.op {
            MatchOp::Equal | MatchOp::NotEqual => known.contains(&matcher.value),
            MatchOp::Re(_) | MatchOp::NotRe(_) => {
                let is_list = matcher
                    .value
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "-_|".contains(c));
                let alternatives: Vec<&str> = if is_list {
                    matcher.value.split('|').collect()
                } else {
                    vec![&matcher.value]
                };
                let seen = |pattern: &&str| {
                    let pattern = Regex::new(&format!("^(?:{pattern})$")).unwrap();
                    known.iter().any(|value| pattern.is_match(value))
                };
                alternatives.iter().all(seen)
            }
        };
        assert!(
            found,
            "{place}: {metric} has no {}={:?}, but {known:?}",
            matcher.name, matcher.value
        );
    }
}

fn check(exported: &Exported, query: &Query) {
    let Query { place, text, wanted } = query;
    let expr = parser::parse(text).unwrap_or_else(|e| panic!("{place}: {e}: {text}"));
    for selector in selectors(&expr) {
        check_selector(exported, place, selector);
    }
    for aggregate in aggregations(&expr) {
        let Some(LabelModifier::Include(by)) = &aggregate.modifier else {
            continue;
        };
        for selector in selectors(&aggregate.expr) {
            let labels = exported.labels(selector.name.as_deref().unwrap());
            for label in &by.labels {
                assert!(
                    labels.contains_key(label),
                    "{place}: there is no label {label} to group by"
                );
            }
        }
    }
    let kept = aggregations(&expr).first().map(|aggregate| match &aggregate.modifier {
        Some(LabelModifier::Include(by)) => by.labels.clone(),
        _ => Vec::new(),
    });
    for label in wanted {
        let known = match &kept {
            Some(kept) => kept.contains(label),
            None => selectors(&expr)
                .iter()
                .all(|s| exported.labels(s.name.as_deref().unwrap()).contains_key(label)),
        };
        assert!(known, "{place}: results have no label {label}");
    }
}

/// A configuration whose webhook nobody answers, for one namespace.
fn unreachable(policy: &str, name: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": format!("unreachable-{}", policy.to_lowercase())},
        "webhooks": [{
            "name": name, "clientConfig": {"url": "https://127.0.0.1:1/validate"}, "failurePolicy": policy, "timeoutSeconds": 1,
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": format!("unreachable-{}", policy.to_lowercase())}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}],
            "sideEffects": "None", "admissionReviewVersions": ["v1"],
        }],
    })
}

/// Whether the API server has a series of a metric with these labels.
fn is_counted(mesh: &Mesh, metric: &str, labels: &[&str]) -> bool {
    let page = mesh.cluster.kubectl(&["get", "--raw", "/metrics"]).expect_success();
    let mut lines = page.lines();
    lines.any(|line| line.starts_with(metric) && labels.iter().all(|label| line.contains(label)))
}

/// Lets the API server count what it counts only when it happens: answers, refusals, webhooks out of reach.
fn provoke(mesh: &Mesh) {
    mesh.cluster
        .create_namespace("counted", &[("outrigger.mesh/inject", "enabled")]);
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: bare}, spec: {containers: [{name: app, image: app}]}}";
    assert!(mesh.refusal("counted", pod).contains("environment"));
    for (policy, name, metric, labels) in [
        (
            "Fail",
            "namespace.validate.outrigger.mesh",
            "apiserver_admission_webhook_rejection_count",
            &["calling_webhook_error", "namespace.validate.outrigger.mesh"][..],
        ),
        (
            "Ignore",
            "workload.validate.outrigger.mesh",
            "apiserver_admission_webhook_fail_open_count",
            &["workload.validate.outrigger.mesh"],
        ),
    ] {
        let namespace = format!("unreachable-{}", policy.to_lowercase());
        mesh.cluster.create_namespace(&namespace, &[]);
        mesh.apply(&unreachable(policy, name));
        eventually("the API server counts", || {
            mesh.cluster
                .kubectl(&["create", "configmap", "a", "-n", &namespace, "--dry-run=server"]);
            is_counted(mesh, metric, labels)
        });
    }
}

/// The server's own page, without the head of the answer.
fn own_metrics(mesh: &Mesh) -> String {
    let answer = page(mesh.server().admin, "/metrics").1;
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn every_query_asks_for_metrics_labels_and_values_that_exist() {
    let mesh = Mesh::shared();
    provoke(&mesh);
    let mut exported = Exported::default();
    exported.add(&own_metrics(&mesh), &TARGET);
    exported.add(
        &mesh.cluster.kubectl(&["get", "--raw", "/metrics"]).expect_success(),
        &[],
    );
    let queries = queries();
    assert!(queries.len() > 30, "{} queries", queries.len());
    for query in &queries {
        check(&exported, query);
    }
    for (text, wanted) in [
        ("outrigger_admissions_total", ""),
        (r#"outrigger_admission_requests_total{result="error"}"#, ""),
        (r#"outrigger_admission_requests_total{outcome="failure"}"#, ""),
        (r#"outrigger_admission_requests_total{outcome=~"error|failure"}"#, ""),
        ("sum by (name) (outrigger_admission_requests_total)", ""),
        ("sum by (endpoint) (outrigger_admission_requests_total)", "outcome"),
        ("sum(outrigger_admission_requests_total) by", ""),
    ] {
        let query = Query {
            place: "a bad query".to_owned(),
            text: text.to_owned(),
            wanted: wanted.split_whitespace().map(str::to_owned).collect(),
        };
        let passed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&exported, &query)));
        assert!(passed.is_err(), "{text} passed");
    }
}

/// What is exported and neither shown nor watched is of no use to anyone who relies on the dashboard.
#[test]
fn every_metric_of_the_server_is_on_the_dashboard() {
    let mesh = Mesh::shared();
    let mut exported = Exported::default();
    exported.add(&own_metrics(&mesh), &[]);
    let text = dashboard().to_string();
    for metric in exported.0.keys() {
        let shown = ["_sum", "_count"].iter().any(|end| metric.ends_with(end)) || text.contains(metric.as_str());
        assert!(shown, "{metric}");
    }
}

#[test]
fn the_dashboard_is_complete() {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "each panel has an id of its own");
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let title = panel["title"].as_str().unwrap();
        assert!(
            panel["description"].as_str().unwrap().ends_with('.'),
            "{title} says what it shows"
        );
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{title}");
        let place = &panel["gridPos"];
        assert!(
            place["x"].as_u64().unwrap() + place["w"].as_u64().unwrap() <= 24,
            "{title} fits"
        );
    }
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let names: Vec<&str> = variables
        .iter()
        .map(|variable| variable["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["datasource", "namespace"]);
}
