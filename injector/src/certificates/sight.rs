//! What a replica has seen of the Secret, and whether it may act on that.
//!
//! A watch may have been silent for a while without anybody noticing. A replica that does not lead then
//! serves an old certificate for that long, which the overlap allows for. One that begins to lead must
//! not act on what it saw before: it could put a `caBundle` back that lacks the authority of what others
//! serve. So it looks anew, and waits for what it is shown.

use super::plan::View;
use super::{Moment, State, Unsound};

/// What this process has seen of the Secret.
#[derive(Debug)]
pub(crate) struct Sight<S> {
    state: Result<S, Unsound>,
    /// The last sound state.
    memory: Option<S>,
    /// The term of leadership, and since when; `None` while another one leads.
    term: Option<(u64, Moment)>,
    /// Whether the Secret was read since this term began.
    fresh: bool,
}

/// What says who is trusted.
pub(crate) trait Trusting: Clone {
    /// Every authority that is trusted, PEM.
    fn bundle(&self) -> String;
    /// Whether an overlap is counting during which the bundle that is in force must be this one.
    fn counts_on_its_bundle(&self) -> bool;
}

impl Trusting for State {
    fn bundle(&self) -> String {
        self.bundle()
    }

    fn counts_on_its_bundle(&self) -> bool {
        self.counts_on_its_bundle()
    }
}

impl<S> Default for Sight<S> {
    fn default() -> Self {
        Self {
            state: Err(Unsound::Empty),
            memory: None,
            term: None,
            fresh: false,
        }
    }
}

impl<S: Clone> Sight<S> {
    /// Takes note of who leads: `term` tells apart times of leadership between which another one may
    /// have led. True when everything has to be looked at anew.
    pub(crate) fn lead(&mut self, term: Option<u64>, now: Moment) -> bool {
        if self.is_in(term) {
            return false;
        }
        self.term = term.map(|term| (term, now));
        self.fresh = false;
        term.is_some()
    }

    /// Takes note of what a watch shows that was begun in this term.
    pub(crate) fn see(&mut self, state: Result<S, Unsound>) {
        if let Ok(state) = &state {
            self.memory = Some(state.clone());
        }
        self.state = state;
        self.fresh = true;
    }

    /// What was seen last; the Secret is empty before, and while it does not exist.
    pub(crate) fn state(&self) -> &Result<S, Unsound> {
        &self.state
    }

    /// The last sound state.
    pub(crate) fn memory(&self) -> Option<&S> {
        self.memory.as_ref()
    }

    /// Whether this process leads, and has seen the Secret since it does.
    pub(crate) fn may_act(&self) -> bool {
        self.term.is_some() && self.fresh
    }

    /// Whether this still is the term in which the Secret was seen.
    pub(crate) fn leads(&self, term: Option<u64>) -> bool {
        self.may_act() && self.is_in(term)
    }

    /// Whether this is the term that is known of.
    fn is_in(&self, term: Option<u64>) -> bool {
        self.term.map(|(term, _)| term) == term
    }

    /// Since when this process has led, if it has seen the Secret since; `None` when there must not be a plan.
    pub(crate) fn led_since(&self) -> Option<Moment> {
        self.term.filter(|_| self.fresh).map(|(_, since)| since)
    }
}

impl Sight<State> {
    /// What a plan is made from; `None` when there must not be one.
    pub(crate) fn view<'a>(&'a self, in_force: Option<bool>, asked: Option<&'a str>) -> Option<View<'a>> {
        let led_since = self.led_since()?;
        Some(View {
            secret: self.state.as_ref(),
            memory: self.memory(),
            in_force,
            asked,
            led_since,
        })
    }
}

impl<S: Trusting> Sight<S> {
    /// The bundle that has to be in force; `None` when nothing must be written.
    ///
    /// While the Secret is unsound, what is remembered counts. While an overlap counts, nothing is
    /// repaired: the Secret has to say first that it does not, as a leader after this one could not know.
    pub(crate) fn bundle(&self) -> Option<String> {
        match &self.state {
            _ if !self.may_act() => None,
            Ok(state) if state.counts_on_its_bundle() => None,
            Ok(state) => Some(state.bundle()),
            Err(_) => self.memory().map(S::bundle),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_begins_to_lead_sees_the_secret_before_it_acts() {
        let now = Moment::from_second(1);
        let mut sight = Sight::<State>::default();
        sight.see(Err(Unsound::Empty));
        assert!(
            !sight.may_act() && sight.view(None, None).is_none(),
            "another one leads"
        );
        assert!(sight.lead(Some(1), now));
        assert!(!sight.may_act() && sight.view(None, None).is_none() && sight.bundle().is_none());
        sight.see(Err(Unsound::Empty));
        assert!(sight.may_act());
        assert!(!sight.lead(Some(1), Moment::from_second(2)), "it still leads");
        assert_eq!(sight.view(None, None).map(|view| view.led_since), Some(now));

        assert!(sight.lead(Some(2), now), "somebody else may have led in between");
        assert!(!sight.may_act());
        sight.see(Err(Unsound::Empty));
        assert!(
            !sight.lead(None, now),
            "there is no need to look anew for one that does not lead"
        );
        assert!(!sight.may_act());
        assert!(sight.lead(Some(2), now));
    }
}
