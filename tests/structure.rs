//! What holds for the source itself.

#![allow(clippy::unwrap_used, missing_docs)]

use std::path::{Path, PathBuf};

/// The most lines of a file before its tests: more hold more than one thought.
const MOST_LINES: usize = 400;

/// Every Rust file of the crate, with its text.
fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    assert!(found.len() > 40, "the sources are elsewhere");
    found
}

fn collect(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
}

/// The lines before the tests.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().take_while(|line| *line != "#[cfg(test)]")
}

#[test]
fn each_name_is_said_once() {
    for (path, text) in sources()
        .iter()
        .filter(|(path, _)| !path.ends_with("names.rs") && !path.ends_with("tests.rs"))
    {
        let stray = code(text).find(|line| line.contains("outrigger.mesh/") && !line.trim_start().starts_with("//"));
        assert_eq!(stray, None, "{}: take it from names.rs", path.display());
    }
}

#[test]
fn files_hold_one_thought() {
    for (path, text) in sources() {
        let lines = code(&text).count();
        assert!(
            lines <= MOST_LINES,
            "{} has {lines} lines before its tests",
            path.display()
        );
    }
}

#[test]
fn the_program_itself_does_nothing() {
    let (_, main) = sources()
        .into_iter()
        .find(|(path, _)| path.ends_with("src/main.rs"))
        .unwrap();
    assert!(main.lines().count() <= 40);
}

#[test]
fn templates_differ_by_their_identity_alone() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proxy-templates");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let (plain, mtls) = (read("proxy-sidecar.yaml.hbs"), read("mtls.yaml.hbs"));
    let started = "    command: [nginx, -e, stderr, -c, /etc/outrigger/nginx.conf]\n";
    assert!(plain.contains(started));
    let (plain, mut rest) = (plain.replace(started, ""), mtls.lines());
    // Every line of the plain template stands in the other in the same order.
    for line in plain.lines() {
        assert!(
            rest.any(|other| other == line),
            "mtls.yaml.hbs lacks, or has elsewhere: {line}"
        );
    }
    let added = mtls.lines().count() - plain.lines().count();
    assert_eq!(
        added, 27,
        "lines of the identity's volume, mount and mark, and the command that follows new roots"
    );
}

/// Nothing that a stranger writes is ever run: nginx sees its configuration in the pod alone.
#[test]
fn the_server_starts_no_program() {
    let starts = |text: &str| code(text).any(|line| line.contains("Command::new("));
    let found: Vec<_> = sources().into_iter().filter(|(_, text)| starts(text)).collect();
    let [(path, _)] = &found[..] else { panic!("{found:?}") };
    assert!(
        path.ends_with("cli/redirect/nft.rs"),
        "the init container's: {}",
        path.display()
    );
}

/// What docs/security.md says is shown by a test is: each `suite::test` is a function of that suite, or of the crate.
#[test]
fn the_tests_that_stand_for_promises_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = std::fs::read_to_string(root.join("docs/security.md")).unwrap();
    let named = text
        .split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|code| code.split_once("::"));
    let named: Vec<(&str, &str)> = named.collect();
    assert!(named.len() > 30, "{named:?}");
    for (suite, test) in named {
        let mut files = Vec::new();
        for folder in [root.join("tests").join(suite), root.join("injector/src").join(suite)] {
            if folder.is_dir() {
                collect(&folder, &mut files);
            }
            files.extend(std::fs::read_to_string(folder.with_extension("rs")).map(|text| (folder, text)));
        }
        let function = format!("fn {test}(");
        assert!(
            files.iter().any(|(_, text)| text.contains(&function)),
            "docs/security.md names {suite}::{test}, which is none"
        );
    }
}

/// The API server learns of cert-manager's resources by what one version says of them, and that version is what runs.
#[test]
fn the_tests_have_one_version_of_cert_manager() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cluster");
    let version = |table: &str| {
        let text = std::fs::read_to_string(folder.join(table)).unwrap();
        let words: Vec<&str> = text.split_whitespace().collect();
        let found = words
            .iter()
            .find_map(|word| word.strip_prefix("github.com/cert-manager/cert-manager@"));
        found.unwrap_or_else(|| panic!("{table} has none")).to_owned()
    };
    assert_eq!(version("programs"), version("definitions"));
}
