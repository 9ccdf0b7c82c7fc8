//! A mesh over weeks: leaders that stop anywhere, outages, kubelets that are late, and people who ask.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::certificates::certificate::Certificate;

const OVERLAP: Duration = Duration::from_mins(10);
/// How far a proxy may be behind the published bundle.
const LAG: Duration = Duration::from_mins(9);
const TICK: Duration = Duration::from_mins(3);

fn settings(leaf_hours: u64) -> Settings {
    Settings {
        leaf: Duration::from_hours(leaf_hours),
        authority: Duration::from_hours(6 * 48),
        overlap: OVERLAP,
        key_type: KeyType::EcdsaP256,
    }
}

fn start() -> Moment {
    "2026-11-30T12:00:00Z".parse().unwrap()
}

/// What happens.
#[derive(Clone, Debug)]
enum Event {
    /// Time passes, and everybody does their work.
    Pass(Duration),
    /// The leader writes the Secret no more often than so many times, and is replaced by one who has watched it too.
    Crash(usize),
    /// Nobody reaches the API server for so long.
    Outage(Duration),
    /// Somebody asks for a new authority.
    Ask,
    /// Somebody empties the Secret, while a leader remembers it.
    Empty,
    /// Leaves are given this lifetime from now on.
    Leaf(u64),
}

/// One pod: what it presents, and whom it trusts.
struct Pod {
    leaf: Option<(Certificate, Moment)>,
    trusts: Vec<Certificate>,
    /// Which published bundle that is, and since when it is behind.
    version: usize,
    behind_since: Moment,
}

struct World {
    now: Moment,
    settings: Settings,
    secret: Result<State, Unsound>,
    memory: Option<State>,
    asked: bool,
    led_since: Moment,
    published: Vec<Vec<Certificate>>,
    pods: Vec<Pod>,
}

impl World {
    fn new() -> Self {
        let pod = || Pod {
            leaf: None,
            trusts: Vec::new(),
            version: 0,
            behind_since: start(),
        };
        Self {
            now: start(),
            settings: settings(24),
            secret: Err(Unsound::Empty),
            memory: None,
            asked: false,
            led_since: start(),
            published: vec![Vec::new()],
            pods: (0..3).map(|_| pod()).collect(),
        }
    }

    fn trusted(&self) -> Vec<Certificate> {
        let state = self.secret.as_ref().ok().or(self.memory.as_ref());
        state.into_iter().flat_map(State::trusted).cloned().collect()
    }

    fn in_force(&self) -> bool {
        *self.published.last().unwrap() == self.trusted()
    }

    /// The leader's turn, with at most so many writes.
    fn lead(&mut self, writes: usize) {
        for _ in 0..writes {
            let view = View {
                secret: self.secret.as_ref(),
                memory: self.memory.as_ref(),
                in_force: Some(self.in_force()),
                asked: self.asked,
                led_since: self.led_since,
            };
            match plan(&view, self.now, &self.settings) {
                Step::Wait(until) => {
                    assert!(until > self.now, "{until} is no later moment");
                    return;
                }
                Step::Change(change) => {
                    let state = apply(change, &view, self.now, &self.settings).unwrap();
                    let entries: BTreeMap<String, String> = (state.encode().into_iter())
                        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
                        .collect();
                    assert_eq!(State::decode(&entries).as_ref(), Ok(&state), "the Secret says it all");
                    self.asked &= !change.answers();
                    self.memory = Some(state.clone());
                    self.secret = Ok(state);
                }
            }
            self.publish();
        }
    }

    fn publish(&mut self) {
        if !self.in_force() {
            self.published.push(self.trusted());
        }
    }

    /// Kubelets: leaves are refreshed at half of their life, bundles at the last moment.
    fn refresh(&mut self, haste: bool) {
        let latest = self.published.len() - 1;
        let (now, in_force, bundle) = (self.now, self.in_force(), self.trusted());
        let signer = self
            .secret
            .as_ref()
            .ok()
            .map(|state| (state.signer.certificate.clone(), state.longest_leaf));
        for pod in &mut self.pods {
            if pod.version == latest {
                pod.behind_since = now;
            } else if haste || pod.leaf.is_none() || pod.behind_since.until(now) >= LAG {
                pod.version = latest;
                pod.trusts.clone_from(&self.published[latest]);
            }
            let Some((signer, longest)) = &signer else { continue };
            let due = |end: &Moment| now.until(*end) < *longest / 2;
            if in_force && bundle.contains(signer) && pod.leaf.as_ref().is_none_or(|(_, end)| due(end)) {
                let end = now.plus((*longest).min(self.settings.leaf)).min(signer.not_after);
                pod.leaf = Some((signer.clone(), end));
            }
        }
    }

