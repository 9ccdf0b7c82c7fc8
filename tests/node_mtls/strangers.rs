//! Callers that are not who they should be.

use std::path::PathBuf;

use base64::prelude::{BASE64_STANDARD, Engine};
use outrigger::names;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use serde_json::{Value, json};

use crate::workloads::{Mesh, Namespace, Reply, client, text};
use crate::{caller, mtls};

/// The authority that the chart's server keeps, with the rights of the cluster's administrator.
fn authority(mesh: &Mesh) -> Issuer<'static, KeyPair> {
    let secret = [
        "get",
        "secret",
        "outrigger-identity",
        "-n",
        "outrigger-system",
        "-o=json",
    ];
    let secret: Value = serde_json::from_str(&mesh.node.cluster.kubectl(&secret).expect_success()).unwrap();
    let entry = |key: &str| String::from_utf8(BASE64_STANDARD.decode(text(&secret["data"][key])).unwrap()).unwrap();
    let key = KeyPair::from_pem(&entry("ca.key")).unwrap();
    Issuer::from_ca_cert_pem(&entry("ca.crt"), key).unwrap()
}

/// One that nobody trusts, under the same name.
fn other_authority(mesh: &Mesh) -> Issuer<'static, KeyPair> {
    let key = KeyPair::generate().unwrap();
    let name = authority(mesh);
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::OrganizationName, "Outrigger");
    params.key_usages = name.key_usages().to_vec();
    Issuer::new(params, key)
}

/// A certificate for a ServiceAccount, and its key, in files.
struct Leaf {
    folder: tempfile::TempDir,
}

