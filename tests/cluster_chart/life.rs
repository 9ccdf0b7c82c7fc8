//! A release from its installation to its end, on a real API server without a node: what Helm owns, what the server
//! owns, and what is left.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::helm::{NAMESPACE, RELEASE, chart, helm, install_definitions};
use crate::webhooks::eventually;

/// A value of caBundle: the API server wants PEM with a certificate in it.
fn bundle(cluster: &Cluster) -> String {
    use base64::prelude::{BASE64_STANDARD, Engine};
    BASE64_STANDARD.encode(std::fs::read(&cluster.authority().certificate).unwrap())
}

/// Runs Helm on the release, with values over the chart's own.
pub(crate) fn release(cluster: &Cluster, command: &[&str], values: &Value) -> String {
    let arguments = [command, &["-n", NAMESPACE]].concat();
    helm(cluster, values, &arguments).expect_success()
}

pub(crate) fn upgrade(cluster: &Cluster, values: &Value) {
    release(cluster, &["upgrade", RELEASE, &chart(), "-f", "-"], values);
}

pub(crate) fn get(cluster: &Cluster, kind: &str, name: &str) -> Value {
    let text = cluster
        .kubectl(&["get", kind, name, "-n", NAMESPACE, "-o", "json"])
        .expect_success();
    serde_json::from_str(&text).unwrap()
}

/// Writes as the running server does: by server-side apply, only its own fields.
fn write_as_the_server(cluster: &Cluster, object: &Value) {
    let arguments = [
        "apply",
        "--server-side",
        "--field-manager=outrigger",
        "-n",
        NAMESPACE,
        "-f",
        "-",
    ];
    cluster
        .kubectl_reading(&object.to_string(), &arguments)
        .expect_success();
}

pub(crate) const CONFIGURATIONS: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

/// What a server writes in the mode self-managed.
fn fill(cluster: &Cluster) {
    for kind in CONFIGURATIONS {
        let entries = get(cluster, kind, RELEASE)["webhooks"].as_array().unwrap().clone();
        let own = entries
            .iter()
            .map(|entry| json!({"name": entry["name"], "clientConfig": {"caBundle": bundle(cluster)}}));
        let own: Vec<Value> = own.collect();
        write_as_the_server(
            cluster,
            &json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": RELEASE}, "webhooks": own}),
        );
    }
    write_as_the_server(
        cluster,
        &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "outrigger-certificates"}, "data": {"tls.crt": "eA=="}}),
    );
    write_as_the_server(
        cluster,
        &json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "outrigger-leader"},
                "spec": {"holderIdentity": "outrigger-0"}}),
    );
}

/// All that the server wrote is there, in every entry.
fn assert_filled(cluster: &Cluster, when: &str) {
    for kind in CONFIGURATIONS {
        for entry in get(cluster, kind, RELEASE)["webhooks"].as_array().unwrap() {
            let client = &entry["clientConfig"];
            assert_eq!(client["caBundle"], bundle(cluster), "{when}: {kind} {}", entry["name"]);
            assert_eq!(client["service"]["name"], RELEASE, "{when}: {kind}");
        }
    }
    assert_eq!(
        get(cluster, "secret", "outrigger-certificates")["data"]["tls.crt"],
        "eA==",
        "{when}"
    );
    assert_eq!(
        get(cluster, "lease", "outrigger-leader")["spec"]["holderIdentity"],
        "outrigger-0",
        "{when}"
    );
}

/// Every object of the cluster but events, by kind, namespace and name.
pub(crate) fn objects(cluster: &Cluster) -> BTreeSet<String> {
    let kinds = cluster
        .kubectl(&["api-resources", "--verbs=list", "-o", "name"])
        .expect_success();
    let kinds: Vec<&str> = kinds.lines().filter(|kind| !kind.starts_with("events")).collect();
    let names = cluster
        .kubectl(&[
            "get",
            &kinds.join(","),
            "-A",
            "-o",
            "jsonpath={range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{'\\n'}{end}",
        ])
        .expect_success();
    names.lines().map(str::to_owned).collect()
}

