//! On every replica: what the Secret holds is served at once, if it can be.

use std::sync::Arc;

use super::state::{self, CERTIFICATE, KEY};
use super::{Certificate, Moment, State, Unsound};
use crate::metrics::Metrics;
use crate::tls::{self, Certificates, Place, Places, TlsError};

/// Why what the Secret holds is not served.
#[derive(Debug, thiserror::Error)]
enum Refusal<'a> {
    #[error("the Secret {secret}: {unsound}")]
    Unsound { secret: &'a str, unsound: &'a Unsound },
    #[error("the Secret {secret}: {fault}")]
    Leaf {
        secret: &'a str,
        fault: &'a state::LeafFault,
    },
    #[error("the certificate in the Secret {secret} is valid from {not_before} to {not_after} and not now")]
    Invalid {
        secret: &'a str,
        not_before: Moment,
        not_after: Moment,
    },
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Hands on what the Secret holds to the TLS side of the server.
pub(super) struct Follower {
    secret: String,
    certificates: Arc<Certificates>,
    metrics: Arc<Metrics>,
    served: Option<Certificate>,
    /// The refusal that the log knows of.
    told: Option<String>,
}

impl Follower {
    pub(super) fn new(secret: String, certificates: Arc<Certificates>, metrics: Arc<Metrics>) -> Self {
        Self {
            secret,
            certificates,
            metrics,
            served: None,
            told: None,
        }
    }

    /// Serves it from the next handshake on, or says why not; what was served before stays then.
    pub(super) fn offer(&mut self, state: &Result<State, Unsound>, now: Moment) {
        match self.take(state, now).map_err(|refusal| refusal.to_string()) {
            Ok(None) => self.told = None,
            Ok(Some((pair, certificate))) => self.serve(&pair, certificate),
            Err(reason) => self.refuse(reason, *state == Err(Unsound::Empty)),
        }
        if let Ok(state) = state {
            let end = state.signer.certificate.not_after.second();
            self.metrics.certificates.authority_not_after.set(end);
        }
    }

    /// The Secret is gone: what is served stays.
    pub(super) fn lost(&mut self) {
        let reason = format!("the Secret {} does not exist", self.secret);
        self.certificates.refuse(reason.clone());
        self.metrics.certificate_reload_failures.inc();
        tracing::error!(
            reason,
            remedy = "it belongs to the Helm release: restore it with helm upgrade, and the leader fills it again",
            "certificates cannot be kept; those that are served stay"
        );
    }

    /// `None` for what is served already.
    fn take<'a>(
        &'a self,
        state: &'a Result<State, Unsound>,
        now: Moment,
    ) -> Result<Option<(tls::Pair, Certificate)>, Refusal<'a>> {
        let secret = &self.secret;
        let state = state.as_ref().map_err(|unsound| Refusal::Unsound { secret, unsound })?;
        let leaf = state.leaf.as_ref().map_err(|fault| Refusal::Leaf { secret, fault })?;
        let certificate = &leaf.certificate;
        if self.served.as_ref() == Some(certificate) {
            return Ok(None);
        }
        if !certificate.valid_at(now) {
            return Err(Refusal::Invalid {
                secret,
                not_before: certificate.not_before,
                not_after: certificate.not_after,
            });
        }
        let pair = tls::Pair::parse(
            &self.places(),
            certificate.pem().as_bytes(),
            leaf.key.expose().as_bytes(),
        )?;
        Ok(Some((pair, certificate.clone())))
    }

    fn places(&self) -> Places {
        let place = |key| Place::Entry {
            secret: self.secret.clone(),
            key,
        };
        Places {
            certificate: place(CERTIFICATE),
            key: place(KEY),
        }
    }

    fn serve(&mut self, pair: &tls::Pair, certificate: Certificate) {
        self.certificates.swap(pair);
        self.metrics.certificate_not_after.set(pair.not_after);
        if self.served.is_some() {
            self.metrics.certificate_reloads.inc();
        }
        tracing::info!(not_after = %certificate.not_after, "serving a new certificate");
        self.served = Some(certificate);
        self.told = None;
    }

    /// A Secret that was never filled is no failure.
    fn refuse(&mut self, reason: String, empty: bool) {
        self.certificates.refuse(reason.clone());
        if empty && self.served.is_none() {
            return;
        }
        self.metrics.certificate_reload_failures.inc();
        if self.told.as_ref() != Some(&reason) {
            tracing::warn!(reason, "keeping the old certificate");
            self.told = Some(reason);
        }
    }
}
