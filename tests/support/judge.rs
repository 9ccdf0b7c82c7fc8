//! Asking the YAML judge (tests/yaml-judge) how kubectl reads a manifest.
#![allow(dead_code, reason = "each suite uses its own part of the support modules")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::Deserialize;
use serde_json::Value;

/// A running judge; it ends with this, since its input does.
pub(crate) struct Judge {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Judge {
    /// Starts the judge, which takes any number of inputs.
    pub(crate) fn start(program: &Path) -> Self {
        let mut child = Command::new(program)
            .arg("--framed")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("cannot start {}: {e}", program.display()));
        let questions = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("piped"));
        Self {
            child,
            questions,
            answers,
        }
    }

    /// The documents kubectl reads in this input, without empty ones.
    ///
    /// # Errors
    /// What kubectl says when it cannot read the input.
    pub(crate) fn read(&mut self, input: &[u8]) -> Result<Vec<Value>, String> {
        let questions = self.questions.as_mut().expect("open until the drop");
        questions
            .write_all(format!("{}\n", input.len()).as_bytes())
            .expect("the judge reads");
        questions.write_all(input).expect("the judge reads");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the judge answers in UTF-8");
        match serde_json::from_str(&line).unwrap_or_else(|e| panic!("not an answer of the judge ({e}): {line:?}")) {
            Answer::Documents(documents) => Ok(documents),
            Answer::Error(message) => Err(message),
        }
    }
}

impl Drop for Judge {
    fn drop(&mut self) {
        drop(self.questions.take());
        // It ends when its input does; an error means that it has.
        let _ = self.child.wait();
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Documents(Vec<Value>),
    Error(String),
}
