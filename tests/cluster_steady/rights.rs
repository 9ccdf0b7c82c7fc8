//! What the server may do in the cluster, against what it did: the chart grants that and nothing else.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::release::{Release, eventually};

/// The account that the server runs as.
const ACCOUNT: &str = "system:serviceaccount:outrigger-system:outrigger";

/// A verb, and the resource it is for, with its group: `patch`, `coordination.k8s.io/leases`.
type Rights = BTreeSet<(String, String)>;

/// All that was granted was used, and the other way round.
pub(crate) fn are_those_that_were_used(release: &Release<'_>) {
    ask_about_an_unknown_namespace(release);
    lose_the_lease(release);
    assert_eq!(used(release), granted(release), "the second is what the chart grants");
}

/// The one case in which the server asks while it answers: a namespace that its watch has not shown yet.
fn ask_about_an_unknown_namespace(release: &Release<'_>) {
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "1", "operation": "CREATE", "namespace": "unknown", "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"}, "object": {"metadata": {"name": "a"}, "spec": {}}}});
    let address = release.get(&["service", "outrigger"])["spec"]["clusterIP"].take();
    let url = format!("https://{}/mutate", address.as_str().expect("a Service has an address"));
    let mut curl = release.node.in_network("curl");
    curl.env_clear()
        .args(["--silent", "--show-error", "--insecure", "--noproxy", "*"]);
    curl.args([
        "--header",
        "Content-Type: application/json",
        "--data",
        &review.to_string(),
        &url,
    ]);
    let output = curl.output().expect("curl is a program");
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(said[0].contains("does not exist"), "{said:?}");
}

/// The one case in which the server makes an object.
fn lose_the_lease(release: &Release<'_>) {
    release.kubectl(&["delete", "lease", "outrigger-leader"]);
    let find = ["get", "lease", "outrigger-leader", "--ignore-not-found", "-o=name"];
    eventually("the Lease is made again", || !release.kubectl(&find).is_empty());
}

fn used(release: &Release<'_>) -> Rights {
    let log = std::fs::read_to_string(release.node.audit_log()).expect("the API server writes it");
    let events = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"));
    let ours = events.filter(|event| event["user"]["username"] == ACCOUNT);
    ours.filter_map(|event| {
        let object = &event["objectRef"];
        let resource = format!("{}/{}", text(&object["apiGroup"]), text(object.get("resource")?));
        Some((text(&event["verb"]).to_owned(), resource))
    })
    .collect()
}

fn granted(release: &Release<'_>) -> Rights {
    let roles = [
        release.get(&["clusterrole", "outrigger"]),
        release.get(&["role", "outrigger"]),
    ];
    let rules = roles.iter().filter_map(|role| role["rules"].as_array()).flatten();
    rules.flat_map(rights_of).collect()
}

fn rights_of(rule: &Value) -> Rights {
    let each = |key: &str| rule[key].as_array().into_iter().flatten().map(text).collect::<Vec<_>>();
    let (groups, resources, verbs) = (each("apiGroups"), each("resources"), each("verbs"));
    let resources = groups
        .iter()
        .flat_map(|group| resources.iter().map(move |resource| format!("{group}/{resource}")));
    resources
        .flat_map(|resource| verbs.iter().map(move |verb| ((*verb).to_owned(), resource.clone())))
        .collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
