//! Tests that share a mesh and wait for pods most of the time: more of them run at once than there are cores, which the
//! usual harness does only when it is asked each time.
//!
//! Needs the module `workloads` beside it.

use std::sync::{Arc, LazyLock};

use libtest_mimic::{Arguments, Conclusion, Trial};

use crate::workloads::Mesh;

/// How many tests run at once, unless `--test-threads` says otherwise.
const AT_ONCE: usize = 6;

/// A test and its name.
pub(crate) type Test = (&'static str, fn(&Mesh));

/// Tests by the names of their functions.
macro_rules! tests {
    ($($module:ident :: $test:ident),* $(,)?) => {
        [$((concat!(stringify!($module), "::", stringify!($test)), $module::$test as fn(&$crate::workloads::Mesh))),*]
    };
}
pub(crate) use tests;

/// What the harness was told.
pub(crate) fn arguments() -> Arguments {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_ONCE);
    arguments
}

/// Runs tests on one mesh, which starts with the first of them.
pub(crate) fn run<const N: usize>(arguments: &Arguments, tests: [Test; N], start: fn() -> Mesh) -> Conclusion {
    let mesh = Arc::new(LazyLock::new(start));
    let trials = tests.map(|(name, test)| {
        let mesh = Arc::clone(&mesh);
        Trial::test(name, move || {
            test(&mesh);
            Ok(())
        })
    });
    // The node ends with the last who has it.
    drop(mesh);
    libtest_mimic::run(arguments, trials.into())
}
