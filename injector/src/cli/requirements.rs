//! `outrigger requirements`: the requirements in other forms.

use super::{Status, print};
use crate::requirements;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  outrigger requirements schema > requirements.schema.json")]
pub(super) struct RequirementsArgs {
    #[command(subcommand)]
    command: RequirementsCommand,
}

#[derive(Debug, clap::Subcommand)]
enum RequirementsCommand {
    /// Print the JSON Schema of the requirements file.
    ///
    /// Example: outrigger requirements schema > requirements.schema.json
    Schema,
}

pub(super) fn run(args: &RequirementsArgs) -> anyhow::Result<Status> {
    match &args.command {
        RequirementsCommand::Schema => print(format!("{:#}\n", requirements::schema()).as_bytes()),
    }
}
