//! The section of docs/performance.md.

use std::fs;
use std::path::Path;

use comfy_table::{Table, presets};

use crate::Arguments;
use crate::measure::{CONNECTIONS, Fact, Results, WAYS};

/// The heading that the section begins with.
const HEADING: &str = "## The proxy\n";

const P50: Fact = |sample| sample.load.p50_us;
const P99: Fact = |sample| sample.load.p99_us;
const PER_SECOND: Fact = |sample| sample.load.per_second;

/// The section, with its heading.
pub(crate) fn section(results: &Results, arguments: &Arguments, others: f64) -> String {
    let [idle, loaded] = results.memory.map(|bytes| bytes / 1_048_576.0);
    let cores = std::thread::available_parallelism().unwrap();
    let (rounds, seconds) = (arguments.rounds, arguments.seconds);
    format!(
        "{HEADING}
Written by `make bench-proxy`. A pod calls another one through its Service, on one node, with kept connections, GET
requests and answers of half a kilobyte; proxies redirect, and write their access logs. Each way is measured {rounds} times
for {seconds} s, in turns; a number is the median of its comparisons with the call without a proxy of the same turn.

The node had {cores} cores for the caller, the application, both proxies and Kubernetes itself; just before it started, other
programs had {others:.0} % of them. So with {most} connections all cores are taken, and a call costs what it costs in CPU time; a
machine with cores to spare loses fewer calls per second.

{calls}

{cpu}

The application of this comparison only echoes its request; a real one takes more, and the proxy's part is smaller. A proxy
had {idle:.1} MiB of memory before the first call, and at most {loaded:.1} MiB with {most} connections.
",
        others = 100.0 * others,
        most = CONNECTIONS[1],
        calls = calls(results),
        cpu = cpu(results),
    )
}

/// Puts the section into a file in place of the one that is there, or at the end.
pub(crate) fn replace(file: &Path, section: &str) {
    let text = fs::read_to_string(file).unwrap_or_else(|_| "# Performance\n\n".to_owned());
    let (before, rest) = text.split_once(HEADING).unwrap_or((&text, ""));
    let after = rest.find("\n## ").map_or("", |at| &rest[at..]);
    fs::write(file, format!("{before}{section}{after}")).unwrap();
}

fn calls(results: &Results) -> Table {
    let mut table = new_table(["connections", "a call through", "p50", "p99", "calls per second"]);
    for (n, connections) in CONNECTIONS.iter().enumerate() {
        for (m, way) in WAYS.iter().enumerate() {
            let facts = [
                latency(results, (n, m), P50),
                latency(results, (n, m), P99),
                rate(results, (n, m)),
            ];
            table.add_row([connections.to_string(), way.name.to_owned()].into_iter().chain(facts));
        }
    }
    table
}

fn latency(results: &Results, (connections, way): (usize, usize), of: Fact) -> String {
    if way == 0 {
        return format!("{:.0} µs", results.median(connections, way, of));
    }
    let times = results.compared(connections, way, of, |way, direct| way / direct);
    let added = results.compared(connections, way, of, |way, direct| way - direct);
    format!("× {times:.2} ({added:+.0} µs)")
}

fn rate(results: &Results, (connections, way): (usize, usize)) -> String {
    if way == 0 {
        return format!("{:.0}", results.median(connections, way, PER_SECOND));
    }
    let times = results.compared(connections, way, PER_SECOND, |way, direct| way / direct);
    format!("× {times:.2}")
}

fn cpu(results: &Results) -> Table {
    let mut table = new_table(["connections", "CPU time for a call, of", "against the application's"]);
    for (n, connections) in CONNECTIONS.iter().enumerate() {
        for (proxy, name) in ["the caller's proxy", "the called pod's proxy"].iter().enumerate() {
            let ratio = format!("× {:.2}", results.cpu(n, proxy));
            table.add_row([connections.to_string(), (*name).to_owned(), ratio]);
        }
    }
    table
}

fn new_table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(header);
    table
}
