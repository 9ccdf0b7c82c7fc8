//! The test node itself: pods run, Services are reached as webhooks are, and nothing of it is left afterwards.
#![allow(clippy::unwrap_used)]

#[path = "support/cluster.rs"]
mod cluster;
#[path = "support/node.rs"]
mod node;
#[path = "support/program.rs"]
mod program;

#[path = "cluster_node/images.rs"]
mod images;
#[path = "cluster_node/life.rs"]
mod life;
#[path = "cluster_node/pods.rs"]
mod pods;

use std::time::{Duration, Instant};

use cluster::{Answer, PATIENCE};
use node::{Node, images::BUSYBOX};

/// A pod that serves `hello` on port 8080, and its Service.
fn web() -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: web, labels: {{app: web}}}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: app
      image: {BUSYBOX}
      command: [sh, -c, 'echo hello >/tmp/index.html; echo serving; exec httpd -f -p 8080 -h /tmp']
      ports: [{{containerPort: 8080, name: http}}]
      readinessProbe: {{httpGet: {{path: /, port: 8080}}, periodSeconds: 1}}
---
apiVersion: v1
kind: Service
metadata: {{name: web}}
spec:
  selector: {{app: web}}
  ports: [{{port: 80, targetPort: 8080}}]
"
    )
}

/// A namespace of its own in which `web` is ready and its Service answers.
fn serve(node: &Node, namespace: &str) {
    node.cluster.create_namespace(namespace, &[]);
    apply(node, namespace, &web());
    wait_for(node, namespace, "condition=Ready", "pod/web");
    // The rules of a Service follow a moment later.
    eventually("the Service answers", || call(node, namespace).success);
}

/// What the Service `web` answers at its address, from where the API server is.
fn call(node: &Node, namespace: &str) -> Answer {
    let url = format!("http://{}", field(node, namespace, "service/web", ".spec.clusterIP"));
    let mut curl = node.in_network("curl");
    curl.args(["-sS", "-m2", &url]);
    Answer::of(curl, "")
}

fn apply(node: &Node, namespace: &str, manifest: &str) {
    node.cluster
        .kubectl_reading(manifest, &["apply", "-n", namespace, "-f", "-"])
        .expect_success();
}

fn wait_for(node: &Node, namespace: &str, condition: &str, object: &str) {
    let (condition, timeout) = (
        format!("--for={condition}"),
        format!("--timeout={}s", PATIENCE.as_secs()),
    );
    let answer = node
        .cluster
        .kubectl(&["wait", "-n", namespace, &condition, &timeout, object]);
    assert!(
        answer.success,
        "{}{}",
        answer.errors,
        node.cluster.kubectl(&["describe", "-n", namespace, object]).output
    );
}

/// A field of an object, by a JSONPath.
fn field(node: &Node, namespace: &str, object: &str, path: &str) -> String {
    let output = format!("-o=jsonpath={{{path}}}");
    node.cluster
        .kubectl(&["get", "-n", namespace, object, &output])
        .expect_success()
}

fn eventually(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "not in {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
