//! Pods and Services.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use crate::node::{NAME, Node, images::BUSYBOX};
use crate::{apply, call, eventually, field, serve, wait_for};

/// What a GET of the start page answers, asked by the test itself, from outside of the node.
fn get(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn is_one_ready_node_of_the_same_version() {
    let node = Node::shared();
    assert_eq!(field(&node, "default", "nodes", ".items[*].metadata.name"), NAME);
    let condition = r#".status.conditions[?(@.type=="Ready")].status"#;
    assert_eq!(field(&node, "default", &format!("node/{NAME}"), condition), "True");
    let kubelet = field(
        &node,
        "default",
        &format!("node/{NAME}"),
        ".status.nodeInfo.kubeletVersion",
    );
    let version = node.cluster.kubectl(&["version", "-o", "json"]).expect_success();
    let version: serde_json::Value = serde_json::from_str(&version).unwrap();
    assert_eq!(version["serverVersion"]["gitVersion"], kubelet.as_str());
}

#[test]
fn reaches_a_service_from_a_pod_by_its_name_and_from_the_api_server_by_its_address() {
    let node = Node::shared();
    serve(&node, "service");
    let client = format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: client}}, spec: {{terminationGracePeriodSeconds: 0,
          containers: [{{name: app, image: {BUSYBOX}, command: [sleep, infinity]}}]}}}}"
    );
    apply(&node, "service", &client);
    wait_for(&node, "service", "condition=Ready", "pod/client");

    let url = "http://web.service.svc.cluster.local";
    let by_name = ["exec", "-n", "service", "client", "--", "curl", "-sS", "-m5", url];
    assert_eq!(node.cluster.kubectl(&by_name).expect_success(), "hello\n");

    assert_eq!(call(&node, "service").expect_success(), "hello\n");
}

#[test]
fn reaches_a_pod_from_the_test_itself() {
    let node = Node::shared();
    serve(&node, "outside");
    let address = field(&node, "outside", "pod/web", ".status.podIP");
    assert!(get(format!("{address}:8080").parse().unwrap()).ends_with("hello\n"));
}

#[test]
fn shows_logs_and_runs_commands() {
    let node = Node::shared();
    serve(&node, "logs");
    let logs = node.cluster.kubectl(&["logs", "-n", "logs", "web"]);
    assert_eq!(logs.expect_success(), "serving\n");
    let read = ["exec", "-i", "-n", "logs", "web", "--", "cat"];
    assert_eq!(node.cluster.kubectl_reading("a text", &read).expect_success(), "a text");
    let fail = ["exec", "-n", "logs", "web", "--", "sh", "-c", "exit 3"];
    assert!(node.cluster.kubectl(&fail).expect_failure().contains("exit code 3"));
}

#[test]
fn takes_a_deleted_pod_out_of_its_service() {
    let node = Node::shared();
    serve(&node, "endpoints");
    let slices = [
        "get",
        "endpointslices",
        "-n",
        "endpoints",
        "-l=kubernetes.io/service-name=web",
    ];
    let addresses = || {
        let path = "-o=jsonpath={.items[*].endpoints[*].addresses[*]}";
        node.cluster.kubectl(&[&slices[..], &[path]].concat()).expect_success()
    };
    let address = field(&node, "endpoints", "pod/web", ".status.podIP");
    eventually("the pod is an endpoint", || addresses() == address);

    node.cluster
        .kubectl(&["delete", "pod", "web", "-n", "endpoints"])
        .expect_success();

    eventually("it is none any more", || addresses().is_empty());
    eventually("nobody answers for the Service", || {
        call(&node, "endpoints").errors.contains("Couldn't connect to server")
    });
}

#[test]
fn starts_a_killed_container_again() {
    let node = Node::shared();
    serve(&node, "killed");
    let before = node.container_processes("killed", "web", "app");
    assert_eq!(before.len(), 1, "httpd alone");

    node.kill_container("killed", "web", "app");

    let restarts = ".status.containerStatuses[0].restartCount";
    eventually("the kubelet starts it again", || {
        field(&node, "killed", "pod/web", restarts) == "1"
    });
    wait_for(&node, "killed", "condition=Ready", "pod/web");
    let reason = field(
        &node,
        "killed",
        "pod/web",
        ".status.containerStatuses[0].lastState.terminated.exitCode",
    );
    assert_eq!(reason, "137", "SIGKILL");
    assert_ne!(node.container_processes("killed", "web", "app"), before);
}
