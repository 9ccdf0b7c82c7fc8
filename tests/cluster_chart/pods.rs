//! What the pods of the chart are given, and who finds them.

use std::collections::BTreeMap;

use outrigger::requirements::Requirements;
use serde_json::{Value, json};

use crate::helm::{only, rendered};
use crate::selectors::matches;

const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\n";

/// Values under which everything is mounted that can be.
fn mounted() -> Value {
    json!({"certificates": {"mode": "secret", "secretName": "mine", "caBundle": CERTIFICATE}, "templates": {"mine.yaml.hbs": "x"}})
}

fn labels(object: &Value) -> BTreeMap<String, String> {
    serde_json::from_value(object["metadata"]["labels"].clone()).unwrap()
}

fn server_pod(objects: &[Value]) -> &Value {
    &only(objects, "Deployment")["spec"]["template"]
}

#[test]
fn the_pod_of_the_test_is_no_replica() {
    let everything = json!({"networkPolicy": {"enabled": true}, "serviceMonitor": {"enabled": true}, "commonLabels": {"team": "mesh"}});
    let objects = rendered(&everything);
    let (server, test) = (labels(server_pod(&objects)), labels(only(&objects, "Pod")));
    let mut selectors = vec![
        only(&objects, "Deployment")["spec"]["selector"].clone(),
        only(&objects, "PodDisruptionBudget")["spec"]["selector"].clone(),
        only(&objects, "NetworkPolicy")["spec"]["podSelector"].clone(),
    ];
    let constraints = server_pod(&objects)["spec"]["topologySpreadConstraints"]
        .as_array()
        .unwrap();
    selectors.extend(constraints.iter().map(|constraint| constraint["labelSelector"].clone()));
    let services = objects.iter().filter(|object| object["kind"] == "Service");
    selectors.extend(services.map(|service| json!({"matchLabels": service["spec"]["selector"]})));
    assert_eq!(selectors.len(), 3 + 2 + 2);
    for selector in selectors {
        assert!(matches(&selector, &server), "{selector}");
        assert!(!matches(&selector, &test), "{selector}");
    }
}

#[test]
fn the_monitor_reads_the_metrics_and_no_other_service() {
    let objects = rendered(&json!({"serviceMonitor": {"enabled": true}}));
    let monitor = only(&objects, "ServiceMonitor");
    let found: Vec<&str> = objects
        .iter()
        .filter(|object| object["kind"] == "Service" && matches(&monitor["spec"]["selector"], &labels(object)))
        .map(|service| service["spec"]["ports"][0]["name"].as_str().unwrap())
        .collect();
    assert_eq!(found, [monitor["spec"]["endpoints"][0]["port"].as_str().unwrap()]);
    // The operator's own label of this name would rename that of the metrics.
    let dropped = &monitor["spec"]["endpoints"][0]["relabelings"];
    assert_eq!(*dropped, json!([{"action": "labeldrop", "regex": "endpoint"}]));
}

#[test]
fn every_file_that_is_named_is_mounted_from_an_object_of_the_release() {
    let objects = rendered(&mounted());
    let pod = &server_pod(&objects)["spec"];
    let container = &pod["containers"][0];
    let files = container["env"].as_array().unwrap().iter().filter_map(|entry| {
        let value = entry["value"].as_str()?;
        value.starts_with('/').then_some(value)
    });
    let mounts = container["volumeMounts"].as_array().unwrap();
    let mut used = 0;
    for file in files {
        let mount = mounts
            .iter()
            .find(|mount| file.starts_with(mount["mountPath"].as_str().unwrap()));
        let mount = mount.unwrap_or_else(|| panic!("{file} is not mounted"));
        assert_eq!(mount["readOnly"], true, "{file}");
        assert!(mount.get("subPath").is_none(), "the kubelet would not renew {file}");
        let volume = pod["volumes"]
            .as_array()
            .unwrap()
            .iter()
            .find(|v| v["name"] == mount["name"])
            .unwrap();
        if let Some(name) = volume["configMap"]["name"].as_str() {
            assert!(
                objects
                    .iter()
                    .any(|o| o["kind"] == "ConfigMap" && o["metadata"]["name"] == name),
                "{name}"
            );
        } else {
            assert_eq!(volume["secret"]["secretName"], "mine");
        }
        used += 1;
    }
    assert_eq!(used, 4, "certificate, key, requirements, templates");
    assert_eq!(mounts.len(), 3);
}

#[test]
fn a_changed_template_makes_new_pods_and_changed_requirements_do_not() {
    let pod = |values: &Value| server_pod(&rendered(values)).clone();
    let plain = pod(&json!({}));
    let templates = |text: &str| pod(&json!({"templates": {"mine.yaml.hbs": text}}));
    assert_ne!(templates("a"), templates("b"));
    assert_ne!(templates("a"), plain);
    assert_eq!(pod(&json!({"requirements": {"action": "warn"}})), plain);
}

#[test]
fn requirements_arrive_as_they_were_given() {
    let given = json!({"labels": [{"key": "team", "pattern": "[a-z]+", "message": "Ask \"platform\": {{json x}}", "default": "none"}],
        "action": "audit", "namespaces": {"shop": "deny"}, "workloads": "deny", "proxy": "off"});
    let objects = rendered(&json!({"requirements": given}));
    let map = objects
        .iter()
        .find(|o| o["metadata"]["name"] == "outrigger-requirements")
        .unwrap();
    let text = map["data"]["requirements.yaml"].as_str().unwrap();
    assert_eq!(outrigger::yaml::parse_one(text).unwrap(), given);
    Requirements::parse(text).unwrap();
}

#[test]
fn the_pod_has_no_more_than_it_needs() {
    for values in [json!({}), mounted()] {
        let objects = rendered(&values);
        let pod = &server_pod(&objects)["spec"];
        assert_eq!(pod["enableServiceLinks"], false);
        assert_eq!(
            only(&objects, "Deployment")["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"],
            0
        );
        let accounts = objects.iter().filter(|object| object["kind"] == "ServiceAccount");
        assert!(accounts.clone().count() == 2 && accounts.clone().all(|a| a["automountServiceAccountToken"] == false));
        for container in [&pod["containers"][0], &only(&objects, "Pod")["spec"]["containers"][0]] {
            let security = &container["securityContext"];
            assert_eq!(security["readOnlyRootFilesystem"], true);
            assert_eq!(security["capabilities"], json!({"drop": ["ALL"]}));
            assert!(container["resources"]["limits"]["memory"].is_string());
            assert!(
                container["resources"]["limits"].get("cpu").is_none(),
                "throttling would slow down pod creations"
            );
        }
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    }
}

/// On the node's network a replica needs ports that another one may have.
#[test]
fn on_the_nodes_network_an_old_replica_goes_before_a_new_one_comes() {
    let update = |values: &Value| {
        let objects = rendered(values);
        let strategy = &only(&objects, "Deployment")["spec"]["strategy"]["rollingUpdate"];
        [strategy["maxUnavailable"].clone(), strategy["maxSurge"].clone()]
    };
    assert_eq!(update(&json!({})), [0, 1]);
    assert_eq!(update(&json!({"hostNetwork": true})), [1, 0]);
    // With one replica, that would be an outage.
    assert_eq!(update(&json!({"hostNetwork": true, "replicaCount": 1})), [0, 1]);
}
