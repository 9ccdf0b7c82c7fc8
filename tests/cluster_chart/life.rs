//! A release from its installation to its end, on a real API server without a node: what Helm owns, what the server
//! owns, and what is left.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::cluster::{Answer, Cluster};
use crate::helm::{NAMESPACE, RELEASE, chart, helm, rendered};
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

/// Writes in the running server's name, as it does: a patch of this type, over the object that was seen.
fn write_as_the_server(cluster: &Cluster, kind: &str, name: &str, format: &str, patch: &Value) {
    let (format, patch) = (format!("--type={format}"), patch.to_string());
    let target = ["patch", kind, name, "-n", NAMESPACE, "--field-manager=outrigger"];
    cluster
        .kubectl(&[&target[..], &[&format, "-p", &patch]].concat())
        .expect_success();
}

/// The patch that sets the bundle of every entry that has another one, if any has.
fn bundle_patch(cluster: &Cluster, configuration: &Value) -> Option<Value> {
    let bundle = bundle(cluster);
    let seen = &configuration["metadata"]["resourceVersion"];
    let mut operations = vec![json!({"op": "test", "path": "/metadata/resourceVersion", "value": seen})];
    for (index, entry) in configuration["webhooks"].as_array().unwrap().iter().enumerate() {
        if entry["clientConfig"]["caBundle"] != bundle {
            let name = format!("/webhooks/{index}/name");
            let path = format!("/webhooks/{index}/clientConfig/caBundle");
            operations.push(json!({"op": "test", "path": name, "value": entry["name"]}));
            operations.push(json!({"op": "add", "path": path, "value": bundle}));
        }
    }
    (operations.len() > 1).then(|| operations.into())
}

pub(crate) const CONFIGURATIONS: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

