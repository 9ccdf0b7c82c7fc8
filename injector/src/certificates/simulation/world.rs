//! The world of the simulation: a Secret, two configurations, replicas that watch them, and a clock.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use super::super::make::apply;
use super::super::plan::{Settings, Step, plan};
use super::super::sight::Sight;
use super::super::state::{KEY, State};
use super::super::{Certificate, Moment, Unsound};
use crate::config::Lifetimes;

pub(super) const START: Moment = Moment::from_second(1_700_000_000);

/// A version of something, since when it holds.
type Versions<T> = Vec<(Moment, T)>;

/// A replica, and how far it is behind.
#[derive(Default)]
struct Replica {
    sight: Sight<State>,
    /// The version of the Secret that its watch has shown.
    version: Option<usize>,
    /// What each configuration was seen to carry, and the version of that; `None` while not known.
    carried: [Option<(usize, Option<String>)>; 2],
    /// Whether its watches, in the order of [`Watch`], are silent.
    silent: [bool; 2],
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Watch {
    Secret,
    Configurations,
}

pub(super) struct World {
    pub(super) now: Moment,
    settings: Settings,
    secret: BTreeMap<String, Vec<u8>>,
    /// How many times the Secret was written.
    version: usize,
    /// What the Secret holds, read at each write.
    pub(super) state: Result<State, Unsound>,
    asked: Option<&'static str>,
    replicas: [Replica; 2],
    leader: usize,
    terms: u64,
    leaves: Versions<Certificate>,
    bundles: [Versions<String>; 2],
    pub(super) changes: BTreeMap<&'static str, usize>,
    /// How many rotations had begun at the last [`Event::Revert`].
    reverted: usize,
    /// Signatures that were checked, since that is what takes time.
    signed: RefCell<HashMap<[Vec<u8>; 2], bool>>,
}

/// What may happen, besides the passing of time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// The leader does one step.
    Act,
    /// The leader writes one of the configurations; not, if it dies before.
    Keep(usize),
    /// This replica leads from now on, perhaps the same as before.
    Lead(usize),
    /// This replica leads from now on, and would do everything before the Secret is shown to it.
    Rush(usize),
    /// A watch of this replica shows nothing any more, without any sign of that.
    Silence(usize, Watch),
    /// A watch of this replica shows what there is.
    Hear(usize, Watch),
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

impl Watch {
    pub(super) const ALL: [Self; 2] = [Self::Secret, Self::Configurations];
}

impl World {
    pub(super) fn new(lifetimes: Lifetimes) -> Self {
        let names = BTreeSet::from(["outrigger.mesh.svc".to_owned()]);
        let mut world = Self {
            now: START,
            settings: Settings { names, lifetimes },
            secret: BTreeMap::new(),
            version: 0,
            state: Err(Unsound::Empty),
            asked: None,
            replicas: Default::default(),
            leader: 0,
            terms: 0,
            leaves: Vec::new(),
            bundles: [Vec::new(), Vec::new()],
            changes: BTreeMap::new(),
            reverted: 0,
            signed: RefCell::default(),
        };
        world.lead(0);
        world
    }

    fn leader(&self) -> &Replica {
        &self.replicas[self.leader]
    }

    /// Whoever begins to lead watches anew, and is not shown anything yet.
    fn lead(&mut self, which: usize) {
        let before = std::mem::replace(&mut self.leader, which);
        self.terms += 1;
        let (now, term) = (self.now, self.terms);
        if before != which {
            self.replicas[before].sight.lead(None, now);
        }
        let replica = &mut self.replicas[which];
        if replica.sight.lead(Some(term), now) {
            replica.version = None;
            replica.carried = [None, None];
            replica.silent = [true, true];
        }
    }

    fn rush(&mut self, which: usize) {
        self.lead(which);
        self.hear(which, Watch::Configurations);
        self.act();
        (0..2).for_each(|which| self.keep(which));
    }

    fn hear(&mut self, which: usize, watch: Watch) {
        self.replicas[which].silent[watch as usize] = false;
        self.show(which);
    }

    /// Whoever has missed a whole rotation, and then finds the Secret empty, can only put back what was
    /// before; so nobody has.
    fn empty(&mut self) {
        (0..self.replicas.len()).for_each(|which| self.hear(which, Watch::Secret));
        self.edit(BTreeMap::clear);
    }

