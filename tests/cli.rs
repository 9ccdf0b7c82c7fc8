//! The command line, run as users run it: the real binary with an empty environment.

#[path = "cli/audit.rs"]
mod audit;
#[path = "cli/broken.rs"]
mod broken;
#[path = "cli/check.rs"]
mod check;
#[path = "cli/commands.rs"]
mod commands;
#[path = "cli/config.rs"]
mod config;
#[path = "cli/inject.rs"]
mod inject;
#[path = "support/outrigger.rs"]
mod outrigger;
#[path = "cli/templates.rs"]
mod templates;
