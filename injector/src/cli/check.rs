//! `outrigger check`: the validating check for continuous integration.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::json;

use super::input::{Files, NamespaceFile, injector};
use super::report::{name_of, without_controls};
use super::{Status, print};
use crate::check::{Finding, check};
use crate::manifest;
use crate::requirements::Action;
use crate::sarif::sarif;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Pods are judged as the webhooks together would: after injection, with the defaults of labels.

Exit code: 0; 1 a pod would be refused; 2 wrong usage or unreadable input.

Examples:
  outrigger check -f deploy/ --requirements requirements.yaml
  outrigger check -f deploy/ -o sarif > outrigger.sarif"
)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    namespace_file: NamespaceFile,
    /// The requirements; without it, those of the configuration.
    #[arg(long, value_name = "FILE")]
    requirements: Option<PathBuf>,
    /// How the findings are printed.
    #[arg(short, long, value_enum, default_value = "text")]
    output: CheckOutput,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum CheckOutput {
    /// A line a finding.
    Text,
    /// A list of objects.
    Json,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
}

pub(super) fn run(args: &CheckArgs) -> anyhow::Result<Status> {
    let injector = injector(args.requirements.as_deref())?;
    let sources = args.files.read()?;
    let manifests = manifest::parse(&sources)?;
    let namespaces = args.namespace_file.namespaces(&manifests)?;
    let mut findings = Vec::new();
    for manifest in &manifests {
        findings.extend(check(&injector, manifest, &namespaces)?);
    }
    print(
        match args.output {
            CheckOutput::Text => as_text(&findings),
            CheckOutput::Json => as_json(&findings),
            CheckOutput::Sarif => sarif(&findings),
        }
        .as_bytes(),
    )?;
    let refused = findings.iter().any(|finding| finding.action == Action::Deny);
    Ok(if refused { Status::Denied } else { Status::Success })
}

fn as_text(findings: &[Finding]) -> String {
    findings.iter().fold(String::new(), |mut text, finding| {
        let Finding {
            file,
            line,
            object,
            rule,
            message,
            action,
        } = finding;
        let _ = writeln!(
            text,
            "{}:{line}: {}: {}: {rule}: {message}",
            without_controls(file),
            name_of(object),
            action.as_str()
        );
        text
    })
}

fn as_json(findings: &[Finding]) -> String {
    let list: Vec<_> = findings
        .iter()
        .map(|Finding { file, line, object, rule, message, action }| {
            json!({"file": file, "line": line, "kind": object.kind, "namespace": object.namespace, "name": object.name,
                   "rule": rule, "message": message, "action": action.as_str()})
        })
        .collect();
    format!("{:#}\n", serde_json::Value::Array(list))
}
