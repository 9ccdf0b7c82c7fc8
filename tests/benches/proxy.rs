//! What the proxy costs a call between two pods of a real node: added latency, calls per second, CPU and memory.
//!
//! A benchmark, not a test: nothing fails by what it measures. `make bench-proxy` writes it into docs/performance.md.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

#[path = "../support/cluster.rs"]
mod cluster;
#[path = "proxy/measure.rs"]
mod measure;
#[path = "../support/node.rs"]
mod node;
#[path = "proxy/page.rs"]
mod page;
#[path = "../support/release.rs"]
mod release;
#[path = "proxy/usage.rs"]
mod usage;
#[path = "../support/workloads.rs"]
mod workloads;

use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use clap::Parser;
use outrigger::names;

use measure::Bench;
use workloads::{Echo, Mesh, client};

#[derive(Parser)]
pub(crate) struct Arguments {
    /// How often each way is measured; the median counts.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// How long each time, in seconds.
    #[arg(long, default_value_t = 3)]
    seconds: u32,
    /// The file whose section is replaced; without it the section is printed.
    #[arg(long)]
    write: Option<PathBuf>,
}

fn main() {
    let arguments = Arguments::parse();
    let others = others_share();
    let mesh = Mesh::start(&[]);
    let shop = mesh.namespace("shop");
    // The Services of both, and then those who call them.
    shop.deploy(&[&Echo::new("plain").plain(), &Echo::new("meshed")]);
    let meshed = client("inside")
        .label(names::INJECT, "enabled")
        .upstreams("- plain:8080\n- meshed:8080");
    shop.deploy(&[&client("outside"), &meshed]);
    let bench = Bench::new(&shop, arguments.seconds);
    let results = bench.run(arguments.rounds);
    let section = page::section(&results, &arguments, others);
    match &arguments.write {
        Some(file) => page::replace(file, &section),
        None => println!("{section}"),
    }
}

/// The share of this machine's CPU time that goes to other programs, within 5 s.
fn others_share() -> f64 {
    let before = cpu_times();
    sleep(Duration::from_secs(5));
    let [busy, all] = [0, 1].map(|n| (cpu_times()[n] - before[n]) as f64);
    busy / all
}

/// The time that all cores have worked, and all of their time, in ticks: proc_stat(5).
fn cpu_times() -> [u64; 2] {
    const IDLE: [usize; 2] = [3, 4];
    let text = std::fs::read_to_string("/proc/stat").unwrap();
    let times = text.lines().next().unwrap().split_whitespace().skip(1).take(8);
    let times: Vec<u64> = times.map(|ticks| ticks.parse().unwrap()).collect();
    let (all, idle) = (times.iter().sum::<u64>(), IDLE.map(|n| times[n]).iter().sum::<u64>());
    [all - idle, all]
}
