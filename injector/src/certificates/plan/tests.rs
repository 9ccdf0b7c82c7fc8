//! What has to happen in every state that there is, at every time that matters.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use super::*;
use crate::certificates::make::apply;
use crate::certificates::state::LeafFault;

const START: Moment = Moment::from_second(1_700_000_000);
const DAY: Duration = Duration::from_hours(24);
const OVERLAP: Duration = Duration::from_mins(5);

fn settings() -> Settings {
    Settings {
        names: BTreeSet::from(["outrigger.mesh.svc".to_owned()]),
        lifetimes: Lifetimes {
            certificate: DAY * 90,
            authority: DAY * 900,
            overlap: OVERLAP,
        },
    }
}

fn at(days: u32) -> Moment {
    START.plus(DAY * days)
}

/// A state, and the circumstances that are looked at it under.
struct Case {
    state: Result<State, Unsound>,
    memory: Option<State>,
    in_force: Option<bool>,
    asked: Option<&'static str>,
    led_since: Moment,
    settings: Settings,
}

impl Case {
    fn of(state: State) -> Self {
        Self {
            state: Ok(state),
            memory: None,
            in_force: Some(true),
            asked: None,
            led_since: START,
            settings: settings(),
        }
    }

    fn unsound(memory: Option<State>) -> Self {
        Self {
            state: Err(Unsound::Stranger),
            memory,
            ..Self::of(found())
        }
    }

    fn plan(&self, now: Moment) -> Step {
        let view = View {
            secret: self.state.as_ref(),
            memory: self.memory.as_ref(),
            in_force: self.in_force,
            asked: self.asked,
            led_since: self.led_since,
        };
        plan(&view, now, &self.settings)
    }

    fn asking(mut self, what: &'static str) -> Self {
        self.asked = Some(what);
        self
    }

    fn lacking(mut self) -> Self {
        self.in_force = Some(false);
        self
    }
}

fn after(changes: &[(Change, Moment)]) -> State {
    changes.iter().fold(found(), |state, (change, now)| {
        apply(*change, Ok(&state), None, *now, &settings()).unwrap()
    })
}

fn found() -> State {
    apply(Change::Found, Err(&Unsound::Empty), None, START, &settings()).unwrap()
}

fn begun() -> State {
    after(&[(Change::Begin(Why::Asked), at(10))])
}

fn marked() -> State {
    after(&[(Change::Begin(Why::Asked), at(10)), (Change::Mark, at(10))])
}

fn switched() -> State {
    after(&[
        (Change::Begin(Why::Asked), at(10)),
        (Change::Mark, at(10)),
        (Change::Switch, at(10)),
    ])
}

fn change(change: Change) -> Step {
    Step::Change(change)
}

#[test]
fn a_quiet_state_waits_for_two_thirds_of_what_ends_first() {
    let case = Case::of(found());
    assert_eq!(case.plan(START), Step::Wait(at(60)));
    assert_eq!(case.plan(at(59)), Step::Wait(at(60)));
    assert_eq!(case.plan(at(60)), change(Change::Issue(Why::Due)));
    assert_eq!(case.plan(at(90)), change(Change::Issue(Why::Due)));
    assert_eq!(case.plan(at(91)), change(Change::Issue(Why::Invalid)));
}

#[test]
fn an_unsound_secret_is_restored_while_the_memory_is_of_use() {
    assert_eq!(Case::unsound(None).plan(START), change(Change::Found));
    let case = Case::unsound(Some(found()));
    assert_eq!(case.plan(at(1)), change(Change::Restore));
    assert_eq!(case.plan(at(901)), change(Change::Found), "the authority has expired");
}

#[test]
fn a_restored_step_starts_again() {
    for memory in [marked(), switched()] {
        let restored = apply(
            Change::Restore,
            Err(&Unsound::Empty),
            Some(&memory),
            at(11),
            &settings(),
        )
        .unwrap();
        assert_eq!(restored, State { since: None, ..memory });
        assert_eq!(Case::of(restored).plan(at(11)), change(Change::Mark));
    }
}

#[test]
fn a_serving_certificate_that_is_wrong_is_replaced() {
    let mut case = Case::of(found());
    case.settings.names.insert("10.0.0.7".to_owned());
    assert_eq!(case.plan(START), change(Change::Issue(Why::Names)));

    let broken = State {
        leaf: Err(LeafFault::Mismatch),
        ..found()
    };
    assert_eq!(Case::of(broken).plan(START), change(Change::Issue(Why::Unusable)));

    let strange = State {
        leaf: found().leaf,
        ..found()
    };
    assert_eq!(Case::of(strange).plan(START), change(Change::Issue(Why::Unusable)));

    // A clock that was far ahead has made it.
    let early = after(&[(Change::Issue(Why::Asked), at(5))]);
    assert_eq!(Case::of(early).plan(at(1)), change(Change::Issue(Why::Invalid)));
}

#[test]
fn one_that_ends_with_its_authority_is_not_replaced_over_and_over() {
    let state = after(&[(Change::Issue(Why::Due), at(890))]);
    let leaf = state.leaf.as_ref().unwrap().certificate.clone();
    assert_eq!(leaf.not_after, state.signer.certificate.not_after);
    let rotating = after(&[(Change::Issue(Why::Due), at(890)), (Change::Begin(Why::Due), at(890))]);
    assert!(leaf.due() < at(898));
    assert!(matches!(Case::of(rotating).lacking().plan(at(898)), Step::Wait(_)));
}

