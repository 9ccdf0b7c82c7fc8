//! The images that the node knows.

use crate::node::{Node, images::NGINX, images::OUTRIGGER};
use crate::program::{Run, outrigger};
use crate::{apply, call, eventually, field, wait_for, web};

#[test]
fn runs_outrigger_as_nobody_and_without_a_shell() {
    let node = Node::shared();
    node.cluster
        .create_namespace("program", &[("pod-security.kubernetes.io/enforce", "restricted")]);
    let pod = format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: outrigger}}, spec: {{restartPolicy: Never,
          securityContext: {{runAsNonRoot: true, seccompProfile: {{type: RuntimeDefault}}}},
          containers: [{{name: app, image: '{OUTRIGGER}', imagePullPolicy: Never, args: [templates, list],
            securityContext: {{allowPrivilegeEscalation: false, capabilities: {{drop: [ALL]}}, readOnlyRootFilesystem: true}}}}]}}}}"
    );
    apply(&node, "program", &pod);
    wait_for(&node, "program", "jsonpath={.status.phase}=Succeeded", "pod/outrigger");
    let logs = node
        .cluster
        .kubectl(&["logs", "-n", "program", "outrigger"])
        .expect_success();
    assert!(logs.contains("proxy-sidecar"), "{logs}");

    let shell = pod
        .replace("name: outrigger}", "name: shell}")
        .replace("args: [templates, list]", "command: [sh]");
    apply(&node, "program", &shell);
    eventually("there is no shell", || {
        field(&node, "program", "pod/shell", ".status.containerStatuses[0].state").contains("executable file not found")
    });
}

/// The images work together as a mesh needs them: the rules by Outrigger's nft, the proxy by nginx.
#[test]
fn serves_through_the_proxy_of_an_injected_pod() {
    let node = Node::shared();
    node.cluster.create_namespace("injected", &[]);
    apply(&node, "injected", &inject(&web()));
    wait_for(&node, "injected", "condition=Ready", "pod/web");

    eventually("the Service answers", || call(&node, "injected").success);

    assert_eq!(call(&node, "injected").expect_success(), "hello\n");
    let proxy = node
        .cluster
        .kubectl(&["logs", "-n", "injected", "web", "-c", "proxy-sidecar"]);
    let proxy = proxy.expect_success();
    assert!(
        proxy.contains("\"upstream_status\":\"200\""),
        "nginx passed it on: {proxy}"
    );
}

fn inject(manifest: &str) -> String {
    let mut program = outrigger();
    program
        .args(["inject", "-f", "-"])
        .env("OUTRIGGER_PROXY_IMAGE", NGINX)
        .env("OUTRIGGER_REDIRECT_IMAGE", OUTRIGGER)
        .write_stdin(manifest);
    let run = Run::from(&mut program);
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.stdout
}