/// What a server writes in the mode self-managed.
fn fill(cluster: &Cluster) {
    for kind in CONFIGURATIONS {
        if let Some(patch) = bundle_patch(cluster, &get(cluster, kind, RELEASE)) {
            write_as_the_server(cluster, kind, RELEASE, "json", &patch);
        }
    }
    for (kind, name, content) in [
        ("secret", "outrigger-certificates", json!({"data": {"tls.crt": "eA=="}})),
        (
            "lease",
            "outrigger-leader",
            json!({"spec": {"holderIdentity": "outrigger-0"}}),
        ),
    ] {
        let mut patch = content;
        patch["metadata"] = json!({"resourceVersion": get(cluster, kind, name)["metadata"]["resourceVersion"]});
        write_as_the_server(cluster, kind, name, "merge", &patch);
    }
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

#[test]
fn upgrades_keep_what_the_server_wrote_and_nothing_is_left_at_the_end() {
    let cluster = Cluster::start();
    cluster.install_definitions();
    cluster.create_namespace(NAMESPACE, &[("pod-security.kubernetes.io/enforce", "restricted")]);
    cluster.create_namespace("shop", &[("outrigger.mesh/inject", "enabled")]);
    let before = cluster.objects();
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
    let left = || cluster.objects().difference(&before).cloned().collect::<Vec<_>>();
    eventually("nothing is left", || left().is_empty());
    let missing: Vec<_> = before.difference(&cluster.objects()).cloned().collect();
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

/// Both configurations tell a server of another mode that their `caBundle` is not its own.
#[track_caller]
fn assert_mode(cluster: &Cluster, mode: &str) {
    for kind in CONFIGURATIONS {
        let annotations = &get(cluster, kind, RELEASE)["metadata"]["annotations"];
        assert_eq!(annotations["outrigger.mesh/certificates"], mode, "{kind}");
    }
}

/// What each mode makes goes with it, when it is changed and at the end.
#[test]
fn a_change_of_the_mode_takes_away_what_the_old_one_made() {
    let cluster = Cluster::start();
    cluster.install_definitions();
    cluster.create_namespace(NAMESPACE, &[]);
    let before = cluster.objects();
    // The signer has an authority of its own in every mode.
    let unsigned = json!({"identity": {"enabled": false}});
    release(&cluster, &["install", RELEASE, &chart(), "-f", "-"], &unsigned);
    assert_made(&cluster, SELF_MANAGED);
    assert_mode(&cluster, "self-managed");

    let everything = json!({"certificates": {"mode": "cert-manager"}, "serviceMonitor": {"enabled": true},
        "identity": {"enabled": false},
        "prometheusRule": {"enabled": true}, "grafanaDashboard": {"enabled": true}, "networkPolicy": {"enabled": true},
        "templates": {"mine.yaml.hbs": "x"}});
    upgrade(&cluster, &everything);
    assert_made(&cluster, CERT_MANAGER);
    assert_mode(&cluster, "cert-manager");
    for kind in CONFIGURATIONS {
        let annotation = &get(&cluster, kind, RELEASE)["metadata"]["annotations"]["cert-manager.io/inject-ca-from"];
        assert_eq!(annotation, "outrigger-system/outrigger");
    }
    upgrade(
        &cluster,
        &json!({"identity": {"enabled": false},
            "certificates": {"mode": "secret", "secretName": "mine", "caBundle": pem(&cluster)}}),
    );
    assert_made(&cluster, &[]);
    assert_mode(&cluster, "secret");
    for kind in CONFIGURATIONS {
        let configuration = get(&cluster, kind, RELEASE);
        let mut entries = configuration["webhooks"].as_array().unwrap().iter();
        assert!(entries.all(|entry| entry["clientConfig"]["caBundle"] == bundle(&cluster)));
    }
    upgrade(&cluster, &everything);
    release(&cluster, &["uninstall", RELEASE, "--wait"], &json!({}));
    let left = || cluster.objects().difference(&before).cloned().collect::<Vec<_>>();
    eventually("nothing is left", || left().is_empty());
}

fn pem(cluster: &Cluster) -> String {
    std::fs::read_to_string(&cluster.authority().certificate).unwrap()
}

/// The fields of a configuration that a manager owns.
fn fields(cluster: &Cluster, kind: &str, manager: &str) -> String {
    let text = cluster
        .kubectl(&["get", kind, RELEASE, "-o", "json", "--show-managed-fields"])
        .expect_success();
    let object: Value = serde_json::from_str(&text).unwrap();
    let owned = object["metadata"]["managedFields"].as_array().unwrap();
    let entry = owned.iter().find(|entry| entry["manager"] == manager).unwrap();
    entry["fieldsV1"].to_string()
}

/// Server-side apply tells who owns which field; Helm's and the server's do not meet.
#[test]
fn helm_and_the_server_own_different_fields() {
    let cluster = Cluster::start();
    cluster.create_namespace(NAMESPACE, &[]);
    release(&cluster, &["install", RELEASE, &chart(), "-f", "-"], &json!({}));
    fill(&cluster);
    upgrade(&cluster, &json!({"replicaCount": 3, "webhook": {"timeoutSeconds": 10}}));
    fill(&cluster);
    for kind in CONFIGURATIONS {
        let (server, installer) = (fields(&cluster, kind, "outrigger"), fields(&cluster, kind, "helm"));
        assert!(server.contains("f:caBundle") && !server.contains("f:timeoutSeconds"));
        assert!(installer.contains("f:timeoutSeconds") && !installer.contains("f:caBundle"));
    }
}

/// Applies the rendered objects on the server's side, as Helm 4, Flux and Argo CD do.
fn apply_as_gitops(cluster: &Cluster, values: &Value, flags: &[&str]) -> Answer {
    let objects = rendered(values).into_iter();
    let own = objects.filter(|object| object["metadata"]["annotations"].get("helm.sh/hook").is_none());
    let list = json!({"apiVersion": "v1", "kind": "List", "items": own.collect::<Vec<_>>()});
    let usual = [
        "apply",
        "--server-side",
        "--field-manager=gitops",
        "-n",
        NAMESPACE,
        "-f",
        "-",
    ];
    cluster.kubectl_reading(&list.to_string(), &[&usual, flags].concat())
}

/// Nor do they take back what the server wrote.
#[test]
fn tools_that_apply_on_the_servers_side_meet_no_conflict() {
    let cluster = Cluster::start();
    cluster.create_namespace(NAMESPACE, &[]);
    apply_as_gitops(&cluster, &json!({}), &[]).expect_success();
    fill(&cluster);
    let without_workloads = ("workloads switched off", json!({"webhook": {"workloads": false}}));
    let there = upgrades().into_iter().chain([without_workloads]);
    let back = there.clone().rev().skip(1);
    for (what, values) in there.chain(back) {
        apply_as_gitops(&cluster, &values, &[]).expect_success();
        assert_filled(&cluster, what);
    }
    for kind in CONFIGURATIONS {
        let (server, installer) = (fields(&cluster, kind, "outrigger"), fields(&cluster, kind, "gitops"));
        assert!(
            server.contains("f:caBundle") && !server.contains("f:timeoutSeconds"),
            "{server}"
        );
        assert!(
            installer.contains("f:timeoutSeconds") && !installer.contains("f:caBundle"),
            "{installer}"
        );
    }

    // The one change that has to be forced: the chart sets what the server owned.
    let other = pem(&cluster) + "\n";
    let secret = json!({"certificates": {"mode": "secret", "secretName": "mine", "caBundle": other}});
    let refusal = apply_as_gitops(&cluster, &secret, &[]).expect_failure();
    assert!(
        refusal.contains("conflict") && refusal.contains("caBundle"),
        "{refusal}"
    );
    apply_as_gitops(&cluster, &secret, &["--force-conflicts"]).expect_success();
}
