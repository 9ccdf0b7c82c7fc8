//! What must hold, as `case.md` says.

use outrigger::names::{DEFAULT_CONTAINER, POSITION};

use crate::call;
use crate::guarantees::names_in;
use crate::review::Call;

fn two_containers() -> Call {
    call(include_str!("review.json"))
}

#[test]
fn default_container_is_the_first_of_the_user() {
    for (position, containers) in [
        (None, ["proxy-sidecar", "front", "shipper"]),
        (Some("first"), ["proxy-sidecar", "front", "shipper"]),
        (Some("last"), ["front", "shipper", "proxy-sidecar"]),
    ] {
        let call = two_containers();
        let call = position.map_or_else(|| call.clone(), |p| call.annotated(POSITION, p));
        let pod = call.mutate().injected();
        assert_eq!(
            pod["metadata"]["annotations"][DEFAULT_CONTAINER], "front",
            "{position:?}"
        );
        assert_eq!(names_in(&pod, "containers"), containers);
    }
}

#[test]
fn default_container_of_the_user_stays() {
    for position in ["first", "last", "native"] {
        let call = two_containers()
            .annotated(DEFAULT_CONTAINER, "shipper")
            .annotated(POSITION, position);
        let pod = call.mutate().injected();
        assert_eq!(pod["metadata"]["annotations"][DEFAULT_CONTAINER], "shipper");
    }
}

#[test]
fn native_proxy_leaves_the_containers_alone() {
    let pod = two_containers().annotated(POSITION, "native").mutate().injected();
    assert_eq!(names_in(&pod, "containers"), ["front", "shipper"]);
    let chosen = pod["metadata"]["annotations"].get(DEFAULT_CONTAINER);
    assert!(chosen.is_none_or(|name| name == "front"), "{chosen:?}");
}
