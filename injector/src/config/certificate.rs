//! Where the serving certificate comes from: two files, or a Secret that the server keeps itself.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use super::{
    CA_LIFETIME, CA_OVERLAP, CERT_FILE, CERT_LIFETIME, CERT_NAMES, CERT_SECRET, ConfigError, KEY_FILE, LEASE, POD_NAME,
    Reader, WEBHOOK_CONFIGURATION, parse,
};

/// How many overlaps a serving certificate's lifetime must hold at least. When a third is left, an
/// authority of the same lifetime is replaced: an overlap before the change, one in which replicas
/// may learn of it, and as much again for a leader that has to be replaced on the way.
const OVERLAPS: u32 = 12;

/// Where the serving certificate comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateSource {
    /// Somebody else writes it to files.
    Files(CertificateFiles),
    /// The server keeps it itself.
    Managed(Managed),
}

/// Where the serving certificate and its key are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// PEM certificates, the server's own first.
    pub certificate: PathBuf,
    /// PEM private key.
    pub key: PathBuf,
}

/// An authority and a serving certificate that the server makes, renews and publishes itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Managed {
    /// Who writes.
    pub election: Election,
    /// The Secret that holds everything.
    pub secret: String,
    /// DNS names, in lower case, and IP addresses, in their short form, in the serving certificate.
    pub names: BTreeSet<String>,
    /// The name of both webhook configurations.
    pub webhook_configuration: String,
    /// How long everything is valid.
    pub lifetimes: Lifetimes,
}

/// By what one of the replicas is elected to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Election {
    /// The namespace Outrigger runs in: that of the Lease and of all Secrets.
    pub namespace: String,
    /// The Lease.
    pub lease: String,
    /// This replica's name in it; `None` for a random one.
    pub holder: Option<String>,
}

/// How long certificates are valid, in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// Of the serving certificate.
    pub certificate: Duration,
    /// Of the authority.
    pub authority: Duration,
    /// How long old and new authority are trusted together, before and after the change.
    pub overlap: Duration,
}

/// The variables of [`Managed`], not parsed yet.
pub(super) struct Raw {
    pub(super) secret: Option<String>,
    pub(super) names: Option<String>,
    pub(super) webhook_configuration: Option<String>,
    pub(super) certificate_lifetime: Option<String>,
    pub(super) authority_lifetime: Option<String>,
    pub(super) overlap: Option<String>,
}

impl Reader {
    /// The one source that is configured, if any.
    pub(super) fn certificate(
        &mut self,
        files: Option<Option<CertificateFiles>>,
        managed: Option<Option<Managed>>,
    ) -> Option<Option<CertificateSource>> {
        match (files?, managed?) {
            (Some(_), Some(_)) => {
                self.errors.push(ConfigError::TwoCertificates);
                None
            }
            (Some(files), None) => Some(Some(CertificateSource::Files(files))),
            (None, managed) => Some(managed.map(CertificateSource::Managed)),
        }
    }

    pub(super) fn certificate_files(
        &mut self,
        certificate: Option<String>,
        key: Option<String>,
    ) -> Option<Option<CertificateFiles>> {
        let certificate = self.optional(CERT_FILE, certificate, parse::FILE)?;
        let key = self.optional(KEY_FILE, key, parse::FILE)?;
        let (set, missing) = match (certificate, key) {
            (Some(certificate), Some(key)) => {
                return Some(Some(CertificateFiles { certificate, key }));
            }
            (None, None) => return Some(None),
            (Some(_), None) => (CERT_FILE.name, KEY_FILE.name),
            (None, Some(_)) => (KEY_FILE.name, CERT_FILE.name),
        };
        self.errors.push(ConfigError::HalfCertificate { set, missing });
        None
    }

    /// The namespace is `None` when it was wrong.
    pub(super) fn election(
        &mut self,
        namespace: Option<String>,
        lease: Option<String>,
        pod_name: Option<String>,
    ) -> Option<Election> {
        let lease = self.required(LEASE, lease, parse::OBJECT_NAME);
        let holder = self.optional(POD_NAME, pod_name, parse::OBJECT_NAME);
        Some(Election {
            namespace: namespace?,
            lease: lease?,
            holder: holder?,
        })
    }

    /// Checks all of it also where no Secret is named: a bad value is never ignored.
    pub(super) fn managed(&mut self, raw: Raw, election: Option<&Election>) -> Option<Option<Managed>> {
        let secret = self.optional(CERT_SECRET, raw.secret, parse::OBJECT_NAME);
        let names = self.optional(CERT_NAMES, raw.names, parse::CERTIFICATE_NAMES);
        let webhook_configuration = self.required(WEBHOOK_CONFIGURATION, raw.webhook_configuration, parse::OBJECT_NAME);
        let lifetimes = self.lifetimes(raw.certificate_lifetime, raw.authority_lifetime, raw.overlap);
        let election = election?;
        let managed = Managed {
            names: names?.unwrap_or_else(|| service_names(&election.namespace)),
            election: election.clone(),
            secret: String::new(),
            webhook_configuration: webhook_configuration?,
            lifetimes: lifetimes?,
        };
        Some(secret?.map(|secret| Managed { secret, ..managed }))
    }

