//! What must hold, as `case.md` says.

use outrigger::names::INJECT;

use crate::call;
use crate::program::{Run, documents};
use crate::review::Call;

const INPUT: &str = include_str!("input.yaml");

fn pod_in(namespace: &str) -> Call {
    let any = call(include_str!("../01-bare-pod/review.json"));
    any.with("", documents(INPUT).remove(4))
        .requesting("/namespace", namespace)
}

#[test]
fn system_namespaces_are_left_alone_by_both_webhooks() {
    for namespace in ["kube-system", "kube-public", "kube-node-lease", "outrigger-system"] {
        let pod = pod_in(namespace);
        pod.mutate().skipped("system-namespace");
        pod.validate().skipped("admitted");
        let asking = pod.labelled(INJECT, "enabled").annotated(INJECT, "enabled");
        asking.mutate().skipped("system-namespace");
        asking.validate().skipped("admitted");
        // Not even a value that would be refused elsewhere may stop a system pod.
        let broken = pod
            .annotated(INJECT, "flase")
            .annotated("outrigger.mesh/position", "middle");
        broken.mutate().skipped("system-namespace");
        broken.validate().skipped("admitted");
    }
}

#[test]
fn other_namespaces_go_by_their_label() {
    pod_in("shop").mutate().injected();
    pod_in("plain").mutate().skipped("namespace-not-enabled");
}

#[test]
fn inject_leaves_the_pod_in_kube_system_and_says_so() {
    let run = Run::inject(INPUT);
    assert_eq!((run.code, run.stdout.as_str()), (0, INPUT));
    run.reports("Pod kube-system/resolver", "system-namespace");
    let run = Run::inject(&INPUT.replace("namespace: kube-system", "namespace: shop"));
    run.reports("Pod shop/resolver", "injected");
}
