//! The serving certificate: read from PEM, checked, and swapped while running.
//!
//! Files are read again on an interval. File notifications are of no use here: the kubelet swaps a
//! symbolic link above the mounted Secret, and watches on the files miss that. What the server keeps
//! itself comes from [`crate::certificates`].

mod reload;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwapOption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use sha2::{Digest, Sha256};

use crate::certificates::Moment;
use crate::config::CertificateFiles;

pub use self::reload::Reloader;

/// Why a certificate cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is missing or may not be read.
    #[error("cannot read the {what} file {}: {source}", .path.display())]
    Unreadable {
        /// "certificate" or "key".
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A text is not PEM, or what it holds cannot be used.
    #[error("the {what} {place} cannot be used: {reason}")]
    Unusable {
        /// "certificate" or "key".
        what: &'static str,
        /// Where the text is.
        place: Place,
        /// What is wrong with it.
        reason: String,
    },
    /// A text holds none of what it is for.
    #[error("the {what} {place} holds no PEM block with a {what}; are certificate and key swapped?")]
    Empty {
        /// "certificate" or "key".
        what: &'static str,
        /// Where the text is.
        place: Place,
    },
    /// Certificate and key do not belong together.
    #[error(
        "the key in {} is not the one of the certificate in {}: write both from the same source",
        .0.key, .0.certificate
    )]
    Mismatch(Places),
}

/// Where a PEM text is, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A file.
    File(PathBuf),
    /// An entry of a Secret.
    Entry {
        /// The Secret's name.
        secret: String,
        /// The entry's key.
        key: &'static str,
    },
}

/// Where a certificate and its key are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The certificate and its chain.
    pub certificate: Place,
    /// Its key.
    pub key: Place,
}

/// A certificate chain with its key, checked to belong together.
#[derive(Debug)]
pub struct Pair {
    certified: Arc<CertifiedKey>,
    /// Start of the certificate's validity, in seconds since 1970.
    pub not_before: i64,
    /// End of the certificate's validity, in seconds since 1970.
    pub not_after: i64,
}

/// The certificate now served: what rustls asks at each handshake. Without one, handshakes fail.
#[derive(Debug, Default)]
pub struct Certificates {
    served: ArcSwapOption<Served>,
    /// Why the last pair that was offered is not served.
    refused: ArcSwapOption<String>,
    /// Why callers do not trust what is served.
    distrusted: ArcSwapOption<String>,
}

#[derive(Debug)]
struct Served {
    certified: Arc<CertifiedKey>,
    not_after: Moment,
}

impl TlsError {
    /// A file does not exist, which is not to say that it never will.
    fn is_absence(&self) -> bool {
        matches!(self, Self::Unreadable { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Entry { secret, key } => write!(f, "entry {key} of the Secret {secret}"),
        }
    }
}

impl From<&CertificateFiles> for Places {
    fn from(files: &CertificateFiles) -> Self {
        Self {
            certificate: Place::File(files.certificate.clone()),
            key: Place::File(files.key.clone()),
        }
    }
}

impl Pair {
    /// Checks a PEM chain and its PEM key.
    ///
    /// # Errors
    /// Says which of the two `places` is wrong, and why. An expired certificate is no error: an outage
    /// would not make it newer, and the caller's own check gives the better message.
    pub fn parse(places: &Places, certificate_pem: &[u8], key_pem: &[u8]) -> Result<Self, TlsError> {
        let chain = parse_chain(&places.certificate, certificate_pem)?;
        let key = parse_key(&places.key, key_pem)?;
        let leaf = chain.first().expect("an empty chain is an error above");
        let (not_before, not_after) = validity(&places.certificate, leaf)?;
        let certified = certify(places, chain, key)?;
        Ok(Self {
            certified: Arc::new(certified),
            not_before,
            not_after,
        })
    }

    /// Logs when the certificate is not valid at this moment.
    pub fn warn_unless_valid(&self) {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |elapsed| elapsed.as_secs());
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        if now > self.not_after {
            tracing::warn!(not_after = self.not_after, "the serving certificate has expired");
        } else if now < self.not_before {
            tracing::warn!(not_before = self.not_before, "the serving certificate is not valid yet");
        }
    }
}

impl Certificates {
    /// Serves this pair at every handshake from now on; connections that exist go on undisturbed.
    pub fn swap(&self, pair: &Pair) {
        self.served.store(Some(Arc::new(Served {
            certified: Arc::clone(&pair.certified),
            not_after: Moment::from_second(pair.not_after),
        })));
        self.refused.store(None);
    }

    /// Remembers why a pair was not taken, for readiness; what is served stays.
    pub fn refuse(&self, reason: String) {
        self.refused.store(Some(Arc::new(reason)));
    }

    /// Remembers why callers do not trust what is served, for readiness; `None` when they do.
    pub fn distrust(&self, reason: Option<String>) {
        self.distrusted.store(reason.map(Arc::new));
    }

    /// Whether there is a pair to serve, sound or not.
    #[must_use]
    pub fn serves(&self) -> bool {
        self.served.load().is_some()
    }

    /// Whether there is a pair to serve that callers accept, as far as can be known here. One that is not
    /// valid yet may be so by their clocks.
    ///
    /// # Errors
    /// Says why there is none, as far as it is known.
    pub fn check(&self) -> Result<(), String> {
        self.check_at(jiff::Timestamp::now().into())
    }

