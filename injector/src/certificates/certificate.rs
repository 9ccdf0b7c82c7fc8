//! One X.509 certificate, as far as its keeper has to understand it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use pem::{EncodeConfig, LineEnding, Pem};
use rcgen::{KeyPair, PublicKeyData};
use rustls::RootCertStore;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ParsedCertificate;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;

use super::Moment;
use crate::tls::provider;

/// How far before its making a certificate begins to be valid, for clocks that are behind. The
/// signers of kube-controller-manager allow the same five minutes.
pub const BACKDATED: Duration = Duration::from_mins(5);

/// The label of a certificate's PEM block (RFC 7468).
const LABEL: &str = "CERTIFICATE";

/// Why a text is no certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// It is not PEM.
    #[error("not PEM: {0}")]
    Pem(String),
    /// It holds no certificate.
    #[error("no PEM block with a certificate")]
    Empty,
    /// A block does not hold an X.509 certificate.
    #[error("not an X.509 certificate: {0}")]
    X509(String),
}

/// An X.509 certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    der: CertificateDer<'static>,
    public_key: Vec<u8>,
    /// The subject's distinguished name.
    pub subject: String,
    /// DNS names and IP addresses that it is for, as [`crate::config::Managed::names`] has them.
    pub names: BTreeSet<String>,
    /// Whether it may sign others.
    pub is_authority: bool,
    /// The first moment of its validity.
    pub not_before: Moment,
    /// The last second of its validity.
    pub not_after: Moment,
}

impl Certificate {
    /// The certificates of a PEM text, in their order.
    ///
    /// # Errors
    /// When one of the blocks is no certificate, or there is none.
    pub fn parse_all(text: &[u8]) -> Result<Vec<Self>, CertificateError> {
        let blocks = pem::parse_many(text).map_err(|error| CertificateError::Pem(error.to_string()))?;
        let found = blocks.into_iter().filter(|block| block.tag() == LABEL);
        let parsed: Vec<_> = found
            .map(|block| Self::parse(block.into_contents()))
            .collect::<Result<_, _>>()?;
        Some(parsed)
            .filter(|parsed| !parsed.is_empty())
            .ok_or(CertificateError::Empty)
    }

    /// From its encoding, DER.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(der: Vec<u8>) -> Result<Self, CertificateError> {
        let (_, parsed) =
            x509_parser::parse_x509_certificate(&der).map_err(|error| CertificateError::X509(error.to_string()))?;
        let validity = parsed.validity();
        Ok(Self {
            public_key: parsed.public_key().raw.to_vec(),
            subject: parsed.subject().to_string(),
            names: names(&parsed),
            is_authority: parsed.is_ca(),
            not_before: Moment::from_second(validity.not_before.timestamp()),
            not_after: Moment::from_second(validity.not_after.timestamp()),
            der: CertificateDer::from(der),
        })
    }

    /// As a PEM block.
    #[must_use]
    pub fn pem(&self) -> String {
        let config = EncodeConfig::new().set_line_ending(LineEnding::LF);
        pem::encode_config(&Pem::new(LABEL, self.der.to_vec()), config)
    }

    /// Its encoding.
    #[must_use]
    pub fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    /// Whether this is the key of the certificate.
    #[must_use]
    pub fn has_key(&self, key: &KeyPair) -> bool {
        key.subject_public_key_info() == self.public_key
    }

    /// Whether it is valid at this moment.
    #[must_use]
    pub fn valid_at(&self, now: Moment) -> bool {
        (self.not_before..=self.not_after).contains(&now)
    }

    /// When two thirds of its lifetime, from its making on, have passed.
    #[must_use]
    pub fn due(&self) -> Moment {
        let made = self.not_before.plus(BACKDATED).min(self.not_after);
        made.plus(made.until(self.not_after) / 3 * 2)
    }

    /// Whether `authority` signed it, for a server: what a caller would check, but for name and time.
    #[must_use]
    pub fn is_signed_by(&self, authority: &Self) -> bool {
        self.is_trusted(&[], std::slice::from_ref(authority), self.not_before)
    }

    /// Whether a caller that trusts these authorities would accept it as a server's at this time, whatever its
    /// name is. `intermediates` are what the server sends along.
    #[must_use]
    pub fn is_trusted(&self, intermediates: &[Self], authorities: &[Self], time: Moment) -> bool {
        let mut roots = RootCertStore::empty();
        let added = authorities
            .iter()
            .all(|authority| authority.is_authority && roots.add(authority.der.clone()).is_ok());
        let Ok(parsed) = ParsedCertificate::try_from(&self.der) else {
            return false;
        };
        let seconds = u64::try_from(time.second()).unwrap_or_default();
        let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let between: Vec<_> = intermediates
            .iter()
            .map(|certificate| certificate.der.clone())
            .collect();
        let algorithms = provider().signature_verification_algorithms.all;
        added && verify_server_cert_signed_by_trust_anchor(&parsed, &roots, &between, time, algorithms).is_ok()
    }
}

fn names(certificate: &X509Certificate<'_>) -> BTreeSet<String> {
    let extension = certificate.subject_alternative_name().ok().flatten();
    let names = extension.iter().flat_map(|extension| &extension.value.general_names);
    names.filter_map(name).collect()
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            let address = v4.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from));
            address.ok().map(|address| address.to_string())
        }
        _ => None,
    }
}
