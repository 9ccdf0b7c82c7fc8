//! Every object of the chart, over a matrix of values, as the API server takes it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use outrigger::config::Config;
use outrigger::names;
use outrigger::settings::SETTINGS;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::helm::{self, NAMESPACE, only, rendered};
use crate::matrix::matrix;

/// A cluster that knows the resources of cert-manager and of the Prometheus Operator, with the release's namespace. It is
/// the whole suite's, but for tests that install.
fn prepared() -> Arc<Cluster> {
    static PREPARED: Mutex<bool> = Mutex::new(false);
    let cluster = Cluster::shared();
    let mut prepared = PREPARED.lock().unwrap();
    if !*prepared || !cluster.kubectl(&["get", "namespace", NAMESPACE]).success {
        helm::install_definitions(&cluster);
        let restricted = ("pod-security.kubernetes.io/enforce", "restricted");
        cluster.create_namespace(NAMESPACE, &[restricted]);
        // A dry run of a pod asks for its account, which a dry run does not make.
        for account in ["outrigger", "outrigger-verify", "mesh-verify"] {
            cluster
                .kubectl(&["create", "serviceaccount", account, "-n", NAMESPACE])
                .expect_success();
        }
        *prepared = true;
    }
    cluster
}

/// Lets the API server check objects without storing them; every field has to be known. Where an object names no
/// namespace, it is the release's, as it is to Helm.
fn dry_run(cluster: &Cluster, objects: &[Value]) -> crate::cluster::Answer {
    let mut objects = objects.to_vec();
    for object in &mut objects {
        let metadata = object["metadata"].as_object_mut().unwrap();
        // One of the whole cluster does not care.
        metadata.entry("namespace").or_insert_with(|| json!(NAMESPACE));
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let arguments = [
        "apply",
        "--server-side",
        "--dry-run=server",
        "--validate=strict",
        "-f",
        "-",
    ];
    cluster.kubectl_reading(&list.to_string(), &arguments)
}

#[test]
fn the_api_server_takes_every_object_over_a_matrix_of_values() {
    let cluster = prepared();
    let matrix = matrix();
    assert!(matrix.len() >= 16, "{} rows", matrix.len());
    for values in matrix {
        let objects = rendered(&values);
        let answer = dry_run(&cluster, &objects);
        assert!(answer.success, "{values}\n{}", answer.errors);
        let applied = answer
            .output
            .lines()
            .filter(|line| line.contains("serverside-applied"))
            .count();
        assert_eq!(applied, objects.len(), "{values}");
        // PodSecurity only warns of a Deployment. The node's network is what it has to warn of.
        let warns_alone_of_host = answer
            .errors
            .lines()
            .all(|line| line.contains("host namespaces") || line.contains("hostPort"));
        let host_network = values["hostNetwork"] == true;
        assert!(
            answer.errors.is_empty() || (host_network && warns_alone_of_host),
            "{values}\n{}",
            answer.errors
        );
    }
}

#[test]
fn an_unknown_field_is_seen_in_each_kind() {
    let cluster = prepared();
    let monitored = json!({"certificates": {"mode": "cert-manager"}, "serviceMonitor": {"enabled": true}, "prometheusRule": {"enabled": true}});
    for mut object in rendered(&monitored).into_iter().chain(rendered(&json!({}))) {
        let kind = object["kind"].as_str().unwrap().to_owned();
        let place = if object.get("spec").is_some() {
            "spec"
        } else {
            "metadata"
        };
        object[place]["nonsense"] = json!(1);
        let refusal = dry_run(&cluster, &[object]).expect_failure();
        assert!(refusal.contains("nonsense"), "{kind}: {refusal}");
    }
}

#[test]
fn lint_finds_nothing() {
    let chart = helm::chart();
    let answer = helm::offline(
        &json!({}),
        &["lint", "--strict", "--kube-version", "1.37.2", &chart, "-f", "-"],
    );
    let said = answer.expect_success();
    assert!(said.contains("1 chart(s) linted, 0 chart(s) failed"), "{said}");
    assert!(!said.contains("[WARNING]") && !said.contains("[ERROR]"), "{said}");
}

/// The variables with which the container runs; one from elsewhere has a stand-in.
pub(crate) fn variables(objects: &[Value]) -> BTreeMap<String, String> {
    let container = &only(objects, "Deployment")["spec"]["template"]["spec"]["containers"][0];
    let list = container["env"].as_array().unwrap();
    let value = |entry: &Value| entry["value"].as_str().unwrap_or("from-elsewhere").to_owned();
    let variables: BTreeMap<String, String> = list
        .iter()
        .map(|entry| (entry["name"].as_str().unwrap().to_owned(), value(entry)))
        .collect();
    assert_eq!(variables.len(), list.len(), "a variable is set twice");
    variables
}

#[test]
fn the_program_understands_the_variables_over_a_matrix_of_values() {
    let settings: Vec<String> = SETTINGS.iter().map(|row| names::variable_of(row.key)).collect();
    for values in matrix() {
        let variables = variables(&rendered(&values));
        let config = Config::from_vars(variables.clone(), &settings).unwrap_or_else(|e| panic!("{values}: {e}"));
        assert_eq!(config.injection.release_namespace, NAMESPACE);
        let mode = values["certificates"]["mode"].as_str().unwrap_or("self-managed");
        assert_eq!(
            variables.contains_key("OUTRIGGER_CERT_FILE"),
            mode != "self-managed",
            "{values}"
        );
        let base = config
            .injection
            .setting_defaults
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let keys: BTreeMap<String, &str> = SETTINGS
            .iter()
            .map(|row| (names::variable_of(row.key), row.key))
            .collect();
        let base = base.map(|(name, value)| (keys[name], value));
        outrigger::settings::Resolved::base(base).unwrap_or_else(|e| panic!("{values}: {e:?}"));
    }
}

/// What happens after SIGTERM has to fit into what the kubelet waits.
#[test]
fn the_grace_period_is_longer_than_stopping_takes() {
    for values in matrix() {
        let objects = rendered(&values);
        let variables = variables(&objects);
        let config = Config::from_vars(
            variables,
            &SETTINGS
                .iter()
                .map(|row| names::variable_of(row.key))
                .collect::<Vec<_>>(),
        );
        let server = config.unwrap().server;
        let grace = &only(&objects, "Deployment")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"];
        let needed = server.drain_delay + outrigger::server::TURN_AWAY + server.drain_timeout;
        assert!(
            grace.as_u64().unwrap() > needed.as_secs() + 1,
            "{values}: {grace} for {needed:?}"
        );
    }
}

#[test]
fn rights_are_by_name_and_no_more_than_a_mode_needs() {
    let named = |values: &Value| {
        let objects = rendered(values);
        let roles = objects
            .iter()
            .filter(|o| o["kind"] == "ClusterRole" || o["kind"] == "Role");
        let server = roles.filter(|o| !o["metadata"]["name"].as_str().unwrap().ends_with("-verify"));
        let rules = server.flat_map(|role| role["rules"].as_array().unwrap().clone());
        rules
            .map(|rule| json!([rule["resources"], rule.get("resourceNames"), rule["verbs"]]))
            .collect::<Vec<_>>()
    };
    let namespaces = json!([["namespaces"], null, ["get", "list", "watch"]]);
    let configurations = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
    let own = [
        namespaces.clone(),
        json!([configurations, ["outrigger"], ["list", "watch", "patch"]]),
        json!([["secrets"], ["outrigger-certificates"], ["list", "watch", "patch"]]),
        json!([["leases"], ["outrigger-leader"], ["get", "patch"]]),
    ];
    assert_eq!(named(&json!({})), own);
    let certificate = "-----BEGIN CERTIFICATE-----\n";
    for values in [
        json!({"certificates": {"mode": "cert-manager"}}),
        json!({"certificates": {"mode": "secret", "secretName": "mine", "caBundle": certificate}}),
    ] {
        assert_eq!(named(&values), std::slice::from_ref(&namespaces), "{values}");
    }
}

/// Helm and the server never own the same field.
#[test]
fn what_the_server_writes_is_not_in_the_chart() {
    for mode in ["self-managed", "cert-manager"] {
        let objects = rendered(&json!({"certificates": {"mode": mode}}));
        let webhooks = objects
            .iter()
            .filter_map(|object| object["webhooks"].as_array())
            .flatten();
        assert!(webhooks.clone().count() > 3 && webhooks.clone().all(|w| w["clientConfig"].get("caBundle").is_none()));
        let filled = objects
            .iter()
            .filter(|o| o["kind"] == "Secret" && (o.get("data").is_some() || o.get("stringData").is_some()));
        assert_eq!(filled.count(), 0, "{mode}");
        assert!(
            objects.iter().all(|o| o["kind"] != "Lease" || o.get("spec").is_none()),
            "{mode}"
        );
    }
}

#[test]
fn the_example_without_helm_is_what_the_chart_makes() {
    let objects = rendered(&json!({}));
    let example = include_str!("../../docs/examples/webhooks.yaml");
    for mut expected in crate::golden::documents(example) {
        for webhook in expected["webhooks"].as_array_mut().unwrap() {
            let bundle = webhook["clientConfig"].as_object_mut().unwrap().remove("caBundle");
            assert_eq!(bundle, Some(json!("CA_BUNDLE")));
        }
        let rendered = only(&objects, expected["kind"].as_str().unwrap());
        assert_eq!(rendered["webhooks"], expected["webhooks"], "{}", expected["kind"]);
    }
}

#[test]
fn the_notes_say_what_to_do_next() {
    let cluster = prepared();
    let notes = |values: &Value| {
        let chart = helm::chart();
        // In a namespace of its own, whose accounts are not there yet.
        let arguments = [
            "install",
            helm::RELEASE,
            &chart,
            "-n",
            "notes",
            "--dry-run=client",
            "-f",
            "-",
        ];
        let answer = helm::helm(&cluster, values, &arguments).expect_success();
        answer
            .split_once("NOTES:")
            .unwrap_or_else(|| panic!("{answer}"))
            .1
            .to_owned()
    };
    let usual = notes(&json!({}));
    for part in [
        concat!("Outrigger ", env!("CARGO_PKG_VERSION")),
        "Secret outrigger-certificates",
        "kubectl label namespace NAME outrigger.mesh/inject=enabled",
        "helm test outrigger -n notes",
        "environment",
    ] {
        assert!(usual.contains(part), "{part}: {usual}");
    }
    assert!(!usual.contains("WARNING") && !usual.contains("template"), "{usual}");
    assert!(notes(&json!({"replicaCount": 1})).contains("WARNING: there is one replica"));
    assert!(notes(&json!({"templates": {"a.yaml.hbs": "x"}})).contains("A template that cannot be used"));
    assert!(notes(&json!({"certificates": {"mode": "cert-manager"}})).contains("comes from cert-manager"));
}
