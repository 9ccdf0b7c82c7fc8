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
        cluster.install_definitions();
        let restricted = ("pod-security.kubernetes.io/enforce", "restricted");
        cluster.create_namespace(NAMESPACE, &[restricted]);
        // A dry run of a pod asks for its account, which a dry run does not make.
        for account in ["outrigger", "outrigger-verify", "mesh-verify", "123-verify"] {
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
    let answer = helm::offline(&json!({}), &["lint", "--strict", &chart, "-f", "-"]);
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

/// What the server may do with these values: resources, names and verbs of each rule.
fn rights(values: &Value) -> Vec<Value> {
    let objects = rendered(values);
    let roles = objects
        .iter()
        .filter(|o| o["kind"] == "ClusterRole" || o["kind"] == "Role");
    let server = roles.filter(|o| !o["metadata"]["name"].as_str().unwrap().ends_with("-verify"));
    let rules = server.flat_map(|role| role["rules"].as_array().unwrap().clone());
    rules
        .map(|rule| json!([rule["resources"], rule.get("resourceNames"), rule["verbs"]]))
        .collect()
}

/// Those of the signer.
fn of_the_signer() -> [Value; 6] {
    let bundle = [names::TRUST_BUNDLE];
    [
        json!([["podcertificaterequests"], null, ["list", "watch"]]),
        json!([["podcertificaterequests/status"], null, ["update"]]),
        json!([["signers"], [names::SIGNER], ["sign", "attest"]]),
        json!([["clustertrustbundles"], bundle, ["list", "watch", "patch"]]),
        json!([["clustertrustbundles"], null, ["create"]]),
        json!([["clusterroles"], ["outrigger"], ["get"]]),
    ]
}

/// Those of who keeps Secrets.
fn of_a_keeper(secrets: &[&str]) -> [Value; 3] {
    [
        json!([["secrets"], secrets, ["list", "watch", "patch"]]),
        json!([["leases"], ["outrigger-leader"], ["get", "patch"]]),
        json!([["leases"], null, ["create"]]),
    ]
}

#[test]
fn rights_are_by_name_and_no_more_than_a_mode_needs() {
    let namespaces = json!([["namespaces"], null, ["get", "list", "watch"]]);
    let configurations = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
    let configurations = json!([configurations, ["outrigger"], ["list", "watch", "patch"]]);
    let (signer, kept) = (of_the_signer(), of_a_keeper);
    let watched = [namespaces.clone(), json!([["services"], null, ["list", "watch"]])];
    let (first, unsigned) = (&watched[..], json!({"enabled": false}));
    let own = std::slice::from_ref(&configurations);
    let both = kept(&["outrigger-certificates", "outrigger-identity"]);
    assert_eq!(rights(&json!({})), [first, own, &signer, &both].concat());
    let alone = [first, own, &kept(&["outrigger-certificates"])];
    assert_eq!(rights(&json!({"identity": unsigned})), alone.concat());
    let given = rights(&json!({"identity": {"secretName": "mesh-ca"}}));
    let read = json!([["secrets"], ["mesh-ca"], ["list", "watch"]]);
    let secrets: Vec<&Value> = given.iter().filter(|rule| rule[0] == json!(["secrets"])).collect();
    assert_eq!(secrets, [&kept(&["outrigger-certificates"])[0], &read]);
    let certificate = "-----BEGIN CERTIFICATE-----\n";
    for values in [
        json!({"certificates": {"mode": "cert-manager"}}),
        json!({"certificates": {"mode": "secret", "secretName": "mine", "caBundle": certificate}}),
    ] {
        let signs = [first, &signer, &kept(&["outrigger-identity"])];
        assert_eq!(rights(&values), signs.concat(), "{values}");
        let unsigned = crate::merged(&values, &json!({"identity": unsigned}));
        assert_eq!(rights(&unsigned), first, "{values}");
        let unwatched = crate::merged(&unsigned, &json!({"injection": {"watchServices": false}}));
        assert_eq!(rights(&unwatched), std::slice::from_ref(&namespaces), "{values}");
    }
}

/// Who installs without the chart gives the signer the same rights.
#[test]
fn the_example_of_the_signer_grants_what_the_chart_does() {
    let example = include_str!("../../docs/examples/identity.yaml");
    let documents = outrigger::yaml::parse_stream(example).unwrap().into_iter();
    let example: Vec<Value> = documents.filter_map(|document| document.value).collect();
    let rules = |objects: &[Value]| -> Vec<Value> {
        let rules = objects.iter().filter_map(|object| object["rules"].as_array()).flatten();
        let own = |rule: &Value| rule.to_string().replace("outrigger-signer", "outrigger");
        rules.map(|rule| serde_json::from_str(&own(rule)).unwrap()).collect()
    };
    let without = rules(&rendered(&json!({"identity": {"enabled": false}})));
    let mut chart = rules(&rendered(&json!({})));
    chart.retain(|rule| !without.contains(rule));
    for rule in &mut chart {
        if rule["resources"] == json!(["secrets"]) {
            rule["resourceNames"] = json!(["outrigger-identity"]);
        }
    }
    let mut example = rules(&example);
    let key = |rule: &Value| rule.to_string();
    chart.sort_by_key(key);
    example.sort_by_key(key);
    assert_eq!(example, chart);
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

/// Every scalar of an object that is a number.
fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Number(number) => number.as_f64().into_iter().collect(),
        Value::Array(items) => items.iter().flat_map(numbers).collect(),
        Value::Object(fields) => fields.values().flat_map(numbers).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn names_stay_text_where_they_look_like_numbers() {
    let mut found = 0;
    let modes = [json!({}), json!({"mode": "cert-manager"})];
    for values in modes.map(|mode| {
        json!({"certificates": mode, "serviceMonitor": {"enabled": true},
        "prometheusRule": {"enabled": true}, "networkPolicy": {"enabled": true}, "grafanaDashboard": {"enabled": true},
        "fullnameOverride": "789", "test": {"namespace": "456"}, "serviceAccount": {"name": "123"}})
    }) {
        let chart = helm::chart();
        let arguments = ["template", "123", &chart, "-n", "456", "-f", "-"];
        let text = helm::offline(&values, &arguments).expect_success();
        for document in outrigger::yaml::parse_stream(&text).unwrap() {
            assert_eq!(document.duplicate_keys, []);
            let Some(object) = document.value else { continue };
            let read = numbers(&object);
            assert!(
                !read.iter().any(|number| [123.0, 456.0, 789.0].contains(number)),
                "{object}"
            );
            found += usize::from(object["metadata"]["name"].as_str().unwrap().starts_with("789"));
        }
    }
    assert!(found > 30, "{found} objects");
}

/// What a parent chart sets for all its charts, and the condition by which it switches this one on.
#[test]
fn a_parent_chart_can_switch_it_on_and_off() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let chart = "{apiVersion: v2, name: parent, version: 1.0.0, dependencies: [\
         {name: outrigger, version: '>=0', condition: outrigger.enabled}]}";
    std::fs::write(folder.path().join("Chart.yaml"), chart).unwrap();
    std::fs::create_dir(folder.path().join("charts")).unwrap();
    std::os::unix::fs::symlink(helm::chart(), folder.path().join("charts/outrigger")).unwrap();
    let parent = folder.path().to_str().unwrap();
    let arguments = ["template", "mesh", parent, "-n", NAMESPACE, "-f", "-"];
    let kinds = |enabled: Value| {
        let values = json!({"global": {"registry": "x"}, "outrigger": {"enabled": enabled}});
        helm::offline(&values, &arguments)
            .expect_success()
            .matches("\nkind: ")
            .count()
    };
    assert!(kinds(json!(true)) > 15);
    assert_eq!(kinds(json!(false)), 0);
    let refusal = helm::offline(&json!({"outrigger": {"enabled": "yes"}}), &arguments).expect_failure();
    assert!(refusal.contains("/enabled"), "{refusal}");
}

/// When the alert is given: with half of the time left in which renewal is due, or as the values say.
#[test]
fn the_alert_on_the_certificate_follows_its_lifetime_or_the_values() {
    let expiring = |values: Value| {
        let objects = rendered(&crate::merged(&json!({"prometheusRule": {"enabled": true}}), &values));
        let rules = only(&objects, "PrometheusRule")["spec"]["groups"][0]["rules"]
            .as_array()
            .unwrap();
        let rule = rules
            .iter()
            .find(|rule| rule["alert"] == "OutriggerCertificateExpiring")
            .unwrap();
        rule["expr"].as_str().unwrap().rsplit_once("< ").unwrap().1.to_owned()
    };
    let day = 24 * 60 * 60;
    let secret = json!({"mode": "secret", "secretName": "mine", "caBundle": "-----BEGIN CERTIFICATE-----"});
    for (certificates, seconds, expected) in [
        (json!({}), 0, 15 * day),
        (json!({"mode": "cert-manager", "lifetime": "240h"}), 0, 10 * day / 6),
        (secret.clone(), 0, 7 * day),
        (secret, 3600, 3600),
        (json!({"mode": "cert-manager"}), 3600, 3600),
    ] {
        let values = json!({"certificates": certificates, "prometheusRule": {"certificateExpirySeconds": seconds}});
        assert_eq!(expiring(values.clone()), expected.to_string(), "{values}");
    }
}

/// A CA with a new key would be trusted before, or after, anything is signed by it.
#[test]
fn the_ca_of_cert_manager_keeps_its_key() {
    let objects = rendered(&json!({"certificates": {"mode": "cert-manager"}}));
    let authorities = objects.iter().filter(|object| object["spec"]["isCA"] == true);
    let policies: Vec<&Value> = authorities
        .map(|ca| &ca["spec"]["privateKey"]["rotationPolicy"])
        .collect();
    assert_eq!(policies, ["Never"]);
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
        concat!("image outrigger:", env!("CARGO_PKG_VERSION")),
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
