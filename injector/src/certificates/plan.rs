//! What has to happen next: pure, for every state at every time.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::certificate::Certificate;
use super::state::{Pair, State};
use super::{Moment, Unsound};
use crate::config::Lifetimes;

/// How long a new leader leaves served and trusted certificates as they are, if the overlap is not
/// shorter. After an outage of the API server an overlap may have passed in which nobody heard of
/// anything; replicas come back within half of this time.
pub const SETTLING: Duration = Duration::from_mins(1);

/// What the plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// What the Secret holds.
    pub secret: Result<&'a State, &'a Unsound>,
    /// The last sound state that this process has seen.
    pub memory: Option<&'a State>,
    /// Whether each webhook configuration that exists carries exactly the Secret's bundle; `None`
    /// while that is not known.
    pub in_force: Option<bool>,
    /// What somebody asked for through the Secret's annotation.
    pub asked: Option<&'a str>,
    /// Since when this process has led without a break.
    pub led_since: Moment,
}

/// What certificates have to be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// DNS names and IP addresses of the serving certificate.
    pub names: BTreeSet<String>,
    /// How long everything is valid.
    pub lifetimes: Lifetimes,
}

/// What has to happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<C = Change> {
    /// Nothing before this moment, unless something changes.
    Wait(Moment),
    /// This change, written at once.
    Change(C),
}

/// A change of the Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new authority and a new serving certificate: there is nothing to go on from.
    Found,
    /// Writes back what this process remembers: somebody emptied or broke the Secret.
    Restore,
    /// A new serving certificate.
    Issue(Why),
    /// A new authority joins those that are trusted.
    Begin(Why),
    /// The step counts from now on.
    Mark,
    /// The step does not count any more: a webhook configuration has lost the next authority.
    Unmark,
    /// The next authority signs from now on.
    Switch,
    /// The authorities that signed before are not trusted any more.
    Retire,
    /// What was asked for is under way or unknown.
    Dismiss,
}

/// Why something is made anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Somebody asked.
    Asked,
    /// Two thirds of its lifetime have passed.
    Due,
    /// It is not valid now.
    Invalid,
    /// It is not the configured names that it is for.
    Names,
    /// It is missing, broken, or signed by another authority.
    Unusable,
}

/// What can be asked for through the Secret's annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A new serving certificate.
    Certificate,
    /// A new authority, and then a new serving certificate.
    Authority,
}

impl Request {
    /// Every request.
    pub const ALL: &[Self] = &[Self::Certificate, Self::Authority];

    /// The value of the annotation.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Certificate => "certificate",
            Self::Authority => "ca",
        }
    }
}

impl FromStr for Request {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let found = Self::ALL.iter().find(|request| request.as_str() == text);
        found.copied().ok_or(())
    }
}

impl Change {
    /// The word for logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Restore => "restore",
            Self::Issue(_) => "issue",
            Self::Begin(_) => "begin",
            Self::Mark => "mark",
            Self::Unmark => "unmark",
            Self::Switch => "switch",
            Self::Retire => "retire",
            Self::Dismiss => "dismiss",
        }
    }

    /// What it means, for people.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Found => "made an authority and a serving certificate",
            Self::Restore => "wrote back what the Secret held before somebody changed it",
            Self::Issue(_) => "made a serving certificate",
            Self::Begin(_) => "made the next authority, which is trusted beside the present one from now on",
            Self::Mark => "the overlap of two authorities counts from now on",
            Self::Unmark => "a caBundle lacks the next authority, so that the overlap starts again",
            Self::Switch => "the next authority signs from now on",
            Self::Retire => "the authority before is not trusted any more",
            Self::Dismiss => "what was asked for is under way, or unknown: ask for certificate or ca",
        }
    }

    /// Why, where there is more than one possible reason.
    #[must_use]
    pub fn why(self) -> Option<Why> {
        match self {
            Self::Issue(why) | Self::Begin(why) => Some(why),
            _ => None,
        }
    }

    /// Whether whatever was asked for is done with it.
    #[must_use]
    pub fn answers(self) -> bool {
        matches!(
            self,
            Self::Found | Self::Dismiss | Self::Issue(Why::Asked) | Self::Begin(Why::Asked)
        )
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Asked => "asked for",
            Self::Due => "two thirds of its lifetime have passed",
            Self::Invalid => "not valid now",
            Self::Names => "other names are configured",
            Self::Unusable => "missing or unusable",
        })
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
    let asked = view.asked.map(Request::from_str);
    let planned = Plan {
        state,
        now,
        settings,
        in_force: view.in_force,
        led_since: view.led_since,
        asked: asked.and_then(Result::ok),
    };
    let unknown = (asked == Some(Err(()))).then_some(Change::Dismiss);
    match planned.change().or(unknown) {
        Some(change) => Step::Change(change),
        None => Step::Wait(planned.wake()),
    }
}

