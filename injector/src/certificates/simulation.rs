//! Years of certificates in milliseconds: whatever the order of writes, crashes and edits, every
//! certificate that may be served is trusted by every `caBundle` that may be in force.
//!
//! The world is as unkind as the overlap allows: at each moment a replica may still serve any
//! certificate that was replaced less than an overlap ago, and an API server may still use any
//! `caBundle` that was. All pairs of these are checked, at each moment at which anything happens. A
//! replica's watches may be silent for any time, and it may lead after that.
#![allow(clippy::unwrap_used)]

mod world;

use std::time::Duration;

use proptest::prelude::*;

use self::world::{Event, START, Watch, World};
use crate::config::Lifetimes;

fn lifetimes(certificate: Duration, authority: Duration, overlap: Duration) -> Lifetimes {
    Lifetimes {
        certificate,
        authority,
        overlap,
    }
}

/// The default; authorities that change with each certificate or two; and twice the shortest allowed.
fn any_lifetimes() -> impl Strategy<Value = Lifetimes> {
    let (day, minute) = (Duration::from_hours(24), Duration::from_mins(1));
    prop_oneof![
        Just(lifetimes(day * 90, day * 1825, minute * 5)),
        Just(lifetimes(day * 90, day * 120, minute * 5)),
        Just(lifetimes(minute * 120, minute * 180, minute * 5)),
        Just(lifetimes(minute * 120, minute * 120, minute * 5)),
    ]
}

fn any_watch() -> impl Strategy<Value = Watch> {
    prop::sample::select(Watch::ALL.to_vec())
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => Just(Event::Act),
        6 => (0..2_usize).prop_map(Event::Keep),
        2 => (0..2_usize).prop_map(Event::Lead),
        2 => (0..2_usize).prop_map(Event::Rush),
        2 => (0..2_usize, any_watch()).prop_map(|(which, watch)| Event::Silence(which, watch)),
        3 => (0..2_usize, any_watch()).prop_map(|(which, watch)| Event::Hear(which, watch)),
        1 => (0..2_usize).prop_map(Event::Revert),
        1 => Just(Event::Empty),
        1 => Just(Event::Break),
        2 => prop_oneof![Just("ca"), Just("certificate"), Just("everything")].prop_map(Event::Ask),
        1 => Just(Event::Rename),
    ]
}

/// What happens, each after so many percent of an overlap; then whatever is left is done, and time
/// passes until the next thing is due.
fn any_round() -> impl Strategy<Value = Vec<(u32, Event)>> {
    prop::collection::vec((0..15_u32, any_event()), 0..5)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn what_may_be_served_is_always_trusted(
        lifetimes in any_lifetimes(),
        rounds in prop::collection::vec((any_round(), 0..50_u32), 10..40),
    ) {
        let mut world = World::new(lifetimes);
        world.settle();
        for (round, late) in rounds {
            for (percent, event) in round {
                world.pass(lifetimes.overlap * percent / 100);
                world.happen(event);
            }
            let until = world.settle();
            // A leader may be late: it died, and another one has to take over.
            world.pass(world.now.until(until) + lifetimes.overlap * late / 100);
        }
        world.settle();
        prop_assert!(world.state.unwrap().leaf.unwrap().certificate.valid_at(world.now));
    }
}

/// A replica that has heard nothing since before a rotation leads after it. It knows of no authority but
/// the first one, which nobody should get to trust alone any more.
#[test]
fn a_leader_that_was_silent_puts_nothing_back() {
    for halfway in [false, true] {
        let (day, overlap) = (Duration::from_hours(24), Duration::from_mins(5));
        let mut world = World::new(lifetimes(day * 90, day * 1825, overlap));
        world.settle();
        for watch in Watch::ALL {
            world.happen(Event::Hear(1, watch));
        }
        world.happen(Event::Silence(1, Watch::Secret));
        world.happen(Event::Ask("ca"));
        while world.count(if halfway { "switch" } else { "retire" }) == 0 {
            let until = world.settle();
            world.pass(world.now.until(until));
        }
        world.pass(overlap * 2);
        let before = [0, 1].map(|which| world.bundle_in(which).cloned());
        world.happen(Event::Rush(1));
        assert_eq!([0, 1].map(|which| world.bundle_in(which).cloned()), before);
        world.settle();
        assert_eq!(world.count("found") + world.count("restore"), 1, "{:?}", world.changes);
    }
}

/// The shortest lifetimes that the configuration allows, and a leader that is late each time.
#[test]
fn the_shortest_lifetimes_leave_time_enough() {
    let overlap = Duration::from_secs(5);
    for late in [0, 20, 40, 60] {
        let mut world = World::new(lifetimes(overlap * 12, overlap * 12, overlap));
        for _ in 0..40 {
            let until = world.settle();
            world.pass(world.now.until(until) + overlap * late / 100);
        }
        assert!(world.count("retire") > 5, "{:?}", world.changes);
    }
}

/// Nothing but time: what happens in seven years, and how often.
#[test]
fn seven_quiet_years_have_one_rotation() {
    let day = Duration::from_hours(24);
    let mut world = World::new(lifetimes(day * 90, day * 1825, Duration::from_mins(5)));
    while world.now < START.plus(day * 365 * 7) {
        let until = world.settle();
        world.pass(world.now.until(until));
    }
    let counted = ["found", "begin", "mark", "switch", "retire", "unmark", "restore"].map(|change| world.count(change));
    assert_eq!(counted, [1, 2, 2, 2, 2, 0, 0], "{:?}", world.changes);
    // One each 60 days, but that a new authority brings one along.
    assert!((38..=42).contains(&world.count("issue")), "{:?}", world.changes);
}
