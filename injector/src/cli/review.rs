//! `outrigger review`: the webhook's answer without a server.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::input::{NamespaceFile, injector, stdin_bytes};
use super::{Status, print};
use crate::review::{Endpoint, decode};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "A namespace that --namespace-file does not name counts as one without labels.

Example:
  outrigger review --endpoint mutate --namespace-file namespace.yaml < review.json"
)]
pub(super) struct ReviewArgs {
    /// Which webhook answers.
    #[arg(long, default_value = "mutate", value_parser = endpoint())]
    endpoint: Endpoint,
    #[command(flatten)]
    namespace_file: NamespaceFile,
    /// The requirements of the validating check; without it, those of the configuration.
    #[arg(long, value_name = "FILE")]
    requirements: Option<PathBuf>,
}

fn endpoint() -> impl TypedValueParser<Value = Endpoint> {
    let words = PossibleValuesParser::new(Endpoint::ALL.iter().map(|endpoint| endpoint.as_str()));
    words.map(|word| word.parse().expect("the possible values are endpoints"))
}

pub(super) fn run(args: &ReviewArgs) -> anyhow::Result<Status> {
    let injector = injector(args.requirements.as_deref())?;
    let namespaces = args.namespace_file.namespaces(&[])?;
    let body = stdin_bytes()?;
    let review = decode(&body)?;
    let answer = injector.answer(
        args.endpoint,
        &review,
        namespaces.get(review.namespace()),
        namespaces.services(),
    )?;
    print(&[answer.body.as_slice(), b"\n"].concat())
}
