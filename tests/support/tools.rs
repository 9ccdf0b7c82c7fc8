//! Where the tests find the programs they run: `make tools` builds them and the Makefile sets the variables.
#![allow(dead_code, reason = "each suite uses its own part of the support modules")]

use std::path::PathBuf;

/// The program that an environment variable names, such as `KUBECTL`.
///
/// # Panics
/// When the variable is missing or names no file: a suite that cannot run has failed.
pub(crate) fn tool(variable: &str) -> PathBuf {
    #[allow(
        clippy::disallowed_methods,
        reason = "the one place where a test reads its environment"
    )]
    let value = std::env::var_os(variable)
        .unwrap_or_else(|| panic!("{variable} is not set: run this suite with make, see tests/README.md"));
    let path = PathBuf::from(value);
    assert!(
        path.is_file(),
        "{variable} names {}, which is no file: run `make tools`",
        path.display()
    );
    path
}
