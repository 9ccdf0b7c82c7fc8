//! What the signer's Secret holds, whoever fills it.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;

use super::given::Given;
use super::issuer::{Authority, LONGEST};
use super::state::State;
use super::trust::Role;
use crate::certificates::sight::Trusting;
use crate::certificates::{Certificate, Moment, Unsound, secret};
use crate::config::KeptBy;
use crate::error::error_chain;

/// What the Secret holds.
#[derive(Clone, Debug)]
pub(super) enum Held {
    /// What this server keeps.
    Kept(State),
    /// What somebody else keeps.
    Given(Given),
}

impl Trusting for Held {
    fn bundle(&self) -> String {
        match self {
            Self::Kept(state) => state.bundle(),
            Self::Given(given) => given.bundle(),
        }
    }

    fn counts_on_its_bundle(&self) -> bool {
        self.kept()
            .is_some_and(|state| state.next.is_some() && state.since.is_some())
    }
}

impl Held {
    pub(super) fn decode(secret: &Secret, keeper: KeptBy) -> Result<Self, Unsound> {
        let entries = secret::entries(secret);
        match keeper {
            KeptBy::Server => State::decode(&entries).map(Self::Kept),
            KeptBy::Others => {
                let given = Given::decode(&entries, Moment::now());
                given
                    .map(Self::Given)
                    .map_err(|fault| Unsound::Given(error_chain(&fault)))
            }
        }
    }

    pub(super) fn signer(&self) -> &Certificate {
        match self {
            Self::Kept(state) => &state.signer.certificate,
            Self::Given(given) => &given.signer.certificate,
        }
    }

    pub(super) fn authority(&self) -> Result<Authority, rcgen::Error> {
        match self {
            Self::Kept(state) => Authority::new(&state.signer, &[]),
            Self::Given(given) => given.authority(),
        }
    }

    /// A certificate above every leaf that has to be published, PEM.
    pub(super) fn published(&self) -> String {
        match self {
            Self::Kept(state) => state.signer.certificate.pem(),
            Self::Given(given) => given.bundle(),
        }
    }

    pub(super) fn kept(&self) -> Option<&State> {
        match self {
            Self::Kept(state) => Some(state),
            Self::Given(_) => None,
        }
    }

    /// How long its leaves may be valid.
    pub(super) fn longest_leaf(&self) -> Duration {
        self.kept().map_or(LONGEST, |state| state.longest_leaf)
    }

    /// What each authority that is trusted does, by its subject, and until when.
    pub(super) fn roles(&self) -> Vec<(String, Role, Option<Moment>)> {
        let of = |role, until| move |certificate: &Certificate| (certificate.subject.clone(), role, until);
        match self {
            Self::Kept(state) => {
                let next = state.next.iter().map(|next| &next.certificate);
                let retiring = state.retiring.iter().map(of(Role::Retiring, state.retire_at));
                let signs = std::iter::once(&state.signer.certificate).map(of(Role::Signs, None));
                signs.chain(next.map(of(Role::Next, None))).chain(retiring).collect()
            }
            Self::Given(given) => {
                let roots = given.roots.iter().map(of(Role::Trusted, None));
                let signer = of(Role::Signs, None)(&given.signer.certificate);
                roots
                    .filter(|(subject, ..)| *subject != signer.0)
                    .chain([signer.clone()])
                    .collect()
            }
        }
    }
}
