//! Values that the chart refuses, with a message that names the field.

use serde_json::{Value, json};

use crate::helm::template;

/// Values, and what the refusal names.
fn bad_values() -> Vec<(Value, &'static str)> {
    vec![
        (json!({"replicaCount": 0}), "/replicaCount"),
        (json!({"replicaCount": "two"}), "/replicaCount"),
        (json!({"replicacount": 2}), "replicacount"),
        (json!({"image": {"tag": "a b"}}), "/image/tag"),
        (json!({"image": {"digest": "sha256:12"}}), "/image/digest"),
        (json!({"image": {"pullPolicy": "Sometimes"}}), "/image/pullPolicy"),
        (json!({"image": "outrigger"}), "/image"),
        (json!({"imagePullSecrets": ["registry"]}), "/imagePullSecrets/0"),
        (json!({"fullnameOverride": "Mesh"}), "/fullnameOverride"),
        (
            json!({"commonLabels": {"app.kubernetes.io/name": "x"}}),
            "/commonLabels/app.kubernetes.io~1name",
        ),
        (
            json!({"podLabels": {"app.kubernetes.io/component": "x"}}),
            "/podLabels/app.kubernetes.io~1component",
        ),
        (json!({"podLabels": {"a": 1}}), "/podLabels/a"),
        (json!({"injection": {"default": "on"}}), "/injection/default"),
        (
            json!({"injection": {"excludedNamespaces": ["A"]}}),
            "/injection/excludedNamespaces/0",
        ),
        (
            json!({"injection": {"excludedNamespaces": ["a", "a"]}}),
            "/injection/excludedNamespaces",
        ),
        (json!({"webhook": {"failurePolicy": "fail"}}), "/webhook/failurePolicy"),
        (
            json!({"webhook": {"mutating": {"failurePolicy": "Retry"}}}),
            "/webhook/mutating/failurePolicy",
        ),
        (json!({"webhook": {"timeoutSeconds": 31}}), "/webhook/timeoutSeconds"),
        (json!({"webhook": {"timeoutSeconds": 0}}), "/webhook/timeoutSeconds"),
        (
            json!({"webhook": {"reinvocationPolicy": "Always"}}),
            "/webhook/reinvocationPolicy",
        ),
        (
            json!({"webhook": {"namespaceSelector": {"matchLabel": {}}}}),
            "matchLabel",
        ),
        (
            json!({"webhook": {"objectSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}}),
            "/webhook/objectSelector/matchExpressions/0/operator",
        ),
        (json!({"webhook": {"workloads": "no"}}), "/webhook/workloads"),
        (json!({"certificates": {"mode": "selfManaged"}}), "/certificates/mode"),
        (
            json!({"certificates": {"mode": "secret", "caBundle": "-----BEGIN CERTIFICATE-----"}}),
            "/certificates/secretName",
        ),
        (
            json!({"certificates": {"mode": "secret", "secretName": "mine"}}),
            "/certificates/caBundle",
        ),
        (
            json!({"certificates": {"mode": "secret", "secretName": "mine", "caBundle": "LS0t"}}),
            "/certificates/caBundle",
        ),
        (
            json!({"certificates": {"secretName": "mine"}}),
            "/certificates/secretName",
        ),
        (json!({"certificates": {"lifetime": "90d"}}), "/certificates/lifetime"),
        (json!({"certificates": {"caOverlap": "0s"}}), "/certificates/caOverlap"),
        (
            json!({"certificates": {"extraNames": ["a b"]}}),
            "/certificates/extraNames/0",
        ),
        (json!({"certificates": {"certManager": {"issuer": "x"}}}), "issuer"),
        (json!({"requirements": {"label": []}}), "label"),
        (json!({"requirements": {"action": "refuse"}}), "/requirements/action"),
        (
            json!({"requirements": {"labels": [{"values": ["a"]}]}}),
            "/requirements/labels/0",
        ),
        (
            json!({"requirements": {"labels": [{"key": "a", "values": [true]}]}}),
            "/requirements/labels/0/values/0",
        ),
        (json!({"requirements": {"namespaces": {"A_b": "deny"}}}), "A_b"),
        (json!({"requirements": {"proxy": true}}), "/requirements/proxy"),
        (json!({"templates": {"mine": "x"}}), "mine"),
        (json!({"templates": {"mine.yaml.hbs": ""}}), "/templates/mine.yaml.hbs"),
        (json!({"settings": {"proxyimage": "x"}}), "proxyimage"),
        (json!({"settings": {"proxyCpuLimit": 1}}), "/settings/proxyCpuLimit"),
        (json!({"logging": {"format": "xml"}}), "/logging/format"),
        (
            json!({"shutdown": {"drainDelaySeconds": -1}}),
            "/shutdown/drainDelaySeconds",
        ),
        (json!({"resources": {"limit": {}}}), "limit"),
        (
            json!({"podDisruptionBudget": {"maxUnavailable": "half"}}),
            "/podDisruptionBudget/maxUnavailable",
        ),
        (json!({"podDisruptionBudget": {"minAvailable": 1}}), "minAvailable"),
        (
            json!({"topologySpreadConstraints": [{"maxSkew": 1}]}),
            "/topologySpreadConstraints/0",
        ),
        (json!({"tolerations": [{"effect": "Never"}]}), "/tolerations/0/effect"),
        (json!({"ports": {"webhook": 70000}}), "/ports/webhook"),
        (json!({"serviceAccount": {"name": "A"}}), "/serviceAccount/name"),
        (json!({"extraEnv": [{"value": "x"}]}), "/extraEnv/0"),
        (json!({"extraEnv": [{"name": "A", "value": 1}]}), "/extraEnv/0/value"),
        (
            json!({"extraEnv": [{"name": "OUTRIGGER_LOG", "value": "debug"}]}),
            "extraEnv[0].name: the chart sets OUTRIGGER_LOG itself",
        ),
        (
            json!({"networkPolicy": {"apiServerPorts": []}}),
            "/networkPolicy/apiServerPorts",
        ),
        (
            json!({"networkPolicy": {"metricsFrom": [{}]}}),
            "/networkPolicy/metricsFrom/0",
        ),
        (
            json!({"serviceMonitor": {"interval": "often"}}),
            "/serviceMonitor/interval",
        ),
        (
            json!({"prometheusRule": {"runbookUrl": "docs"}}),
            "/prometheusRule/runbookUrl",
        ),
        (json!({"test": {"namespace": "a/b"}}), "/test/namespace"),
    ]
}

#[test]
fn bad_values_are_refused_with_the_name_of_the_field() {
    for (values, name) in bad_values() {
        let refusal = template(&values).expect_failure();
        assert!(refusal.contains(name), "{values}: {name}: {refusal}");
    }
}

#[test]
fn a_bare_off_is_understood() {
    let values = "requirements: {proxy: off, workloads: off}";
    let values: Value = outrigger::yaml::parse_one(values).unwrap();
    assert_eq!(values["requirements"]["proxy"], false, "YAML 1.1 reads it so");
    let objects = crate::helm::rendered(&values);
    let map = objects
        .iter()
        .find(|o| o["metadata"]["name"] == "outrigger-requirements")
        .unwrap();
    let text = map["data"]["requirements.yaml"].as_str().unwrap();
    let requirements = outrigger::requirements::Requirements::parse(text).unwrap();
    assert_eq!(requirements.proxy.as_str(), "off");
    assert_eq!(requirements.workloads.as_str(), "off");
}
