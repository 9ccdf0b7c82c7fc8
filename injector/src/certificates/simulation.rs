//! Years of certificates in milliseconds: whatever the order of writes, crashes and edits, every
//! certificate that may be served is trusted by every `caBundle` that may be in force.
//!
//! The world is as unkind as the overlap allows: at each moment a replica may still serve any
//! certificate that was replaced less than an overlap ago, and an API server may still use any
//! `caBundle` that was. All pairs of these are checked, at each moment at which anything happens.
#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use proptest::prelude::*;

use super::make::apply;
use super::plan::{Settings, Step, View, plan};
use super::state::{KEY, State};
use super::{Certificate, Moment, Unsound};
use crate::config::Lifetimes;

const START: Moment = Moment::from_second(1_700_000_000);

/// A version of something, since when it holds.
type Versions<T> = Vec<(Moment, T)>;

struct World {
    now: Moment,
    settings: Settings,
    secret: BTreeMap<String, Vec<u8>>,
    /// What the Secret holds, read at each write.
    state: Result<State, Unsound>,
    memory: Option<State>,
    asked: Option<&'static str>,
    led_since: Moment,
    leaves: Versions<Certificate>,
    bundles: [Versions<String>; 2],
    changes: BTreeMap<&'static str, usize>,
    /// How many rotations had begun at the last [`Event::Revert`].
    reverted: usize,
    /// Signatures that were checked, since that is what takes time.
    signed: RefCell<HashMap<[Vec<u8>; 2], bool>>,
}

/// What may happen, besides the passing of time.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The leader does one step.
    Act,
    /// The leader writes one of the configurations; not, if it dies before.
    Keep(usize),
    /// Another replica leads from now on.
    Lead,
    /// Somebody puts back the `caBundle` from before the rotation that is under way.
    Revert(usize),
    /// Somebody empties the Secret.
    Empty,
    /// Somebody breaks the serving key.
    Break,
    /// Somebody sets the annotation.
    Ask(&'static str),
    /// A new version has other names.
    Rename,
}

impl World {
    fn new(lifetimes: Lifetimes) -> Self {
        let names = BTreeSet::from(["outrigger.mesh.svc".to_owned()]);
        Self {
            now: START,
            settings: Settings { names, lifetimes },
            secret: BTreeMap::new(),
            state: Err(Unsound::Empty),
            memory: None,
            asked: None,
            led_since: START,
            leaves: Vec::new(),
            bundles: [Vec::new(), Vec::new()],
            changes: BTreeMap::new(),
            reverted: 0,
            signed: RefCell::default(),
        }
    }

    fn bundle_in(&self, configuration: usize) -> Option<&String> {
        self.bundles[configuration].last().map(|(_, bundle)| bundle)
    }

    fn in_force(&self) -> bool {
        let wanted = self.state.as_ref().ok().map(State::bundle);
        wanted.is_some() && (0..2).all(|which| self.bundle_in(which) == wanted.as_ref())
    }

