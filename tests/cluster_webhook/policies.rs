//! Injected pods under the cluster's own admission: PodSecurity, ResourceQuota, LimitRange.

use crate::webhooks::Mesh;
use crate::{ENABLED, GOOD, pod};

const RESTRICTED: (&str, &str) = ("pod-security.kubernetes.io/enforce", "restricted");

/// What the level `restricted` asks of the application.
const HARDENED: &str = "    securityContext: {allowPrivilegeEscalation: false, runAsNonRoot: true, capabilities: {drop: [ALL]}, \
                        seccompProfile: {type: RuntimeDefault}}\n";

#[test]
fn explicit_traffic_passes_pod_security_restricted() {
    let mesh = Mesh::shared();
    mesh.cluster.create_namespace("restricted", &[ENABLED, RESTRICTED]);
    for (index, template) in ["proxy-sidecar", "mtls"].iter().enumerate() {
        for position in ["first", "last", "native"] {
            let annotations = format!(
                "{{outrigger.mesh/traffic: explicit, outrigger.mesh/position: {position}, outrigger.mesh/template: {template}}}"
            );
            let created = mesh.create(
                "restricted",
                &pod(&format!("web-{index}-{position}"), GOOD, &annotations, HARDENED),
            );
            assert!(created.to_string().contains("proxy-sidecar"));
        }
    }
    let refusal = mesh.refusal("restricted", &pod("redirected", GOOD, "{}", HARDENED));
    assert!(
        refusal.contains("NET_ADMIN"),
        "redirected traffic needs NET_ADMIN: {refusal}"
    );
}

#[test]
fn a_quota_counts_the_proxy_and_refuses_nothing() {
    let mesh = Mesh::shared();
    mesh.cluster.create_namespace("quota", &[ENABLED]);
    let quota = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: caps}\nspec: {hard: {requests.cpu: '2', requests.memory: 2Gi, limits.cpu: '4', limits.memory: 4Gi}}\n";
    mesh.create("quota", quota);
    let range = "apiVersion: v1\nkind: LimitRange\nmetadata: {name: range}\nspec: {limits: [{type: Container, min: {cpu: 1m}, default: {cpu: '1', memory: 64Mi}}]}\n";
    mesh.create("quota", range);
    let resources = "    resources: {requests: {cpu: 50m, memory: 64Mi}, limits: {cpu: 100m, memory: 128Mi}}\n";
    crate::webhooks::eventually("the quota is worked out", || {
        let status = mesh.cluster.kubectl(&[
            "get",
            "resourcequota",
            "caps",
            "-n",
            "quota",
            "-o",
            "jsonpath={.status.hard}",
        ]);
        status.output.contains("limits")
    });
    let created = mesh.create(
        "quota",
        &pod("web", GOOD, "{outrigger.mesh/proxy-cpu-request: 20m}", resources),
    );
    let proxy = &created["spec"]["containers"][0];
    assert_eq!(proxy["resources"]["requests"]["cpu"], "20m");
    assert_eq!(created["spec"]["containers"][1]["resources"]["limits"]["cpu"], "100m");
}
