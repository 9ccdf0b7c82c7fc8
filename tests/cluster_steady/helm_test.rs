//! `helm test`: the chart's own test, as its pod on the node.

use crate::release::{NAMESPACE, Release};

/// It passes where the webhooks work, and fails where they do nothing.
pub(crate) fn tells_whether_the_webhooks_work(release: &Release<'_>) {
    let place = format!("--namespace={NAMESPACE}");
    let test = || {
        release
            .node
            .helm(&["test", "outrigger", &place, "--timeout=1m", "--logs"])
    };
    let passed = test();
    assert!(passed.success, "{}{}", passed.output, passed.errors);
    assert!(passed.output.contains("mutating webhook: works"), "{}", passed.output);

    // Pods of a namespace that is switched off get no proxy, whatever they ask for.
    let label = |value: &str| {
        let arguments = ["label", "namespace", "default", value, "--overwrite"];
        release.node.cluster.kubectl(&arguments).expect_success();
    };
    label("outrigger.mesh/inject=disabled");
    let failed = test();
    label("outrigger.mesh/inject-");
    assert!(!failed.success, "{}", failed.output);
}
