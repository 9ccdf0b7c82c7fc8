//! `outrigger serve`.
use super::Status;
pub(super) fn run() -> anyhow::Result<Status> {
    anyhow::bail!("merge")
}
