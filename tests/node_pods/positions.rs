//! Where the proxy stands: init containers have the network in every position, and the application finds its proxy.

use outrigger::names;
use serde_json::{Value, json};

use crate::node::images::BUSYBOX;
use crate::workloads::{Echo, Mesh, Namespace, status_of, text};

/// Every position.
pub(crate) const POSITIONS: [&str; 3] = ["first", "last", "native"];

/// An application whose init container calls `orders` once, and fails with the call.
fn with_init_container(position: &str) -> Echo {
    let ask = json!({"name": "ask", "image": BUSYBOX, "imagePullPolicy": "Never",
        "command": ["curl", "-sS", "--fail", "-m10", "http://orders:8080/by-init"]});
    Echo::new(position)
        .annotation(names::POSITION, position)
        .upstreams("- orders:8080")
        .spec(json!({"initContainers": [ask]}))
}

pub(crate) fn give_the_network_to_init_containers(mesh: &Mesh) {
    let shop = mesh.namespace("positions");
    shop.deploy(&[&Echo::new("orders")]);
    let apps = POSITIONS.map(with_init_container);
    shop.deploy(&apps.each_ref());

    for position in POSITIONS {
        let pod = shop.pod(position);
        asked_at_the_first_try(&shop, &pod);
        assert_eq!(
            calls_in_the_mesh(&shop, position, &pod),
            usize::from(position == "native")
        );
        let status = shop.get(&["pod", &pod]);
        let (proxy, app) = (started(&status, names::PROXY_CONTAINER), started(&status, "app"));
        assert!(position == "last" || proxy <= app, "{position}: {status}");
        assert!(position != "native" || proxy <= ended(&status, "ask"), "{status}");
    }
}

fn asked_at_the_first_try(shop: &Namespace<'_>, pod: &str) {
    let status = shop.get(&["pod", pod]);
    let ask = status_of(&status, "ask");
    assert_eq!(
        (&ask["state"]["terminated"]["exitCode"], &ask["restartCount"]),
        (&json!(0), &json!(0)),
        "{ask}"
    );
    let answer: Value = serde_json::from_str(&shop.log(pod, "ask")).unwrap();
    assert_eq!(
        (&answer["name"], &answer["path"]),
        (&json!(shop.pod("orders")), &json!("/by-init"))
    );
}

/// How many calls of the init container the proxy beside it saw.
fn calls_in_the_mesh(shop: &Namespace<'_>, app: &str, pod: &str) -> usize {
    shop.call_through(app, "http://orders:8080/by-app", &[]).unwrap();
    shop.logged(pod, &json!({"path": "/by-app", "port": names::OUTBOUND_BASE}));
    let log = shop.access_log(pod);
    let by_init = log.iter().filter(|line| line["path"] == "/by-init");
    by_init.filter(|line| line["status"] == 200).count()
}

/// When a container was started, as text that sorts.
fn started(pod: &Value, container: &str) -> String {
    let at = text(&status_of(pod, container)["state"]["running"]["startedAt"]);
    assert!(!at.is_empty(), "{container} runs: {pod}");
    at
}

fn ended(pod: &Value, container: &str) -> String {
    text(&status_of(pod, container)["state"]["terminated"]["finishedAt"])
}
