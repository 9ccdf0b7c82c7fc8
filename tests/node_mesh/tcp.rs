//! Upstreams of TCP: what passes, and what does not apply.

use serde_json::json;

use crate::workloads::{Mesh, Namespace, text};
use crate::{RAW, caller, deploy, speaking_all};

const UPSTREAMS: &str = "- {service: orders:9000, protocol: tcp, timeout: 1s}";

/// What a shell in the caller's pod says to the upstream, and hears.
fn talk(shop: &Namespace<'_>, script: &str) -> String {
    let command = format!("({script}) | nc -w 20 orders {RAW}");
    let arguments = ["exec", &shop.pod("web"), "-c", "app", "--", "sh", "-c", &command];
    shop.kubectl(&arguments).output
}

#[test]
fn connections_pass_and_end_as_they_would_without_a_proxy() {
    let mesh = Mesh::shared();
    let shop = mesh.namespace("tcp");
    deploy(&shop, &[&speaking_all("orders")], &caller("web", UPSTREAMS));
    let (web, orders) = (shop.pod("web"), shop.pod("orders"));

    // The caller ends its side at once, and listens on.
    let answers = talk(&shop, "echo one; echo two");
    assert_eq!(answers, format!("{orders} one\n{orders} two\n"));
    let logged = |pod: &str, port: u16| {
        let line = &shop.logged(pod, &json!({"port": port, "received": 8}))[0];
        (line["status"].clone(), line["sent"].clone(), text(&line["remote"]))
    };
    let seen = (json!(200), json!(answers.len()), shop.address(&web));
    assert_eq!(logged(&web, 15100), seen, "by the caller's proxy");
    assert_eq!(logged(&orders, 15201), seen, "by the callee's");

    // A connection lives as long as it is used, and not much longer than its timeout when it is not.
    let busy = talk(&shop, "for n in 1 2 3 4; do echo $n; sleep 0.5; done");
    assert_eq!(busy.lines().count(), 4, "{busy}");
    let silent = talk(&shop, "echo one; sleep 4; echo two");
    assert_eq!(silent, format!("{orders} one\n"));

    let refusal = shop.refusal(
        &caller("again", "- {service: orders:9000, protocol: tcp, retries: 1}")
            .bare_pod()
            .to_string(),
    );
    assert!(refusal.contains("a tcp connection cannot be tried again"), "{refusal}");
}
