//! What must hold, as `case.md` says.

use outrigger::names;
use serde_json::Value;

use crate::program::Run;
use crate::review::Call;
use crate::{call, everywhere};

const DEPLOYMENT: &str = include_str!("deployment.yaml");

fn on_the_node() -> Call {
    call(include_str!("review.json"))
}

#[test]
fn pod_in_the_network_of_its_node_is_left_alone_in_every_mode() {
    for (mode, call) in everywhere(&on_the_node()) {
        let answer = call.mutate_in_library();
        answer.skipped("host-network");
        assert_eq!(answer.warnings(), "", "{mode}");
    }
    on_the_node().mutate().skipped("host-network");
}

#[test]
fn pod_that_asks_for_injection_is_told_why_it_gets_none() {
    let asking = [
        on_the_node().labelled(names::INJECT, "enabled"),
        on_the_node().annotated(names::INJECT, "true"),
        on_the_node()
            .annotated(names::INJECT, "enabled")
            .requesting("/namespace", "plain"),
    ];
    for call in asking {
        let answer = call.mutate();
        answer.skipped("host-network");
        assert!(answer.warnings().contains("hostNetwork"), "{}", answer.warnings());
    }
}

#[test]
fn pod_in_its_own_network_is_injected() {
    for call in [
        on_the_node().with("/spec/hostNetwork", false),
        on_the_node().with("/spec/hostNetwork", Value::Null),
        on_the_node().without("/spec/hostNetwork"),
    ] {
        call.mutate().injected();
    }
}

#[test]
fn host_network_of_a_surprising_type_is_never_injected() {
    for value in [Value::from("true"), Value::from(1), serde_json::json!([true])] {
        on_the_node()
            .with("/spec/hostNetwork", value)
            .mutate()
            .denied("bad-pod", &["hostNetwork"]);
    }
}

#[test]
fn inject_leaves_the_deployment_as_it_is_and_says_so() {
    let run = Run::inject(DEPLOYMENT);
    assert_eq!(run.code, 0);
    assert_eq!(
        run.stdout, DEPLOYMENT,
        "standard output holds the manifest alone, comment and all"
    );
    run.reports("Deployment shop/node-agent", "host-network");
    assert!(run.stderr.contains("hostNetwork"), "{}", run.stderr);
}

#[test]
fn inject_warns_a_deployment_that_asks_for_injection() {
    let asking = DEPLOYMENT.replace(
        "environment: prod}",
        "environment: prod, outrigger.mesh/inject: enabled}",
    );
    assert_ne!(asking, DEPLOYMENT);
    let run = Run::inject(&asking);
    assert_eq!((run.code, run.stdout.as_str()), (0, asking.as_str()));
    run.reports("Deployment shop/node-agent", "warning");
}

#[test]
fn inject_takes_the_deployment_in_its_own_network() {
    let own = DEPLOYMENT.replace("hostNetwork: true", "hostNetwork: false");
    let run = Run::inject(&own);
    run.reports("Deployment shop/node-agent", "injected");
    assert_ne!(run.documents(), crate::program::documents(&own));
}
