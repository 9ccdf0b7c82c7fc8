//! `outrigger audit`: what the rules say of the pods of a live cluster.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

use super::cluster::{Cluster, ClusterError, Listed, Way, block_on};
use super::input::{config, injector};
use super::report::warn;
use super::{Status, print};
use crate::audit::{Audit, Auditor, Source};
use crate::inject::Injector;
use crate::namespace::NamespaceInfo;
use crate::service::Services;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Needs list on pods, namespaces and services; with -n, list on pods and get on the namespace will do, but then it does not
look at found upstreams.

Exit code: 0; 1 a pod lacks the proxy or would be refused; 2 wrong usage or a cluster that cannot be read.

Examples:
  outrigger audit
  outrigger audit -n shop -o json
  outrigger audit --context production -o html > audit.html"
)]
pub(super) struct AuditArgs {
    #[command(flatten)]
    way: Way,
    /// Only these namespaces; without it, all.
    #[arg(short, long = "namespace", value_name = "NAME")]
    namespaces: Vec<String>,
    /// The requirements; without it, those of the configuration.
    #[arg(long, value_name = "FILE")]
    requirements: Option<PathBuf>,
    /// How the report is printed.
    #[arg(short, long, value_enum, default_value = "table")]
    output: AuditOutput,
    /// Exit with 0 whatever is found.
    #[arg(long)]
    exit_zero: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum AuditOutput {
    /// A line a workload.
    Table,
    /// For other programs.
    Json,
    /// One page for a browser, which loads nothing else.
    Html,
}

pub(super) fn run(args: &AuditArgs) -> anyhow::Result<Status> {
    let injector = injector(args.requirements.as_deref())?;
    let watched = config()?.server.watch_services;
    let audit = block_on(audit(args, &injector, watched))?;
    let text = match args.output {
        AuditOutput::Table => audit.to_table(),
        AuditOutput::Json => audit.to_json(),
        AuditOutput::Html => audit.to_html(),
    };
    print(text.as_bytes())?;
    Ok(if audit.has_problems() && !args.exit_zero {
        Status::Denied
    } else {
        Status::Success
    })
}

async fn audit(args: &AuditArgs, injector: &Injector, watched: bool) -> anyhow::Result<Audit> {
    let cluster = Cluster::connect(&args.way).await?;
    let source = Source {
        cluster: cluster.address().to_owned(),
        time: jiff::Timestamp::now().round(jiff::Unit::Second)?.to_string(),
    };
    // Each once: a namespace that is named twice is no two.
    let named: BTreeSet<&str> = args.namespaces.iter().map(String::as_str).collect();
    let namespaces = namespaces(&cluster, &named).await?;
    let mut auditor = Auditor::new(injector, source, &namespaces)?;
    let mut unknown = None;
    if watched {
        match services(&cluster).await? {
            Ok(services) => auditor = auditor.knowing(services),
            Err(missing) => unknown = Some(missing),
        }
    }
    let scopes: Vec<Option<&str>> = if named.is_empty() {
        vec![None]
    } else {
        named.into_iter().map(Some).collect()
    };
    let progress = progress();
    for scope in scopes {
        let mut listing = cluster.pods(scope);
        while let Some(Listed { items, remaining }) = listing.next().await? {
            progress.inc(items.len() as u64);
            progress.set_length(progress.position() + remaining);
            for pod in items {
                auditor.add(pod.get())?;
            }
        }
    }
    progress.finish_and_clear();
    if let Some(missing) = unknown {
        warn(&format!("found upstreams are not looked at: {missing}"));
    }
    Ok(auditor.finish())
}

async fn namespaces(cluster: &Cluster, names: &BTreeSet<&str>) -> anyhow::Result<Vec<Value>> {
    if names.is_empty() {
        return Ok(cluster.namespaces().await?);
    }
    let mut found = Vec::new();
    for name in names {
        found.push(cluster.namespace(name).await?);
    }
    Ok(found)
}

/// The Services as the webhook knows them, those of all namespaces, or the right for it that is missing.
async fn services(cluster: &Cluster) -> anyhow::Result<Result<Services, ClusterError>> {
    let (listed, namespaces) = match (cluster.services().await, cluster.namespaces().await) {
        (Err(missing @ ClusterError::Forbidden { .. }), _) | (_, Err(missing @ ClusterError::Forbidden { .. })) => {
            return Ok(Err(missing));
        }
        (listed, namespaces) => (listed?, namespaces?),
    };
    let mut services = Services::of(&listed);
    for namespace in namespaces
        .iter()
        .filter_map(|object| NamespaceInfo::from_object(object).transpose())
    {
        let (name, info) = namespace?;
        services.namespace(&name, Some(&info));
    }
    Ok(Ok(services))
}

/// A bar on standard error, which draws nothing where that is no terminal.
fn progress() -> indicatif::ProgressBar {
    let style =
        indicatif::ProgressStyle::with_template("{bar:40} {pos}/{len} pods").expect("the template is well-formed");
    indicatif::ProgressBar::new(0).with_style(style)
}
