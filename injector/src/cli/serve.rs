//! `outrigger serve`: configuration → injector → server.

use std::sync::Arc;

use anyhow::Context;

use super::Status;
use super::input::{config, load_injector};
use crate::config::Config;
use crate::{server, telemetry};

pub(super) fn run() -> anyhow::Result<Status> {
    let Config { server, injection } = config()?;
    telemetry::init(&server.log)?;
    let requirements_file = injection.requirements_file.clone();
    let injector = Arc::new(load_injector(injection, None, None)?);
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(server::serve(server, injector, requirements_file))?;
    Ok(Status::Success)
}
