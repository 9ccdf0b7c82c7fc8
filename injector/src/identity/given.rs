//! An authority of the mesh that somebody else keeps: cert-manager, or the operator.

use std::collections::BTreeMap;

use rcgen::{CertificateParams, KeyPair};

use super::issuer::{Authority, Chance, IssueError, LONGEST, Request, Terms};
use crate::certificates::certificate::{Certificate, CertificateError};
use crate::certificates::state::{CA_CERTIFICATES, CERTIFICATE, Entries, LeafFault, Pair};
use crate::certificates::{Moment, Unsound};

/// What a Secret of the type `kubernetes.io/tls` holds: in `tls.crt` the certificate that signs, and those between it and
/// a root; in `ca.crt` the roots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// What signs.
    pub signer: Pair,
    /// What is sent along with each leaf: the signer, unless it is a root itself, and those above it.
    pub intermediates: Vec<Certificate>,
    /// What is trusted.
    pub roots: Vec<Certificate>,
}

/// Why it cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GivenFault {
    /// Certificate and key.
    #[error(transparent)]
    Pair(#[from] LeafFault),
    /// The roots.
    #[error(transparent)]
    Roots(#[from] Unsound),
    /// The certificate may not sign.
    #[error("the certificate in the entry {CERTIFICATE} is of no authority: it needs the constraint CA:TRUE")]
    NoAuthority,
    /// Nothing could be signed to try it.
    #[error("it cannot sign: {0}")]
    Sign(#[from] IssueError),
    /// The library refused its key.
    #[error("it cannot sign: {0}")]
    Key(#[from] rcgen::Error),
    /// What was signed to try it could not be read.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// A leaf of it would not be trusted.
    #[error(
        "nobody would trust what it signs: no certificate in the entry {CA_CERTIFICATES} is above that in {CERTIFICATE}, one in \
         between is missing, or one is not valid now, or not for servers"
    )]
    Untrusted,
}

impl Given {
    /// Reads the entries of a Secret, and tries what they are good for.
    ///
    /// # Errors
    /// When what it signs would be trusted by nobody.
    pub fn decode<T: AsRef<[u8]>>(entries: &BTreeMap<String, T>, now: Moment) -> Result<Self, GivenFault> {
        let entries = Entries(entries);
        let (signer, above) = entries.pair()?;
        let roots = entries.authorities()?;
        if !signer.certificate.is_authority {
            return Err(GivenFault::NoAuthority);
        }
        let own = (!roots.contains(&signer.certificate)).then(|| signer.certificate.clone());
        let intermediates = own
            .into_iter()
            .chain(above)
            .filter(|certificate| !roots.contains(certificate));
        let given = Self {
            intermediates: intermediates.collect(),
            signer,
            roots,
        };
        given.attempt(now)?;
        Ok(given)
    }

    /// For signing.
    ///
    /// # Errors
    /// When the key cannot be used.
    pub fn authority(&self) -> Result<Authority, rcgen::Error> {
        Authority::new(&self.signer, &self.intermediates)
    }

    /// The roots, PEM: the trust bundle.
    #[must_use]
    pub fn bundle(&self) -> String {
        self.roots.iter().map(Certificate::pem).collect()
    }

    /// Signs a leaf for nobody, and looks at it as a proxy would.
    fn attempt(&self, now: Moment) -> Result<(), GivenFault> {
        let stub = CertificateParams::default().serialize_request(&KeyPair::generate()?)?;
        let request = Request {
            namespace: "any",
            service_account: "any",
            stub: stub.der(),
            longest: None,
            annotations: None,
        };
        let terms = Terms {
            trust_domain: "any".to_owned(),
            lifetime: LONGEST,
        };
        let chance = Chance {
            serial: [1; 16],
            refresh: 0,
        };
        let issued = self.authority()?.issue(&request, &terms, now, chance)?;
        let mut chain = Certificate::parse_all(issued.chain.as_bytes())?;
        let leaf = chain.remove(0);
        let trusted = leaf.is_trusted(&chain, &self.roots, now);
        trusted.then_some(()).ok_or(GivenFault::Untrusted)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use rcgen::{BasicConstraints, IsCa, Issuer, KeyUsagePurpose};

    use super::*;

    fn now() -> Moment {
        "2026-11-30T12:00:00Z".parse().unwrap()
    }

    /// An authority by name, signed by another one or by itself.
    struct Made {
        pem: String,
        key: KeyPair,
        issuer: Issuer<'static, KeyPair>,
    }

    fn make(name: &str, is_authority: bool, above: Option<&Made>) -> Made {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        if is_authority {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        }
        params.use_authority_key_identifier_extension = true;
        params.not_before = rcgen::date_time_ymd(2026, 1, 1);
        params.not_after = rcgen::date_time_ymd(2027, 1, 1);
        let certificate = match above {
            Some(above) => params.signed_by(&key, &above.issuer).unwrap(),
            None => params.self_signed(&key).unwrap(),
        };
        let own = KeyPair::from_pem(&key.serialize_pem()).unwrap();
        Made {
            pem: certificate.pem(),
            issuer: Issuer::from_ca_cert_pem(&certificate.pem(), own).unwrap(),
            key,
        }
    }

    fn decode(chain: &[&Made], key: &Made, roots: &[&Made]) -> Result<Given, GivenFault> {
        let text = |all: &[&Made]| all.iter().map(|made| made.pem.clone()).collect::<String>();
        let entries = [
            ("tls.crt", text(chain)),
            ("tls.key", key.key.serialize_pem()),
            ("ca.crt", text(roots)),
        ];
        let entries = entries.map(|(key, value)| (key.to_owned(), value));
        Given::decode(
            &entries.into_iter().filter(|(_, value)| !value.is_empty()).collect(),
            now(),
        )
    }

    #[test]
    fn an_intermediate_is_sent_along_and_a_root_is_not() {
        let root = make("root", true, None);
        let first = make("first", true, Some(&root));
        let second = make("second", true, Some(&first));
        let subjects = |given: Given| {
            let names = given.intermediates.into_iter().map(|certificate| certificate.subject);
            names.collect::<Vec<_>>()
        };
        let other = make("other", true, None);
        let given = decode(&[&second, &first], &second, &[&root, &other]).unwrap();
        assert_eq!(given.bundle().matches("BEGIN").count(), 2);
        assert_eq!(subjects(given), ["CN=second", "CN=first"]);
        assert_eq!(
            subjects(decode(&[&second, &first, &root], &second, &[&root]).unwrap()),
            ["CN=second", "CN=first"]
        );
        assert_eq!(subjects(decode(&[&root], &root, &[&root]).unwrap()), [""; 0]);
    }

    #[test]
    fn what_nobody_would_trust_is_refused() {
        let root = make("root", true, None);
        let first = make("first", true, Some(&root));
        let second = make("second", true, Some(&first));
        let (leaf, other) = (make("leaf", false, Some(&root)), make("other", true, None));
        let cases = [
            (decode(&[&second], &second, &[&root]), "one in between is missing"),
            (decode(&[&first], &first, &[&other]), "nobody would trust"),
            (
                decode(&[&first], &second, &[&root]),
                "is not the one of the certificate",
            ),
            (decode(&[&leaf], &leaf, &[&root]), "CA:TRUE"),
            (decode(&[&first], &first, &[]), "no entry ca.crt"),
            (decode(&[&first], &first, &[&leaf]), "no authority"),
        ];
        for (result, part) in cases {
            let error = result.unwrap_err().to_string();
            assert!(error.contains(part), "{part}: {error}");
        }
        let entries = BTreeMap::from([("tls.crt".to_owned(), "x")]);
        assert!(Given::decode(&entries, now()).is_err());
        let later = now().plus(Duration::from_hours(24 * 40));
        let text = |made: &Made| made.pem.clone();
        let ended = BTreeMap::from([
            ("tls.crt".to_owned(), text(&root)),
            ("tls.key".to_owned(), root.key.serialize_pem()),
            ("ca.crt".to_owned(), text(&root)),
        ]);
        assert!(matches!(
            Given::decode(&ended, later),
            Err(GivenFault::Sign(IssueError::EndingAuthority(_)))
        ));
    }
}
