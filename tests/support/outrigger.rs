//! Runs the binary with an empty environment and looks at what it leaves.

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

/// What a run left behind.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The command, to be given more than arguments.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outrigger"));
    command
        .env_clear()
        .args(args)
        .timeout(std::time::Duration::from_secs(60));
    command
}

/// Runs a prepared command.
pub(crate) fn finish(command: &mut Command) -> Run {
    let output = command.output().expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("the output is UTF-8");
    let run = Run {
        code: output.status.code().expect("no signal ended it"),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    };
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    run
}

/// Runs `outrigger ARGS` with nothing on standard input.
pub(crate) fn run(args: &[&str]) -> Run {
    finish(&mut command(args))
}

/// Runs `outrigger ARGS < input`.
pub(crate) fn piped(args: &[&str], input: impl AsRef<[u8]>) -> Run {
    finish(command(args).write_stdin(input.as_ref()))
}

impl Run {
    /// Asserts the exit code; the outputs are in the message of a failure.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    /// Asserts exit code 2, an empty standard output and an error with `part`.
    #[track_caller]
    pub(crate) fn fails_with(self, part: &str) -> Self {
        let run = self.exits(2);
        assert_eq!(run.stdout, "");
        assert!(
            run.stderr.starts_with("error: ") && run.stderr.contains(part),
            "{part}: {}",
            run.stderr
        );
        run
    }

    /// The lines of the report.
    pub(crate) fn report(&self) -> Vec<&str> {
        self.stderr.lines().collect()
    }

    /// Standard output as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}", self.stdout))
    }
}

/// A folder of files that is gone at the end of the test.
pub(crate) struct Folder(TempDir);

impl Folder {
    /// With these files: name and content.
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().expect("a temporary folder"));
        for (name, content) in files {
            folder.write(name, content);
        }
        folder
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().expect("in the folder")).expect("the folder is made");
        std::fs::write(&path, content).expect("the file is written");
        path
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The path of a file in it, as an argument.
    pub(crate) fn file(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("the path is UTF-8").to_owned()
    }
}

/// A Deployment.
pub(crate) fn deployment(name: &str, annotations: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {name}\n  namespace: shop\nspec:\n  template:\n    metadata:\n      \
         labels: {{environment: dev}}\n      annotations: {{{annotations}}}\n    spec:\n      containers:\n        - name: app\n          \
         image: app\n"
    )
}

/// A Namespace.
pub(crate) fn namespace(name: &str, labels: &str, annotations: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n  labels: {{{labels}}}\n  annotations: {{{annotations}}}\n"
    )
}
