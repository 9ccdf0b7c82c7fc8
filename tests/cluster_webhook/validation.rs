//! The validating webhook, seen from kubectl.

use serde_json::json;

use crate::webhooks::{Mesh, eventually};
use crate::{ENABLED, GOOD, pod};

#[test]
fn refuses_a_missing_label_and_a_wrong_one_in_one_message() {
    let mesh = Mesh::shared();
    mesh.cluster.create_namespace("labels", &[ENABLED]);
    let missing = mesh.refusal("labels", &pod("web", "{app: web}", "{}", ""));
    assert!(
        missing.contains("requirements: label environment is missing; it has to be one of: dev, prod"),
        "{missing}"
    );
    let wrong = mesh.refusal("labels", &pod("web", "{app: web, environment: staging}", "{}", ""));
    assert!(
        wrong.contains("label environment is \\\"staging\\\"") || wrong.contains("label environment is \"staging\""),
        "{wrong}"
    );
    let opted_out = mesh.refusal(
        "labels",
        &pod("web", "{app: web}", "{outrigger.mesh/inject: disabled}", ""),
    );
    assert!(
        opted_out.contains("environment"),
        "opting out of the proxy is no way around the labels: {opted_out}"
    );
}

#[test]
fn judges_only_a_change_of_labels_on_update() {
    let mesh = Mesh::shared();
    mesh.cluster.create_namespace("updates", &[]);
    let labels = "{app: web, environment: old}";
    mesh.create("updates", &pod("web", labels, "{}", ""));
    mesh.create("updates", &pod("good", GOOD, "{}", ""));
    mesh.cluster
        .kubectl(&["label", "namespace", "updates", "outrigger.mesh/inject=enabled"])
        .expect_success();
    eventually("the namespace counts as enabled", || {
        !mesh
            .cluster
            .kubectl(&[
                "label",
                "pod",
                "good",
                "-n",
                "updates",
                "environment=x",
                "--overwrite",
                "--dry-run=server",
            ])
            .success
    });
    let kubectl = |arguments: &[&str]| mesh.cluster.kubectl(&[&["-n", "updates"], arguments].concat());
    kubectl(&["annotate", "pod", "web", "note=still-editable"]).expect_success();
    kubectl(&["label", "pod", "web", "tier=front"]).expect_success();
    let emptied = kubectl(&["label", "pod", "good", "environment-"]).expect_failure();
    assert!(emptied.contains("label environment is missing"), "{emptied}");
    let patch = json!({"metadata": {"labels": {"environment": "x"}}}).to_string();
    let by_status = kubectl(&["patch", "pod", "good", "--subresource=status", "-p", &patch]).expect_failure();
    assert!(
        by_status.contains("label environment"),
        "the status subresource is no way around: {by_status}"
    );
    kubectl(&["label", "pod", "web", "environment=prod", "--overwrite"]).expect_success();
    kubectl(&["delete", "pod", "web", "--grace-period=0", "--force"]).expect_success();
}

#[test]
fn refuses_a_pod_that_lost_its_proxy() {
    let mesh = Mesh::start(crate::cluster::Cluster::start().into());
    mesh.cluster.create_namespace("lost", &[ENABLED]);
    mesh.cluster
        .kubectl(&["delete", "mutatingwebhookconfiguration", "outrigger"])
        .expect_success();
    let mut refusal = String::new();
    eventually("the mutating webhook is gone", || {
        let dry = ["create", "-n", "lost", "--dry-run=server", "-f", "-"];
        let answer = mesh.cluster.kubectl_reading(&pod("web", GOOD, "{}", ""), &dry);
        refusal = answer.errors;
        !answer.success
    });
    assert!(refusal.contains("the container proxy-sidecar is missing"), "{refusal}");
    // Another webhook took away a part of what was added: that part is named.
    let injected = assert_cmd::Command::new(env!("CARGO_BIN_EXE_outrigger"))
        .env_clear()
        .arg("inject")
        .write_stdin(pod("half", GOOD, "{}", ""))
        .output()
        .unwrap();
    let mut half = crate::golden::documents(&String::from_utf8(injected.stdout).unwrap()).remove(0);
    half["spec"]["initContainers"] = json!([]);
    let refusal = mesh.refusal("lost", &half.to_string());
    assert!(refusal.contains("the container proxy-redirect is missing"), "{refusal}");
    mesh.create("lost", &pod("out", GOOD, "{outrigger.mesh/inject: disabled}", ""));
    mesh.create("lost", &pod("host", GOOD, "{}", "  hostNetwork: true\n"));
}
