//! The keys and certificates of a test cluster: one authority, one server, and a client for each user.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

/// A certificate and its key, as PEM files.
pub(crate) struct Files {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// The certificate authority of a test cluster; it writes all files into one folder.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
    /// The authority's certificate, PEM.
    pub(crate) certificate: PathBuf,
}

impl Authority {
    pub(crate) fn new(folder: &Path) -> Self {
        let mut params = named("test-authority", None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let issuer = CertifiedIssuer::self_signed(params, new_key()).expect("valid parameters");
        let certificate = write(folder, "ca.crt", &issuer.pem());
        Self {
            issuer,
            folder: folder.to_owned(),
            certificate,
        }
    }

    /// A server certificate for 127.0.0.1 and localhost.
    pub(crate) fn server(&self, name: &str) -> Files {
        self.server_for(name, &["127.0.0.1", "localhost"])
    }

    /// A server certificate for these names and addresses.
    pub(crate) fn server_for(&self, name: &str, addresses: &[&str]) -> Files {
        let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(addresses).expect("valid names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(name, &params)
    }

    /// A client certificate: Kubernetes takes the common name for the user and the organization for the group.
    pub(crate) fn client(&self, user: &str, group: Option<&str>) -> Files {
        let mut params = named(user, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(&user.replace(':', "-"), &params)
    }

    /// A key pair for signing service account tokens: `certificate` is the public key.
    pub(crate) fn token_keys(&self) -> Files {
        let key = new_key();
        Files {
            certificate: write(&self.folder, "tokens.pub", &key.public_key_pem()),
            key: write(&self.folder, "tokens.key", &key.serialize_pem()),
        }
    }

    fn issue(&self, file: &str, params: &CertificateParams) -> Files {
        let key = new_key();
        let certificate = params.signed_by(&key, &self.issuer).expect("valid parameters");
        Files {
            certificate: write(&self.folder, &format!("{file}.crt"), &certificate.pem()),
            key: write(&self.folder, &format!("{file}.key"), &key.serialize_pem()),
        }
    }
}

fn named(user: &str, group: Option<&str>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, user);
    if let Some(group) = group {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    params
}

fn new_key() -> KeyPair {
    KeyPair::generate().expect("the system gives random numbers")
}

fn write(folder: &Path, file: &str, text: &str) -> PathBuf {
    let path = folder.join(file);
    fs::write(&path, text).unwrap_or_else(|e| panic!("cannot write {}: {e}", path.display()));
    path
}
