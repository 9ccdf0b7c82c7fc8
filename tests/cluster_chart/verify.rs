//! `outrigger verify` with the rights that the chart's test gives it, and no others.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::helm::rendered;
use crate::webhooks::{Mesh, eventually};

/// What a run left.
#[derive(Debug)]
struct Run {
    code: Option<i32>,
    output: String,
    errors: String,
}

/// Runs `outrigger verify` with arguments that are separated by spaces.
fn verify(kubeconfig: &Path, arguments: &str) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_outrigger"))
        .env_clear()
        .env("KUBECONFIG", kubeconfig)
        .arg("verify")
        .args(arguments.split_whitespace())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Run {
        code: output.status.code(),
        output: text(output.stdout),
        errors: text(output.stderr),
    }
}

impl Run {
    /// It says that a webhook does not work, and why.
    #[track_caller]
    fn fails_for(&self, reason: &str) {
        assert_eq!((self.code, &*self.output), (Some(1), ""), "{self:?}");
        assert!(self.errors.contains(reason), "{reason}: {self:?}");
    }
}

/// A kubeconfig for an account that may do in a new namespace what the chart's test may, once it may.
fn account(mesh: &Mesh, namespace: &str) -> PathBuf {
    let cluster = &mesh.cluster;
    let accounts = format!("{namespace}-accounts");
    cluster.create_namespace(&accounts, &[]);
    cluster.create_namespace(namespace, &[]);
    let objects = rendered(&json!({"test": {"namespace": namespace}}));
    let hooks = objects
        .into_iter()
        .filter(|object| object["metadata"]["annotations"]["helm.sh/hook"].is_string());
    for mut object in hooks.filter(|object| object["kind"] != "Pod") {
        // The release's namespace is other tests'.
        match object["kind"].as_str().unwrap() {
            "ServiceAccount" => object["metadata"]["namespace"] = json!(accounts),
            "RoleBinding" => object["subjects"][0]["namespace"] = json!(accounts),
            _ => {}
        }
        cluster
            .kubectl_reading(&object.to_string(), &["create", "-f", "-"])
            .expect_success();
    }
    let token = cluster
        .kubectl(&["create", "token", "outrigger-verify", "-n", &accounts])
        .expect_success();
    let kubeconfig = with_token(cluster, token.trim(), namespace);
    eventually("the account may create pods", || {
        !verify(&kubeconfig, &format!("-n {namespace}"))
            .errors
            .contains("is missing: grant it")
    });
    kubeconfig
}

/// The administrator's kubeconfig with a token in place of the certificate.
pub(crate) fn with_token(cluster: &Cluster, token: &str, name: &str) -> PathBuf {
    let text = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
    let mut kubeconfig: Value = serde_json::from_str(&text).unwrap();
    kubeconfig["users"][0]["user"] = json!({"token": token});
    let path = cluster.folder().join(format!("{name}.kubeconfig"));
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    path
}

#[test]
fn verify_says_that_both_webhooks_work_and_stores_nothing() {
    let mesh = Mesh::shared();
    let kubeconfig = account(&mesh, "verified");
    let run = verify(&kubeconfig, "-n verified --label environment=dev");
    let expected = format!(
        "mutating webhook: works; version {} added the proxy by the template proxy-sidecar\n\
         validating webhook: works; refused a pod without the label environment\n",
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!((run.code, run.output, run.errors), (Some(0), expected, String::new()));
    let pods = mesh.cluster.kubectl(&["get", "pods", "-n", "verified", "-o", "name"]);
    assert_eq!(pods.expect_success(), "");

    let lenient = mesh.cluster.folder().join("lenient.yaml");
    std::fs::write(&lenient, "labels: [{key: environment}]\naction: warn\n").unwrap();
    let run = verify(
        &kubeconfig,
        &format!(
            "-n verified --label environment=dev --requirements {}",
            lenient.display()
        ),
    );
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.output.contains("validating webhook: not asked; no rule"), "{run:?}");
}

#[test]
fn verify_says_what_does_not_work() {
    let mesh = Mesh::shared();
    let kubeconfig = account(&mesh, "failing");
    let other = mesh.cluster.folder().join("other.yaml");
    std::fs::write(&other, "labels: [{key: team}]\n").unwrap();
    let other = format!(
        "-n failing --label environment=dev --label team=a --requirements {}",
        other.display()
    );
    for (arguments, reason) in [
        ("-n failing", "label environment is missing"),
        (&other, "a pod without the label team was admitted"),
        (
            "-n absent --label environment=dev",
            "create on pods in namespace absent is missing",
        ),
        ("-n A/b", "does not exist"),
    ] {
        verify(&kubeconfig, arguments).fails_for(reason);
    }
    let started = Instant::now();
    verify(&kubeconfig, "-n absent --timeout 2s").fails_for("is missing");
    assert!(started.elapsed() >= Duration::from_secs(1), "it did not try again");
    mesh.cluster
        .create_namespace("switched-off", &[("outrigger.mesh/inject", "disabled")]);
    verify(&mesh.cluster.kubeconfig(), "-n switched-off --label environment=dev")
        .fails_for("the mutating webhook added no proxy");
}

#[test]
fn verify_needs_a_cluster_and_arguments_that_mean_something() {
    let nowhere = Path::new("/nonexistent");
    assert_eq!(verify(nowhere, "").code, Some(2));
    for arguments in ["--label environment", "--timeout soon", "--timeout -5s"] {
        let run = verify(nowhere, arguments);
        assert_eq!(run.code, Some(2), "{arguments}");
        assert!(run.errors.contains("expected"), "{arguments}: {run:?}");
    }
}

/// Without the webhooks, and with one that does not answer.
#[test]
fn verify_notices_that_a_webhook_is_gone_or_out_of_reach() {
    let cluster = Arc::new(Cluster::start());
    let arguments = "-n default --label environment=dev";
    verify(&cluster.kubeconfig(), arguments).fails_for("the mutating webhook added no proxy");

    let mesh = Mesh::start(cluster);
    let kubeconfig = mesh.cluster.kubeconfig();
    mesh.cluster
        .kubectl(&["delete", "validatingwebhookconfiguration", "outrigger"])
        .expect_success();
    eventually("the validating webhook is no longer called", || {
        verify(&kubeconfig, arguments).code == Some(1)
    });
    verify(&kubeconfig, arguments).fails_for("a pod without the label environment was admitted");

    mesh.server().terminate();
    verify(&kubeconfig, arguments).fails_for("failed calling webhook");
}
