//! By what a pod of the mesh proves who it is.

use std::fmt;

use super::Injector;
use crate::decision::Subject;
use crate::identity::name::{Identity, NameError};
use crate::names::SIGNER;

/// Where the certificate of a proxy comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdentitySource {
    /// A TLS Secret of the pod's namespace.
    Secret(String),
    /// The kubelet asks for it (PodCertificateRequest, Kubernetes 1.37), and the mesh's signer answers: a SPIFFE ID.
    PodCertificate(String),
    /// The same, but the signer would deny it.
    Denied(NameError),
}

impl Injector {
    /// By what the proxy of a pod would prove who it is; `None` where its template has no mTLS, or its settings are wrong.
    #[must_use]
    pub fn identity(&self, subject: Subject<'_, '_>) -> Option<IdentitySource> {
        let resolved = self.settings(subject).ok()?;
        let settings = &resolved.settings;
        if !self.template(&resolved).ok()?.mtls {
            return None;
        }
        if let Some(secret) = &settings.identity_secret {
            return Some(IdentitySource::Secret(secret.to_string()));
        }
        let identity = Identity {
            trust_domain: settings.trust_domain.as_ref()?.as_str(),
            namespace: subject.namespace,
            service_account: subject.pod.service_account(),
        };
        Some(match identity.check() {
            Ok(()) => IdentitySource::PodCertificate(identity.uri()),
            Err(error) => IdentitySource::Denied(error),
        })
    }
}

impl fmt::Display for IdentitySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secret(name) => write!(f, "by the Secret {name}"),
            Self::PodCertificate(uri) => write!(
                f,
                "{uri}, by a pod certificate of the signer {SIGNER}, for which it waits at the start"
            ),
            Self::Denied(error) => write!(f, "none, the pod would not start: {error}"),
        }
    }
}