#[test]
fn a_rotation_begins_at_two_thirds() {
    let renewed = after(&[(Change::Issue(Why::Due), at(590))]);
    let case = Case::of(renewed);
    assert_eq!(case.plan(at(590)), Step::Wait(at(600)));
    assert_eq!(case.plan(at(600)), change(Change::Begin(Why::Due)));
}

#[test]
fn the_next_authority_waits_until_everyone_trusts_it() {
    assert!(matches!(Case::of(begun()).lacking().plan(at(10)), Step::Wait(_)));
    assert_eq!(Case::of(begun()).plan(at(10)), change(Change::Mark));
    let switch = at(10).plus(OVERLAP);
    assert_eq!(Case::of(marked()).plan(at(10)), Step::Wait(switch));
    assert_eq!(Case::of(marked()).plan(switch), change(Change::Switch));
    assert_eq!(Case::of(marked()).lacking().plan(switch), change(Change::Unmark));
}

#[test]
fn nothing_is_decided_before_the_configurations_are_known() {
    for (state, now) in [(begun(), at(10)), (marked(), at(10)), (marked(), at(11))] {
        let mut case = Case::of(state);
        case.in_force = None;
        assert!(matches!(case.plan(now), Step::Wait(_)), "{:?}", case.plan(now));
    }
}

#[test]
fn the_authority_before_leaves_after_another_overlap() {
    let retire = at(10).plus(OVERLAP);
    assert_eq!(switched().retiring.len(), 1);
    assert_eq!(Case::of(switched()).plan(at(10)), Step::Wait(retire));
    assert_eq!(Case::of(switched()).lacking().plan(at(10)), Step::Wait(retire));
    assert_eq!(Case::of(switched()).plan(retire), change(Change::Retire));
}

#[test]
fn a_new_leader_gives_everybody_time_to_come_back() {
    let passed = at(11);
    for (state, then) in [(marked(), Change::Switch), (switched(), Change::Retire)] {
        let mut case = Case::of(state);
        case.led_since = passed;
        assert_eq!(case.plan(passed), Step::Wait(passed.plus(SETTLING)));
        assert_eq!(case.plan(passed.plus(SETTLING)), change(then));
    }
}

#[test]
fn without_time_for_an_overlap_what_is_left_is_shared() {
    let found_leaf = found().leaf;
    let end = found_leaf.as_ref().unwrap().certificate.not_after;
    let late = end.minus(Duration::from_mins(4));
    let state = after(&[(Change::Begin(Why::Asked), late), (Change::Mark, late)]);
    let plan = Plan {
        state: &State {
            leaf: found_leaf,
            ..state
        },
        now: late,
        settings: &settings(),
        in_force: Some(true),
        led_since: START,
        asked: None,
    };
    assert_eq!(plan.switch_at(), end.minus(Duration::from_mins(2)));
}

#[test]
fn an_expired_world_recovers_at_once() {
    assert_eq!(Case::of(found()).plan(at(1000)), change(Change::Found));
    // The next authority is still valid: it takes over, whoever trusts it.
    let begun = after(&[(Change::Begin(Why::Due), at(600))]);
    assert_eq!(Case::of(begun.clone()).lacking().plan(at(1000)), change(Change::Switch));
    let switched = apply(Change::Switch, Ok(&begun), None, at(1000), &settings()).unwrap();
    assert!(switched.retiring.is_empty() && switched.since.is_none());
    assert!(switched.leaf.unwrap().certificate.valid_at(at(1000)));
    assert_eq!(Case::of(begun).plan(at(1600)), change(Change::Found));
}

#[test]
fn a_next_authority_that_has_expired_is_replaced() {
    let mut short = settings();
    short.lifetimes.authority = DAY * 2;
    let state = apply(Change::Begin(Why::Asked), Ok(&found()), None, at(10), &short).unwrap();
    assert_eq!(Case::of(state).plan(at(13)), change(Change::Begin(Why::Invalid)));
}

#[test]
fn a_count_that_begins_in_the_future_starts_again() {
    for state in [marked(), switched()] {
        let ahead = State {
            since: Some(at(20)),
            ..state
        };
        assert_eq!(Case::of(ahead).plan(at(10)), change(Change::Mark));
    }
}

#[test]
fn what_is_asked_for_happens_once() {
    let (leaf, authority) = (Change::Issue(Why::Asked), Change::Begin(Why::Asked));
    assert_eq!(Case::of(found()).asking("certificate").plan(at(1)), change(leaf));
    assert_eq!(Case::of(found()).asking("ca").plan(at(1)), change(authority));
    assert_eq!(Case::of(found()).asking("CA").plan(at(1)), change(Change::Dismiss));
    assert_eq!(
        Case::of(begun()).asking("ca").plan(at(10)),
        change(Change::Dismiss),
        "a rotation is under way"
    );
    let retire = at(10).plus(OVERLAP);
    let waits = Case::of(switched()).asking("ca");
    assert_eq!(waits.plan(at(10)), Step::Wait(retire), "its turn comes after this one");
    assert!(
        [leaf, authority, Change::Dismiss, Change::Found]
            .iter()
            .all(|change| change.answers())
    );
    let others = [
        Change::Issue(Why::Due),
        Change::Begin(Why::Due),
        Change::Switch,
        Change::Restore,
    ];
    assert!(!others.iter().any(|change| change.answers()));
}

#[test]
fn requests_survive_their_text() {
    for request in Request::ALL {
        assert_eq!(request.as_str().parse(), Ok(*request));
    }
}