    fn check(&self) {
        for (signer, end) in self.pods.iter().filter_map(|pod| pod.leaf.as_ref()) {
            let trusted = |pod: &Pod| pod.leaf.is_none() || pod.trusts.contains(signer);
            assert!(
                *end < self.now || self.pods.iter().all(trusted),
                "{}: somebody does not trust {}",
                self.now,
                signer.subject
            );
        }
    }

    fn pass(&mut self, time: Duration, haste: bool) {
        let end = self.now.plus(time);
        while self.now < end {
            self.now = self.now.plus(TICK);
            self.lead(100);
            self.refresh(haste);
            self.check();
        }
    }

    fn see(&mut self, event: &Event, haste: bool) {
        match event {
            Event::Pass(time) => return self.pass(*time, haste),
            Event::Crash(writes) => {
                self.lead(*writes);
                self.led_since = self.now;
            }
            Event::Outage(time) => {
                self.now = self.now.plus(*time);
                self.led_since = self.now;
                for pod in &mut self.pods {
                    pod.behind_since = self.now;
                }
            }
            Event::Ask => self.asked = true,
            Event::Empty if self.memory.is_some() => self.secret = Err(Unsound::Empty),
            Event::Empty => {}
            Event::Leaf(hours) => self.settings = settings(*hours),
        }
        self.check();
    }
}

fn event() -> impl Strategy<Value = Event> {
    let hours = |range: std::ops::Range<u64>| range.prop_map(Duration::from_hours);
    prop_oneof![
        6 => hours(1..80).prop_map(Event::Pass),
        3 => (1u64..40).prop_map(|minutes| Event::Pass(Duration::from_mins(minutes))),
        2 => (0usize..3).prop_map(Event::Crash),
        1 => hours(0..30).prop_map(Event::Outage),
        2 => Just(Event::Ask),
        1 => Just(Event::Empty),
        1 => prop_oneof![Just(1), Just(24), Just(48)].prop_map(Event::Leaf),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn whoever_presents_a_certificate_is_trusted(events in prop::collection::vec(event(), 1..25), haste: bool) {
        let mut world = World::new();
        world.pass(TICK, true);
        for event in &events {
            world.see(event, haste);
        }
    }
}

fn one(world: &World) -> (usize, usize) {
    let state = world.secret.as_ref().unwrap();
    (state.trusted().count(), state.retiring.len())
}

#[test]
fn a_rotation_takes_an_overlap_and_the_life_of_a_leaf() {
    let mut world = World::new();
    world.pass(TICK, true);
    let first = world.trusted();
    assert_eq!(one(&world), (1, 0));
    world.see(&Event::Ask, false);
    world.pass(TICK, false);
    assert_eq!(one(&world), (2, 0), "introduced");
    world.pass(OVERLAP + TICK, false);
    assert_eq!(one(&world), (2, 1), "the next one signs");
    world.pass(Duration::from_hours(24), false);
    assert_eq!(one(&world), (2, 1), "a leaf of the first may be valid still");
    world.pass(OVERLAP + TICK, false);
    assert_eq!(one(&world), (1, 0));
    assert_ne!(world.trusted(), first);
}

#[test]
fn an_authority_is_replaced_in_time_by_itself() {
    let mut world = World::new();
    world.pass(TICK, true);
    let first = world.trusted();
    world.pass(Duration::from_hours(4 * 48 - 1), false);
    assert_eq!(world.trusted(), first);
    world.pass(Duration::from_hours(2), false);
    assert_eq!(one(&world), (2, 1));
}

/// The overlap counts while the bundle is published, and from the beginning when it was not.
#[test]
fn a_bundle_that_somebody_has_changed_starts_the_overlap_again() {
    let mut world = World::new();
    world.pass(TICK, true);
    world.see(&Event::Ask, true);
    world.pass(OVERLAP - TICK, true);
    world.published.push(Vec::new());
    world.lead(1);
    assert_eq!(world.secret.as_ref().unwrap().since, None);
    world.publish();
    world.pass(OVERLAP - TICK, true);
    assert_eq!(one(&world), (2, 0));
}

#[test]
fn a_foreign_authority_stays_for_the_longest_life_of_a_leaf() {
    let mut world = World::new();
    world.pass(TICK, true);
    let foreign = mesh_authority(world.now, &world.settings).unwrap().certificate;
    world.secret.as_mut().unwrap().retiring.push(foreign);
    world.pass(TICK, true);
    let retire_at = world.secret.as_ref().unwrap().retire_at;
    assert_eq!(retire_at, Some(world.now.plus(LONGEST)));
}
