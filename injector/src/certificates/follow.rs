//! On every replica: what the Secret holds is served at once, if it can be.
//!
//! A certificate that is not valid now is waited for, as long as what is served is better.

use std::sync::Arc;
use std::time::Duration;

use super::state::{self, CA_CERTIFICATES, CERTIFICATE, KEY};
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

impl Refusal<'_> {
    /// When this one begins to be valid, or what is served ends.
    fn again_at(&self, served: Option<&Certificate>, now: Moment) -> Option<Moment> {
        let Self::Invalid { not_before, .. } = self else {
            return None;
        };
        let end = served.map_or(now, |served| served.not_after.plus(Duration::from_millis(1)));
        Some(end)
            .into_iter()
            .chain(Some(*not_before).filter(|begin| *begin > now))
            .min()
    }
}

/// Hands on what the Secret holds to the TLS side of the server.
pub(super) struct Follower {
    secret: String,
    certificates: Arc<Certificates>,
    metrics: Arc<Metrics>,
    served: Option<Certificate>,
    /// When to look again at what is not valid now; `None` when there is nothing to wait for.
    again_at: Option<Moment>,
    /// The refusal that the log knows of.
    told: Option<String>,
    /// Whether some authority in the Secret has signed what is served.
    trusted: bool,
}

impl Follower {
    pub(super) fn new(secret: String, certificates: Arc<Certificates>, metrics: Arc<Metrics>) -> Self {
        Self {
            secret,
            certificates,
            metrics,
            served: None,
            again_at: None,
            told: None,
            trusted: true,
        }
    }

    /// Serves it from the next handshake on, or says why not; what was served before stays then.
    pub(super) fn offer(&mut self, state: &Result<State, Unsound>, now: Moment) {
        self.again_at = None;
        match self.take(state, now) {
            Ok(None) => self.told = None,
            Ok(Some((pair, certificate))) => self.serve(&pair, certificate),
            Err(refusal) => {
                let again_at = refusal.again_at(self.served.as_ref(), now);
                let reason = refusal.to_string();
                self.refuse(reason, *state == Err(Unsound::Empty));
                self.again_at = again_at;
            }
        }
        if let Ok(state) = state {
            let end = state.signer.certificate.not_after.second();
            self.metrics.certificates.authority_not_after.set(end);
            self.judge(state);
        }
    }

    /// What was refused for the time may be valid by now, or better than what is served.
    pub(super) fn offer_again(&mut self, state: &Result<State, Unsound>, now: Moment) {
        if self.again_at.is_some()
            && let Ok(Some((pair, certificate))) = self.take(state, now)
        {
            self.again_at = None;
            self.serve(&pair, certificate);
            state.iter().for_each(|state| self.judge(state));
        }
    }

    /// When to offer again what was refused for the time.
    pub(super) fn again_at(&self) -> Option<Moment> {
        self.again_at
    }

    /// Whether callers can verify what is served, as they trust what the Secret says.
    fn judge(&mut self, state: &State) {
        let Some(served) = &self.served else {
            return;
        };
        let trusted = state.trusts(served);
        let reason = (!trusted).then(|| {
            format!(
                "no certificate in the entry {CA_CERTIFICATES} of the Secret {} has signed the one that is served",
                self.secret
            )
        });
        if let Some(reason) = reason.as_ref().filter(|_| self.trusted) {
            tracing::warn!(reason, "the API server cannot verify what is served");
        }
        self.trusted = trusted;
        self.certificates.distrust(reason);
    }

