//! What has to happen next to the authorities of the mesh: pure, for every state at every time.
//!
//! An authority is replaced in such an order that whoever presents a leaf is trusted by whoever may be asked to:
//!
//! 1. *begin*: the next authority joins the trust bundle.
//! 2. *mark*: the bundle is published; the overlap starts to count. In it, kubelets write the bundle into the pods,
//!    and the proxies there read it.
//! 3. *switch*: the overlap has passed, and the next authority signs.
//! 4. *retire*: the last leaf of the authority before has expired, and it leaves the bundle.

use std::time::Duration;

use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, SignatureAlgorithm};

use super::issuer::LONGEST;
use super::state::State;
use crate::certificates::make::{MakeError, authority};
use crate::certificates::plan::{self, Why, after};
use crate::certificates::state::Pair;
use crate::certificates::{Moment, Unsound};
use crate::config::KeyType;

/// What the plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// What the Secret holds.
    pub secret: Result<&'a State, &'a Unsound>,
    /// The last sound state that this process has seen.
    pub memory: Option<&'a State>,
    /// Whether exactly the Secret's bundle is published; `None` while that is not known.
    pub in_force: Option<bool>,
    /// Whether somebody asks for a new authority.
    pub asked: bool,
    /// Since when this process has led without a break.
    pub led_since: Moment,
}

/// What authorities and leaves have to be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a leaf is valid at most.
    pub leaf: Duration,
    /// How long an authority is valid.
    pub authority: Duration,
    /// How long a new authority is published before it signs.
    pub overlap: Duration,
    /// The kind of its key.
    pub key_type: KeyType,
}

/// What has to happen next.
pub type Step = plan::Step<Change>;

/// A change of the Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new authority: there is nothing to go on from.
    Found,
    /// Writes back what this process remembers: somebody emptied or broke the Secret.
    Restore,
    /// Leaves may be valid for longer from now on.
    Lengthen,
    /// A new authority joins those that are trusted.
    Begin(Why),
    /// The overlap counts from now on.
    Mark,
    /// It does not count any more: the published bundle lacks the next authority.
    Unmark,
    /// The next authority signs from now on.
    Switch,
    /// The end of those on their way out is not known: it is reckoned anew.
    Reckon,
    /// The authorities that signed before are not trusted any more.
    Retire,
    /// What was asked for is under way.
    Dismiss,
}

impl Change {
    /// The word for logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Restore => "restore",
            Self::Lengthen => "lengthen",
            Self::Begin(_) => "begin",
            Self::Mark => "mark",
            Self::Unmark => "unmark",
            Self::Switch => "switch",
            Self::Reckon => "reckon",
            Self::Retire => "retire",
            Self::Dismiss => "dismiss",
        }
    }

    /// What it means, for people.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Found => "made the authority of the mesh",
            Self::Restore => "wrote back what the Secret held before somebody changed it",
            Self::Lengthen => "certificates may be valid for longer from now on",
            Self::Begin(_) => {
                "made the next authority of the mesh, which is trusted beside the present one from now on"
            }
            Self::Mark => "the trust bundle with the next authority is published; the overlap counts from now on",
            Self::Unmark => "the published trust bundle lacks the next authority, so that the overlap starts again",
            Self::Switch => "the next authority signs from now on",
            Self::Reckon => "the authority before is trusted for as long as its last certificate may be valid",
            Self::Retire => "the last certificate of the authority before has expired; it is not trusted any more",
            Self::Dismiss => "a new authority is being introduced already",
        }
    }

    /// Why, where there is more than one possible reason.
    #[must_use]
    pub fn why(self) -> Option<Why> {
        match self {
            Self::Begin(why) => Some(why),
            _ => None,
        }
    }

    /// Whether whatever was asked for is done with it.
    #[must_use]
    pub fn answers(self) -> bool {
        matches!(self, Self::Found | Self::Dismiss | Self::Begin(Why::Asked))
    }
}

/// Says what has to happen now.
///
/// Applied over and over, it comes to [`Step::Wait`] with a later moment after a few changes.
#[must_use]
pub fn plan(view: &View<'_>, now: Moment, settings: &Settings) -> Step {
    let Ok(state) = view.secret else {
        let usable = view
            .memory
            .is_some_and(|memory| memory.signer.certificate.valid_at(now));
        return Step::Change(if usable { Change::Restore } else { Change::Found });
    };
    let planned = Plan {
        state,
        view,
        now,
        settings,
    };
    match planned.change() {
        Some(change) => Step::Change(change),
        None => Step::Wait(planned.wake()),
    }
}

struct Plan<'a> {
    state: &'a State,
    view: &'a View<'a>,
    now: Moment,
    settings: &'a Settings,
}

