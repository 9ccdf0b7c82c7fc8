//! The signer of a release: hundreds of requests at once, a leader that is killed among them, and a trust bundle that others
//! write into.

use std::collections::BTreeSet;

use base64::prelude::{BASE64_STANDARD, Engine};
use futures::future::join_all;
use futures::stream::{self, StreamExt};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{PodCertificateRequest, PodCertificateRequestSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use outrigger::certificates::Certificate;
use outrigger::names::{SIGNER, TRUST_BUNDLE};
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::helm::{NAMESPACE, RELEASE, chart};
use crate::life::{get, release};
use crate::together::replica;
use crate::webhooks::{Server, eventually};

const REQUESTS: usize = 500;
const PODS: &str = "shop";

/// What a kubelet would send for a pod, which the administrator may do too.
fn request(name: &str, account: &str) -> PodCertificateRequest {
    let key = KeyPair::generate().unwrap();
    let stub = CertificateParams::default().serialize_request(&key).unwrap();
    PodCertificateRequest {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        spec: PodCertificateRequestSpec {
            signer_name: SIGNER.to_owned(),
            pod_name: name.to_owned(),
            pod_uid: "1".to_owned(),
            service_account_name: account.to_owned(),
            service_account_uid: "2".to_owned(),
            node_name: "node".to_owned(),
            node_uid: "3".to_owned(),
            max_expiration_seconds: Some(3600),
            stub_pkc_s10_request: ByteString(stub.der().to_vec()),
            ..PodCertificateRequestSpec::default()
        },
        status: None,
    }
}

fn requests(client: &Client) -> Api<PodCertificateRequest> {
    Api::namespaced(client.clone(), PODS)
}

async fn send(client: &Client, range: std::ops::Range<usize>) {
    let api = requests(client);
    let sent = stream::iter(range).map(|number| {
        let api = api.clone();
        async move {
            let request = request(&format!("pod-{number}"), "default");
            api.create(&PostParams::default(), &request).await.unwrap();
        }
    });
    sent.buffer_unordered(20).collect::<Vec<()>>().await;
}

/// A request by name, the type and message of its condition, and the chain if it was issued.
type Answer = (String, Option<(String, String)>, Option<String>);

async fn answers(client: &Client) -> Vec<Answer> {
    let listed = requests(client).list(&ListParams::default()).await.unwrap();
    let answer = |request: PodCertificateRequest| {
        let status = request.status.unwrap_or_default();
        let condition = status.conditions.unwrap_or_default().pop();
        let words = condition.map(|condition| (condition.type_, condition.message));
        (request.metadata.name.unwrap(), words, status.certificate_chain)
    };
    listed.items.into_iter().map(answer).collect()
}

fn decoded(entry: &Value) -> String {
    let bytes = BASE64_STANDARD.decode(entry.as_str().unwrap()).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// A release with its replicas.
struct Signing {
    cluster: Cluster,
    replicas: [Server; 2],
    runtime: tokio::runtime::Runtime,
}

impl Signing {
    fn install(values: &Value) -> Self {
        let cluster = Cluster::start();
        cluster.create_namespace(NAMESPACE, &[]);
        cluster.create_namespace(PODS, &[]);
        release(&cluster, &["install", RELEASE, &chart(), "-f", "-"], values);
        let replicas = ["outrigger-0", "outrigger-1"].map(|name| replica(&cluster, name, values));
        Self {
            cluster,
            replicas,
            runtime: tokio::runtime::Runtime::new().unwrap(),
        }
    }

    fn start() -> Self {
        let signing = Self::install(&json!({}));
        eventually("the trust bundle is published", || {
            signing.bundle() == signing.authorities()
        });
        signing
    }

    fn client(&self) -> Client {
        self.runtime.block_on(self.cluster.client())
    }

    fn bundle(&self) -> Option<String> {
        let bundle = self
            .cluster
            .kubectl(&["get", "clustertrustbundle", TRUST_BUNDLE, "-o=json"]);
        let bundle: Value = serde_json::from_str(&bundle.output).ok()?;
        Some(bundle["spec"]["trustBundle"].as_str()?.to_owned())
    }

    fn authorities(&self) -> Option<String> {
        let secret = get(&self.cluster, "secret", "outrigger-identity");
        Some(&secret["data"]["ca.crt"])
            .filter(|entry| entry.is_string())
            .map(decoded)
    }

    fn leader(&self) -> &Server {
        let lease = get(&self.cluster, "lease", "outrigger-leader");
        let number = lease["spec"]["holderIdentity"]
            .as_str()
            .unwrap()
            .rsplit('-')
            .next()
            .unwrap();
        &self.replicas[number.parse::<usize>().unwrap()]
    }

    fn answers(&self, client: &Client) -> Vec<Answer> {
        self.runtime.block_on(answers(client))
    }
}

#[test]
fn no_request_is_missed_though_the_leader_dies() {
    let signing = Signing::start();
    let client = signing.client();
    signing.runtime.block_on(async {
        let leader = async {
            while answers(&client)
                .await
                .iter()
                .filter(|(_, words, _)| words.is_some())
                .count()
                < REQUESTS / 10
            {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            signing.leader().signal("KILL");
        };
        let sent = send(&client, 0..REQUESTS);
        join_all([
            Box::pin(sent) as std::pin::Pin<Box<dyn Future<Output = ()> + Send>>,
            Box::pin(leader),
        ])
        .await;
    });
    eventually("every request is answered", || {
        let answers = signing.answers(&client);
        answers.len() == REQUESTS && answers.iter().all(|(_, words, _)| words.is_some())
    });
    let root = Certificate::parse_all(signing.bundle().unwrap().as_bytes())
        .unwrap()
        .remove(0);
    let mut keys = BTreeSet::new();
    for (name, words, chain) in signing.answers(&client) {
        assert_eq!(words.unwrap().0, "Issued", "{name}");
        let leaf = Certificate::parse_all(chain.unwrap().as_bytes()).unwrap().remove(0);
        assert!(leaf.is_signed_by(&root), "{name}");
        keys.insert(leaf.der().to_vec());
    }
    assert_eq!(keys.len(), REQUESTS, "each has its own");
    let secret = get(&signing.cluster, "secret", "outrigger-identity");
    let key = decoded(&secret["data"]["ca.key"]);
    let secret_line = key.lines().nth(1).unwrap();
    for replica in &signing.replicas {
        let log = replica.log_text();
        assert!(
            log.contains("made the authority of the mesh") || log.contains("leadership has changed"),
            "{log}"
        );
        assert!(
            !log.contains(secret_line) && !log.contains("PRIVATE KEY"),
            "a key is in the log"
        );
    }
}

/// An authority as cert-manager would put it into a Secret: an intermediate, and the root above it.
fn intermediate(cluster: &Cluster) -> [String; 3] {
    let authority = |name: &str| {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign];
        params.use_authority_key_identifier_extension = true;
        params
    };
    let (root_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let root = authority("root").self_signed(&root_key).unwrap();
    let root_issuer = rcgen::Issuer::from_ca_cert_pem(&root.pem(), root_key).unwrap();
    let certificate = authority("between").signed_by(&key, &root_issuer).unwrap();
    let entries = [certificate.pem(), key.serialize_pem(), root.pem()];
    let data = json!({"tls.crt": entries[0], "tls.key": entries[1], "ca.crt": entries[2]});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "stringData": data,
        "metadata": {"name": "mesh-ca", "namespace": NAMESPACE}});
    cluster
        .kubectl_reading(&secret.to_string(), &["apply", "-f", "-"])
        .expect_success();
    entries
}

#[test]
fn an_intermediate_that_somebody_else_keeps_signs() {
    let signing = Signing::install(&json!({"identity": {"secretName": "mesh-ca"}}));
    let [between, _, root] = intermediate(&signing.cluster);
    let published = |root: &str| signing.bundle().is_some_and(|bundle| bundle.trim() == root.trim());
    eventually("the root is published", || published(&root));
    let client = signing.client();
    signing.runtime.block_on(send(&client, 0..1));
    eventually("it is answered", || {
        signing.answers(&client).iter().all(|(_, words, _)| words.is_some())
    });
    let chain = signing.answers(&client).remove(0).2.unwrap();
    let mut chain = Certificate::parse_all(chain.as_bytes()).unwrap();
    let leaf = chain.remove(0);
    assert_eq!(chain, Certificate::parse_all(between.as_bytes()).unwrap());
    let roots = Certificate::parse_all(root.as_bytes()).unwrap();
    assert!(leaf.is_trusted(&chain, &roots, leaf.not_before.plus(std::time::Duration::from_secs(60))));

    // What cannot be used changes nothing, and is told; the next one that can takes its place.
    let broken = json!({"stringData": {"ca.crt": "nothing"}}).to_string();
    let patch = [
        "patch",
        "secret",
        "mesh-ca",
        "-n",
        NAMESPACE,
        "--type=merge",
        "-p",
        &broken,
    ];
    signing.cluster.kubectl(&patch).expect_success();
    let told = || {
        signing
            .replicas
            .iter()
            .any(|replica| replica.log_text().contains("its entry ca.crt cannot be used"))
    };
    eventually("the fault is told", told);
    signing.runtime.block_on(send(&client, 1..2));
    eventually("the one before signs on", || {
        signing.answers(&client).iter().all(|(_, words, _)| words.is_some())
    });
    assert!(published(&root));
    let [.., root] = intermediate(&signing.cluster);
    eventually("the new root is published", || published(&root));
}

#[test]
fn says_why_it_denies() {
    let signing = Signing::start();
    let client = signing.client();
    let long = "a".repeat(65);
    let api = requests(&client);
    signing.runtime.block_on(async {
        let denied = request("long", &long);
        api.create(&PostParams::default(), &denied).await.unwrap();
        let mut odd = request("annotated", "default");
        let annotations = [("example.com/role".to_owned(), "admin".to_owned())];
        odd.spec.unverified_user_annotations = Some(annotations.into());
        api.create(&PostParams::default(), &odd).await.unwrap();
        let mut foreign = request("foreign", "default");
        foreign.spec.signer_name = "example.com/other".to_owned();
        api.create(&PostParams::default(), &foreign).await.unwrap();
    });
    eventually("both are denied", || {
        signing
            .answers(&client)
            .iter()
            .filter(|(_, words, _)| words.is_some())
            .count()
            == 2
    });
    for (name, words, chain) in signing.answers(&client) {
        assert_eq!(chain, None);
        let (expected, part) = match &*name {
            "long" => (Some("Denied"), "has 65 characters"),
            "annotated" => (Some("Denied"), "example.com/role"),
            _ => (None, ""),
        };
        assert_eq!(words.as_ref().map(|words| &*words.0), expected, "{name}");
        assert!(words.is_none_or(|words| words.1.contains(part)), "{name}");
    }
}

/// Without a right to read any Secret, and by the count of a leader that has gone.
#[test]
fn anybody_can_see_who_signs_and_how_much() {
    let signing = Signing::start();
    let client = signing.client();
    signing.runtime.block_on(send(&client, 0..3));
    let status = || -> Value {
        let program = std::path::Path::new(env!("CARGO_BIN_EXE_outrigger"));
        let shown = ["trust", "status", "-o", "json"];
        let answer = signing.cluster.run_as_administrator(program, "", &shown);
        serde_json::from_str(&answer.expect_success()).unwrap()
    };
    let roles = |status: &Value| -> Vec<String> {
        let rows = status.as_array().unwrap().iter();
        rows.map(|row| format!("{} {}", row["role"].as_str().unwrap(), row["leaves"]))
            .collect()
    };
    // Twice what one wait takes: it is written every half a minute.
    let begin = std::time::Instant::now();
    while roles(&status()) != ["signs 3"] {
        assert!(begin.elapsed() < std::time::Duration::from_secs(60), "{}", status());
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
    let leader = signing.leader();
    leader.signal("TERM");
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_outrigger"));
    let rotate = signing.cluster.run_as_administrator(program, "", &["trust", "rotate"]);
    assert!(rotate.expect_success().contains("is being introduced"));
    eventually("the next one is published", || {
        roles(&status()) == ["signs 3", "next 0"]
    });
    let table = signing
        .cluster
        .run_as_administrator(program, "", &["trust", "status"])
        .expect_success();
    let lines: Vec<&str> = table.lines().map(str::trim).collect();
    assert!(
        lines[0].starts_with("AUTHORITY") && lines[1].contains("Outrigger mesh CA"),
        "{table}"
    );
}

#[test]
fn the_trust_bundle_is_kept_and_goes_with_the_release() {
    let signing = Signing::start();
    let cluster = &signing.cluster;
    let published = signing.authorities();
    let foreign = std::fs::read_to_string(&cluster.authority().certificate).unwrap();
    let patch = json!({"spec": {"trustBundle": foreign}}).to_string();
    let edit = [
        "patch",
        "clustertrustbundle",
        TRUST_BUNDLE,
        "--type=merge",
        "-p",
        &patch,
    ];
    cluster.kubectl(&edit).expect_success();
    eventually("a foreign edit is undone", || signing.bundle() == published);
    cluster
        .kubectl(&["delete", "clustertrustbundle", TRUST_BUNDLE])
        .expect_success();
    eventually("it is made again", || signing.bundle() == published);
    release(cluster, &["uninstall", RELEASE, "--wait"], &json!({}));
    eventually("it is gone", || signing.bundle().is_none());
}
