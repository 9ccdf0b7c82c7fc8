//! How long a node lives.

use std::ffi::OsString;

use crate::cluster::processes::ends_with_its_parent;

/// How long a node lives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// As long as the test that starts it: the kernel ends it when the test is killed.
    Test,
    /// Until it is asked to end: it outlives the program that starts it.
    Kept,
}

impl Life {
    /// The command that gives a program this life, put before it.
    pub(crate) fn command(self) -> Vec<OsString> {
        match self {
            Self::Test => ends_with_its_parent(),
            // The end of the terminal is no reason to end either.
            Self::Kept => vec!["/usr/bin/setsid".into()],
        }
    }
}