    fn lifetimes(
        &mut self,
        certificate: Option<String>,
        authority: Option<String>,
        overlap: Option<String>,
    ) -> Option<Lifetimes> {
        let certificate = self.required(CERT_LIFETIME, certificate, parse::LIFETIME);
        let authority = self.required(CA_LIFETIME, authority, parse::LIFETIME);
        let overlap = self.required(CA_OVERLAP, overlap, parse::OVERLAP);
        let lifetimes = Lifetimes {
            certificate: certificate?,
            authority: authority?,
            overlap: overlap?,
        };
        let before = self.errors.len();
        if lifetimes.certificate > lifetimes.authority {
            self.errors.push(ConfigError::OutlivesAuthority {
                certificate: lifetimes.certificate,
                authority: lifetimes.authority,
            });
        }
        let least = lifetimes.overlap * OVERLAPS;
        if lifetimes.certificate < least {
            self.errors.push(ConfigError::LongOverlap {
                overlap: lifetimes.overlap,
                certificate: lifetimes.certificate,
                least,
            });
        }
        (self.errors.len() == before).then_some(lifetimes)
    }
}

/// The names by which the API server calls the Service `outrigger`.
fn service_names(namespace: &str) -> BTreeSet<String> {
    let short = format!("outrigger.{namespace}.svc");
    BTreeSet::from([format!("{short}.cluster.local"), short])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::config::tests::{lines, read};

    fn managed(vars: &[(&str, &str)]) -> Managed {
        match read(vars).unwrap().server.certificate {
            Some(CertificateSource::Managed(managed)) => managed,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_secret_alone_is_enough_for_certificates() {
        let found = managed(&[
            ("OUTRIGGER_CERT_SECRET", "certs"),
            ("OUTRIGGER_RELEASE_NAMESPACE", "mesh"),
        ]);
        let expected = Managed {
            election: Election {
                namespace: "mesh".into(),
                lease: "outrigger-leader".into(),
                holder: None,
            },
            secret: "certs".into(),
            names: ["outrigger.mesh.svc", "outrigger.mesh.svc.cluster.local"]
                .map(Into::into)
                .into(),
            webhook_configuration: "outrigger".into(),
            lifetimes: Lifetimes {
                certificate: Duration::from_hours(90 * 24),
                authority: Duration::from_hours(5 * 365 * 24),
                overlap: Duration::from_mins(5),
            },
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn reads_every_value_of_certificates() {
        let found = managed(&[
            ("OUTRIGGER_CERT_SECRET", "certs"),
            ("OUTRIGGER_CERT_NAMES", "Web.Mesh.svc, 10.0.0.7,0:0::1,10.0.0.7"),
            ("OUTRIGGER_WEBHOOK_CONFIGURATION", "mesh.example"),
            ("OUTRIGGER_LEASE", "boss"),
            ("OUTRIGGER_POD_NAME", "outrigger-7d9f-x2"),
            ("OUTRIGGER_CERT_LIFETIME", "90s"),
            ("OUTRIGGER_CA_LIFETIME", "2m"),
            ("OUTRIGGER_CA_OVERLAP", "7s"),
        ]);
        let expected = Managed {
            election: Election {
                namespace: "outrigger-system".into(),
                lease: "boss".into(),
                holder: Some("outrigger-7d9f-x2".into()),
            },
            secret: "certs".into(),
            names: ["web.mesh.svc", "10.0.0.7", "::1"].map(Into::into).into(),
            webhook_configuration: "mesh.example".into(),
            lifetimes: Lifetimes {
                certificate: Duration::from_secs(90),
                authority: Duration::from_secs(120),
                overlap: Duration::from_secs(7),
            },
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn the_certificate_comes_from_one_place() {
        let found = lines(&[
            ("OUTRIGGER_CERT_SECRET", "certs"),
            ("OUTRIGGER_CERT_FILE", "/tls.crt"),
            ("OUTRIGGER_KEY_FILE", "/tls.key"),
        ]);
        let sentence = "OUTRIGGER_CERT_SECRET and OUTRIGGER_CERT_FILE are both set: the certificate comes from one place, \
                    unset one of them";
        assert_eq!(found, [sentence]);
    }

    #[test]
    fn lifetimes_must_fit_into_each_other() {
        let found = lines(&[("OUTRIGGER_CERT_LIFETIME", "10m"), ("OUTRIGGER_CA_LIFETIME", "9m")]);
        assert_eq!(
            found,
            [
                "OUTRIGGER_CERT_LIFETIME is 10m: expected at most 9m, which is OUTRIGGER_CA_LIFETIME",
                "OUTRIGGER_CA_OVERLAP is 5m, too long for OUTRIGGER_CERT_LIFETIME of 10m: expected a certificate's lifetime \
             of at least 1h, twelve overlaps",
            ]
        );
        let fits = |lifetime| {
            let vars = [("OUTRIGGER_CERT_LIFETIME", lifetime), ("OUTRIGGER_CA_OVERLAP", "1m")];
            read(&vars).is_ok()
        };
        assert_eq!([fits("719s"), fits("720s")], [false, true]);
    }
}
