//! The kubelet's probes of an injected pod, of every kind and handler: they mean the application, in both traffic modes.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use outrigger::names;
use serde_json::{Value, json};

use crate::cluster::processes::signal;
use crate::node::images::{BUSYBOX, ECHO};
use crate::workloads::{Echo, Mesh, Namespace, status_of, text};

const TRAFFIC: [&str; 2] = ["redirect", "explicit"];

/// A container for each handler, called like it; its port, where it has one, has that name too.
const HANDLERS: [&str; 5] = ["http", "https", "tcp", "grpc", "exec"];

/// A pod whose containers have all probes, or of which none answers.
fn probed(traffic: &str, serves: bool) -> Value {
    let containers: Vec<Value> = HANDLERS.iter().map(|handler| container(handler, serves)).collect();
    let mut pod = Echo::new(traffic).annotation(names::TRAFFIC, traffic).bare_pod();
    pod["spec"]["containers"] = containers.into();
    pod
}

fn container(handler: &str, serves: bool) -> Value {
    let (port, probe) = match handler {
        "http" => (8080, json!({"httpGet": {"path": "/probe", "port": "http"}})),
        "https" => (
            8443,
            json!({"httpGet": {"path": "/probe", "port": "https", "scheme": "HTTPS"}}),
        ),
        "tcp" => (9000, json!({"tcpSocket": {"port": "tcp"}})),
        "grpc" => (9100, json!({"grpc": {"port": 9100}})),
        _ => return executing(serves),
    };
    let mut container = json!({"name": handler, "image": ECHO, "imagePullPolicy": "Never", "args": ["serve"],
        "ports": [{"name": handler, "containerPort": port}]});
    if serves {
        container["args"] = json!(["serve", format!("-{handler}=:{port}")]);
    }
    with_probes(container, &probe)
}

fn executing(succeeds: bool) -> Value {
    let command = if succeeds { "true" } else { "false" };
    let container = json!({"name": "exec", "image": BUSYBOX, "imagePullPolicy": "Never",
        "command": ["sh", "-c", "exec sleep 100000"]});
    with_probes(container, &json!({"exec": {"command": [command]}}))
}

fn with_probes(mut container: Value, handler: &Value) -> Value {
    for (probe, failures) in [("startupProbe", 60), ("readinessProbe", 1), ("livenessProbe", 3)] {
        let mut fields = handler.clone();
        fields["periodSeconds"] = 1.into();
        // A busy machine answers late.
        fields["timeoutSeconds"] = 5.into();
        fields["failureThreshold"] = failures.into();
        container[probe] = fields;
    }
    container
}

pub(crate) fn reach_the_application(mesh: &Mesh) {
    let shop = mesh.namespace("probes");
    for traffic in TRAFFIC {
        shop.apply(&probed(traffic, true).to_string());
    }
    for traffic in TRAFFIC {
        shop.wait_for("condition=Ready", &format!("pod/{traffic}"));
    }

    // As often as a failure would take to be acted on, and more.
    thread::sleep(Duration::from_secs(8));

    for traffic in TRAFFIC {
        shop.wait_for("condition=Ready", &format!("pod/{traffic}"));
        let pod = shop.get(&["pod", traffic]);
        for handler in HANDLERS {
            let status = status_of(&pod, handler);
            assert_eq!(
                (&status["started"], &status["restartCount"]),
                (&json!(true), &json!(0)),
                "{traffic}: {status}{}",
                shop.described()
            );
        }
    }
    let probes = shop.logged("redirect", &json!({"path": "/probe", "status": 200}));
    assert!(probes.len() > 3, "the proxy passes them on: {probes:?}");
    let probes = shop.access_log("explicit");
    assert_eq!(probes, Vec::<Value>::new(), "they reach the application's own port");
}

/// No handler is answered by the proxy in the place of an application that does not listen.
pub(crate) fn say_that_an_application_is_dead(mesh: &Mesh) {
    let shop = mesh.namespace("dead");
    for traffic in TRAFFIC {
        shop.apply(&probed(traffic, false).to_string());
    }
    for traffic in TRAFFIC {
        shop.eventually("a probe of each has failed", || {
            failed(&shop, traffic) == HANDLERS.map(str::to_owned).into()
        });
        let pod = shop.get(&["pod", traffic]);
        for handler in HANDLERS {
            let status = status_of(&pod, handler);
            assert_eq!(
                (&status["started"], &status["ready"]),
                (&json!(false), &json!(false)),
                "{traffic}: {status}"
            );
        }
        assert_eq!(status_of(&pod, names::PROXY_CONTAINER)["ready"], true);
    }
}

/// The containers of whose startup probe a failure was reported.
fn failed(shop: &Namespace<'_>, pod: &str) -> BTreeSet<String> {
    let selector = format!("--field-selector=reason=Unhealthy,involvedObject.name={pod}");
    let events = shop.get(&["events", &selector]);
    let events = events["items"].as_array().unwrap().iter();
    let startup = events.filter(|event| text(&event["message"]).starts_with("Startup probe failed"));
    let container = startup.map(|event| text(&event["involvedObject"]["fieldPath"]));
    let name = container.map(|path| {
        path.trim_start_matches("spec.containers{")
            .trim_end_matches('}')
            .to_owned()
    });
    name.collect()
}

/// Whether it hangs is seen through the proxy as without it.
pub(crate) fn restart_an_application_that_hangs(mesh: &Mesh) {
    let shop = mesh.namespace("hanging");
    let probe = json!({"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 1, "timeoutSeconds": 2});
    let apps = TRAFFIC.map(|traffic| {
        Echo::new(traffic)
            .annotation(names::TRAFFIC, traffic)
            .container(json!({"livenessProbe": probe}))
    });
    shop.deploy(&apps.each_ref());
    for traffic in TRAFFIC {
        let processes = shop.node.container_processes(&shop.name, &shop.pod(traffic), "app");
        assert!(!processes.is_empty());
        processes.into_iter().for_each(|id| signal("STOP", id));
    }

    for traffic in TRAFFIC {
        let pod = shop.pod(traffic);
        let status = || shop.get(&["pod", &pod]);
        shop.eventually("it is restarted", || status_of(&status(), "app")["restartCount"] == 1);
        shop.wait_for("condition=Ready", &format!("pod/{pod}"));
        assert_eq!(status_of(&status(), names::PROXY_CONTAINER)["restartCount"], 0);
    }
}
