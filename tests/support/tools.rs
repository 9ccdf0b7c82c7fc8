//! Where the tests find the programs they run: `make tools` builds them and the Makefile sets the variables.
#![allow(dead_code, reason = "each suite uses its own part of the support modules")]

use std::path::PathBuf;

/// The program that an environment variable names, such as `KUBECTL`.
///
/// # Panics
/// When the variable is missing or names no file: a suite that cannot run has failed.
pub(crate) fn tool(variable: &str) -> PathBuf {
    let path = named_by(variable);
    assert!(
        path.is_file(),
        "{variable} names {}, which is no file: run `make tools`",
        path.display()
    );
    path
}

/// The file that an environment variable's folder holds, such as an image of `TEST_IMAGES`.
///
/// # Panics
/// When the variable is missing or there is no such file.
pub(crate) fn tool_file(variable: &str, file: &str) -> PathBuf {
    let path = named_by(variable).join(file);
    assert!(
        path.is_file(),
        "there is no {}, where {variable} promises it: run `make tools`",
        path.display()
    );
    path
}

/// The versions of Helm that the chart is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Helm {
    /// Merges on its own side, with what it applied before and what is there.
    Three,
    /// Applies on the API server's side.
    Four,
}

impl Helm {
    pub(crate) const ALL: [Self; 2] = [Self::Three, Self::Four];

    /// Its program.
    pub(crate) fn program(self) -> PathBuf {
        tool(match self {
            Self::Three => "HELM",
            Self::Four => "HELM4",
        })
    }
}

fn named_by(variable: &str) -> PathBuf {
    #[allow(
        clippy::disallowed_methods,
        reason = "the one place where a test reads its environment"
    )]
    let value = std::env::var_os(variable)
        .unwrap_or_else(|| panic!("{variable} is not set: run this suite with make, see tests/README.md"));
    PathBuf::from(value)
}
