//! Each target with its seeds and with what it has ever found.

use std::path::{Path, PathBuf};

use crate::seeds;

/// A target: its name, its body without other programs, and its seeds.
type Target = (&'static str, fn(&[u8]), fn() -> Vec<Vec<u8>>);

const REVIEW: Target = ("review", crate::review, seeds::review);
const SETTINGS: Target = ("settings", crate::settings, seeds::settings);
const MANIFEST: Target = ("manifest", manifest, seeds::manifest);
const STUB: Target = ("stub", crate::stub, seeds::stub);
const REQUIREMENTS: Target = ("requirements", crate::requirements, seeds::requirements);
const TARGETS: [Target; 5] = [REVIEW, SETTINGS, MANIFEST, STUB, REQUIREMENTS];

/// The fewest seeds that a target has.
const FEWEST: usize = 5;

fn manifest(input: &[u8]) {
    crate::manifest::check(input, |_| None);
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fuzz")
}

/// The inputs that found something, with their files.
fn regressions(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let Ok(entries) = folder().join("regressions").join(target).read_dir() else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// The target holds for its seeds and for what it has ever found.
#[allow(
    clippy::print_stdout,
    reason = "the last file is the one that fails, and only then shown"
)]
fn replay((name, body, seeds): Target) {
    let seeds = seeds();
    assert!(seeds.len() >= FEWEST, "{name} has {} seeds", seeds.len());
    seeds.iter().for_each(|seed| body(seed));
    for (path, input) in regressions(name) {
        println!("{}", path.display());
        body(&input);
    }
    write(name, &seeds);
}

#[test]
fn reviews_hold() {
    replay(REVIEW);
}

#[test]
fn settings_hold() {
    replay(SETTINGS);
}

#[test]
fn manifests_hold() {
    replay(MANIFEST);
}

#[test]
fn stubs_hold() {
    replay(STUB);
}

#[test]
fn requirements_hold() {
    replay(REQUIREMENTS);
}

/// Every target is a fuzzer with a bound for its inputs, and no other has regressions.
#[test]
fn the_targets_are_the_fuzzers() {
    let manifest = std::fs::read_to_string(folder().join("Cargo.toml")).unwrap();
    let script = std::fs::read_to_string(folder().join("../run-fuzzers")).unwrap();
    for (name, ..) in TARGETS {
        assert!(
            manifest.contains(&format!("[[bin]]\nname = \"{name}\"\n")),
            "{name} is no fuzzer"
        );
        assert!(
            script.contains(&format!("\n  [{name}]=")),
            "{name} has no longest input"
        );
    }
    assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
    let known = TARGETS.map(|(name, ..)| name);
    let folders = folder().join("regressions").read_dir().unwrap();
    let folders: Vec<String> = folders
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(
        !folders.is_empty() && folders.iter().all(|name| known.contains(&name.as_str())),
        "{folders:?}"
    );
}

/// kubectl's own reading belongs to the target `manifest`.
#[cfg(feature = "tool-tests")]
#[test]
fn kubectl_reads_the_manifests() {
    let inputs = regressions("manifest").into_iter().map(|(_, input)| input);
    inputs
        .chain(seeds::manifest())
        .for_each(|input| crate::manifest(&input));
}

/// Leaves the seeds where `tests/run-fuzzers` looks for them.
fn write(target: &str, seeds: &[Vec<u8>]) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz-seeds").join(target);
    // Those of an earlier version may hold no more.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    for (number, seed) in seeds.iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{number:04}")), seed).unwrap();
    }
    std::fs::write(folder.with_extension("dict"), seeds::dictionary()).unwrap();
}