#[test]
fn upgrades_keep_what_the_server_wrote_and_nothing_is_left_at_the_end() {
    let cluster = Cluster::start();
    install_definitions(&cluster);
    cluster.create_namespace(NAMESPACE, &[("pod-security.kubernetes.io/enforce", "restricted")]);
    cluster.create_namespace("shop", &[("outrigger.mesh/inject", "enabled")]);
    let before = objects(&cluster);
    assert!(before.len() > 50, "{} objects", before.len());

    release(&cluster, &["install", RELEASE, &chart(), "-f", "-"], &json!({}));
    wait_for_pods(&cluster, 2);
    fill(&cluster);
    assert_filled(&cluster, "after the installation");
    assert!(
        create_pod(&cluster).contains("failed calling webhook"),
        "the webhooks are in force"
    );

    for (what, values) in upgrades() {
        upgrade(&cluster, &values);
        assert_filled(&cluster, what);
    }
    for _ in upgrades() {
        release(&cluster, &["rollback", RELEASE], &json!({}));
        assert_filled(&cluster, "after a rollback");
    }

    release(&cluster, &["uninstall", RELEASE, "--wait"], &json!({}));
    // The controllers take a moment for what belonged to the Deployment, and for the endpoints.
    let left = || objects(&cluster).difference(&before).cloned().collect::<Vec<_>>();
    eventually("nothing is left", || left().is_empty());
    let missing: Vec<_> = before.difference(&objects(&cluster)).cloned().collect();
    assert_eq!(missing, Vec::<String>::new(), "the release took more than its own");
    assert!(create_pod(&cluster).contains("pod/"), "pods are created as ever");
}

/// Upgrades, each from the one before: what is changed, and the values.
fn upgrades() -> Vec<(&'static str, Value)> {
    vec![
        ("after more replicas", json!({"replicaCount": 3})),
        (
            "after another policy",
            json!({"webhook": {"failurePolicy": "Ignore", "timeoutSeconds": 10}}),
        ),
        (
            "after other selectors",
            json!({"webhook": {"namespaceSelector": {"matchLabels": {"tier": "applications"}}}}),
        ),
        (
            "after another default",
            json!({"injection": {"default": "enabled", "excludedNamespaces": ["storage"]}}),
        ),
        (
            "after labels",
            json!({"commonLabels": {"team": "mesh"}, "webhook": {"annotations": {"team": "mesh"}}}),
        ),
        ("after all of it was taken back", json!({})),
    ]
}

/// PodSecurity is at `restricted` here: pods that it refuses never appear.
fn wait_for_pods(cluster: &Cluster, count: usize) {
    let selector = "app.kubernetes.io/component=webhook";
    eventually("the pods are there", || {
        let pods = cluster
            .kubectl(&["get", "pods", "-n", NAMESPACE, "-l", selector, "-o", "name"])
            .expect_success();
        pods.lines().count() == count
    });
}

/// What the API server says to a pod in a namespace of the mesh.
fn create_pod(cluster: &Cluster) -> String {
    let pod =
        "{apiVersion: v1, kind: Pod, metadata: {generateName: web-}, spec: {containers: [{name: app, image: app}]}}";
    let answer = cluster.kubectl_reading(pod, &["create", "-n", "shop", "-f", "-"]);
    answer.output + &answer.errors
}

/// What the mode self-managed alone makes.
const SELF_MANAGED: &[&str] = &[
    "lease.coordination.k8s.io/outrigger-leader",
    "role.rbac.authorization.k8s.io/outrigger",
    "rolebinding.rbac.authorization.k8s.io/outrigger",
    "secret/outrigger-certificates",
];

/// What the mode cert-manager alone makes.
const CERT_MANAGER: &[&str] = &[
    "certificate.cert-manager.io/outrigger",
    "certificate.cert-manager.io/outrigger-ca",
    "issuer.cert-manager.io/outrigger-ca",
    "issuer.cert-manager.io/outrigger-self-signed",
    "secret/outrigger-ca",
    "secret/outrigger-tls",
];