    fn check_at(&self, now: Moment) -> Result<(), String> {
        let refused = self.refused.load();
        let Some(served) = &*self.served.load() else {
            return Err(text(&refused).unwrap_or_else(|| "none yet".to_owned()));
        };
        if served.not_after < now {
            let expired = format!("the one that is served was valid until {}", served.not_after);
            return Err(match text(&refused) {
                Some(refused) => format!("{expired}; the next one: {refused}"),
                None => expired,
            });
        }
        text(&self.distrusted.load()).map_or(Ok(()), Err)
    }
}

fn text(reason: &Option<Arc<String>>) -> Option<String> {
    reason.as_ref().map(|reason| reason.to_string())
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let served = self.served.load();
        served.as_ref().map(|served| Arc::clone(&served.certified))
    }
}

/// The TLS side of the server: 1.2 and 1.3, no client certificates, and no session resumption,
/// which the API server never uses. ALPN is set by the HTTP server: `http/1.1` alone, since it is
/// built without HTTP/2.
#[must_use]
pub fn server_config(certificates: Arc<Certificates>) -> rustls::ServerConfig {
    let mut config = rustls::ServerConfig::builder_with_provider(Arc::new(provider()))
        .with_protocol_versions(&[&TLS13, &TLS12])
        .expect("the provider's cipher suites cover TLS 1.2 and 1.3")
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config
}

/// Draws one random number. The first one costs the provider some 30 ms, which the first caller
/// after readiness should not pay.
///
/// # Errors
/// When the system has no randomness to give.
pub fn warm_up() -> Result<(), rustls::crypto::GetRandomFailed> {
    provider().secure_random.fill(&mut [0])
}

/// A word that no other process has, of 16 hexadecimal digits.
///
/// # Panics
/// When the system has no randomness to give, which [`warm_up`] has found out before.
#[must_use]
pub fn random_word() -> String {
    format!("{:016x}", u64::from_be_bytes(random_bytes()))
}

/// Bytes that nobody can foresee.
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let filled = provider().secure_random.fill(&mut bytes);
    filled.expect("there was randomness at the start");
    bytes
}

/// Named at every use, never installed as the process default: with two providers in a build the
/// default is ambiguous and rustls panics.
pub(crate) fn provider() -> CryptoProvider {
    aws_lc_rs::default_provider()
}

fn read(what: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Unreadable {
        what,
        path: path.to_owned(),
        source,
    })
}

/// Tells contents apart without keeping a second copy of the key.
type Digested = [u8; 32];

/// Over both contents and where the first one ends.
fn digest(certificate_pem: &[u8], key_pem: &[u8]) -> Digested {
    let length = certificate_pem.len().to_be_bytes();
    Sha256::new()
        .chain_update(length)
        .chain_update(certificate_pem)
        .chain_update(key_pem)
        .finalize()
        .into()
}

fn unusable(what: &'static str, place: &Place, reason: &impl ToString) -> TlsError {
    TlsError::Unusable {
        what,
        place: place.clone(),
        reason: reason.to_string(),
    }
}

fn parse_chain(place: &Place, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let chain = chain.map_err(|error| unusable("certificate", place, &error))?;
    if chain.is_empty() {
        return Err(TlsError::Empty {
            what: "certificate",
            place: place.clone(),
        });
    }
    Ok(chain)
}

fn parse_key(place: &Place, pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError::Empty {
            what: "key",
            place: place.clone(),
        },
        other => unusable("key", place, &other),
    })
}

fn validity(place: &Place, leaf: &CertificateDer<'_>) -> Result<(i64, i64), TlsError> {
    let (_, parsed) =
        x509_parser::parse_x509_certificate(leaf).map_err(|error| unusable("certificate", place, &error))?;
    Ok((
        parsed.validity().not_before.timestamp(),
        parsed.validity().not_after.timestamp(),
    ))
}

fn certify(
    places: &Places,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<CertifiedKey, TlsError> {
    let key = provider()
        .key_provider
        .load_private_key(key)
        .map_err(|error| unusable("key", &places.key, &error))?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        Ok(()) => Ok(certified),
        Err(rustls::Error::InconsistentKeys(_)) => Err(TlsError::Mismatch(places.clone())),
        Err(error) => Err(unusable("certificate", &places.certificate, &error)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_callers_refuse_is_no_certificate() {
        let (before, end) = (Moment::from_second(1_700_000_000), Moment::from_second(1_800_000_000));
        let after = end.plus(std::time::Duration::from_millis(1));
        let certificates = Certificates::default();
        assert_eq!(certificates.check_at(before), Err("none yet".to_owned()));
        certificates.refuse("half written".to_owned());
        assert_eq!(certificates.check_at(before), Err("half written".to_owned()));
        certificates.swap(&pair(end.second()));
        assert_eq!(certificates.check_at(before), Ok(()));
        assert_eq!(certificates.check_at(end), Ok(()));

        let expired = "the one that is served was valid until 2027-01-15T08:00:00.000Z";
        assert_eq!(certificates.check_at(after), Err(expired.to_owned()));
        certificates.refuse("half written".to_owned());
        let both = format!("{expired}; the next one: half written");
        assert_eq!(certificates.check_at(after), Err(both));
        assert_eq!(certificates.check_at(end), Ok(()), "what is served is good enough");

        certificates.distrust(Some("another authority".to_owned()));
        assert_eq!(certificates.check_at(before), Err("another authority".to_owned()));
        certificates.distrust(None);
        assert_eq!(certificates.check_at(before), Ok(()));
    }

    fn pair(not_after: i64) -> Pair {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let place = || Place::File(PathBuf::new());
        let places = Places {
            certificate: place(),
            key: place(),
        };
        let key = made.signing_key.serialize_pem();
        let parsed = Pair::parse(&places, made.cert.pem().as_bytes(), key.as_bytes()).unwrap();
        Pair { not_after, ..parsed }
    }
}
