//! `outrigger explain`: the decision, the row that decided, and every setting with its origin.

use std::fmt::Write as _;

use super::input::{Files, NamespaceFile, injector};
use super::report::name_of;
use super::{Status, print};
use crate::decision::Subject;
use crate::error::InternalError;
use crate::inject::{Injection, Injector, Verdict};
use crate::manifest::{self, with_subject};
use crate::service::{FoundPort, Port};
use crate::settings::{Origin, SETTINGS};
use crate::workload::objects;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  outrigger explain -f app.yaml --namespace-file namespaces.yaml")]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    namespace_file: NamespaceFile,
    /// Show the settings that nobody set, too.
    #[arg(short, long)]
    all: bool,
}

pub(super) fn run(args: &ExplainArgs) -> anyhow::Result<Status> {
    let injector = injector(None)?;
    let sources = args.files.read()?;
    let manifests = manifest::parse(&sources)?;
    let namespaces = args.namespace_file.namespaces(&manifests)?;
    let mut text = String::new();
    for document in manifests
        .iter()
        .flat_map(|m| &m.documents)
        .filter_map(|d| d.value.as_ref())
    {
        for object in objects(document) {
            let explained = with_subject(document, &object, &namespaces, |subject| match subject {
                Ok(subject) => explain(&injector, subject, args.all),
                Err(error) => Ok(decided(&Injection::unreadable(error))),
            });
            let explained = explained
                .transpose()?
                .unwrap_or_else(|| "  no-pod: its kind has no pod\n".to_owned());
            let _ = write!(text, "{}\n{explained}", name_of(&object));
        }
    }
    print(text.as_bytes())
}

fn explain(injector: &Injector, subject: Subject<'_, '_>, all: bool) -> Result<String, InternalError> {
    let injection = injector.inject(subject)?;
    let mut text = decided(&injection);
    if !matches!(injection.verdict, Verdict::Skip(_))
        && let Ok(resolved) = injector.settings(subject)
    {
        if let Some(identity) = injector.identity(subject) {
            let _ = writeln!(text, "  identity: {identity}");
        }
        let rows = SETTINGS
            .iter()
            .zip(&resolved.origins)
            .filter(|(_, origin)| all || **origin > Origin::BuiltIn);
        for (row, origin) in rows {
            let value = injector
                .value_text(subject, row, *origin)
                .unwrap_or_else(|| "not set".to_owned());
            let _ = writeln!(text, "  {} = {value} ({})", row.key, origin.as_str());
        }
        for FoundPort {
            namespace,
            service,
            port,
            ..
        } in injector.found_upstreams(subject)?
        {
            let Port { number, protocol } = port;
            let _ = writeln!(text, "  found {service}.{namespace}:{number} ({protocol})");
        }
    }
    Ok(text)
}

fn decided(injection: &Injection) -> String {
    let reason = match &injection.verdict {
        Verdict::Inject(_) => "the proxy is added".to_owned(),
        Verdict::Skip(reason) => reason.sentence(),
        Verdict::Deny(denial) => denial.to_string(),
    };
    let row = injection
        .row
        .map(|row| format!(" (row {row} of the decision table)"))
        .unwrap_or_default();
    let mut text = format!("  {}{row}: {reason}\n", injection.outcome());
    for warning in &injection.warnings {
        let _ = writeln!(text, "  warning: {warning}");
    }
    text
}
