//! A mesh that comes to applications while they are called.

use std::collections::BTreeMap;
use std::sync::Arc;

use outrigger::names;
use serde_json::json;

use crate::workloads::{Echo, Load, Mesh, Namespace, client};
use crate::{GRPC, HTTP, Pair, app};

/// An application of two pods, one of which always serves, and which goes on for a moment when it is to end.
fn lasting(name: &str) -> Echo {
    let spec = json!({"terminationGracePeriodSeconds": 20});
    app(name).replicas(2).argument("-drain=4s").spec(spec)
}

/// A caller of the mesh that stays.
fn caller(name: &str) -> Echo {
    client(name).label(names::INJECT, "enabled")
}

#[test]
fn no_call_fails_while_applications_are_restarted_into_the_mesh() {
    let mesh: Arc<Mesh> = Mesh::shared();
    let pair = Pair::new(&mesh, "auto-rollout", false);
    pair.deploy(lasting);
    for namespace in &pair.namespaces {
        let label = format!("{}=enabled", names::INJECT);
        namespace
            .kubectl(&["label", "namespace", &namespace.name, &label])
            .expect_success();
    }
    pair.annotate(&[]);
    let [shop, bank] = &pair.namespaces;
    shop.deploy(&[&caller("caller")]);
    let pod = shop.pod("caller");

    let loads = std::thread::scope(|scope| {
        let hosts = pair.hosts();
        let load = |arguments: Vec<String>| {
            let pod = &pod;
            scope.spawn(move || shop.load(pod, &arguments.iter().map(String::as_str).collect::<Vec<_>>()))
        };
        let started: Vec<_> = hosts
            .iter()
            .flat_map(|host| {
                let url = format!("http://{host}:{HTTP}/");
                let rate = ["-rate=20", "-for=10m"].map(str::to_owned);
                let http = [&rate[..], &["-method=POST".to_owned(), "-fresh".to_owned(), url]].concat();
                let grpc = [&rate[..], &["-grpc".to_owned(), format!("{host}:{GRPC}")]].concat();
                [
                    (format!("http {host}"), load(http)),
                    (format!("grpc {host}"), load(grpc)),
                ]
            })
            .collect();
        restart_all([
            (bank, "rates"),
            (shop, "orders"),
            (bank, "audit"),
            (shop, "web"),
            (shop, "stock"),
            (bank, "ledger"),
        ]);
        // Until the last pods without a proxy are gone: what is called then is the mesh alone.
        std::thread::sleep(std::time::Duration::from_secs(8));
        shop.end_loads(&pod);
        let ended = started
            .into_iter()
            .map(|(name, load)| (name, load.join().expect("it reports")));
        ended.collect::<BTreeMap<String, Load>>()
    });

    let failed: Vec<_> = loads.iter().filter(|(_, load)| load.failed > 0).collect();
    assert!(failed.is_empty(), "{failed:?}\n{}", complaints(shop, &pod));
    for (name, load) in &loads {
        assert!(load.requests > 100, "{name}: {load:?}");
        // Pods without a proxy before, and with one after.
        assert!(load.served_by.len() >= 2, "{name}: {load:?}");
    }
}

/// What a caller's proxy said of calls that failed, for the message of a failure.
fn complaints(namespace: &Namespace<'_>, pod: &str) -> String {
    let log = namespace.log(pod, names::PROXY_CONTAINER);
    // A server without a proxy is no failure.
    let usual = |line: &&str| line.contains("SSL_do_handshake") || line.contains("\"status\":20");
    log.lines().filter(|line| !usual(line)).collect::<Vec<_>>().join("\n")
}

/// Restarts Deployments, two at a time, each whole before the next.
fn restart_all(all: [(&Namespace<'_>, &str); 6]) {
    for pair in all.chunks(2) {
        for (namespace, app) in pair {
            namespace
                .kubectl(&["rollout", "restart", &format!("deployment/{app}")])
                .expect_success();
        }
        for (namespace, app) in pair {
            namespace.wait_until_served(app);
        }
    }
}
