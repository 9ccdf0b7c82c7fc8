//! Running `outrigger` on manifests. The environment is empty, so no variable of the machine counts.
#![allow(dead_code, reason = "each suite uses its own part of the support modules")]

use assert_cmd::Command;
use outrigger::inject::{Injector, InjectorOptions};
use outrigger::manifest::{Namespaces, Source, inject, parse};
use serde_json::Value;

/// The program, with an empty environment.
pub(crate) fn outrigger() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outrigger"));
    command.env_clear();
    command
}

/// What a run left behind.
#[derive(Debug)]
pub(crate) struct Run {
    /// The exit code.
    pub(crate) code: i32,
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
}

impl Run {
    /// `outrigger inject -f input.yaml`, where the file has this text. What the library makes of
    /// it has to be the same.
    pub(crate) fn inject(text: &str) -> Self {
        let run = Self::of("inject", "input.yaml", text);
        if run.code == 0 {
            assert_eq!(run.stdout, in_library(text), "the program injects as the library does");
        }
        run
    }

    /// `outrigger COMMAND -f FILE`, in a folder where the file has this text.
    pub(crate) fn of(command: &str, file: &str, text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        std::fs::write(folder.path().join(file), text).expect("it can be written");
        let mut program = outrigger();
        program.current_dir(folder.path()).args([command, "-f", file]);
        Self::from(&mut program)
    }

    /// What a prepared program leaves behind.
    pub(crate) fn from(program: &mut Command) -> Self {
        let output = program.output().expect("the program starts");
        Self {
            code: output.status.code().expect("it ends by itself"),
            stdout: String::from_utf8(output.stdout).expect("standard output is UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("standard error is UTF-8"),
        }
    }

    /// The exit code was 0. Gives the documents of standard output.
    pub(crate) fn documents(&self) -> Vec<Value> {
        assert_eq!(self.code, 0, "{}", self.stderr);
        documents(&self.stdout)
    }

    /// Standard error has a line that begins with an object and what became of it.
    pub(crate) fn reports(&self, object: &str, outcome: &str) -> &Self {
        let begin = format!("{object}: {outcome}: ");
        assert!(
            self.stderr.lines().any(|line| line.starts_with(&begin)),
            "no {begin:?} in {}",
            self.stderr
        );
        self
    }
}

/// The documents of a stream that are not empty.
pub(crate) fn documents(text: &str) -> Vec<Value> {
    let documents = outrigger::yaml::parse_stream(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    documents.into_iter().filter_map(|document| document.value).collect()
}

fn in_library(text: &str) -> String {
    let injector = Injector::new(InjectorOptions {
        excluded_namespaces: vec!["outrigger-system".to_owned()],
        ..InjectorOptions::default()
    })
    .expect("what is built in is right");
    let sources = [Source {
        name: "input.yaml".to_owned(),
        text: text.to_owned(),
    }];
    let manifests = parse(&sources).expect("the program has read it");
    let namespaces = Namespaces::collect(&manifests).expect("the program has read it");
    inject(&injector, &manifests[0], &namespaces)
        .expect("no fault of ours")
        .text
}