    /// What a replica's watches show, as far as they show anything.
    fn show(&mut self, which: usize) {
        let replica = &mut self.replicas[which];
        if !replica.silent[Watch::Secret as usize] && replica.version != Some(self.version) {
            replica.sight.see(self.state.clone());
            replica.version = Some(self.version);
        }
        if !replica.silent[Watch::Configurations as usize] {
            replica.carried = self.bundles.each_ref().map(|versions| {
                let last = versions.last().map(|(_, bundle)| bundle.clone());
                Some((versions.len(), last))
            });
        }
    }

    fn show_all(&mut self) {
        (0..self.replicas.len()).for_each(|which| self.show(which));
    }

    pub(super) fn bundle_in(&self, configuration: usize) -> Option<&String> {
        self.bundles[configuration].last().map(|(_, bundle)| bundle)
    }

    /// As the leader sees it.
    fn in_force(&self) -> Option<bool> {
        let wanted = self.leader().sight.state().as_ref().ok()?.bundle();
        let mut all = true;
        for carried in &self.leader().carried {
            all &= carried.as_ref()?.1.as_ref() == Some(&wanted);
        }
        Some(all)
    }

    /// `None` when the leader has not seen the Secret.
    fn plan(&self) -> Option<Step> {
        let view = self.leader().sight.view(self.in_force(), self.asked)?;
        Some(plan(&view, self.now, &self.settings))
    }

    pub(super) fn happen(&mut self, event: Event) {
        match event {
            Event::Act => self.act(),
            Event::Keep(which) => self.keep(which),
            Event::Lead(which) => self.lead(which),
            Event::Rush(which) => self.rush(which),
            Event::Silence(which, watch) => self.replicas[which].silent[watch as usize] = true,
            Event::Hear(which, watch) => self.hear(which, watch),
            Event::Revert(which) => self.revert(which),
            Event::Empty => self.empty(),
            Event::Break => self.edit(|secret| drop(secret.insert(KEY.to_owned(), b"broken".to_vec()))),
            Event::Ask(what) => self.asked = Some(what),
            Event::Rename => {
                self.settings.names = BTreeSet::from([format!("outrigger-{}.mesh.svc", self.now.second())]);
            }
        }
        self.check();
    }

    /// Whoever has not seen the present version of the Secret writes nothing over it.
    fn act(&mut self) {
        let Some(Step::Change(change)) = self.plan() else {
            return;
        };
        let Replica { sight, version, .. } = self.leader();
        if *version != Some(self.version) {
            return;
        }
        let after = apply(change, sight.state().as_ref(), sight.memory(), self.now, &self.settings).unwrap();
        *self.changes.entry(change.as_str()).or_default() += 1;
        if change.answers() {
            self.asked = None;
        }
        self.write(&after);
        assert_eq!(
            self.state.as_ref().map(State::encode),
            Ok(after.encode()),
            "what is written is what is read"
        );
    }

    fn edit(&mut self, change: impl FnOnce(&mut BTreeMap<String, Vec<u8>>)) {
        change(&mut self.secret);
        self.state = State::decode(&self.secret);
        self.version += 1;
        self.show_all();
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
        // What is restored may lack it, if it was broken before the Secret was emptied.
        let leaf = state.leaf.as_ref().ok().map(|leaf| leaf.certificate.clone());
        let changed = leaf.filter(|leaf| self.leaves.last().is_none_or(|(_, last)| last != leaf));
        self.leaves.extend(changed.map(|leaf| (self.now, leaf)));
    }

    /// Nothing is written over another version of the configuration than the one that was seen.
    fn keep(&mut self, which: usize) {
        let replica = self.leader();
        let (Some(bundle), Some((version, carried))) = (replica.sight.bundle(), &replica.carried[which]) else {
            return;
        };
        if *version == self.bundles[which].len() && carried.as_ref() != Some(&bundle) {
            self.bundles[which].push((self.now, bundle));
            self.show_all();
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
            self.show_all();
        }
    }

    pub(super) fn pass(&mut self, time: Duration) {
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

    /// Lets the leader do all that is to be done now. Its watches are not silent for long.
    pub(super) fn settle(&mut self) -> Moment {
        for watch in Watch::ALL {
            self.happen(Event::Hear(self.leader, watch));
        }
        for _ in 0..12 {
            (0..2).for_each(|which| self.happen(Event::Keep(which)));
            match self.plan().expect("the leader has just seen the Secret") {
                Step::Wait(until) => {
                    assert!(until > self.now, "waits for {until} at {}", self.now);
                    return until;
                }
                Step::Change(_) => self.happen(Event::Act),
            }
        }
        panic!("no end of changes at {}: {:?}", self.now, self.changes);
    }

    pub(super) fn count(&self, change: &str) -> usize {
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
