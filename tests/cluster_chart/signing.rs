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
    fn start() -> Self {
        let cluster = Cluster::start();
        cluster.create_namespace(NAMESPACE, &[]);
        cluster.create_namespace(PODS, &[]);
        release(&cluster, &["install", RELEASE, &chart(), "-f", "-"], &json!({}));
        let replicas = ["outrigger-0", "outrigger-1"].map(|name| replica(&cluster, name));
        let signing = Self {
            cluster,
            replicas,
            runtime: tokio::runtime::Runtime::new().unwrap(),
        };
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
