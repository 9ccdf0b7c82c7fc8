//! A cluster that hands out no identities: one before Kubernetes 1.37.

use outrigger::names;
use serde_json::json;

use crate::workloads::{Mesh, client};
use crate::{caller, mesh, mtls};

/// Keeps the API server from serving them (KEP-4317).
pub(crate) const WITHOUT: &str = "--feature-gates=PodCertificateRequest=false";

pub(crate) fn secrets_stand_in_for_the_api(mesh: &Mesh) {
    let served = mesh
        .node
        .cluster
        .kubectl(&["api-resources", "--api-group=certificates.k8s.io"]);
    let served = served.expect_success();
    assert!(
        served.contains("signingrequests") && !served.contains("podcertificaterequests"),
        "{served}"
    );
    let (shop, bank) = (mesh.namespace("older-shop"), mesh.namespace("older-bank"));
    shop.eventually("the server says so", || {
        let log = [
            "-n",
            "outrigger-system",
            "logs",
            "-l",
            "app.kubernetes.io/name=outrigger",
            "--tail=-1",
        ];
        let log = mesh.node.cluster.kubectl(&log).expect_success();
        log.contains("this cluster has no PodCertificateRequest: no identities are issued")
    });

    let authority = mesh::Mesh::new();
    for namespace in [&shop, &bank] {
        let leaf = authority.leaf(&namespace.name, "default");
        namespace.apply(&authority.secret("proxy-tls", &leaf).to_string());
    }
    let with_secret = |app: crate::workloads::Echo| {
        let app = app.annotation(names::IDENTITY_SECRET, "proxy-tls");
        app.annotation(names::MTLS, "strict")
    };
    bank.deploy_unreached(&[&with_secret(mtls("ledger"))]);
    let web = with_secret(caller("web", &format!("- ledger.{}:8080", bank.name)));
    shop.deploy(&[&web, &client("outside")]);

    let url = format!("http://ledger.{}:8080/called", bank.name);
    let reply = shop.call_from(&shop.pod("web"), &url, &[]).unwrap();
    assert_eq!(reply.status, 200, "{reply:?}");
    let expected = format!("O=cluster.local,OU={},CN=default", shop.name);
    assert_eq!(reply.json()["headers"]["X-Outrigger-Client"], json!([expected]));
    assert_eq!(shop.call_from(&shop.pod("outside"), &url, &[]).unwrap().status, 403);
}