impl Plan<'_> {
    fn change(&self) -> Option<Change> {
        let lengthen = self.settings.leaf > self.state.longest_leaf;
        self.revive()
            .or(lengthen.then_some(Change::Lengthen))
            .or_else(|| match &self.state.next {
                Some(next) => self.introduce(next),
                None => self.begin().map(Change::Begin),
            })
            .or_else(|| self.retire())
    }

    /// With a signer that is not valid nothing can go wrong any more: no leaf of it is valid either.
    fn revive(&self) -> Option<Change> {
        let valid = |pair: &Pair| pair.certificate.valid_at(self.now);
        match &self.state.next {
            _ if valid(&self.state.signer) => None,
            Some(next) if valid(next) => Some(Change::Switch),
            _ => Some(Change::Found),
        }
    }

    /// Of its own accord only when nobody is on the way out; but who asks may have lost a key.
    fn begin(&self) -> Option<Why> {
        if self.view.asked {
            Some(Why::Asked)
        } else if self.state.retiring.is_empty() && self.now >= self.state.signer.certificate.due() {
            Some(Why::Due)
        } else {
            None
        }
    }

    fn introduce(&self, next: &Pair) -> Option<Change> {
        if self.view.asked {
            Some(Change::Dismiss)
        } else if !next.certificate.valid_at(self.now) {
            Some(Change::Begin(Why::Invalid))
        } else {
            match (self.view.in_force, self.since()) {
                (Some(true), None) => Some(Change::Mark),
                (Some(false), Some(_)) => Some(Change::Unmark),
                (Some(true), Some(since)) if self.now >= self.switch_at(since) => Some(Change::Switch),
                _ => None,
            }
        }
    }

    /// After an outage of the API server an overlap may have passed in which no kubelet heard of anything: a new leader
    /// lets all of it pass again.
    fn switch_at(&self, since: Moment) -> Moment {
        since.max(self.view.led_since).plus(self.settings.overlap)
    }

    fn retire(&self) -> Option<Change> {
        match self.state.retire_at {
            _ if self.state.retiring.is_empty() => None,
            None => Some(Change::Reckon),
            Some(at) if self.now > at => Some(Change::Retire),
            Some(_) => None,
        }
    }

    /// A time that is still to come was written by a clock that is ahead: it counts from now on.
    fn since(&self) -> Option<Moment> {
        self.state.since.filter(|since| *since <= self.now)
    }

    /// The next moment at which something may have to happen by the passing of time alone.
    fn wake(&self) -> Moment {
        let State {
            signer,
            next,
            retiring: _,
            since: _,
            longest_leaf: _,
            retire_at,
        } = self.state;
        let ends = [Some(signer), next.as_ref()].into_iter().flatten();
        let mut moments: Vec<Moment> = ends.map(|pair| after(pair.certificate.not_after)).collect();
        moments.push(signer.certificate.due());
        moments.extend(self.since().map(|since| self.switch_at(since)));
        moments.extend(retire_at.map(after));
        let later = moments.into_iter().filter(|moment| *moment > self.now);
        later.min().unwrap_or(self.now)
    }
}

/// The state after a change.
///
/// # Errors
/// When an authority cannot be made, or the change is none that the state allows.
pub fn apply(change: Change, view: &View<'_>, now: Moment, settings: &Settings) -> Result<State, ApplyError> {
    let misplaced = || ApplyError::Misplaced(change);
    match change {
        Change::Found => return found(now, settings),
        Change::Restore => return view.memory.map(restored).ok_or_else(misplaced),
        _ => {}
    }
    let mut state = view.secret.map_err(|_| misplaced())?.clone();
    match change {
        Change::Found | Change::Restore | Change::Dismiss => {}
        Change::Lengthen => state.longest_leaf = settings.leaf,
        Change::Begin(_) => {
            state.next = Some(mesh_authority(now, settings)?);
            state.since = None;
        }
        Change::Mark => state.since = Some(now),
        Change::Unmark => state.since = None,
        Change::Switch => switch(&mut state, now, settings).ok_or_else(misplaced)?,
        Change::Reckon => state.retire_at = Some(now.plus(LONGEST)),
        Change::Retire => {
            state.retiring.clear();
            state.retire_at = None;
        }
    }
    Ok(state)
}

/// Why there is no state after a change.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// An authority could not be made.
    #[error(transparent)]
    Make(#[from] MakeError),
    /// The change does not fit the state.
    #[error("the change {0:?} does not fit what the Secret holds")]
    Misplaced(Change),
}

/// A step that was counting starts again: nobody knows what else happened meanwhile.
fn restored(memory: &State) -> State {
    State {
        since: None,
        ..memory.clone()
    }
}

fn found(now: Moment, settings: &Settings) -> Result<State, ApplyError> {
    Ok(State {
        signer: mesh_authority(now, settings)?,
        next: None,
        retiring: Vec::new(),
        since: None,
        longest_leaf: settings.leaf,
        retire_at: None,
    })
}

fn mesh_authority(now: Moment, settings: &Settings) -> Result<Pair, MakeError> {
    authority(
        "Outrigger mesh CA",
        algorithm(settings.key_type),
        now,
        settings.authority,
    )
}

fn algorithm(key_type: KeyType) -> &'static SignatureAlgorithm {
    match key_type {
        KeyType::EcdsaP256 => &PKCS_ECDSA_P256_SHA256,
        KeyType::EcdsaP384 => &PKCS_ECDSA_P384_SHA384,
        KeyType::Ed25519 => &PKCS_ED25519,
    }
}

/// `None` when there is no next authority.
fn switch(state: &mut State, now: Moment, settings: &Settings) -> Option<()> {
    let next = state.next.take()?;
    let before = std::mem::replace(&mut state.signer, next).certificate;
    state.retiring.insert(0, before);
    // One may be made by who has not heard of this yet, or whose clock is ahead.
    let last_leaf = now.plus(state.longest_leaf).plus(settings.overlap);
    state.retire_at = Some(state.retire_at.map_or(last_leaf, |at| at.max(last_leaf)));
    state.longest_leaf = settings.leaf;
    state.since = None;
    Some(())
}

#[cfg(test)]
mod tests;
