//! The end of a pod: what is in flight is finished, what comes is served, and callers that keep connections go elsewhere.

use std::thread;
use std::time::Duration;

use outrigger::names;
use serde_json::json;

use crate::positions::POSITIONS;
use crate::workloads::{Echo, Load, Mesh, Namespace, client};

/// An application that ends as soon as its requests are answered, with enough time for them.
fn with_grace(position: &str, seconds: u32) -> Echo {
    Echo::new(position)
        .annotation(names::POSITION, position)
        .spec(json!({"terminationGracePeriodSeconds": seconds}))
}

pub(crate) fn finishes_what_is_in_flight(mesh: &Mesh) {
    let shop = mesh.namespace("in-flight");
    let apps = POSITIONS.map(|position| with_grace(position, 20));
    shop.deploy(&apps.each_ref());

    thread::scope(|scope| {
        for position in POSITIONS {
            let shop = &shop;
            scope.spawn(move || is_answered_after_the_deletion(shop, position));
        }
    });
}

fn is_answered_after_the_deletion(shop: &Namespace<'_>, position: &str) {
    let pod = shop.pod(position);
    let address = format!("http://{}:8080", shop.address(&pod));
    let reply = thread::scope(|scope| {
        let slow = scope.spawn(|| shop.call(&format!("{address}/slow?for=8s&id=slow"), &[]));
        shop.eventually("the application has the request", || {
            let count = shop.call(&format!("{address}/count?of=slow"), &[]);
            count.is_ok_and(|reply| reply.body.trim() == "1")
        });

        shop.kubectl(&["delete", "pod", &pod, "--wait=false"]).expect_success();

        assert!(!slow.is_finished(), "{position}: it was answered before the deletion");
        slow.join().unwrap()
    });
    let reply = reply.unwrap_or_else(|error| panic!("{position}: {error}"));
    assert_eq!(
        (reply.status, &*reply.body, reply.served_by()),
        (200, "done\n", &*pod),
        "{position}"
    );
}

/// The application goes on for a while after SIGTERM: it is called, and calls.
pub(crate) fn carries_calls_of_an_application_that_drains(mesh: &Mesh) {
    let shop = mesh.namespace("draining");
    shop.deploy(&[&Echo::new("orders")]);
    let apps = POSITIONS.map(|position| {
        with_grace(position, 30)
            .argument("-drain=10s")
            .upstreams("- orders:8080")
    });
    shop.deploy(&apps.each_ref());

    for position in POSITIONS {
        let pod = shop.pod(position);
        let call = format!("http://{}:8080/call?url=http://orders:8080/late", shop.address(&pod));
        let before = shop.call(&call, &[]).unwrap();
        assert_ne!(before.header("connection"), Some("close"), "{position}");

        shop.kubectl(&["delete", "pod", &pod, "--wait=false"]).expect_success();

        shop.eventually("the proxy keeps no connection", || {
            let reply = shop
                .call(&call, &[])
                .unwrap_or_else(|error| panic!("{position}: {error}"));
            assert_eq!(
                (reply.status, &reply.json()["status"]),
                (200, &json!(200)),
                "{position}"
            );
            reply.header("connection") == Some("close")
        });
    }
}

/// How a restart is called into: by callers of one connection a request and of kept ones, by HTTP and gRPC, from outside of
/// the mesh and from inside.
const LOADS: [(&str, &[&str]); 4] = [
    ("outside", &["-rate=20", "-connections=3", "HTTP"]),
    ("outside", &["-rate=10", "-connections=3", "-fresh", "HTTP"]),
    ("outside", &["-rate=10", "-connections=3", "-grpc", "GRPC"]),
    ("inside", &["-rate=20", "-connections=3", "HTTP"]),
];

/// How long the load goes on at most: it is ended after the restart.
const DURATION: Duration = Duration::from_secs(180);

