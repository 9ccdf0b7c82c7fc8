//! Each target with its seeds and with what it has ever found.

use std::path::{Path, PathBuf};

use crate::seeds;

/// A target: its name, its body without other programs, and its seeds.
type Target = (&'static str, fn(&[u8]), fn() -> Vec<Vec<u8>>);

const TARGETS: [Target; 5] = [
    ("review", crate::review, seeds::review),
    ("settings", crate::settings, seeds::settings),
    ("manifest", manifest, seeds::manifest),
    ("stub", crate::stub, seeds::stub),
    ("requirements", crate::requirements, seeds::requirements),
];

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

#[test]
fn every_target_is_a_fuzzer_and_holds_for_its_seeds() {
    let manifest = std::fs::read_to_string(folder().join("Cargo.toml")).unwrap();
    for (name, body, seeds) in TARGETS {
        assert!(
            manifest.contains(&format!("[[bin]]\nname = \"{name}\"\n")),
            "{name} is no fuzzer"
        );
        let seeds = seeds();
        assert!(seeds.len() >= FEWEST, "{name} has {} seeds", seeds.len());
        seeds.iter().for_each(|seed| body(seed));
        write(name, &seeds);
    }
    assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
}

#[test]
fn what_was_found_once_is_not_found_again() {
    let mut replayed = 0;
    for (name, body, _) in TARGETS {
        for (path, input) in regressions(name) {
            println!("{}", path.display());
            body(&input);
            replayed += 1;
        }
    }
    let known = TARGETS.map(|(name, ..)| name);
    let folders = folder().join("regressions").read_dir().unwrap();
    for entry in folders {
        let name = entry.unwrap().file_name();
        assert!(known.iter().any(|target| name == *target), "{name:?} is no target");
    }
    assert!(replayed > 0, "the regressions are elsewhere");
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
