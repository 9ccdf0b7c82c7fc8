//! What fails around an injected pod, and how it goes on.

use outrigger::names;
use serde_json::{Value, json};

use crate::explicit::explicit;
use crate::positions::POSITIONS;
use crate::workloads::{Echo, Mesh, Namespace, status_of, text};

/// The address on which an application calls its first upstream with `explicit`.
fn first_upstream() -> String {
    format!("http://127.0.0.1:{}/", names::OUTBOUND_BASE)
}

/// The status of a call, as the application sees it.
fn status(shop: &Namespace<'_>, app: &str, url: &str) -> Value {
    let called = shop
        .call_through(app, url, &[])
        .unwrap_or_else(|error| panic!("{app}: {error}"));
    called["status"].clone()
}

/// With `redirect` a pod waits in its init container, which says for what; with `explicit` the calls fail, and nothing else.
pub(crate) fn waits_for_a_service_that_is_missing(mesh: &Mesh) {
    let shop = mesh.namespace("missing");
    shop.create(&Echo::new("redirected").upstreams("- late:8080"));
    shop.deploy(&[&explicit("explicit").upstreams("- late:8080")]);
    let name = "late.missing.svc.cluster.local";
    assert_eq!(status(&shop, "explicit", &first_upstream()), 502);

    let pod = shop.pod("redirected");
    let init = || status_of(&shop.get(&["pod", &pod]), names::REDIRECT_CONTAINER);
    shop.eventually("it says what it waits for", || {
        let log = shop.kubectl(&["logs", &pod, "-c", names::REDIRECT_CONTAINER]);
        log.output.contains(&format!("waiting for the address of {name}"))
    });
    shop.eventually("it fails, and is tried again", || {
        init()["restartCount"].as_u64() >= Some(1)
    });
    let message = text(&init()["lastState"]["terminated"]["message"]);
    assert!(message.contains(&format!("of {name} (")), "{message}");
    assert!(message.contains("create the Services before the pod"), "{message}");

    shop.deploy(&[&Echo::new("late")]);

    shop.wait_until_served("redirected");
    assert_eq!(status(&shop, "redirected", "http://late:8080/"), 200);
    shop.eventually("the name is looked up again", || {
        status(&shop, "explicit", &first_upstream()) == 200
    });
}

/// Pods of the service that is called go, and others come.
pub(crate) fn answers_again_when_a_service_comes_back(mesh: &Mesh) {
    let shop = mesh.namespace("away");
    shop.deploy(&[&Echo::new("orders"), &Echo::new("ledger").headless()]);
    shop.deploy(&[
        &Echo::new("redirected").upstreams("- orders:8080"),
        &explicit("explicit").upstreams("- ledger:8080"),
    ]);
    let calls = [
        ("orders", "redirected", "http://orders:8080/".to_owned()),
        ("ledger", "explicit", first_upstream()),
    ];
    for (_, caller, url) in &calls {
        assert_eq!(status(&shop, caller, url), 200, "{caller}");
    }

    scale(&shop, 0);
    for (_, caller, url) in &calls {
        shop.eventually(&format!("{caller} gets an answer that says so"), || {
            [502, 504].map(Value::from).contains(&status(&shop, caller, url))
        });
    }

    scale(&shop, 1);
    for (service, caller, url) in &calls {
        shop.wait_until_served(service);
        shop.eventually(&format!("{caller} reaches it again"), || {
            status(&shop, caller, url) == 200
        });
        let pod = shop.get(&["pod", &shop.pod(caller)]);
        assert_eq!(status_of(&pod, names::PROXY_CONTAINER)["restartCount"], 0);
    }
}

fn scale(shop: &Namespace<'_>, replicas: u32) {
    let replicas = format!("--replicas={replicas}");
    let scale = ["scale", &replicas, "deployment/orders", "deployment/ledger"];
    shop.kubectl(&scale).expect_success();
}

/// The kubelet starts it again; the application does not notice, but for the calls of that moment.
pub(crate) fn survives_the_end_of_nginx(mesh: &Mesh) {
    let shop = mesh.namespace("killed");
    shop.deploy(&[&Echo::new("orders")]);
    let apps = POSITIONS.map(|position| {
        Echo::new(position)
            .annotation(names::POSITION, position)
            .upstreams("- orders:8080")
    });
    shop.deploy(&apps.each_ref());
    let pods = POSITIONS.map(|position| shop.pod(position));
    let before: Vec<Value> = pods.iter().map(|pod| shop.get(&["pod", pod])).collect();

    for pod in &pods {
        shop.node.kill_container(&shop.name, pod, names::PROXY_CONTAINER);
    }

    for (pod, before) in pods.iter().zip(&before) {
        let now = || shop.get(&["pod", pod]);
        shop.eventually("nginx runs again", || {
            let proxy = status_of(&now(), names::PROXY_CONTAINER);
            proxy["restartCount"] == 1 && proxy["ready"] == true
        });
        let id = format!("X-Request-Id: again-{pod}");
        let url = format!("http://{}:8080/call?url=http://orders:8080/again", shop.address(pod));
        let reply = shop.call(&url, &["-H", &id]).unwrap();
        assert_eq!((reply.status, &reply.json()["status"]), (200, &json!(200)), "{pod}");
        shop.logged(
            pod,
            &json!({"request_id": format!("again-{pod}"), "port": names::INBOUND_BASE}),
        );
        shop.logged(pod, &json!({"path": "/again", "port": names::OUTBOUND_BASE}));
        let (app, earlier) = (status_of(&now(), "app"), status_of(before, "app"));
        assert_eq!(
            (&app["restartCount"], &app["containerID"]),
            (&json!(0), &earlier["containerID"])
        );
    }
}
