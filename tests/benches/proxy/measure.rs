//! The rounds: each way in turn, so that what else the machine does meets all of them alike.

use outrigger::names;

use crate::usage::Container;
use crate::workloads::{Load, Namespace};

/// A way from one pod to another.
pub(crate) struct Way {
    pub(crate) name: &'static str,
    client: &'static str,
    service: &'static str,
}

/// The first has no proxy; all others are compared with it.
pub(crate) const WAYS: [Way; 4] = [
    Way {
        name: "no proxy",
        client: "outside",
        service: "plain",
    },
    Way {
        name: "the caller's proxy",
        client: "inside",
        service: "plain",
    },
    Way {
        name: "the called pod's proxy",
        client: "outside",
        service: "meshed",
    },
    Way {
        name: "both proxies",
        client: "inside",
        service: "meshed",
    },
];

/// The last way.
const BOTH: usize = WAYS.len() - 1;

/// How many connections call at a time.
pub(crate) const CONNECTIONS: [u32; 2] = [1, 64];

/// One measurement.
pub(crate) struct Sample {
    pub(crate) load: Load,
    /// CPU time for a call, in microseconds: of the caller's proxy, of the called one's, of the application.
    pub(crate) cpu: [f64; 3],
}

/// Something that was measured.
pub(crate) type Fact = fn(&Sample) -> f64;

/// All measurements.
pub(crate) struct Results {
    /// By number of connections, by round, by way.
    pub(crate) samples: [Vec<Vec<Sample>>; 2],
    /// The most memory of either proxy, in bytes: before the first call, and at 64 connections through both.
    pub(crate) memory: [f64; 2],
}

pub(crate) struct Bench<'b, 'm> {
    shop: &'b Namespace<'m>,
    seconds: u32,
    caller: Container,
    called: Container,
    application: Container,
}

impl<'b, 'm> Bench<'b, 'm> {
    pub(crate) fn new(shop: &'b Namespace<'m>, seconds: u32) -> Self {
        Self {
            shop,
            seconds,
            caller: Container::new(shop, "inside", names::PROXY_CONTAINER),
            called: Container::new(shop, "meshed", names::PROXY_CONTAINER),
            application: Container::new(shop, "meshed", "app"),
        }
    }

    pub(crate) fn run(&self, rounds: usize) -> Results {
        let idle = self.caller.memory().max(self.called.memory());
        self.warm_up();
        let samples = CONNECTIONS.map(|connections| (0..rounds).map(|n| self.round(n, connections)).collect());
        let most = CONNECTIONS[CONNECTIONS.len() - 1];
        let ((_, called), caller) = self
            .caller
            .most_memory(|| self.called.most_memory(|| self.load(&WAYS[BOTH], most)));
        Results {
            samples,
            memory: [idle, called.max(caller)],
        }
    }

    /// Names are resolved, connections are opened, and the rules of Services are there before anything counts.
    fn warm_up(&self) {
        for way in &WAYS {
            self.shop
                .eventually(way.name, || self.load(way, CONNECTIONS[0]).failed == 0);
        }
    }

    /// Each way once; each round begins with another.
    fn round(&self, n: usize, connections: u32) -> Vec<Sample> {
        let mut order: Vec<usize> = (0..WAYS.len()).collect();
        order.rotate_left(n % WAYS.len());
        let mut samples: Vec<(usize, Sample)> = order
            .into_iter()
            .map(|way| (way, self.sample(&WAYS[way], connections)))
            .collect();
        samples.sort_by_key(|(way, _)| *way);
        eprintln!("round {} with {connections} connections", n + 1);
        samples.into_iter().map(|(_, sample)| sample).collect()
    }

    fn sample(&self, way: &Way, connections: u32) -> Sample {
        let all = [&self.caller, &self.called, &self.application];
        let before = all.map(Container::cpu);
        let load = self.load(way, connections);
        assert_eq!(load.failed, 0, "{}: {load:?}", way.name);
        let mut cpu = all.map(Container::cpu);
        for (after, before) in cpu.iter_mut().zip(before) {
            *after = (*after - before) / load.requests as f64;
        }
        Sample { load, cpu }
    }

    fn load(&self, way: &Way, connections: u32) -> Load {
        let (seconds, connections) = (format!("-for={}s", self.seconds), format!("-connections={connections}"));
        let url = format!("http://{}:8080/", way.service);
        self.shop
            .load(&self.shop.pod(way.client), &[&seconds, &connections, &url])
    }
}

impl Results {
    /// The median over all rounds of something of a way.
    pub(crate) fn median(&self, connections: usize, way: usize, of: impl Fn(&Sample) -> f64) -> f64 {
        median(self.samples[connections].iter().map(|round| of(&round[way])))
    }

    /// The median over all rounds of what a way makes of the first one's of the same round.
    pub(crate) fn compared(&self, connections: usize, way: usize, of: Fact, how: fn(f64, f64) -> f64) -> f64 {
        let rounds = self.samples[connections].iter();
        median(rounds.map(|round| how(of(&round[way]), of(&round[0]))))
    }

    /// The median over all rounds of how the CPU time of a proxy compares with that of the application, for a call through
    /// both.
    pub(crate) fn cpu(&self, connections: usize, proxy: usize) -> f64 {
        self.median(connections, BOTH, |sample| sample.cpu[proxy] / sample.cpu[2])
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
