//! `outrigger verify` with the rights that the chart's test gives it, and no others.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::helm::rendered;
use crate::webhooks::{Mesh, eventually};

/// Where the account of the test lies; not the release's namespace of other tests.
const ACCOUNTS: &str = "verify-accounts";

/// A kubeconfig for the account of the chart's test, which may do what the hook's role says in `namespace`.
fn account(cluster: &Cluster, namespace: &str) -> PathBuf {
    let values = json!({"test": {"namespace": namespace}});
    for mut object in rendered(&values) {
        if !object["metadata"]["annotations"]["helm.sh/hook"].is_string() || object["kind"] == "Pod" {
            continue;
        }
        if object["kind"] == "ServiceAccount" {
            object["metadata"]["namespace"] = json!(ACCOUNTS);
        }
        if object["kind"] == "RoleBinding" {
            object["subjects"][0]["namespace"] = json!(ACCOUNTS);
        }
        cluster
            .kubectl_reading(&object.to_string(), &["apply", "-f", "-"])
            .expect_success();
    }
    let token = cluster
        .kubectl(&["create", "token", "outrigger-verify", "-n", ACCOUNTS])
        .expect_success();
    with_token(cluster, token.trim())
}

/// The administrator's kubeconfig with a token in place of the certificate.
fn with_token(cluster: &Cluster, token: &str) -> PathBuf {
    let text = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
    let mut kubeconfig: Value = serde_json::from_str(&text).unwrap();
    kubeconfig["users"][0]["user"] = json!({"token": token});
    let path = cluster.folder().join("verify.kubeconfig");
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    path
}

fn verify(kubeconfig: &std::path::Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_outrigger"))
        .env_clear()
        .env("KUBECONFIG", kubeconfig)
        .arg("verify")
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn verify_says_whether_the_webhooks_work() {
    let mesh = Mesh::shared();
    mesh.cluster.create_namespace(ACCOUNTS, &[]);
    mesh.cluster.create_namespace("verified", &[]);
    let kubeconfig = account(&mesh.cluster, "verified");
    let pods = || {
        mesh.cluster
            .kubectl(&["get", "pods", "-n", "verified", "-o", "name"])
            .expect_success()
    };
    let mut output = None;
    // The rights take a moment.
    eventually("the webhooks work", || {
        let answer = verify(&kubeconfig, &["-n", "verified", "--label", "environment=dev"]);
        let code = answer.status.code();
        output = Some(answer);
        code == Some(0)
    });
    let expected = format!(
        "mutating webhook: works; version {} added the proxy by the template proxy-sidecar\nvalidating webhook: works; refused a pod \
         without the label environment\n",
        env!("CARGO_PKG_VERSION")
    );
    let output = output.unwrap();
    assert_eq!((text(&output.stdout), text(&output.stderr)), (expected, String::new()));
    assert_eq!(pods(), "", "nothing is stored");

    let folder = mesh.cluster.folder();
    let other = folder.join("other.yaml");
    std::fs::write(&other, "labels: [{key: team}]\n").unwrap();
    let none = folder.join("none.yaml");
    std::fs::write(&none, "labels: [{key: environment}]\naction: warn\n").unwrap();
    let usable = verify(
        &kubeconfig,
        &[
            "-n",
            "verified",
            "--label",
            "environment=dev",
            "--requirements",
            none.to_str().unwrap(),
        ],
    );
    assert_eq!(usable.status.code(), Some(0));
    assert!(
        text(&usable.stdout).contains("validating webhook: not asked; no rule"),
        "{usable:?}"
    );

    mesh.cluster
        .create_namespace("verified-off", &[("outrigger.mesh/inject", "disabled")]);
    let cases: [(&[&str], &str); 5] = [
        (&["-n", "verified"], "label environment is missing"),
        (
            &[
                "-n",
                "verified",
                "--label",
                "environment=dev",
                "--label",
                "team=a",
                "--requirements",
                other.to_str().unwrap(),
            ],
            "a pod without the label team was admitted",
        ),
        (
            &["-n", "verified-off", "--label", "environment=dev"],
            "create on pods in namespace verified-off is missing",
        ),
        (
            &["-n", "absent", "--label", "environment=dev"],
            "create on pods in namespace absent is missing",
        ),
        (&["-n", "A/b"], "does not exist"),
    ];
    for (arguments, reason) in cases {
        let output = verify(&kubeconfig, arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
        assert!(
            text(&output.stderr).contains(reason),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
    }
    let started = Instant::now();
    let late = verify(&kubeconfig, &["-n", "absent", "--timeout", "2s"]);
    assert_eq!(late.status.code(), Some(1));
    assert!(started.elapsed() >= Duration::from_secs(1), "it did not try again");
    let off = verify(
        &mesh.cluster.kubeconfig(),
        &["-n", "verified-off", "--label", "environment=dev"],
    );
    assert!(
        text(&off.stderr).contains("the mutating webhook added no proxy"),
        "{off:?}"
    );
    assert_eq!(off.status.code(), Some(1));
}

#[test]
fn verify_needs_a_cluster_and_arguments_that_mean_something() {
    let nowhere = verify(std::path::Path::new("/nonexistent"), &[]);
    assert_eq!(nowhere.status.code(), Some(2), "{nowhere:?}");
    for arguments in [["--label", "environment"], ["--timeout", "soon"], ["--timeout", "-5s"]] {
        let output = verify(std::path::Path::new("/nonexistent"), &arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains("expected"), "{arguments:?}: {output:?}");
    }
}

/// Without the webhooks, and with one that does not answer.
#[test]
fn verify_notices_that_a_webhook_is_gone_or_out_of_reach() {
    let cluster = Arc::new(Cluster::start());
    let arguments = ["-n", "default", "--label", "environment=dev"];
    let gone = verify(&cluster.kubeconfig(), &arguments);
    assert_eq!(gone.status.code(), Some(1));
    assert!(
        text(&gone.stderr).contains("the mutating webhook added no proxy"),
        "{gone:?}"
    );

    let mesh = Mesh::start(cluster);
    mesh.cluster
        .kubectl(&["delete", "validatingwebhookconfiguration", "outrigger"])
        .expect_success();
    eventually("the validating webhook is no longer called", || {
        let output = verify(&mesh.cluster.kubeconfig(), &arguments);
        output.status.code() == Some(1)
            && text(&output.stderr).contains("a pod without the label environment was admitted")
    });

    mesh.server().terminate();
    let output = verify(&mesh.cluster.kubeconfig(), &arguments);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("failed calling webhook"), "{output:?}");
}
