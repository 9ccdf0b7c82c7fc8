//! The mesh's certificates, as a signer would make them, and what rustls needs of them.

use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, SanType,
};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde_json::{Value, json};

/// An authority.
pub(crate) struct Mesh(CertifiedIssuer<'static, KeyPair>);

/// The order of the attributes in a certificate's subject.
#[derive(Clone, Copy)]
pub(crate) enum Order {
    /// `CN`, `OU`, `O`.
    NameFirst,
    /// `O`, `OU`, `CN`, as Go's library and so cert-manager writes them.
    NameLast,
}

/// A certificate and its key.
pub(crate) struct Leaf {
    certificate: String,
    key: String,
}

impl Mesh {
    /// A new authority, unknown to every other.
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "mesh");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Self(CertifiedIssuer::self_signed(params, new_key()).expect("valid parameters"))
    }

    /// The certificate of a ServiceAccount.
    pub(crate) fn leaf(&self, namespace: &str, account: &str) -> Leaf {
        self.ordered_leaf(namespace, account, Order::NameFirst)
    }

    /// The same with the subject in a given order.
    pub(crate) fn ordered_leaf(&self, namespace: &str, account: &str, order: Order) -> Leaf {
        let names = [
            format!("{account}.{namespace}.sa.cluster.local"),
            format!("{namespace}.ns.cluster.local"),
        ];
        let mut params = CertificateParams::new(names).expect("valid names");
        let spiffe = format!("spiffe://cluster.local/ns/{namespace}/sa/{account}");
        params
            .subject_alt_names
            .push(SanType::URI(spiffe.try_into().expect("it is ASCII")));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let mut subject = vec![
            (DnType::CommonName, account),
            (DnType::OrganizationalUnitName, namespace),
            (DnType::OrganizationName, "cluster.local"),
        ];
        if matches!(order, Order::NameLast) {
            subject.reverse();
        }
        // rcgen's default begins with a name of its own.
        params.distinguished_name = DistinguishedName::new();
        for (attribute, value) in subject {
            params.distinguished_name.push(attribute, value);
        }
        let key = new_key();
        let certificate = params.signed_by(&key, &self.0).expect("valid parameters");
        Leaf {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }

    /// The identity volume of a pod, as the kubelet fills it: the key first.
    pub(crate) fn write(&self, folder: &Path, leaf: &Leaf) {
        std::fs::create_dir_all(folder).expect("the folder can be made");
        let bundle = format!("{}{}", leaf.key, leaf.certificate);
        std::fs::write(folder.join("bundle.pem"), bundle).expect("it can be written");
        std::fs::write(folder.join("ca.pem"), self.0.pem()).expect("it can be written");
    }

    /// The Secret that a pod without the kubelet's certificates has for it (`kubernetes.io/tls`, with `ca.crt`).
    pub(crate) fn secret(&self, name: &str, leaf: &Leaf) -> Value {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": "kubernetes.io/tls",
            "stringData": {"tls.crt": leaf.certificate, "tls.key": leaf.key, "ca.crt": self.0.pem()}})
    }

    /// A client that trusts this mesh, with or without a certificate.
    pub(crate) fn client(&self, leaf: Option<&Leaf>) -> Arc<ClientConfig> {
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has them")
            .with_root_certificates(self.roots());
        Arc::new(match leaf {
            None => builder.with_no_client_auth(),
            Some(leaf) => builder
                .with_client_auth_cert(vec![leaf.chain()], leaf.key())
                .expect("a pair"),
        })
    }

    /// A server that takes callers of this mesh alone.
    pub(crate) fn server(&self, leaf: &Leaf) -> Arc<ServerConfig> {
        let provider = Arc::new(default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(self.roots()), Arc::clone(&provider));
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has them")
            .with_client_cert_verifier(verifier.build().expect("there is a root"))
            .with_single_cert(vec![leaf.chain()], leaf.key());
        Arc::new(config.expect("a pair"))
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).expect("an authority's certificate");
        roots
    }
}

impl Leaf {
    fn chain(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).expect("PEM of rcgen")
    }

    fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).expect("PEM of rcgen")
    }
}

fn new_key() -> KeyPair {
    KeyPair::generate().expect("the system gives random numbers")
}
