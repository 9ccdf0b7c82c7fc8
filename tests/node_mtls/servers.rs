//! Servers that are not who they should be.

use outrigger::names;
use serde_json::json;

use crate::workloads::{Mesh, Namespace};
use crate::{caller, mtls};

/// A Service without a selector that leads to a pod of another namespace: whoever may write Services could do so.
fn detour(shop: &Namespace<'_>, name: &str, address: &str) {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"ports": [{"name": "http", "port": 8080}]}});
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
        "ports": [{"name": "http", "port": 8080}], "endpoints": [{"addresses": [address]}]});
    shop.apply(&json!({"apiVersion": "v1", "kind": "List", "items": [service, slice]}).to_string());
}

fn status(shop: &Namespace<'_>, pod: &str, service: &str) -> u16 {
    let url = format!("http://{service}:8080/");
    shop.call_from(&shop.pod(pod), &url, &[]).unwrap().status
}

pub(crate) fn of_another_identity_get_no_request(mesh: &Mesh) {
    let (shop, bank) = (mesh.namespace("servers-shop"), mesh.namespace("servers-bank"));
    for account in ["ledger", "rates"] {
        bank.kubectl(&["create", "serviceaccount", account]).expect_success();
    }
    let account = |name: &str| mtls(name).spec(json!({"serviceAccountName": name}));
    bank.deploy(&[&account("ledger"), &account("rates")]);
    detour(&shop, "detour", &bank.address(&bank.pod("ledger")));
    let upstreams = "- {service: ledger.servers-bank:8080, identity: servers-bank/ledger}\n\
                     - {service: rates.servers-bank:8080, identity: servers-bank/ledger}\n\
                     - detour:8080";
    let web = caller("web", upstreams).annotation(names::MTLS, "strict");
    shop.deploy_unreached(&[&web]);
    shop.eventually("the right server is called", || {
        status(&shop, "web", "ledger.servers-bank") == 200
    });
    // Another ServiceAccount than the one that is asked for; and, where none is, another namespace.
    assert_eq!(status(&shop, "web", "rates.servers-bank"), 502);
    assert_eq!(status(&shop, "web", "detour"), 502);
    let log = shop.log(&shop.pod("web"), names::PROXY_CONTAINER);
    assert!(log.contains("upstream SSL certificate does not match"), "{log}");
    let served = |pod: &str| {
        bank.access_log(&bank.pod(pod))
            .iter()
            .filter(|line| line["port"] == 15300)
            .count()
    };
    assert_eq!(
        (served("ledger"), served("rates")),
        (1, 0),
        "no request was sent to the wrong ones"
    );
}
