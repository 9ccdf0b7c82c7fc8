//! The server's life beside a real API server.

use crate::webhooks::{Mesh, Server, page};
use crate::{ENABLED, GOOD, pod};

#[test]
fn is_ready_once_namespaces_are_synced_and_stops_with_grace() {
    let cluster = crate::cluster::Cluster::shared();
    let server = Server::start(&cluster, "graceful", &[("OUTRIGGER_LOG_FORMAT", "text")]);
    assert_eq!(page(server.admin, "/livez").0, 200);
    let (status, text) = page(server.admin, "/readyz");
    assert_eq!(status, 200, "{text}");
    assert!(text.contains("namespaces"), "each check is named: {text}");
    assert_eq!(server.terminate(), "outrigger ended with exit status: 0");
    assert!(server.log_text().contains("draining"));
}

#[test]
fn the_log_names_the_pod_and_the_reason() {
    let mesh = Mesh::shared();
    mesh.cluster.create_namespace("logged", &[ENABLED]);
    let yaml = pod("PLACEHOLDER", GOOD, "{}", "").replace("  name: PLACEHOLDER\n", "  generateName: cart-7f9c-\n");
    mesh.create("logged", &yaml);
    let log = mesh.server().log_text();
    let line = log
        .lines()
        .find(|line| line.contains("cart-7f9c-*"))
        .unwrap_or_else(|| panic!("no line for the pod: {log}"));
    for part in [
        "uid",
        "namespace=\"logged\"",
        "outcome=\"injected\"",
        "endpoint=\"mutate\"",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
}

#[test]
fn metrics_count_by_endpoint_and_outcome() {
    let mesh = Mesh::shared();
    mesh.cluster.create_namespace("counted", &[ENABLED]);
    let series = |endpoint: &str, outcome: &str| {
        mesh.metric(&format!(
            "outrigger_admission_requests_total{{endpoint=\"{endpoint}\",outcome=\"{outcome}\"}}"
        ))
    };
    let before = (series("mutate", "uid-taken"), series("mutate", "pod-disabled"));
    mesh.refusal(
        "counted",
        &pod("taken", GOOD, "{}", "  securityContext: {runAsUser: 101}\n"),
    );
    mesh.create("counted", &pod("out", GOOD, "{outrigger.mesh/inject: 'false'}", ""));
    assert_eq!(series("mutate", "uid-taken"), before.0 + 1.0);
    assert_eq!(series("mutate", "pod-disabled"), before.1 + 1.0);
}
