//! `outrigger inject` and `outrigger uninject`.

use serde_json::{Value, json};

use super::input::{Files, NamespaceFile, injector};
use super::{Status, print, report};
use crate::inject::Injector;
use crate::manifest::{self, Line, Manifest, Namespaces, ObjectPatch, Output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0; 1 a pod was refused, and nothing was printed; 2 wrong usage or unreadable input.

Examples:
  outrigger inject -f app.yaml | kubectl apply -f -
  kustomize build . | outrigger inject --namespace-file namespaces.yaml
  outrigger inject -f app.yaml -o patch"
)]
pub(super) struct InjectArgs {
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    namespace_file: NamespaceFile,
    /// The template of pods that name none; the same as the variable OUTRIGGER_TEMPLATE.
    #[arg(long, value_name = "NAME")]
    template: Option<String>,
    /// What is printed: the manifests, or the JSON patch of each injected object.
    #[arg(short, long, value_enum, default_value = "yaml")]
    output: InjectOutput,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum InjectOutput {
    Yaml,
    Patch,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  kubectl get deployment web -o yaml | outrigger uninject | kubectl apply -f -")]
pub(super) struct UninjectArgs {
    #[command(flatten)]
    files: Files,
}

pub(super) fn run(args: &InjectArgs) -> anyhow::Result<Status> {
    let injector = match &args.template {
        None => injector(None)?,
        Some(name) => {
            let mut vars = super::input::config()?.injection;
            vars.setting_defaults
                .insert(crate::names::variable_of(crate::names::TEMPLATE), name.clone());
            super::load_injector(vars, None, None)?
        }
    };
    let sources = args.files.read()?;
    let manifests = manifest::parse(&sources)?;
    let namespaces = args.namespace_file.namespaces(&manifests)?;
    match args.output {
        InjectOutput::Yaml => {
            let outputs = manifests.iter().map(|m| manifest::inject(&injector, m, &namespaces));
            finish(&outputs.collect::<Result<Vec<_>, _>>()?)
        }
        InjectOutput::Patch => patches(&injector, &manifests, &namespaces),
    }
}

pub(super) fn run_reverse(args: &UninjectArgs) -> anyhow::Result<Status> {
    let sources = args.files.read()?;
    let manifests = manifest::parse(&sources)?;
    finish(&manifests.iter().map(manifest::remove).collect::<Result<Vec<_>, _>>()?)
}

/// Prints reports, and the manifests unless a pod was refused: half a release is not to be applied.
fn finish(outputs: &[Output]) -> anyhow::Result<Status> {
    let mut denied = false;
    for output in outputs {
        denied |= reported(&output.report);
    }
    if denied {
        return Ok(Status::Denied);
    }
    print(joined(outputs).as_bytes())
}

/// Prints a report; whether a pod was refused.
fn reported(lines: &[Line]) -> bool {
    report::print(lines);
    lines.iter().any(|line| line.denied)
}

/// The texts of all files as one stream.
fn joined(outputs: &[Output]) -> String {
    let mut all = String::new();
    for text in outputs.iter().map(|output| &output.text) {
        if !all.is_empty() && !all.ends_with('\n') {
            all.push('\n');
        }
        if !all.is_empty() && !text.starts_with("---") {
            all.push_str("---\n");
        }
        all.push_str(text);
    }
    all
}

fn patches(injector: &Injector, manifests: &[Manifest<'_>], namespaces: &Namespaces) -> anyhow::Result<Status> {
    let mut all: Vec<Value> = Vec::new();
    let mut denied = false;
    for manifest in manifests {
        let (patches, lines) = manifest::patches(injector, manifest, namespaces)?;
        denied |= reported(&lines);
        all.extend(patches.into_iter().map(|ObjectPatch { object, patch }| {
            json!({"kind": object.kind, "namespace": object.namespace, "name": object.name, "patch": patch})
        }));
    }
    if denied {
        return Ok(Status::Denied);
    }
    print(format!("{:#}\n", Value::Array(all)).as_bytes())
}
