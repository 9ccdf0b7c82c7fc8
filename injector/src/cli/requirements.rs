//! `outrigger requirements`: the requirements in other forms.

use std::path::PathBuf;

use super::input::injector;
use super::{Status, print};
use crate::policy::admission_policy;
use crate::requirements;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  outrigger requirements schema > requirements.schema.json
  outrigger requirements policy --requirements requirements.yaml | kubectl apply -f -")]
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
    /// Print the label rules as a ValidatingAdmissionPolicy and its bindings.
    ///
    /// The API server then judges pods by itself, as the webhook would. What a policy cannot say is refused, exit
    /// code 2; what it does not cover stands in comments.
    ///
    /// Example: outrigger requirements policy --requirements requirements.yaml | kubectl apply -f -
    Policy {
        /// The requirements; without it, those of the configuration.
        #[arg(long, value_name = "FILE")]
        requirements: Option<PathBuf>,
    },
}

pub(super) fn run(args: &RequirementsArgs) -> anyhow::Result<Status> {
    match &args.command {
        RequirementsCommand::Schema => print(format!("{:#}\n", requirements::schema()).as_bytes()),
        RequirementsCommand::Policy { requirements } => {
            let injector = injector(requirements.as_deref())?;
            let policy = admission_policy(&injector.requirements(), injector.policy())?;
            print(policy.as_bytes())
        }
    }
}
