//! What the server may do in the cluster, against what it did: the chart grants that and nothing else.

use std::collections::BTreeSet;

use base64::prelude::{BASE64_STANDARD, Engine};
use outrigger::names::{SIGNER, TRUST_BUNDLE};
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
    change_the_trust_bundle(release);
    ask_for_an_identity(release);
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

/// The server puts it right.
fn change_the_trust_bundle(release: &Release<'_>) {
    let bundle = || release.get(&["clustertrustbundle", TRUST_BUNDLE])["spec"]["trustBundle"].take();
    let ours = bundle();
    let foreign = json!({"spec": {"trustBundle": release.authorities().concat()}}).to_string();
    let edit = [
        "patch",
        "clustertrustbundle",
        TRUST_BUNDLE,
        "--type=merge",
        "-p",
        &foreign,
    ];
    release.kubectl(&edit);
    eventually("the trust bundle is put right", || bundle() == ours);
}

/// As a kubelet does for a pod.
fn ask_for_an_identity(release: &Release<'_>) {
    let key = rcgen::KeyPair::generate().expect("there is randomness");
    let stub = rcgen::CertificateParams::default().serialize_request(&key);
    let request = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "PodCertificateRequest",
    "metadata": {"name": "some-pod"}, "spec": {
        "signerName": SIGNER, "podName": "some-pod", "podUID": "1", "serviceAccountName": "default",
        "serviceAccountUID": "2", "nodeName": "node", "nodeUID": "3", "maxExpirationSeconds": 3600,
        "stubPKCS10Request": BASE64_STANDARD.encode(stub.expect("a key of ours").der()),
    }});
    let namespaced = ["-n", crate::release::NAMESPACE, "create", "-f", "-"];
    let created = release.node.cluster.kubectl_reading(&request.to_string(), &namespaced);
    created.expect_success();
    eventually("it is answered", || {
        release.get(&["podcertificaterequest", "some-pod"])["status"]["certificateChain"].is_string()
    });
}

fn used(release: &Release<'_>) -> Rights {
    let log = std::fs::read_to_string(release.node.audit_log()).expect("the API server writes it");
    let events = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"));
    let ours = events.filter(|event| event["user"]["username"] == ACCOUNT);
    ours.filter_map(|event| {
        let object = &event["objectRef"];
        let resource = [object.get("resource")?, &object["subresource"]].map(text).join("/");
        let resource = format!("{}/{}", text(&object["apiGroup"]), resource.trim_end_matches('/'));
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
    // Verbs on a signer are asked for by the API server itself when others are used, and no request.
    let requested = rules.filter(|rule| rule["resources"] != json!(["signers"]));
    requested.flat_map(rights_of).collect()
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
