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
    let before = load_average();
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
    let section = page::section(&results, &arguments, &before);
    match &arguments.write {
        Some(file) => page::replace(file, &section),
        None => println!("{section}"),
    }
}

/// The processes that wanted a core within the last minute, on average: what else this machine does.
fn load_average() -> String {
    let averages = std::fs::read_to_string("/proc/loadavg").unwrap();
    averages.split(' ').next().unwrap().to_owned()
}