    fn plan(&self) -> Step {
        let view = View {
            secret: self.state.as_ref(),
            memory: self.memory.as_ref(),
            in_force: Some(self.in_force()),
            asked: self.asked,
            led_since: self.led_since,
        };
        plan(&view, self.now, &self.settings)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Act => self.act(),
            Event::Keep(which) => self.keep(which),
            Event::Lead => self.led_since = self.now,
            Event::Revert(which) => self.revert(which),
            Event::Empty => self.edit(BTreeMap::clear),
            Event::Break => self.edit(|secret| drop(secret.insert(KEY.to_owned(), b"broken".to_vec()))),
            Event::Ask(what) => self.asked = Some(what),
            Event::Rename => {
                self.settings.names = BTreeSet::from([format!("outrigger-{}.mesh.svc", self.now.second())]);
            }
        }
        self.check();
    }

    fn act(&mut self) {
        let Step::Change(change) = self.plan() else {
            return;
        };
        let after = apply(
            change,
            self.state.as_ref(),
            self.memory.as_ref(),
            self.now,
            &self.settings,
        )
        .unwrap();
        *self.changes.entry(change.as_str()).or_default() += 1;
        if change.answers() {
            self.asked = None;
        }
        self.write(&after);
        assert_eq!(self.state.as_ref(), Ok(&after), "what is written is what is read");
        self.memory = Some(after);
    }

    fn edit(&mut self, change: impl FnOnce(&mut BTreeMap<String, Vec<u8>>)) {
        change(&mut self.secret);
        self.state = State::decode(&self.secret);
    }

    fn write(&mut self, state: &State) {
        self.edit(|secret| {
            for (key, value) in state.encode() {
                match value {
                    Some(value) => drop(secret.insert(key.to_owned(), value.into_bytes())),
                    None => drop(secret.remove(key)),
                }
            }
        });
        let leaf = state.leaf.as_ref().unwrap().certificate.clone();
        if self.leaves.last().is_none_or(|(_, last)| *last != leaf) {
            self.leaves.push((self.now, leaf));
        }
    }

    /// While the Secret is unsound, what is remembered counts. Nothing is repaired before the Secret
    /// says that the overlap does not count any more: a leader after this one could not know.
    fn keep(&mut self, which: usize) {
        let state = match &self.state {
            Ok(state) if state.counts_on_its_bundle() => return,
            state => state.as_ref().ok().or(self.memory.as_ref()),
        };
        if let Some(bundle) = state.map(State::bundle)
            && self.bundle_in(which) != Some(&bundle)
        {
            self.bundles[which].push((self.now, bundle));
        }
    }

    /// Before the switch, what is served stays trusted by what was there before. Each time the overlap
    /// starts again, so that more than once in a rotation could keep it from ending in time.
    fn revert(&mut self, which: usize) {
        if let Ok(state) = &self.state
            && state.next.is_some()
            && self.reverted < self.count("begin")
        {
            self.reverted = self.count("begin");
            let before = state.signer.certificate.pem();
            self.bundles[which].push((self.now, before));
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now.plus(time);
        self.check();
    }

    fn check(&self) {
        let lag = self.settings.lifetimes.overlap;
        for (bundle, leaf) in self
            .bundles
            .iter()
            .flat_map(|bundles| pairs(bundles, &self.leaves, self.now, lag))
        {
            let trusted = Certificate::parse_all(bundle.as_bytes()).unwrap();
            let verified = leaf.valid_at(self.now)
                && trusted
                    .iter()
                    .any(|authority| authority.valid_at(self.now) && self.signed(leaf, authority));
            assert!(
                verified,
                "at {} a certificate until {} may be served that is not trusted; changes so far: {:?}",
                self.now, leaf.not_after, self.changes
            );
        }
    }

    fn signed(&self, leaf: &Certificate, authority: &Certificate) -> bool {
        let key = [leaf, authority].map(|certificate| certificate.der().to_vec());
        *self
            .signed
            .borrow_mut()
            .entry(key)
            .or_insert_with(|| leaf.is_signed_by(authority))
    }

    /// Lets the leader do all that is to be done now.
    fn settle(&mut self) -> Moment {
        for _ in 0..12 {
            (0..2).for_each(|which| self.happen(Event::Keep(which)));
            match self.plan() {
                Step::Wait(until) => {
                    assert!(until > self.now, "waits for {until} at {}", self.now);
                    return until;
                }
                Step::Change(_) => self.happen(Event::Act),
            }
        }
        panic!("no end of changes at {}: {:?}", self.now, self.changes);
    }

    fn count(&self, change: &str) -> usize {
        self.changes.get(change).copied().unwrap_or_default()
    }
}

/// All that may be in use at a moment, combined.
fn pairs<'a, A, B>(
    first: &'a Versions<A>,
    second: &'a Versions<B>,
    now: Moment,
    lag: Duration,
) -> impl Iterator<Item = (&'a A, &'a B)> {
    current(first, now, lag).flat_map(move |one| current(second, now, lag).map(move |other| (one, other)))
}

/// The last version, and those that were replaced less than `lag` ago.
fn current<T>(versions: &Versions<T>, now: Moment, lag: Duration) -> impl Iterator<Item = &T> {
    versions.iter().enumerate().filter_map(move |(index, (_, version))| {
        let replaced = versions.get(index + 1).map(|(since, _)| *since);
        replaced.is_none_or(|since| since.plus(lag) > now).then_some(version)
    })
}

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

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => Just(Event::Act),
        6 => (0..2_usize).prop_map(Event::Keep),
        1 => Just(Event::Lead),
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
