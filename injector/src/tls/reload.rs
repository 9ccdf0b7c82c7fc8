//! Reads the certificate on an interval, and serves it when it changed and is sound.
//!
//! There may be none at the start: a Secret is mounted as it is, empty or half written, and whoever
//! fills it may come later. Ending the process would only put off the next look.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::{Certificates, Digested, Pair, TlsError, digest, read};
use crate::config::CertificateFiles;
use crate::metrics::Metrics;

/// The longest time between two looks while there is nothing to serve.
const IMPATIENT: Duration = Duration::from_secs(1);

/// Looks at the two files, and knows what it saw before.
#[derive(Debug)]
pub struct Reloader {
    files: CertificateFiles,
    /// The pair last handed out.
    served: Option<Digested>,
    /// The failure of the last look, and how many looks in a row have shown it.
    failing: Option<(Failure, u32)>,
}

/// What makes two failures the same: what the files held, and what was said about it.
#[derive(Debug, PartialEq, Eq)]
struct Failure {
    content: Option<Digested>,
    message: String,
}

/// What one look at the files showed.
#[derive(Debug)]
enum Seen {
    Unchanged,
    Changed(Pair),
    /// A failure; whether it is the second of its kind in a row.
    Failed {
        error: TlsError,
        persists: bool,
    },
}

impl Reloader {
    /// Follows these files, of which nothing has been read yet.
    #[must_use]
    pub fn new(files: CertificateFiles) -> Self {
        Self {
            files,
            served: None,
            failing: None,
        }
    }

    /// Looks for the first time, and serves what there is. What is wrong is logged at once.
    pub fn begin(&mut self, certificates: &Certificates, metrics: &Metrics) {
        let seen = match self.look() {
            // Fails twice in a row, or was half written.
            Seen::Failed { .. } => self.look(),
            seen => seen,
        };
        apply(seen, certificates, metrics);
    }

    /// Reads both files each `interval`, and each second while none could be served, until the
    /// runtime ends. A new pair is served from the next handshake on. A bad or mismatched one is
    /// counted, and the old pair stays.
    ///
    /// The two files of a Secret cannot be read at one instant, so a pair that fails once is most
    /// often half written. Only what fails twice in a row is logged, once.
    pub async fn run(self, interval: Duration, certificates: Arc<Certificates>, metrics: Arc<Metrics>) {
        let mut reloader = self;
        loop {
            sleep(match reloader.served {
                Some(_) => interval,
                None => interval.min(IMPATIENT),
            })
            .await;
            let look = tokio::task::spawn_blocking(move || {
                let seen = reloader.look();
                (reloader, seen)
            });
            let Ok((returned, seen)) = look.await else {
                return;
            };
            reloader = returned;
            apply(seen, &certificates, &metrics);
        }
    }

    fn look(&mut self) -> Seen {
        match self.read() {
            Err(error) => self.failed(None, error),
            Ok((certificate, key)) => self.judge(&certificate, &key),
        }
    }

    fn read(&self) -> Result<(Vec<u8>, Vec<u8>), TlsError> {
        Ok((
            read("certificate", &self.files.certificate)?,
            read("key", &self.files.key)?,
        ))
    }

    fn judge(&mut self, certificate: &[u8], key: &[u8]) -> Seen {
        let content = digest(certificate, key);
        if self.served == Some(content) {
            self.failing = None;
            return Seen::Unchanged;
        }
        match Pair::parse(&(&self.files).into(), certificate, key) {
            Err(error) => self.failed(Some(content), error),
            Ok(pair) => {
                self.failing = None;
                self.served = Some(content);
                Seen::Changed(pair)
            }
        }
    }

    fn failed(&mut self, content: Option<Digested>, error: TlsError) -> Seen {
        let failure = Failure {
            content,
            message: error.to_string(),
        };
        let before = self
            .failing
            .take()
            .filter(|(last, _)| *last == failure)
            .map_or(0, |(_, times)| times);
        self.failing = Some((failure, before.saturating_add(1)));
        Seen::Failed {
            error,
            persists: before == 1,
        }
    }
}

fn apply(seen: Seen, certificates: &Certificates, metrics: &Metrics) {
    match seen {
        Seen::Unchanged => {}
        Seen::Changed(pair) => {
            if certificates.serves() {
                metrics.certificate_reloads.inc();
            }
            certificates.swap(&pair);
            metrics.certificate_not_after.set(pair.not_after);
            tracing::info!(not_after = pair.not_after, "serving a new certificate");
            pair.warn_unless_valid();
        }
        Seen::Failed { error, persists } => {
            let served = certificates.serves();
            certificates.refuse(error.to_string());
            // A file that has never been there is waited for.
            if served || !error.is_absence() {
                metrics.certificate_reload_failures.inc();
            }
            if persists {
                tell(&error, served);
            }
        }
    }
}

