//! Pods that cannot be in the mesh are refused with a sentence, by the real API server, rather than started broken.

use outrigger::names;
use serde_json::json;

use crate::workloads::{Echo, Mesh, text};

/// An application on one port.
fn listening_on(port: u16) -> Echo {
    Echo::new("web").container(json!({"ports": [{"containerPort": port, "name": "http"}], "readinessProbe": null}))
}

pub(crate) fn say_which_port_is_taken(mesh: &Mesh) {
    let shop = mesh.namespace("ports");
    for port in [names::HEALTH_PORT, names::INBOUND_BASE, names::OUTBOUND_BASE] {
        let app = listening_on(port).upstreams("- orders:8080");

        let refusal = shop.refusal(&app.bare_pod().to_string());

        for part in ["port-taken", &port.to_string(), "\"app\"", "denied the request"] {
            assert!(refusal.contains(part), "{part}: {refusal}");
        }
    }

    // Who applies a Deployment is not told; its ReplicaSet is.
    shop.create(&listening_on(names::HEALTH_PORT));
    shop.eventually("the ReplicaSet says why there is no pod", || {
        let events = shop.get(&["events", "--field-selector=reason=FailedCreate"]);
        let mut events = events["items"].as_array().unwrap().iter();
        events.any(|event| text(&event["message"]).contains("port-taken"))
    });
}

pub(crate) fn say_that_a_configuration_is_too_large(mesh: &Mesh) {
    let shop = mesh.namespace("large");
    let name = "n".repeat(60);
    // A hundred services of ten shares each, all of them tried again as often as can be.
    let upstreams: String = (0..100)
        .map(|n| {
            let shares: String = (0..9)
                .map(|share| format!("    - {{service: '{name}-{share}:{}', weight: 1}}\n", 1000 + n))
                .collect();
            format!("- service: {name}:{}\n  retries: 10\n  split:\n{shares}", 1000 + n)
        })
        .collect();
    let app = Echo::new("web").upstreams(&upstreams);

    let refusal = shop.refusal(&app.bare_pod().to_string());

    for part in ["annotations", "262144", "denied the request"] {
        assert!(refusal.contains(part), "{part}: {refusal}");
    }
}