#[allow(clippy::print_stdout, reason = "the numbers are what was measured")]
pub(crate) fn loses_no_request_in_a_rolling_restart(mesh: &Mesh) {
    let shop = mesh.namespace("rolling");
    let apps = POSITIONS.map(restarted);
    let upstreams: String = POSITIONS.map(|position| format!("- {position}:8080\n")).concat();
    shop.deploy(&apps.each_ref());
    shop.deploy(&[
        &client("outside"),
        &client("inside").label(names::INJECT, "enabled").upstreams(&upstreams),
    ]);
    let before = POSITIONS.map(|position| shop.pods(position));

    let loads = thread::scope(|scope| {
        let shop = &shop;
        let running: Vec<_> = POSITIONS
            .iter()
            .flat_map(|position| {
                LOADS.map(|(from, arguments)| scope.spawn(move || load(shop, from, position, arguments)))
            })
            .collect();
        // Connections are open, and carry requests.
        thread::sleep(Duration::from_secs(3));
        restart(shop, &before);
        thread::sleep(Duration::from_secs(2));
        assert!(
            running.iter().all(|load| !load.is_finished()),
            "the restart took longer than {DURATION:?}, so that its end was not under load"
        );
        for client in ["outside", "inside"] {
            shop.end_loads(&shop.pod(client));
        }
        let finished = running.into_iter().map(|load| load.join().unwrap());
        finished.collect::<Vec<_>>()
    });

    for (name, load) in &loads {
        println!(
            "rolling restart, {name}: {} requests, {} failed, {} pods answered, slowest {:.0} ms",
            load.requests,
            load.failed,
            load.served_by.len(),
            load.slowest_us / 1000.0
        );
        assert!(load.requests > 100, "{name}: {load:?}");
        assert_eq!(load.failed, 0, "{name}: {load:#?}");
    }
    each_pod_has_answered(&loads, &before);
}

/// Two replicas that go on for some seconds after SIGTERM: longer than Services lead to them, even on a machine that is short
/// of cores. One that ends sooner loses calls with a proxy as it does without.
fn restarted(position: &str) -> Echo {
    let ports = json!([{"containerPort": 8080, "name": "http"}, {"containerPort": 9100, "name": "grpc"}]);
    with_grace(position, 40)
        .replicas(2)
        .argument("-drain=12s")
        .argument("-grpc=:9100")
        .container(json!({"ports": ports}))
        .ports(json!([{"name": "http", "port": 8080}, {"name": "grpc", "port": 9100}]))
}

/// Calls the Service of a position until the time is over.
fn load(shop: &Namespace<'_>, from: &str, position: &str, arguments: &[&str]) -> (String, Load) {
    let name = format!("{position}, from {from}: {}", arguments.join(" "));
    let duration = format!("-for={}s", DURATION.as_secs());
    let arguments: Vec<String> = [&*duration]
        .iter()
        .chain(arguments)
        .map(|argument| match *argument {
            "HTTP" => format!("http://{position}:8080/"),
            "GRPC" => format!("{position}:9100"),
            other => other.to_owned(),
        })
        .collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    (name, shop.load(&shop.pod(from), &arguments))
}

/// Restarts all applications, and waits until none of the pods is left that there were.
fn restart(shop: &Namespace<'_>, before: &[Vec<String>]) {
    for position in POSITIONS {
        shop.kubectl(&["rollout", "restart", &format!("deployment/{position}")])
            .expect_success();
    }
    POSITIONS.iter().for_each(|position| shop.wait_until_served(position));
    for pod in before.iter().flatten() {
        shop.wait_for("delete", &format!("pod/{pod}"));
    }
}

/// The callers were served by pods of before and by those of afterwards.
fn each_pod_has_answered(loads: &[(String, Load)], before: &[Vec<String>]) {
    let answered = loads.iter().flat_map(|(_, load)| load.served_by.keys());
    // Answers of gRPC do not tell.
    let answered: Vec<&String> = answered.filter(|pod| !pod.is_empty()).collect();
    assert!(
        before.iter().flatten().all(|pod| answered.contains(&pod)),
        "{answered:?}"
    );
    let others = answered
        .iter()
        .filter(|pod| !before.iter().flatten().any(|old| old == **pod));
    assert!(others.count() >= before.len(), "{answered:?}");
}