/// The release holds these objects of the kinds in which modes differ, and no others.
#[track_caller]
fn assert_made(cluster: &Cluster, expected: &[&str]) {
    let kinds = "secrets,leases,roles,rolebindings,issuers,certificates";
    let ours = "app.kubernetes.io/instance=outrigger";
    let names = cluster
        .kubectl(&["get", kinds, "-n", NAMESPACE, "-l", ours, "-o", "name"])
        .expect_success();
    assert_eq!(
        names.lines().collect::<BTreeSet<_>>(),
        expected.iter().copied().collect()
    );
}

/// What each mode makes goes with it, when it is changed and at the end.
#[test]
fn a_change_of_the_mode_takes_away_what_the_old_one_made() {
    let cluster = Cluster::start();
    install_definitions(&cluster);
    cluster.create_namespace(NAMESPACE, &[]);
    let before = objects(&cluster);
    release(&cluster, &["install", RELEASE, &chart(), "-f", "-"], &json!({}));
    assert_made(&cluster, SELF_MANAGED);

    let everything = json!({"certificates": {"mode": "cert-manager"}, "serviceMonitor": {"enabled": true},
        "prometheusRule": {"enabled": true}, "grafanaDashboard": {"enabled": true}, "networkPolicy": {"enabled": true},
        "templates": {"mine.yaml.hbs": "x"}});
    upgrade(&cluster, &everything);
    assert_made(&cluster, CERT_MANAGER);
    for kind in CONFIGURATIONS {
        let annotation = &get(&cluster, kind, RELEASE)["metadata"]["annotations"]["cert-manager.io/inject-ca-from"];
        assert_eq!(annotation, "outrigger-system/outrigger");
    }
    upgrade(
        &cluster,
        &json!({"certificates": {"mode": "secret", "secretName": "mine", "caBundle": pem(&cluster)}}),
    );
    assert_made(&cluster, &[]);
    for kind in CONFIGURATIONS {
        let configuration = get(&cluster, kind, RELEASE);
        let mut entries = configuration["webhooks"].as_array().unwrap().iter();
        assert!(entries.all(|entry| entry["clientConfig"]["caBundle"] == bundle(&cluster)));
    }
    upgrade(&cluster, &everything);
    release(&cluster, &["uninstall", RELEASE, "--wait"], &json!({}));
    let left = || objects(&cluster).difference(&before).cloned().collect::<Vec<_>>();
    eventually("nothing is left", || left().is_empty());
}

fn pem(cluster: &Cluster) -> String {
    std::fs::read_to_string(&cluster.authority().certificate).unwrap()
}

/// Server-side apply tells who owns which field; Helm's and the server's do not meet.
#[test]
fn helm_and_the_server_own_different_fields() {
    let cluster = Cluster::start();
    cluster.create_namespace(NAMESPACE, &[]);
    release(&cluster, &["install", RELEASE, &chart(), "-f", "-"], &json!({}));
    // Without --force-conflicts: a field of Helm's would be a conflict.
    fill(&cluster);
    upgrade(&cluster, &json!({"replicaCount": 3, "webhook": {"timeoutSeconds": 10}}));
    fill(&cluster);
    for kind in CONFIGURATIONS {
        let metadata = cluster
            .kubectl(&["get", kind, RELEASE, "-o", "json", "--show-managed-fields"])
            .expect_success();
        let object: Value = serde_json::from_str(&metadata).unwrap();
        let owned = object["metadata"]["managedFields"].as_array().unwrap();
        let fields =
            |manager: &str| owned.iter().find(|entry| entry["manager"] == manager).unwrap()["fieldsV1"].to_string();
        assert!(fields("outrigger").contains("f:caBundle") && !fields("outrigger").contains("f:timeoutSeconds"));
        assert!(fields("helm").contains("f:timeoutSeconds") && !fields("helm").contains("f:caBundle"));
    }
}
