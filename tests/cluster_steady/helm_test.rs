//! `helm test`: the chart's own test, as its pod on the node.

use crate::release::{NAMESPACE, Release};

/// It passes where the webhooks work, and fails where they do nothing.
pub(crate) fn tells_whether_the_webhooks_work(release: &Release<'_>) {
    let place = format!("--namespace={NAMESPACE}");
    let test = || {
        let answer = release.node.helm(&["test", "outrigger", &place, "--timeout=1m"]);
        (answer.success, answer.output + &answer.errors)
    };
    let (passed, said) = test();
    assert!(passed && said.contains("mutating webhook: works"), "{said}");

    // Pods of a namespace that is switched off get no proxy, whatever they ask for.
    let label = |value: &str| {
        let arguments = ["label", "namespace", "default", value, "--overwrite"];
        release.node.cluster.kubectl(&arguments).expect_success();
    };
    label("outrigger.mesh/inject=disabled");
    let (passed, said) = test();
    label("outrigger.mesh/inject-");
    assert!(
        !passed && said.contains("the mutating webhook added no proxy"),
        "{said}"
    );
}
