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
pub(crate) struct Pace {
    /// The least time between two writes, over whatever version.
    interval: Duration,
    written: Option<Instant>,
    over: Option<(String, Instant)>,
}

impl Pace {
    /// With a least time between two writes: with someone who undoes each of ours, the API server must not be the one
    /// who suffers.
    pub(crate) fn with_interval(interval: Duration) -> Self {
        Self {
            interval,
            ..Self::default()
        }
    }

    /// Until when to leave this version alone; `None`: it may be written over now.
    pub(crate) fn until(&self, version: &str) -> Option<Instant> {
        let over = self.over.as_ref().filter(|(written, _)| written == version);
        let until = over.map(|(_, until)| *until);
        let interval = self.written.map(|written| written + self.interval);
        until.max(interval).filter(|until| *until > Instant::now())
    }

    /// Something was written over this version, or failed to be; when it may be tried again.
    pub(crate) fn done(&mut self, version: &str, success: bool) -> Instant {
        let now = Instant::now();
        let until = now + if success { PATIENCE } else { RETRY };
        self.written = Some(now);
        self.over = Some((version.to_owned(), until));
        until
    }
}
