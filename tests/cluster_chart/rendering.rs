//! Every object of the chart, over a matrix of values, as the API server takes it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use outrigger::config::Config;
use outrigger::names;
use outrigger::settings::SETTINGS;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::helm::{self, NAMESPACE, only, rendered};
use crate::merged;
use crate::pairs::all_pairs;

/// Places where users choose, each with its choices: values over the chart's own.
fn switches() -> Vec<Vec<Value>> {
    let certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    let everything = |enabled: bool| json!({"serviceMonitor": {"enabled": enabled}, "prometheusRule": {"enabled": enabled}, "grafanaDashboard": {"enabled": enabled}});
    vec![
        vec![
            json!({}),
            json!({"certificates": {"mode": "cert-manager", "extraNames": ["mesh.example.com", "10.0.0.7", "fd00::7"]}}),
            json!({"certificates": {"mode": "cert-manager", "certManager": {"issuerRef": {"name": "internal", "kind": "ClusterIssuer"}}}}),
            json!({"certificates": {"mode": "secret", "secretName": "mine", "caBundle": certificate}}),
        ],
        vec![
            json!({}),
            json!({"injection": {"default": "enabled", "excludedNamespaces": ["cert-manager", "storage"]}}),
        ],
        vec![
            json!({}),
            json!({"webhook": {"failurePolicy": "Ignore", "workloads": false, "annotations": {"team": "mesh"}}}),
            json!({"webhook": {"mutating": {"failurePolicy": "Ignore"}, "timeoutSeconds": 30, "reinvocationPolicy": "IfNeeded"}}),
        ],
        vec![json!({}), json!({"webhook": user_selectors()})],
        vec![
            json!({}),
            json!({"requirements": {"labels": [], "proxy": "off", "namespaces": {"shop": "warn"}}}),
            json!({"requirements": {"labels": [{"key": "team", "pattern": "[a-z]+", "default": "none", "message": "Say \"who\"."}]}}),
        ],
        vec![
            json!({}),
            json!({"templates": {"mine.yaml.hbs": "containers:\n  - {name: x}\n", "nginx.conf.hbs": "events {}\n"}}),
        ],
        vec![json!({}), json!({"settings": every_setting()})],
        vec![
            json!({}),
            json!({"fullnameOverride": "mesh", "nameOverride": "injector", "commonLabels": {"team": "mesh"}, "podLabels": {"tier": "system"}}),
        ],
        vec![
            json!({}),
            json!({"podDisruptionBudget": {"enabled": false}, "replicaCount": 1}),
            json!({"podDisruptionBudget": {"maxUnavailable": "50%"}, "replicaCount": 5}),
            helm_values("values-ha.yaml"),
        ],
        vec![
            json!({}),
            json!({"networkPolicy": {"enabled": true}}),
            json!({"networkPolicy": {"enabled": true, "apiServerPorts": [6443], "metricsFrom": [
                {"namespaceSelector": {"matchLabels": {"name": "monitoring"}}, "podSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}},
                {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]}}),
        ],
        vec![
            everything(false),
            everything(true),
            json!({"serviceMonitor": {"enabled": true, "labels": {"release": "prometheus"}},
            "prometheusRule": {"enabled": true, "labels": {"release": "prometheus"}, "runbookUrl": "https://docs.example.com/operations"},
            "grafanaDashboard": {"enabled": true, "labels": {"grafana": "yes"}, "annotations": {"folder": "Mesh"}}}),
        ],
        vec![json!({}), scheduling()],
        vec![
            json!({}),
            json!({"hostNetwork": true, "ports": {"webhook": 10250, "admin": 10251}}),
        ],
        vec![
            json!({}),
            json!({"serviceAccount": {"create": false, "name": "mine"}, "rbac": {"create": false}}),
            json!({"serviceAccount": {"name": "other", "annotations": {"role": "none"}}}),
        ],
        vec![
            json!({}),
            json!({"extraEnv": [{"name": "OUTRIGGER_WORKERS", "value": "4"}, {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
                   "podAnnotations": {"kubectl.kubernetes.io/default-container": "outrigger", "note": "yes"}, "imagePullSecrets": [{"name": "registry"}],
                   "image": {"repository": "registry.example.com/mesh/outrigger", "digest": format!("sha256:{}", "0a".repeat(32))}}),
        ],
        vec![
            json!({}),
            json!({"logging": {"level": "debug", "format": "text"}, "shutdown": {"drainDelaySeconds": 0, "drainTimeoutSeconds": 60}}),
        ],
        vec![
            json!({}),
            json!({"resources": {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}}}),
        ],
    ]
}

fn user_selectors() -> Value {
    json!({
        "namespaceSelector": {"matchLabels": {"tier": "applications"}, "matchExpressions": [{"key": "legacy", "operator": "DoesNotExist"}]},
        "objectSelector": {"matchLabels": {"mesh": "yes"}, "matchExpressions": [{"key": "phase", "operator": "NotIn", "values": ["test"]}]},
    })
}

fn scheduling() -> Value {
    json!({
        "topologySpreadConstraints": [{"maxSkew": 2, "minDomains": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "outrigger"}}, "nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Honor"}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app.kubernetes.io/component": "webhook"}}}]}},
        "tolerations": [{"key": "system", "operator": "Equal", "value": "yes", "effect": "NoExecute", "tolerationSeconds": 60}],
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": {"pool": "system"},
    })
}

/// A good value for every setting.
fn every_setting() -> Value {
    let good = |row: &outrigger::settings::Setting| match row.key {
        names::UPSTREAMS => "- orders.shop:8080\n",
        names::POSITION => "native",
        names::INBOUND_PORTS => "8080/http, 9000",
        names::EXCLUDE_INBOUND_PORTS | names::EXCLUDE_OUTBOUND_PORTS => "3306",
        names::UPSTREAM_NAMESPACES => "*",
        names::ALLOW_FROM => "shop/*",
        names::IDENTITY_SECRET => "identity",
        names::operator::RESOLVER => "10.96.0.10",
        _ => row.default,
    };
    SETTINGS.iter().map(|row| (camel(row.key), json!(good(row)))).collect()
}

fn camel(key: &str) -> String {
    let words = key.strip_prefix(names::PREFIX).unwrap().split('-').enumerate();
    let words = words.map(|(index, word)| match word.split_at(1) {
        (first, rest) if index > 0 => first.to_uppercase() + rest,
        _ => word.to_owned(),
    });
    words.collect()
}

fn helm_values(file: &str) -> Value {
    let text = std::fs::read_to_string(format!("{}/{file}", helm::chart())).unwrap();
    outrigger::yaml::parse_one(&text).unwrap()
}

/// The values of every row of the matrix.
fn matrix() -> Vec<Value> {
    let switches = switches();
    let sizes: Vec<usize> = switches.iter().map(Vec::len).collect();
    let values = |row: Vec<usize>| {
        let choices = row.iter().zip(&switches).map(|(choice, switch)| &switch[*choice]);
        choices.fold(json!({}), |all, choice| merged(&all, choice))
    };
    all_pairs(&sizes).into_iter().map(values).collect()
}

/// A cluster that knows the resources of cert-manager and of the Prometheus Operator, with the release's namespace. It is
/// the whole suite's, but for tests that install.
fn prepared() -> Arc<Cluster> {
    static PREPARED: Mutex<bool> = Mutex::new(false);
    let cluster = Cluster::shared();
    let mut prepared = PREPARED.lock().unwrap();
    if !*prepared || !cluster.kubectl(&["get", "namespace", NAMESPACE]).success {
        install_definitions(&cluster);
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

/// The definitions are too large for the annotation of `kubectl apply`.
fn install_definitions(cluster: &Cluster) {
    let file = helm::definitions();
    cluster
        .kubectl(&["create", "-f", file.to_str().unwrap()])
        .expect_success();
    cluster
        .kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"])
        .expect_success();
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
fn variables(objects: &[Value]) -> BTreeMap<String, String> {
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
        json!([configurations, ["outrigger"], ["get", "list", "watch", "patch"]]),
        json!([
            ["secrets"],
            ["outrigger-certificates"],
            ["get", "list", "watch", "patch"]
        ]),
        json!([["leases"], ["outrigger-leader"], ["get", "patch"]]),
    ];
    assert_eq!(named(&json!({})), own);
    let certificate = "-----BEGIN CERTIFICATE-----\n";
    for values in [
        json!({"certificates": {"mode": "cert-manager"}}),
        json!({"certificates": {"mode": "secret", "secretName": "mine", "caBundle": certificate}}),
    ] {
        assert_eq!(named(&values), [namespaces.clone()], "{values}");
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
