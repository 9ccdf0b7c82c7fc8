//! The test cluster itself: a default control plane that admits pods, and that is gone when the test is.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;

use cluster::{Cluster, PATIENCE};

#[path = "support/cluster.rs"]
mod cluster;

const DEPLOYMENT: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "example.test/web:1"}]}
"#;

#[tokio::test]
async fn creates_the_pod_of_a_deployment() {
    let cluster = Cluster::shared();
    cluster.create_namespace("shop", &[("team", "a")]);
    cluster
        .kubectl_reading(DEPLOYMENT, &["apply", "-n", "shop", "-f", "-"])
        .expect_success();

    let pod = first_pod(&cluster, "shop", "app=web").await;

    let owners = pod.metadata.owner_references.unwrap();
    assert_eq!(owners[0].kind, "ReplicaSet");
    let spec = pod.spec.unwrap();
    assert_eq!(
        spec.service_account_name.as_deref(),
        Some("default"),
        "admission plugins ran"
    );
    assert_eq!(spec.node_name, None, "there is no scheduler");
}

#[test]
fn refuses_what_the_server_does_not_know() {
    let cluster = Cluster::shared();
    let refusal = cluster.kubectl_reading(
        "{apiVersion: v1, kind: Nonsense, metadata: {name: a}}",
        &["apply", "-f", "-"],
    );
    assert!(refusal.expect_failure().contains("Nonsense"));
}

#[test]
fn runs_the_version_the_tests_are_written_for() {
    let version = Cluster::shared().kubectl(&["version", "-o", "json"]).expect_success();
    let version: serde_json::Value = serde_json::from_str(&version).unwrap();
    assert_eq!(version["serverVersion"]["minor"], "37");
    assert_eq!(
        version["clientVersion"]["gitVersion"],
        version["serverVersion"]["gitVersion"]
    );
}

#[test]
fn leaves_no_process_and_no_file_behind() {
    let cluster = Cluster::start();
    let (ids, folder) = (cluster.process_ids(), cluster.folder().to_owned());
    assert_eq!(ids.len(), 3);
    assert!(ids.iter().all(|id| is_running(*id)));

    drop(cluster);

    let left: Vec<_> = ids.into_iter().filter(|id| is_running(*id)).collect();
    assert_eq!(left, Vec::<u32>::new());
    assert!(!folder.exists());
}

fn is_running(id: u32) -> bool {
    Path::new("/proc").join(id.to_string()).exists()
}

async fn first_pod(cluster: &Cluster, namespace: &str, labels: &str) -> Pod {
    let pods = Api::<Pod>::namespaced(cluster.client().await, namespace);
    let search = ListParams::default().labels(labels);
    let seen = tokio::time::timeout(PATIENCE, async {
        loop {
            if let Some(pod) = pods.list(&search).await.unwrap().items.into_iter().next() {
                return pod;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    seen.await
        .unwrap_or_else(|_| panic!("no pod appeared{}", cluster.log_tails()))
}
