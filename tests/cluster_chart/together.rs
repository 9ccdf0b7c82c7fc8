//! A release and its running server: two replicas with the variables of the chart and the rights of its account, which
//! run beside the cluster, since there is no node.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::helm::{NAMESPACE, RELEASE, chart, rendered};
use crate::life::{CONFIGURATIONS, get, release, upgrade};
use crate::rendering::variables;
use crate::verify::with_token;
use crate::webhooks::{Server, eventually};

/// Starts a replica as the chart would; only addresses, the way to the API server and the place of a file differ.
pub(crate) fn replica(cluster: &Cluster, name: &str, values: &Value) -> Server {
    let objects = rendered(values);
    let token = cluster.kubectl(&["create", "token", RELEASE, "-n", NAMESPACE]);
    let kubeconfig = with_token(cluster, token.expect_success().trim(), name);
    let map = objects
        .iter()
        .find(|object| object["metadata"]["name"] == "outrigger-requirements");
    let requirements = cluster.folder().join("requirements.yaml");
    std::fs::write(
        &requirements,
        map.unwrap()["data"]["requirements.yaml"].as_str().unwrap(),
    )
    .unwrap();
    let (kubeconfig, requirements) = (kubeconfig.display().to_string(), requirements.display().to_string());
    let of_the_chart = variables(&objects);
    let mut all: BTreeMap<&str, &str> = of_the_chart
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    all.extend([
        ("OUTRIGGER_LISTEN", "127.0.0.1:0"),
        ("OUTRIGGER_ADMIN_LISTEN", "127.0.0.1:0"),
        ("OUTRIGGER_LOG_FORMAT", "text"),
        ("OUTRIGGER_DRAIN_DELAY", "0s"),
        ("OUTRIGGER_KUBECONFIG", &kubeconfig),
        ("OUTRIGGER_REQUIREMENTS_FILE", &requirements),
        ("OUTRIGGER_POD_NAME", name),
        // Those of the support module, which a Secret excludes.
        ("OUTRIGGER_CERT_FILE", ""),
        ("OUTRIGGER_KEY_FILE", ""),
    ]);
    Server::start(cluster, name, &all.into_iter().collect::<Vec<_>>())
}

/// The caBundle of every entry of both configurations.
fn bundles(cluster: &Cluster) -> Vec<Value> {
    let configurations = CONFIGURATIONS.map(|kind| get(cluster, kind, RELEASE));
    let entries = configurations.iter().flat_map(|c| c["webhooks"].as_array().unwrap());
    entries.map(|entry| entry["clientConfig"]["caBundle"].clone()).collect()
}

/// What the server has written: the Secret's data and, in every entry, its authority.
fn written(cluster: &Cluster) -> (Value, Vec<Value>) {
    (
        get(cluster, "secret", "outrigger-certificates")["data"].clone(),
        bundles(cluster),
    )
}

#[test]
fn a_release_and_its_server_get_on_with_each_other_until_the_end() {
    let cluster = Cluster::start();
    cluster.create_namespace(NAMESPACE, &[]);
    let before = cluster.objects();
    release(&cluster, &["install", RELEASE, &chart(), "-f", "-"], &json!({}));
    let replicas = ["outrigger-0", "outrigger-1"].map(|name| replica(&cluster, name, &json!({})));
    eventually("every entry has the authority", || {
        let (secret, bundles) = written(&cluster);
        bundles.len() == 5
            && bundles
                .iter()
                .all(|bundle| bundle.is_string() && *bundle == secret["ca.crt"])
    });
    let first = written(&cluster);
    let names = &rendered(&json!({}));
    assert!(variables(names)["OUTRIGGER_CERT_NAMES"].starts_with("outrigger.outrigger-system.svc,"));

    let changes = [
        json!({"replicaCount": 3, "webhook": {"timeoutSeconds": 10}}),
        json!({"injection": {"default": "enabled"}, "webhook": {"workloads": false}}),
        json!({}),
    ];
    for values in &changes {
        upgrade(&cluster, values);
        let (secret, bundles) = written(&cluster);
        assert_eq!(secret, first.0, "{values}: the certificates stay");
        // An entry that is new gets its caBundle in a moment; none loses it.
        let known = bundles.iter().filter(|bundle| bundle.is_string());
        assert!(
            known.clone().count() >= 4 && known.clone().all(|bundle| *bundle == first.1[0]),
            "{values}"
        );
        eventually("new entries have the authority", || {
            self::bundles(&cluster).iter().all(Value::is_string)
        });
    }
    for _ in &changes {
        release(&cluster, &["rollback", RELEASE], &json!({}));
        eventually("every entry has the authority", || {
            self::bundles(&cluster).iter().all(|bundle| *bundle == first.1[0])
        });
        assert_eq!(written(&cluster).0, first.0, "the certificates stay");
    }

    // The replicas still run when Helm takes everything away, as they do while they drain: they must make nothing anew.
    release(&cluster, &["uninstall", RELEASE, "--wait"], &json!({}));
    let left = || cluster.objects().difference(&before).cloned().collect::<Vec<_>>();
    eventually("nothing is left", || left().is_empty());
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(left(), Vec::<String>::new(), "a running server brought something back");
    for replica in &replicas {
        assert!(replica.terminate().contains("exit status: 0"), "{}", replica.log_text());
    }
}
