//! What must hold, as `case.md` says.

use outrigger::names::{self, PROXY_CONTAINER, REDIRECT_CONTAINER};
use serde_json::{Value, json};

use crate::call;
use crate::guarantees::{container, names_in};
use crate::program::{Run, outrigger};
use crate::review::Call;

fn with_init() -> Call {
    call(include_str!("review.json"))
}

fn modes(call: &Call) -> Vec<(Option<&'static str>, Call)> {
    let mut all = Vec::new();
    for template in crate::TEMPLATES {
        for position in crate::POSITIONS {
            let call = call.annotated(names::TEMPLATE, template);
            let call = position.map_or_else(|| call.clone(), |p| call.annotated(names::POSITION, p));
            all.push((position, call));
        }
    }
    all
}

/// Whether no init container of the user's runs while the rules are there and the proxy is not.
fn has_network(pod: &Value) -> bool {
    match names_in(pod, "initContainers")[..] {
        [REDIRECT_CONTAINER, PROXY_CONTAINER, ..] => {
            let proxy = container(pod, PROXY_CONTAINER);
            let probed = proxy.get("startupProbe").is_some() || proxy.get("readinessProbe").is_some();
            proxy["restartPolicy"] == "Always" && probed
        }
        [.., last] => last == REDIRECT_CONTAINER,
        [] => false,
    }
}

#[test]
fn redirect_never_cuts_off_the_init_containers() {
    for (position, call) in modes(&with_init()) {
        let pod = call.mutate().injected();
        assert!(
            has_network(&pod),
            "{position:?}: {:?}",
            names_in(&pod, "initContainers")
        );
        let own: Vec<&str> = names_in(&pod, "initContainers")
            .into_iter()
            .filter(|name| ![PROXY_CONTAINER, REDIRECT_CONTAINER].contains(name))
            .collect();
        assert_eq!(own, ["download", "upgrade"]);
    }
}

#[test]
fn native_sidecar_of_the_user_keeps_its_network_too() {
    let call = with_init().with("/spec/initContainers/0/restartPolicy", "Always");
    for (position, call) in modes(&call) {
        assert!(has_network(&call.mutate_in_library().injected()), "{position:?}");
    }
}

#[test]
fn explicit_traffic_leaves_the_init_containers_alone() {
    for (position, call) in modes(&with_init().annotated(names::TRAFFIC, "explicit")) {
        let pod = call.mutate().injected();
        let mut expected = vec!["download", "upgrade"];
        if position == Some("native") {
            expected.insert(0, PROXY_CONTAINER);
        }
        assert_eq!(names_in(&pod, "initContainers"), expected, "{position:?}");
    }
}

#[test]
fn exemption_of_the_proxy_is_no_way_out_for_the_application() {
    let as_proxy = json!({"runAsUser": names::PROXY_UID});
    for (container, call) in [
        (
            "app",
            with_init().with("/spec/containers/0/securityContext", as_proxy.clone()),
        ),
        (
            "upgrade",
            with_init().with("/spec/initContainers/1/securityContext", as_proxy.clone()),
        ),
        ("app", with_init().with("/spec/securityContext", as_proxy)),
    ] {
        call.mutate().denied("uid-taken", &[container, "101"]);
        call.annotated(names::TRAFFIC, "explicit").mutate().injected();
    }
}

#[test]
fn reference_says_that_init_traffic_is_not_in_the_mesh() {
    let run = Run::from(outrigger().arg("docs"));
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.contains("init containers is not in the mesh"));
}
