//! `outrigger trust`: the authorities of the mesh.

use anyhow::Context;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use k8s_openapi::api::certificates::v1::ClusterTrustBundle;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::Patch;
use serde::Serialize;
use serde_json::json;

use super::cluster::{Cluster, Way, block_on};
use super::report::without_controls;
use super::{Status, print};
use crate::certificates::{Certificate, Moment};
use crate::identity::trust::{Role, Trust};
use crate::names::{ROTATE, TRUST, TRUST_BUNDLE};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  outrigger trust status")]
pub(super) struct TrustArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show the authorities: which one signs, until when each is valid, and how many certificates of each may be so still.
    ///
    /// Needs get on the ClusterTrustBundle alone. The counts are a minute old at most.
    #[command(after_help = "Example:\n  outrigger trust status")]
    Status(StatusArgs),
    /// Replace the authority that signs, while every certificate stays trusted until it ends.
    ///
    /// Needs patch on the Secret. It goes on by itself: status shows how far it is.
    #[command(after_help = "Example:\n  outrigger trust rotate")]
    Rotate(RotateArgs),
}

#[derive(Debug, clap::Args)]
struct StatusArgs {
    #[command(flatten)]
    way: Way,
    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

#[derive(Debug, clap::Args)]
struct RotateArgs {
    #[command(flatten)]
    way: Way,
    /// The namespace of the release.
    #[arg(short, long, value_name = "NAME", default_value = "outrigger-system")]
    namespace: String,
    /// The Secret with the authority.
    #[arg(long, value_name = "NAME", default_value = "outrigger-identity")]
    secret: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// One JSON document.
    Json,
}

/// An authority, as it is shown.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    subject: String,
    role: &'static str,
    not_after: String,
    /// Certificates that may be valid still.
    leaves: u64,
    /// When the last of them ends.
    last_leaf: Option<String>,
    /// Until when it is trusted, where that is known.
    until: Option<String>,
}

pub(super) fn run(args: &TrustArgs) -> anyhow::Result<Status> {
    match &args.command {
        Command::Status(args) => {
            let rows = block_on(rows(&args.way))?;
            print(shown(&rows, args.output)?.as_bytes())
        }
        Command::Rotate(args) => {
            block_on(rotate(args))?;
            print(b"a new authority is being introduced: outrigger trust status shows how far it is\n")
        }
    }
}

async fn rows(way: &Way) -> anyhow::Result<Vec<Row>> {
    let cluster = Cluster::connect(way).await?;
    let api = kube::Api::<ClusterTrustBundle>::all(cluster.client());
    let bundle = api.get(TRUST_BUNDLE).await.with_context(|| {
        format!("cannot get the ClusterTrustBundle {TRUST_BUNDLE}; it is there once the server signs, from Kubernetes 1.37 on")
    })?;
    let trust = bundle.annotations().get(TRUST).map(String::as_str).unwrap_or("{}");
    let trust: Trust = serde_json::from_str(trust).with_context(|| format!("cannot read its annotation {TRUST}"))?;
    let roots = Certificate::parse_all(bundle.spec.trust_bundle.as_bytes()).context("cannot read its certificates")?;
    Ok(joined(&roots, &trust, Moment::now()))
}

/// The certificates that are published, and what is said about them; one that signs below one of them is no root itself.
fn joined(roots: &[Certificate], trust: &Trust, now: Moment) -> Vec<Row> {
    let mut rows: Vec<Row> = roots
        .iter()
        .map(|root| row(&root.subject, trust, Some(root.not_after), now))
        .collect();
    let others = trust
        .0
        .keys()
        .filter(|subject| roots.iter().all(|root| root.subject != **subject));
    rows.extend(others.map(|subject| row(subject, trust, None, now)));
    rows
}

fn row(subject: &str, trust: &Trust, not_after: Option<Moment>, now: Moment) -> Row {
    let authority = trust.0.get(subject).cloned().unwrap_or_default();
    Row {
        subject: subject.to_owned(),
        role: authority.role.as_str(),
        not_after: not_after.map(seconds).unwrap_or_default(),
        leaves: authority.valid(now),
        last_leaf: authority.last_end(now).map(seconds),
        until: authority.until.filter(|_| authority.role == Role::Retiring),
    }
}

/// RFC 3339, to the second.
fn seconds(moment: Moment) -> String {
    Moment::from_second(moment.second()).to_string().replace(".000", "")
}

fn shown(rows: &[Row], format: Format) -> anyhow::Result<String> {
    if format == Format::Json {
        return Ok(serde_json::to_string_pretty(rows)? + "\n");
    }
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(["AUTHORITY", "ROLE", "VALID UNTIL", "CERTIFICATES", "TRUSTED UNTIL"]);
    for row in rows {
        let until = row.until.as_deref().unwrap_or("-");
        table.add_row([
            &*without_controls(&row.subject),
            row.role,
            row.not_after.as_str(),
            &row.leaves.to_string(),
            until,
        ]);
    }
    Ok(format!("{table}\n"))
}

async fn rotate(args: &RotateArgs) -> anyhow::Result<()> {
    let cluster = Cluster::connect(&args.way).await?;
    let api = kube::Api::<Secret>::namespaced(cluster.client(), &args.namespace);
    let patch = json!({"metadata": {"annotations": {ROTATE: "ca"}}});
    let params = kube::api::PatchParams::default();
    api.patch_metadata(&args.secret, &params, &Patch::Merge(&patch))
        .await
        .with_context(|| format!("cannot ask for it at the Secret {} in {}", args.secret, args.namespace))?;
    Ok(())
}
