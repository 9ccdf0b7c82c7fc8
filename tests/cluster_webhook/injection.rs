//! Who is injected, seen from the API server.

use serde_json::Value;

use crate::webhooks::{Mesh, eventually};
use crate::{ENABLED, GOOD, pod};

const DEPLOYMENT: &str = r"
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  replicas: 2
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME, environment: dev}, annotations: ANNOTATIONS}
    spec: {containers: [{name: app, image: registry.example.com/team/app:1.0, ports: [{containerPort: 8080, name: http}]}]}
";

/// Creates a Deployment and waits for both of its pods.
fn deployed(mesh: &Mesh, namespace: &str, name: &str, annotations: &str) -> Vec<Value> {
    let yaml = DEPLOYMENT.replace("NAME", name).replace("ANNOTATIONS", annotations);
    mesh.create(namespace, &yaml);
    let mut pods = Vec::new();
    eventually("both pods are there", || {
        let list = mesh.cluster.kubectl(&[
            "get",
            "pods",
            "-n",
            namespace,
            "-l",
            &format!("app={name}"),
            "-o",
            "json",
        ]);
        let list: Value = serde_json::from_str(&list.expect_success()).unwrap();
        pods = list["items"].as_array().unwrap().clone();
        pods.len() == 2
    });
    pods
}

fn containers(pod: &Value) -> Vec<&str> {
    pod["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["name"].as_str().unwrap())
        .collect()
}

#[test]
fn injects_the_pods_of_a_deployment_and_leaves_one_that_opts_out() {
    let mesh = Mesh::shared();
    mesh.cluster.create_namespace("deployments", &[ENABLED]);
    for injected in deployed(&mesh, "deployments", "web", "{}") {
        assert_eq!(containers(&injected), ["proxy-sidecar", "app"]);
        assert_eq!(
            injected["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"],
            "app"
        );
        assert!(
            injected["metadata"]["annotations"]["outrigger.mesh/nginx.conf"]
                .as_str()
                .unwrap()
                .contains("listen 15200;")
        );
    }
    for left in deployed(&mesh, "deployments", "legacy", "{outrigger.mesh/inject: disabled}") {
        assert_eq!(containers(&left), ["app"]);
        assert!(
            left["metadata"]
                .get("annotations")
                .is_none_or(|a| a.get("outrigger.mesh/status").is_none())
        );
    }
}

#[test]
fn never_calls_for_an_unlabelled_namespace() {
    let mesh = Mesh::start(crate::cluster::Cluster::start().into());
    mesh.cluster.create_namespace("plain", &[]);
    let before = (mesh.calls("mutate"), mesh.calls("validate"));
    assert!(before.0 > 0.0, "the count counts");
    let created = mesh.create("plain", &pod("web", "{app: web}", "{}", ""));
    assert_eq!(containers(&created), ["app"]);
    assert_eq!((mesh.calls("mutate"), mesh.calls("validate")), before);
}

#[test]
fn injects_a_labelled_pod_of_an_unlabelled_namespace_once() {
    let mesh = Mesh::shared();
    mesh.cluster.create_namespace("by-pod", &[]);
    let created = mesh.create(
        "by-pod",
        &pod("web", "{outrigger.mesh/inject: enabled, environment: dev}", "{}", ""),
    );
    assert_eq!(containers(&created), ["proxy-sidecar", "app"]);
}

#[test]
fn leaves_the_system_namespaces_alone_though_they_are_labelled() {
    let mesh = Mesh::shared();
    for namespace in ["kube-system", "kube-public", "kube-node-lease"] {
        mesh.cluster
            .kubectl(&[
                "label",
                "namespace",
                namespace,
                "outrigger.mesh/inject=enabled",
                "--overwrite",
            ])
            .expect_success();
        eventually("the pod can be created", || {
            // The ServiceAccount of a namespace is made a little after it.
            let dry = ["create", "-n", namespace, "--dry-run=server", "-o", "json", "-f", "-"];
            let answer = mesh.cluster.kubectl_reading(&pod("web", "{app: web}", "{}", ""), &dry);
            answer.success && !answer.output.contains("proxy-sidecar")
        });
    }
}

#[test]
fn a_dry_run_and_a_diff_show_the_proxy() {
    let mesh = Mesh::shared();
    mesh.cluster.create_namespace("dry", &[ENABLED]);
    let yaml = pod("web", GOOD, "{}", "");
    let dry = mesh.cluster.kubectl_reading(
        &yaml,
        &["apply", "-n", "dry", "--dry-run=server", "-o", "yaml", "-f", "-"],
    );
    assert!(dry.expect_success().contains("name: proxy-sidecar"));
    let diff = mesh.cluster.kubectl_reading(&yaml, &["diff", "-n", "dry", "-f", "-"]);
    assert!(
        diff.output.contains("+    name: proxy-sidecar"),
        "{}{}",
        diff.output,
        diff.errors
    );
    let stored = mesh
        .cluster
        .kubectl(&["get", "pods", "-n", "dry", "-o", "name"])
        .expect_success();
    assert_eq!(stored.trim(), "");
}

#[test]
fn a_manifest_injected_offline_is_accepted_as_it_is() {
    let mesh = Mesh::shared();
    mesh.cluster.create_namespace("offline", &[ENABLED]);
    let injected = assert_cmd::Command::new(env!("CARGO_BIN_EXE_outrigger"))
        .env_clear()
        .arg("inject")
        .write_stdin(pod("web", GOOD, "{}", ""))
        .output()
        .unwrap();
    let injected = String::from_utf8(injected.stdout).unwrap();
    let created = mesh.create("offline", &injected);
    assert_eq!(containers(&created), ["proxy-sidecar", "app"]);
    let ours = &crate::golden::documents(&injected)[0];
    assert_eq!(
        created["metadata"]["annotations"]["outrigger.mesh/status"],
        ours["metadata"]["annotations"]["outrigger.mesh/status"]
    );
}

#[test]
fn tells_what_is_wrong_with_an_annotation() {
    let mesh = Mesh::shared();
    mesh.cluster.create_namespace("wrong", &[ENABLED]);
    let yaml = pod(
        "web",
        GOOD,
        "{outrigger.mesh/position: frist, outrigger.mesh/proxy-cpu-request: lots}",
        "",
    );
    let refusal = mesh.refusal("wrong", &yaml);
    for part in [
        "bad-setting",
        "outrigger.mesh/position",
        "frist",
        "first, last, native",
        "outrigger.mesh/proxy-cpu-request",
        "lots",
    ] {
        assert!(refusal.contains(part), "{part}: {refusal}");
    }
}

#[test]
fn kubectl_shows_a_warning() {
    let mesh = Mesh::shared();
    mesh.cluster.create_namespace("warned", &[ENABLED]);
    let yaml = pod("web", GOOD, "{outrigger.mesh/colour: red}", "");
    let answer = mesh
        .cluster
        .kubectl_reading(&yaml, &["create", "-n", "warned", "-f", "-"]);
    assert!(
        answer
            .errors
            .contains("Warning: unknown pod annotation \"outrigger.mesh/colour\""),
        "{}",
        answer.errors
    );
    answer.expect_success();
}
