//! Reads the requirements file again on an interval, and puts it in force when it changed and is sound.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use crate::error::error_chain;
use crate::inject::Injector;
use crate::metrics::Metrics;

/// A requirements file that may change, and who has to know.
pub(super) struct Follower {
    pub(super) file: PathBuf,
    pub(super) injector: Arc<Injector>,
    pub(super) metrics: Arc<Metrics>,
}

impl Follower {
    /// Reads the file each `interval`, until the runtime ends. One that cannot be used is counted at
    /// each look and logged once; the requirements before it stay in force.
    pub(super) async fn run(self, interval: Duration) {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told: Option<String> = None;
        loop {
            ticks.tick().await;
            let read = tokio::fs::read_to_string(&self.file).await;
            told = self.look(&read, told.as_deref());
        }
    }

    /// Acts on what a look showed; the failure that the log knows of.
    fn look(&self, read: &std::io::Result<String>, told: Option<&str>) -> Option<String> {
        let replaced = match read {
            Ok(text) => self
                .injector
                .replace_requirements(text)
                .map_err(|error| error_chain(&error)),
            Err(error) => Err(error.to_string()),
        };
        let file = shown(&self.file);
        match replaced {
            Ok(false) => None,
            Ok(true) => {
                self.metrics.requirements_reloads.inc();
                tracing::info!(file, "changed requirements are in force");
                None
            }
            Err(reason) => {
                self.metrics.requirements_reload_failures.inc();
                if told != Some(&*reason) {
                    tracing::error!(
                        file,
                        reason,
                        "the requirements file cannot be used; those before stay in force"
                    );
                }
                Some(reason)
            }
        }
    }
}

fn shown(file: &Path) -> String {
    file.display().to_string()
}