fn tell(error: &TlsError, served: bool) {
    let text = error.to_string();
    if served {
        tracing::warn!(error = text, "keeping the old certificate");
    } else if error.is_absence() {
        tracing::warn!(error = text, "no certificate yet; not ready until both files are there");
    } else {
        tracing::error!(
            error = text,
            "no certificate that can be served; not ready until there is one"
        );
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;

    use tempfile::TempDir;

    use super::*;

    /// A mounted Secret that starts with a sound pair.
    struct Mount {
        dir: TempDir,
        first: (String, String),
        reloader: Reloader,
    }

    impl Mount {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let files = CertificateFiles {
                certificate: dir.path().join("tls.crt"),
                key: dir.path().join("tls.key"),
            };
            let first = pair();
            write(&dir, &first.0, &first.1);
            let mut reloader = Reloader::new(files);
            assert!(matches!(reloader.look(), Seen::Changed(_)));
            Self { dir, first, reloader }
        }

        fn write(&self, certificate: &str, key: &str) {
            write(&self.dir, certificate, key);
        }

        fn fails(&mut self) -> (TlsError, bool) {
            match self.reloader.look() {
                Seen::Failed { error, persists } => (error, persists),
                other => panic!("expected a failure, got {other:?}"),
            }
        }
    }

    fn write(dir: &TempDir, certificate: &str, key: &str) {
        fs::write(dir.path().join("tls.crt"), certificate).unwrap();
        fs::write(dir.path().join("tls.key"), key).unwrap();
    }

    fn pair() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn takes_a_new_pair_once() {
        let mut mount = Mount::new();
        assert!(matches!(mount.reloader.look(), Seen::Unchanged));
        let (certificate, key) = pair();
        mount.write(&certificate, &key);
        assert!(matches!(mount.reloader.look(), Seen::Changed(_)));
        assert!(matches!(mount.reloader.look(), Seen::Unchanged));
    }

    #[test]
    fn a_mismatch_is_told_once_when_it_persists() {
        let mut mount = Mount::new();
        let ((certificate, key), (other, other_key)) = (pair(), pair());
        mount.write(&certificate, &other_key);
        let told: Vec<bool> = (0..4).map(|_| mount.fails().1).collect();
        assert_eq!(told, [false, true, false, false]);
        assert!(matches!(mount.fails().0, TlsError::Mismatch { .. }));
        mount.write(&other, &key);
        assert!(!mount.fails().1, "another mismatch counts from the start");
        assert!(mount.fails().1);
        mount.write(&certificate, &key);
        assert!(matches!(mount.reloader.look(), Seen::Changed(_)));
    }

    #[test]
    fn a_half_written_pair_is_never_told() {
        let mut mount = Mount::new();
        let (next, next_key) = pair();
        mount.write(&next, &mount.first.1);
        assert!(!mount.fails().1);
        mount.write(&next, &next_key);
        assert!(matches!(mount.reloader.look(), Seen::Changed(_)));
    }

    #[test]
    fn going_back_to_the_served_pair_ends_a_failure() {
        let mut mount = Mount::new();
        let ((certificate, key), (next, _)) = (mount.first.clone(), pair());
        mount.write(&next, &key);
        mount.fails();
        mount.write(&certificate, &key);
        assert!(matches!(mount.reloader.look(), Seen::Unchanged));
        mount.write(&next, &key);
        assert!(!mount.fails().1);
    }

    #[test]
    fn says_which_file_is_wrong() {
        let mut mount = Mount::new();
        let (certificate, key) = pair();
        let mut said = |certificate: &str, key: &str| {
            mount.write(certificate, key);
            mount.fails().0.to_string()
        };
        assert!(said("", &key).contains("the certificate file") && said("", &key).contains("holds no PEM block"));
        assert!(said(&key, &certificate).contains("are certificate and key swapped?"));
        assert!(said(&certificate, "").contains("the key file"));
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(said(broken, &key).contains("certificate file") && said(broken, &key).contains("cannot be used"));
        let broken = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        assert!(said(&certificate, broken).contains("key file"));
        fs::remove_file(mount.dir.path().join("tls.key")).unwrap();
        assert!(mount.fails().0.to_string().contains("cannot read the key file"));
    }
}
