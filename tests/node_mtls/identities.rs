//! What a pod gets, as OpenSSL reads it, which has made none of it.

use std::path::{Path, PathBuf};
use std::process::Command;

use outrigger::names;
use serde_json::json;

use crate::cluster::Answer;
use crate::mtls;
use crate::workloads::{Mesh, Namespace};

/// The files of a pod's identity, taken out of its proxy.
pub(crate) struct Identity {
    folder: tempfile::TempDir,
}

impl Identity {
    pub(crate) fn of(shop: &Namespace<'_>, pod: &str) -> Self {
        Self::read(shop, pod).unwrap_or_else(|failure| panic!("{pod}: {failure}"))
    }

    /// Or why it cannot be read now: there may be no kubelet to ask.
    pub(crate) fn read(shop: &Namespace<'_>, pod: &str) -> Result<Self, String> {
        let folder = tempfile::tempdir().unwrap();
        for file in ["bundle.pem", "ca.pem"] {
            let path = format!("/var/run/outrigger/identity/{file}");
            let answer = shop.kubectl(&["exec", pod, "-c", names::PROXY_CONTAINER, "--", "cat", &path]);
            if !answer.success {
                return Err(answer.errors);
            }
            std::fs::write(folder.path().join(file), answer.output).unwrap();
        }
        Ok(Self { folder })
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn serial(&self) -> String {
        self.shown(&["-serial"])
    }

    pub(crate) fn issuer(&self) -> String {
        self.shown(&["-issuer"])
    }

    /// What `openssl` says about its certificate.
    fn shown(&self, options: &[&str]) -> String {
        let file = self.file("bundle.pem").display().to_string();
        let show = ["x509", "-noout", "-in", &file, "-nameopt", "RFC2253"];
        openssl(&[&show[..], options].concat()).expect_success()
    }
}

pub(crate) fn openssl(arguments: &[&str]) -> Answer {
    let mut command = Command::new("openssl");
    command.env_clear().args(arguments);
    Answer::of(command, "")
}

fn extension(identity: &Identity, name: &str) -> Vec<String> {
    let shown = identity.shown(&["-ext", name]);
    let lines = shown.lines().map(|line| line.trim().to_owned());
    lines.filter(|line| !line.is_empty()).collect()
}

fn verify(purpose: &str, authorities: &Path, leaf: &Path, more: &[&str]) -> Answer {
    let (authorities, leaf) = (authorities.display().to_string(), leaf.display().to_string());
    let verify = ["verify", "-x509_strict", "-purpose", purpose, "-CAfile", &authorities];
    openssl(&[&verify[..], more, &[&leaf]].concat())
}

/// After SPIFFE's profile of X.509: one URI and no more, no authority, a key usage that is critical.
/// (<https://github.com/spiffe/spiffe/blob/main/standards/X509-SVID.md>)
pub(crate) fn are_what_the_pod_is(mesh: &Mesh) {
    let shop = mesh.namespace("identities");
    shop.kubectl(&["create", "serviceaccount", "web.front"])
        .expect_success();
    shop.deploy(&[&mtls("web").spec(json!({"serviceAccountName": "web.front"}))]);
    let identity = Identity::of(&shop, &shop.pod("web"));

    let subject = identity.shown(&["-subject"]);
    assert_eq!(subject.trim(), "subject=O=cluster.local,OU=identities,CN=web.front");
    let names = extension(&identity, "subjectAltName");
    assert!(names[0].starts_with("X509v3 Subject Alternative Name"), "{names:?}");
    let expected = "URI:spiffe://cluster.local/ns/identities/sa/web.front, \
                    DNS:web.front.identities.sa.cluster.local, DNS:identities.ns.cluster.local";
    assert_eq!(names[1..], [expected]);
    let usage = ["X509v3 Key Usage: critical", "Digital Signature"];
    assert_eq!(extension(&identity, "keyUsage"), usage);
    let constraints = extension(&identity, "basicConstraints");
    assert_eq!(constraints.last().unwrap(), "CA:FALSE");

    let (roots, leaf) = (identity.file("ca.pem"), identity.file("bundle.pem"));
    for purpose in ["sslserver", "sslclient"] {
        verify(
            purpose,
            &roots,
            &leaf,
            &["-verify_hostname", "identities.ns.cluster.local"],
        )
        .expect_success();
        verify(
            purpose,
            &roots,
            &leaf,
            &["-verify_hostname", "web.front.identities.sa.cluster.local"],
        )
        .expect_success();
        verify(
            purpose,
            &roots,
            &leaf,
            &["-verify_hostname", "web.shop.sa.cluster.local"],
        )
        .expect_failure();
    }
}
