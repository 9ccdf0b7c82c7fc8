//! What must hold, as `case.md` says.

use outrigger::names::{self, PROXY_CONTAINER, REDIRECT_CONTAINER};
use serde_json::{Value, json};

use crate::guarantees::{container, items, name};
use crate::review::Call;
use crate::{call, everywhere};

fn strict() -> Call {
    call(include_str!("review.json"))
}

/// The pod as given, without a context of its own, and with one that would let anything through.
fn contexts() -> Vec<Call> {
    vec![
        strict(),
        strict().without("/spec/securityContext"),
        strict().with("/spec/securityContext", Value::Null),
        strict().with("/spec/securityContext", json!({"runAsUser": 0, "runAsNonRoot": false})),
        strict().with(
            "/spec/securityContext",
            json!({"windowsOptions": null, "supplementalGroups": [0]}),
        ),
    ]
}

/// What PodSecurity `restricted` asks of a container, said by the container itself.
fn check_restricted(container: &Value) {
    let context = &container["securityContext"];
    assert_eq!(context["runAsNonRoot"], true);
    assert!(context["runAsUser"].as_u64().is_some_and(|uid| uid > 0), "{context}");
    assert_eq!(context["allowPrivilegeEscalation"], false);
    assert_eq!(context["capabilities"]["drop"], json!(["ALL"]));
    let added = items(&context["capabilities"]["add"]);
    assert!(
        added.iter().all(|capability| capability == "NET_BIND_SERVICE"),
        "{context}"
    );
    assert_eq!(context["seccompProfile"]["type"], "RuntimeDefault");
    assert_ne!(context["privileged"], true);
    for port in items(&container["ports"]) {
        assert!(port.get("hostPort").is_none(), "{port}");
    }
}

#[test]
fn proxy_is_restricted_by_itself_and_the_user_s_contexts_stay() {
    for call in contexts() {
        for (mode, call) in everywhere(&call) {
            let pod = call.mutate_in_library().injected();
            check_restricted(container(&pod, PROXY_CONTAINER));
            let before = &call.pod()["spec"];
            assert_eq!(
                pod["spec"].get("securityContext"),
                before.get("securityContext"),
                "{mode}"
            );
            assert_eq!(container(&pod, "app"), &before["containers"][0], "{mode}");
            assert_ne!(container(&pod, PROXY_CONTAINER)["securityContext"]["runAsUser"], 10001);
        }
        call.mutate().injected();
    }
}

#[test]
fn application_under_the_uid_of_the_proxy_is_refused_where_it_would_escape() {
    let call = strict().with("/spec/securityContext/runAsUser", names::PROXY_UID);
    call.annotated(names::TRAFFIC, "redirect")
        .mutate()
        .denied("uid-taken", &["app", "101"]);
    call.annotated(names::TRAFFIC, "explicit").mutate().injected();
    let own = strict().with("/spec/containers/0/securityContext/runAsUser", names::PROXY_UID);
    own.annotated(names::TRAFFIC, "redirect")
        .mutate()
        .denied("uid-taken", &["app"]);
    // The container's own uid counts, not the one that it would have inherited.
    let other = call.with("/spec/containers/0/securityContext/runAsUser", 5000);
    other.annotated(names::TRAFFIC, "redirect").mutate().injected();
}

#[test]
fn redirecting_container_has_root_and_one_capability_and_no_more() {
    for call in contexts() {
        for (mode, call) in everywhere(&call)
            .into_iter()
            .filter(|(mode, _)| mode.contains("redirect"))
        {
            let pod = call.mutate_in_library().injected();
            let context = &container(&pod, REDIRECT_CONTAINER)["securityContext"];
            assert_eq!(context["runAsUser"], 0, "{mode}");
            assert_eq!(context["runAsNonRoot"], false, "{mode}");
            assert_ne!(context["privileged"], true, "{mode}");
            assert_eq!(context["allowPrivilegeEscalation"], false, "{mode}");
            assert_eq!(context["capabilities"]["drop"], json!(["ALL"]), "{mode}");
            let added = items(&context["capabilities"]["add"]);
            assert!(added.contains(&json!("NET_ADMIN")), "{mode}");
            assert!(
                added.iter().all(|c| c == "NET_ADMIN" || c == "NET_RAW"),
                "{mode}: {added:?}"
            );
        }
    }
}

#[test]
fn nginx_writes_into_a_mounted_directory_only() {
    for (mode, call) in everywhere(&strict()) {
        let pod = call.mutate_in_library().injected();
        let proxy = container(&pod, PROXY_CONTAINER);
        assert_eq!(proxy["securityContext"]["readOnlyRootFilesystem"], true, "{mode}");
        let writable = writable_mounts(&pod, proxy);
        let written = written_paths(pod["metadata"]["annotations"][names::NGINX_CONF].as_str().unwrap());
        assert_eq!(
            written.len(),
            6,
            "{mode}: the pid and five temporary directories: {written:?}"
        );
        for path in written {
            assert!(
                writable.iter().any(|mount| path.starts_with(&format!("{mount}/"))),
                "{mode}: {path}"
            );
        }
    }
}

/// The mount paths of the volumes that are empty directories and not read-only.
fn writable_mounts(pod: &Value, container: &Value) -> Vec<String> {
    let is_empty_dir = |wanted: &str| {
        items(&pod["spec"]["volumes"])
            .iter()
            .any(|v| name(v) == wanted && v["emptyDir"].is_object())
    };
    let mounts = items(&container["volumeMounts"]).iter();
    let writable = mounts.filter(|m| is_empty_dir(name(m)) && m["readOnly"] != true);
    writable.map(|m| m["mountPath"].as_str().unwrap().to_owned()).collect()
}

/// The paths of the directives by which nginx writes, but for its standard streams.
fn written_paths(config: &str) -> Vec<String> {
    const DIRECTIVES: [&str; 8] = [
        "pid",
        "client_body_temp_path",
        "proxy_temp_path",
        "fastcgi_temp_path",
        "uwsgi_temp_path",
        "scgi_temp_path",
        "error_log",
        "access_log",
    ];
    let directives = config
        .lines()
        .filter_map(|line| line.trim().strip_suffix(';')?.split_once(' '));
    let paths = directives
        .filter(|(name, _)| DIRECTIVES.contains(name))
        .map(|(_, rest)| rest.split(' ').next().unwrap());
    let files = paths.filter(|path| !["stderr", "off", "/dev/stdout"].contains(path));
    files.map(str::to_owned).collect()
}

#[test]
fn files_of_the_proxy_are_readable_whatever_the_group() {
    let secret = strict().annotated(names::IDENTITY_SECRET, "front-tls");
    for call in [strict(), secret] {
        for (mode, call) in everywhere(&call) {
            let pod = call.mutate_in_library().injected();
            for volume in items(&pod["spec"]["volumes"]) {
                check_modes(&mode, volume);
            }
        }
    }
}

/// Every `mode` and `defaultMode` lets others read; without one it is 0644.
fn check_modes(mode: &str, value: &Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let bits = ["mode", "defaultMode"]
                    .contains(&key.as_str())
                    .then(|| value.as_u64())
                    .flatten();
                assert!(bits.is_none_or(|bits| bits & 0o004 != 0), "{mode}: {key} {bits:?}");
                check_modes(mode, value);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| check_modes(mode, value)),
        _ => {}
    }
}
