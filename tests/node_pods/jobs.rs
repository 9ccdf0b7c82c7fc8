//! Pods that run to completion: the proxy does not keep them.

use outrigger::names;
use serde_json::json;

use crate::node::images::BUSYBOX;
use crate::workloads::{Echo, Mesh, text};

pub(crate) fn end_by_themselves(mesh: &Mesh) {
    let shop = mesh.namespace("jobs");
    shop.deploy(&[&Echo::new("orders")]);
    for policy in ["Never", "OnFailure"] {
        let name = policy.to_lowercase();
        let app = json!({"name": "app", "image": BUSYBOX, "imagePullPolicy": "Never",
            "command": ["curl", "-sS", "--fail", "-m10", "http://orders:8080/by-job"]});
        let template = json!({
            "metadata": {"labels": {"environment": "dev"}, "annotations": {names::UPSTREAMS: "- orders:8080"}},
            "spec": {"restartPolicy": policy, "containers": [app]},
        });
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
            "spec": {"backoffLimit": 0, "template": template}});
        shop.apply(&job.to_string());
    }

    for name in ["never", "onfailure"] {
        shop.wait_for("condition=Complete", &format!("job/{name}"));

        let pods = shop.get(&["pods", "-l", &format!("job-name={name}")]);
        let [pod] = &pods["items"].as_array().unwrap()[..] else {
            panic!("one pod was enough: {pods}");
        };
        assert_eq!(pod["status"]["phase"], "Succeeded");
        let outbound = json!({"path": "/by-job", "port": names::OUTBOUND_BASE, "status": 200});
        shop.logged(&text(&pod["metadata"]["name"]), &outbound);
    }
}