struct Plan<'a> {
    state: &'a State,
    now: Moment,
    settings: &'a Settings,
    in_force: Option<bool>,
    led_since: Moment,
    asked: Option<Request>,
}

impl Plan<'_> {
    fn change(&self) -> Option<Change> {
        self.revive()
            .or_else(|| self.issue().map(Change::Issue))
            .or_else(|| match &self.state.next {
                Some(next) => self.introduce(next),
                None if self.state.retiring.is_empty() => self.begin().map(Change::Begin),
                None => self.retire(),
            })
    }

    /// With a signer that is not valid nothing can go wrong any more: what is served fails already.
    fn revive(&self) -> Option<Change> {
        let valid = |pair: &Pair| pair.certificate.valid_at(self.now);
        match &self.state.next {
            _ if valid(&self.state.signer) => None,
            Some(next) if valid(next) => Some(Change::Switch),
            _ => Some(Change::Found),
        }
    }

    fn issue(&self) -> Option<Why> {
        if self.asked == Some(Request::Certificate) {
            return Some(Why::Asked);
        }
        let signer = &self.state.signer.certificate;
        let leaf = match &self.state.leaf {
            Ok(leaf) => &leaf.certificate,
            Err(_) => return Some(Why::Unusable),
        };
        if !leaf.is_signed_by(signer) {
            Some(Why::Unusable)
        } else if leaf.names != self.settings.names {
            Some(Why::Names)
        } else if !leaf.valid_at(self.now) {
            Some(Why::Invalid)
        } else if self.now >= leaf.due() && leaf.not_after < signer.not_after {
            // One that ends with its authority has no successor but from the next authority.
            Some(Why::Due)
        } else {
            None
        }
    }

    fn begin(&self) -> Option<Why> {
        if self.asked == Some(Request::Authority) {
            Some(Why::Asked)
        } else if self.now >= self.state.signer.certificate.due() {
            Some(Why::Due)
        } else {
            None
        }
    }

    fn introduce(&self, next: &Pair) -> Option<Change> {
        if self.asked == Some(Request::Authority) {
            Some(Change::Dismiss)
        } else if !next.certificate.valid_at(self.now) {
            Some(Change::Begin(Why::Invalid))
        } else if self.now >= self.switch_at() {
            Some(Change::Switch)
        } else {
            match (self.in_force, self.since()) {
                (Some(true), None) => Some(Change::Mark),
                (Some(false), Some(_)) => Some(Change::Unmark),
                _ => None,
            }
        }
    }

    /// An overlap after the step began to count. When the serving certificate ends before, the time
    /// that is left is shared between the callers that learn of the authority and the replicas that
    /// learn of the certificate; when nobody is known to trust the authority, it is used to the end.
    fn switch_at(&self) -> Moment {
        let end = match &self.state.leaf {
            Ok(leaf) => leaf.certificate.not_after,
            Err(_) => self.state.signer.certificate.not_after,
        };
        match self.since().filter(|_| self.in_force == Some(true)) {
            Some(since) => self.passed(since).min(since.midpoint(end)),
            None => end,
        }
    }

    fn retire(&self) -> Option<Change> {
        match self.since() {
            None => Some(Change::Mark),
            Some(since) if self.now >= self.passed(since) => Some(Change::Retire),
            Some(_) => None,
        }
    }

    /// When everybody has heard of a step that counts since then.
    fn passed(&self, since: Moment) -> Moment {
        let overlap = self.settings.lifetimes.overlap;
        since.plus(overlap).max(self.led_since.plus(overlap.min(SETTLING)))
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
            retiring,
            leaf,
            since: _,
        } = self.state;
        let mut moments = vec![after(signer.certificate.not_after)];
        moments.extend(next.as_ref().map(|next| after(next.certificate.not_after)));
        moments.extend(next.as_ref().map(|_| self.switch_at()));
        moments.extend(leaf.as_ref().ok().map(|leaf| after(leaf.certificate.not_after)));
        let leaf = leaf.as_ref().ok().map(|leaf| &leaf.certificate);
        moments.extend(leaf.filter(|leaf| self.now < leaf.due()).map(Certificate::due));
        if next.is_none() && retiring.is_empty() {
            moments.push(signer.certificate.due());
        }
        if next.is_none() && !retiring.is_empty() {
            moments.extend(self.since().map(|since| self.passed(since)));
        }
        moments
            .into_iter()
            .filter(|moment| *moment > self.now)
            .min()
            .unwrap_or(self.now)
    }
}

/// The first moment at which a certificate with this end is not valid.
pub(crate) fn after(not_after: Moment) -> Moment {
    not_after.plus(Duration::from_millis(1))
}

#[cfg(test)]
mod tests;
