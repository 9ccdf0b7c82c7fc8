//! What must hold whatever the input is: a function for each fuzzer of `fuzz/`, which calls it with one input after the
//! other. As a suite this replays the seeds from which fuzzers start, and every input that has ever found something.

#![allow(clippy::unwrap_used)]

use std::sync::LazyLock;

use outrigger::inject::{Injector, InjectorOptions};

#[path = "support/additive.rs"]
mod additive;
#[path = "support/guarantees.rs"]
mod guarantees;
#[path = "support/hostile.rs"]
#[allow(dead_code, reason = "its check of itself is another suite's")]
mod hostile;
#[path = "support/judge.rs"]
mod judge;
#[path = "support/kubectl_yaml.rs"]
mod kubectl_yaml;
#[path = "support/nft.rs"]
mod nft;
#[path = "support/nginx.rs"]
mod nginx;
#[path = "support/strict_patch.rs"]
mod strict_patch;
#[path = "support/tools.rs"]
mod tools;
#[path = "support/twin.rs"]
mod twin;

#[path = "fuzz/bodies/manifest.rs"]
mod manifest;
#[path = "fuzz/bodies/requirements.rs"]
mod requirements;
#[path = "fuzz/bodies/review.rs"]
mod review;
#[path = "fuzz/bodies/settings.rs"]
mod settings;
#[path = "fuzz/bodies/stub.rs"]
mod stub;

#[cfg(test)]
#[path = "support/attacks.rs"]
mod attacks;
#[cfg(test)]
#[allow(dead_code, reason = "each suite uses its own part of the support modules")]
#[path = "support/golden.rs"]
mod golden;
#[cfg(test)]
#[path = "support/pods.rs"]
mod pods;
#[cfg(test)]
#[path = "fuzz/replay.rs"]
mod replay;
#[cfg(test)]
#[path = "fuzz/seeds.rs"]
mod seeds;

/// What is between the parts of an input that has several: no byte of any text.
const SEPARATOR: u8 = 0xff;

static INJECTOR: LazyLock<Injector> =
    LazyLock::new(|| Injector::new(InjectorOptions::default()).expect("the defaults are valid"));

/// The body of a request is answered, and the answer keeps its promises.
pub fn review(input: &[u8]) {
    review::check(input);
}

/// Strangers' texts become values of settings and parts of nginx.conf, never anything else.
pub fn settings(input: &[u8]) {
    settings::check(input);
}

/// Manifests are read as kubectl reads them, and what comes out is what was there and the proxy.
///
/// # Panics
/// Besides where that does not hold: without the YAML judge, which is what knows how kubectl reads.
pub fn manifest(input: &[u8]) {
    manifest::check_with_judge(input);
}

/// A certificate has the name of the request, the key of the stub and nothing else.
pub fn stub(input: &[u8]) {
    stub::check(input);
}

/// Requirements are read and judge labels as they and their schema say.
pub fn requirements(input: &[u8]) {
    requirements::check(input);
}

/// The parts of an input; what is no text of them is replaced.
fn parts(input: &[u8]) -> Vec<String> {
    let parts = input.split(|byte| *byte == SEPARATOR);
    parts.map(|part| String::from_utf8_lossy(part).into_owned()).collect()
}
