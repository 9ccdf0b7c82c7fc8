//! What administrators set for a namespace's pods holds for injected ones: LimitRange, ResourceQuota, PodSecurity.

use outrigger::names;
use serde_json::{Value, json};

use crate::explicit::explicit;
use crate::workloads::{Echo, Mesh, Namespace, text};

/// Room for one injected pod and not for two.
const LIMITS: &str = "
apiVersion: v1
kind: LimitRange
metadata: {name: containers}
spec:
  limits:
    - type: Container
      min: {cpu: 5m, memory: 8Mi}
      max: {cpu: '1', memory: 512Mi}
      default: {cpu: 200m, memory: 64Mi}
      defaultRequest: {cpu: 20m, memory: 16Mi}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: pods}
spec:
  hard: {pods: '2', requests.cpu: 40m, requests.memory: 64Mi, limits.cpu: '2', limits.memory: 256Mi}
";

pub(crate) fn hold_in_a_restricted_namespace(mesh: &Mesh) {
    let restricted = [("pod-security.kubernetes.io/enforce", "restricted")];
    let place = mesh.labelled("restricted", &restricted);
    let secure = json!({"securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}});
    let web = explicit("web").container(secure).spec(json!({
        "terminationGracePeriodSeconds": 2,
        "automountServiceAccountToken": false,
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
    }));

    let pod = runs_within_limits(&place, &web);

    let mounts = containers(&pod)
        .filter_map(|container| container["volumeMounts"].as_array())
        .flatten();
    let tokens = mounts.filter(|mount| text(&mount["mountPath"]).contains("serviceaccount"));
    assert_eq!(tokens.collect::<Vec<_>>(), Vec::<&Value>::new());

    let redirected = Echo::new("redirected").bare_pod().to_string();
    let refusal = place.refusal(&redirected);
    assert!(refusal.contains("violates PodSecurity \"restricted"), "{refusal}");
    assert!(refusal.contains(names::REDIRECT_CONTAINER), "{refusal}");
}

pub(crate) fn hold_with_redirect(mesh: &Mesh) {
    let place = mesh.namespace("limited");
    runs_within_limits(&place, &Echo::new("web"));
}

/// Deploys an application, which says nothing of resources; its pod.
fn runs_within_limits(place: &Namespace<'_>, web: &Echo) -> Value {
    place.apply(LIMITS);
    // The quota is in force once it has been counted.
    place.eventually("the quota is counted", || {
        place.get(&["resourcequota", "pods"])["status"]["used"].is_object()
    });
    place.deploy(&[web]);
    assert_eq!(place.call_service("web", 8080, "/", &[]).unwrap().status, 200);

    let pod = place.get(&["pod", &place.pod("web")]);
    // What a HorizontalPodAutoscaler needs of every container.
    for container in containers(&pod) {
        for resource in ["cpu", "memory"] {
            assert!(container["resources"]["requests"][resource].is_string(), "{container}");
            assert!(container["resources"]["limits"][resource].is_string(), "{container}");
        }
    }
    place.eventually("the proxy counts", || {
        let used = place.get(&["resourcequota", "pods"])["status"]["used"].take();
        used["requests.cpu"] == "30m" && used["requests.memory"] == "48Mi"
    });
    let second = web
        .bare_pod()
        .to_string()
        .replace("\"name\":\"web\"", "\"name\":\"second\"");
    let refusal = place.refusal(&second);
    assert!(refusal.contains("exceeded quota: pods"), "{refusal}");
    pod
}

/// All containers of a pod, init containers too.
fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    let kinds = ["containers", "initContainers"].into_iter();
    kinds.filter_map(|kind| pod["spec"][kind].as_array()).flatten()
}
