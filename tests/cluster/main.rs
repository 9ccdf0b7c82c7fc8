//! Starts a cluster of one node and leaves it running, or removes every one that was left: see `tests/run-example`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it talks to a terminal")]

#[path = "../support/cluster.rs"]
mod cluster;
#[path = "../support/node.rs"]
mod node;

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use node::{CHART, Life, Node, claims, images};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["up"] => up(),
        ["down"] => down(),
        _ => Err("it takes one argument, up or down".to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn up() -> Result<(), String> {
    let started = Instant::now();
    eprintln!("starting a cluster of one node");
    let node = Node::try_start(Life::Kept, &[])?;
    eprintln!("ready in {} s", started.elapsed().as_secs());
    let installed = install(&node);
    // A cluster with a chart that fails is worth a look.
    say_how_to_use(&node);
    node.keep();
    installed
}

fn install(node: &Node) -> Result<(), String> {
    if !Path::new(CHART).join("Chart.yaml").is_file() {
        return Ok(());
    }
    eprintln!("installing charts/outrigger");
    let answer = node.install(&[]);
    if answer.success {
        Ok(())
    } else {
        Err(format!("the chart cannot be installed: {}", answer.errors.trim()))
    }
}

fn say_how_to_use(node: &Node) {
    println!(
        "The cluster is number {number}. Its files and logs are in {folder}.

  export KUBECONFIG={kubeconfig}
  {kubectl} get pods -A

No image is pulled; it has {images}.
make cluster-down removes it.",
        number = node.number(),
        folder = node.cluster.folder().display(),
        kubeconfig = node.cluster.kubeconfig().display(),
        kubectl = cluster::tool("KUBECTL").display(),
        images = [images::OUTRIGGER, images::NGINX, images::BUSYBOX].join(", "),
    );
}

fn down() -> Result<(), String> {
    let removal = claims::remove_all()?;
    let list = |numbers: &[u8]| numbers.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
    match &removal.removed[..] {
        [] => println!("there was no cluster to remove"),
        removed => println!("removed: cluster {}", list(removed)),
    }
    if !removal.in_use.is_empty() {
        println!("left alone, a running test has it: cluster {}", list(&removal.in_use));
    }
    Ok(())
}