impl Leaf {
    fn new(issuer: &Issuer<'_, KeyPair>, namespace: &str, account: &str, years: [i32; 2]) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        let name = [
            (DnType::CommonName, account),
            (DnType::OrganizationalUnitName, namespace),
            (DnType::OrganizationName, "cluster.local"),
        ];
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in name {
            params.distinguished_name.push(kind, value);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        [params.not_before, params.not_after] = years.map(|year| rcgen::date_time_ymd(year, 1, 1));
        let certificate = params.signed_by(&key, issuer).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tls.crt"), certificate.pem()).unwrap();
        std::fs::write(folder.path().join("tls.key"), key.serialize_pem()).unwrap();
        Self { folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Calls the application `ledger` from the node as a member of the mesh would, with this certificate.
fn call(bank: &Namespace<'_>, leaf: Option<&Leaf>, id: &str) -> Result<Reply, String> {
    let name = format!("{}.ns.cluster.local", bank.name);
    let address = bank.address(&bank.pod("ledger"));
    let resolve = format!("{name}:8080:{address}");
    let id = format!("X-Request-Id: {id}");
    let files = leaf.map(|leaf| ["tls.crt", "tls.key"].map(|file| leaf.file(file).display().to_string()));
    let mut arguments = vec!["-k", "--resolve", &resolve, "-H", &id];
    if let Some([certificate, key]) = &files {
        arguments.extend(["--cert", certificate, "--key", key]);
    }
    bank.call(&format!("https://{name}:8080/"), &arguments)
}

/// What the proxy of `ledger` wrote down of a refused call.
fn refused(bank: &Namespace<'_>, fields: &Value) -> String {
    text(&bank.logged(&bank.pod("ledger"), fields)[0]["refused"])
}

/// A strict application that one caller may call, and two callers of its namespace. Strangers find it by its address.
fn strict<'m>(mesh: &'m Mesh) -> [Namespace<'m>; 2] {
    let (shop, bank) = (mesh.namespace("strict-shop"), mesh.namespace("strict-bank"));
    shop.kubectl(&["create", "serviceaccount", "web"]).expect_success();
    let ledger = mtls("ledger")
        .annotation(names::MTLS, "strict")
        .annotation(names::ALLOW_FROM, "strict-shop/web")
        .container(json!({"livenessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1}}));
    bank.deploy_unreached(&[&ledger]);
    let upstreams = "- ledger.strict-bank:8080";
    let web = caller("web", upstreams).spec(json!({"serviceAccountName": "web"}));
    shop.deploy(&[&web, &caller("other", upstreams)]);
    [shop, bank]
}

pub(crate) fn are_refused(mesh: &Mesh) {
    let [shop, bank] = strict(mesh);
    members_are_told_apart(&shop, &bank);

    let plain = format!("http://{}:8080/", bank.address(&bank.pod("ledger")));
    for path in ["", "elsewhere"] {
        let outside = ["-XPOST", "-H", "X-Request-Id: outside"];
        let outside = bank.call(&format!("{plain}{path}"), &outside).unwrap();
        assert_eq!(outside.status, 403, "{path}");
    }
    assert_eq!(refused(&bank, &json!({"request_id": "outside"})), "no mTLS");

    let real = authority(mesh);
    let leaf = |issuer, namespace, years| Some(Leaf::new(issuer, namespace, "web", years));
    let good = leaf(&real, "strict-shop", [2025, 2045]);
    let reply = call(&bank, good.as_ref(), "good").unwrap();
    assert_eq!(reply.status, 200, "the way of this test is the right one");
    let foreign = other_authority(mesh);
    let strangers = [
        (
            "expired",
            leaf(&real, "strict-shop", [2024, 2025]),
            "certificate has expired",
        ),
        ("foreign", leaf(&foreign, "strict-shop", [2025, 2045]), "unable to"),
        (
            "namesake",
            leaf(&real, "strict-shop.x", [2025, 2045]),
            "not in allow-from",
        ),
        ("nobody", None, "no certificate"),
    ];
    for (id, leaf, why) in &strangers {
        let reply = call(&bank, leaf.as_ref(), id).unwrap();
        assert!([400, 403].contains(&reply.status), "{id}: {reply:?}");
        let seen = refused(&bank, &json!({"port": 15300, "request_id": id}));
        assert!(seen.contains(why), "{id}: {seen}");
    }
    // The kubelet's probes have come through all the while.
    let pod = bank.get(&["pod", &bank.pod("ledger")]);
    let status = crate::workloads::status_of(&pod, "app");
    assert!(status["ready"] == true && status["restartCount"] == 0, "{status}");
}

fn members_are_told_apart(shop: &Namespace<'_>, bank: &Namespace<'_>) {
    let url = "http://ledger.strict-bank:8080/";
    let allowed = shop.call_from(&shop.pod("web"), url, &[]).unwrap();
    assert_eq!(allowed.status, 200, "{allowed:?}");
    let name = "O=cluster.local,OU=strict-shop,CN=web";
    assert_eq!(allowed.json()["headers"]["X-Outrigger-Client"], json!([name]));
    let other = ["-H", "X-Request-Id: other"];
    let other = shop.call_from(&shop.pod("other"), url, &other).unwrap();
    assert_eq!(other.status, 403);
    let name = "O=cluster.local,OU=strict-shop,CN=default";
    let seen = refused(bank, &json!({"request_id": "other", "client": name}));
    assert_eq!(seen, "not in allow-from");
}

/// One port serves who has a certificate and who has none; only the former is named to the application.
pub(crate) fn are_served_beside_the_mesh_when_permissive(mesh: &Mesh) {
    let shop = mesh.namespace("permissive");
    shop.deploy(&[&mtls("ledger"), &client("outside")]);
    shop.deploy(&[&caller("web", "- ledger:8080")]);
    let forged = ["-H", "X-Outrigger-Client: O=cluster.local,OU=bank,CN=admin"];
    for (pod, expected) in [
        ("web", json!(["O=cluster.local,OU=permissive,CN=default"])),
        ("outside", json!(null)),
    ] {
        let reply = shop.call_from(&shop.pod(pod), "http://ledger:8080/", &forged).unwrap();
        assert_eq!(reply.status, 200);
        assert_eq!(reply.json()["headers"]["X-Outrigger-Client"], expected, "{pod}");
    }
    let leaf = Leaf::new(&authority(mesh), "elsewhere", "any", [2025, 2045]);
    assert_eq!(
        call(&shop, Some(&leaf), "any").unwrap().status,
        200,
        "without allow-from the mesh is one"
    );
}