    /// The Secret is gone: what is served stays.
    pub(super) fn lost(&mut self) {
        self.again_at = None;
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
        if !certificate.valid_at(now) && self.serves_better(state, now) {
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

    /// Whether what is served is better than one that is not valid now.
    fn serves_better(&self, state: &State, now: Moment) -> bool {
        let served = self.served.as_ref();
        served.is_some_and(|served| served.valid_at(now) && state.trusts(served))
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use jiff::Timestamp;

    use super::super::make::apply;
    use super::super::plan::{Change, Settings, Why};
    use super::*;
    use crate::config::Lifetimes;
    use crate::server::new_metrics;

    const NOW: Moment = Moment::from_second(1_700_000_000);
    const MINUTE: Duration = Duration::from_mins(1);

    fn settings() -> Settings {
        Settings {
            names: ["outrigger.mesh.svc".to_owned()].into(),
            lifetimes: Lifetimes {
                certificate: MINUTE * 120,
                authority: MINUTE * 1000,
                overlap: MINUTE,
            },
        }
    }

    fn found(now: Moment) -> Result<State, Unsound> {
        Ok(apply(Change::Found, Err(&Unsound::Empty), None, now, &settings()).unwrap())
    }

    /// The same with another certificate, made at this time.
    fn renewed(state: &Result<State, Unsound>, now: Moment) -> Result<State, Unsound> {
        Ok(apply(Change::Issue(Why::Due), state.as_ref(), None, now, &settings()).unwrap())
    }

    struct Scene {
        follower: Follower,
        certificates: Arc<Certificates>,
        metrics: Arc<Metrics>,
    }

    impl Scene {
        fn new() -> Self {
            let (certificates, metrics) = (Arc::new(Certificates::default()), new_metrics());
            Self {
                follower: Follower::new("certs".to_owned(), Arc::clone(&certificates), Arc::clone(&metrics)),
                certificates,
                metrics,
            }
        }

        fn serves(&self, state: &Result<State, Unsound>) -> bool {
            let leaf = &state.as_ref().unwrap().leaf.as_ref().unwrap().certificate;
            self.follower.served.as_ref() == Some(leaf)
        }
    }

    #[test]
    fn a_certificate_is_taken_when_it_begins_to_be_valid() {
        let (mut scene, first) = (Scene::new(), found(NOW));
        scene.follower.offer(&first, NOW);
        assert!(scene.serves(&first) && scene.follower.again_at().is_none());

        // The clock of the leader is an hour ahead; certificates begin five minutes before.
        let second = renewed(&first, NOW.plus(MINUTE * 60));
        scene.follower.offer(&second, NOW);
        let begin = NOW.plus(MINUTE * 55);
        assert!(scene.serves(&first));
        assert_eq!(scene.follower.again_at(), Some(begin));
        scene.follower.offer_again(&second, begin.minus(MINUTE));
        assert!(scene.serves(&first));
        assert_eq!(scene.metrics.certificate_reload_failures.get(), 1, "it is one failure");
        scene.follower.offer_again(&second, begin);
        assert!(scene.serves(&second) && scene.follower.again_at().is_none());
    }

    #[test]
    fn nothing_is_refused_for_the_time_that_is_no_worse_than_what_is_served() {
        let later = NOW.plus(MINUTE * 200);
        let first = found(NOW);
        let second = renewed(&first, later);
        let mut fresh = Scene::new();
        fresh.follower.offer(&second, NOW);
        assert!(fresh.serves(&second), "there is no other");

        let mut expired = Scene::new();
        expired.follower.offer(&first, NOW);
        expired.follower.offer(&second, NOW);
        let end = NOW.plus(MINUTE * 120 + Duration::from_millis(1));
        assert_eq!(expired.follower.again_at(), Some(end), "before the second begins");
        expired
            .follower
            .offer_again(&second, end.minus(Duration::from_millis(1)));
        assert!(expired.serves(&first));
        expired.follower.offer_again(&second, end);
        assert!(expired.serves(&second));

        let mut distrusted = Scene::new();
        distrusted.follower.offer(&first, NOW);
        let other = found(later);
        distrusted.follower.offer(&other, NOW);
        assert!(distrusted.serves(&other), "nobody trusts the first");
    }

    #[test]
    fn not_ready_while_the_secret_trusts_another_authority() {
        let (mut scene, first) = (Scene::new(), found(Timestamp::now().into()));
        scene.follower.offer(&first, NOW);
        assert_eq!(scene.certificates.check(), Ok(()));
        let mut other = found(NOW).unwrap();
        other.leaf = Err(state::LeafFault::Missing(KEY));
        scene.follower.offer(&Ok(other), NOW);
        let reason = "no certificate in the entry ca.crt of the Secret certs has signed the one that is served";
        assert_eq!(scene.certificates.check(), Err(reason.to_owned()));
        scene.follower.offer(&Err(Unsound::Missing(KEY)), NOW);
        assert_eq!(
            scene.certificates.check(),
            Err(reason.to_owned()),
            "nothing says otherwise"
        );
        scene.follower.offer(&first, NOW);
        assert_eq!(scene.certificates.check(), Ok(()));
    }
}
