//! How soon something is written over the same version of an object again.

use std::time::Duration;

use tokio::time::Instant;

/// After a write, the watch shows the new version within milliseconds. Only if it does not, the write
/// is tried again.
const PATIENCE: Duration = Duration::from_secs(5);
/// After a failure.
const RETRY: Duration = Duration::from_secs(2);

/// Remembers over which version something was written, and when that may be tried again.
#[derive(Debug, Default)]
pub(crate) struct Pace(Option<(String, Instant)>);

impl Pace {
    /// Until when to leave this version alone.
    pub(crate) fn until(&self, version: &str) -> Option<Instant> {
        let (written, until) = self.0.as_ref()?;
        (written == version).then_some(*until)
    }

    /// Something was written over this version, or failed to be; when it may be tried again.
    pub(crate) fn done(&mut self, version: &str, success: bool) -> Instant {
        let until = Instant::now() + if success { PATIENCE } else { RETRY };
        self.0 = Some((version.to_owned(), until));
        until
    }
}
