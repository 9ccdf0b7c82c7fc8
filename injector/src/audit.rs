//! The pods of a live cluster, held against the rules: which carry the proxy, which should and do
//! not, and which break a requirement.
//!
//! Nothing here asks a cluster: pods come in one by one as JSON, so that a large cluster never has to
//! be held in memory.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

mod html;
mod judge;
mod owner;
#[cfg(feature = "cli")]
mod table;
mod text;
mod upstreams;

pub use judge::{Broken, Judgement, Proxy};
use owner::Live;
pub use owner::Workload;
pub use upstreams::Outdated;

use crate::error::InternalError;
use crate::inject::Injector;
use crate::namespace::{NamespaceError, NamespaceInfo};
use crate::requirements::Action;
use crate::service::{Services, View};
use crate::settings::values::words;

/// Takes pods and makes a report of them.
#[derive(Debug)]
pub struct Auditor<'i> {
    injector: &'i Injector,
    source: Source,
    namespaces: BTreeMap<String, NamespaceInfo>,
    services: Option<Services>,
    rows: BTreeMap<(Workload, Judgement), Vec<String>>,
    passed_over: usize,
}

/// Where and when pods were looked at; for the reader alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Source {
    /// The address of the API server.
    pub cluster: String,
    /// The time (RFC 3339).
    pub time: String,
}

/// The report. Its JSON form is documented in `docs/audit.md`; fields are added, never changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Audit {
    /// The version of the program, whose rules were applied.
    pub version: &'static str,
    /// Where and when.
    #[serde(flatten)]
    pub source: Source,
    /// Numbers over everything.
    pub summary: Summary,
    /// Every namespace, by name.
    pub namespaces: Vec<NamespaceRow>,
    /// Every workload, by namespace, kind and name. Pods of one workload that differ stand in rows of
    /// their own.
    pub workloads: Vec<WorkloadRow>,
}

words! {
    /// What a pod is by the rules.
    State {
        /// It should carry the proxy and does not.
        Missing = "missing",
        /// It has a setting that means nothing; created today it would be refused.
        Invalid = "invalid",
        /// It carries the proxy.
        Injected = "injected",
        /// It carries the proxy, though by the rules of today it would not get it.
        Leftover = "leftover",
        /// By the rules it does not get the proxy.
        Skipped = "skipped",
    }
}

/// Pods by state; every state is there.
pub type Counts = BTreeMap<State, usize>;

/// Numbers over a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// All namespaces.
    pub namespaces: usize,
    /// The namespaces whose pods get the proxy.
    pub meshed_namespaces: usize,
    /// Workloads that have pods.
    pub workloads: usize,
    /// Pods that were judged.
    pub pods: usize,
    /// These by state.
    pub states: Counts,
    /// Pods that break a rule, by the gravest action.
    pub violations: BTreeMap<Action, usize>,
    /// Proxies by the version of Outrigger that added them.
    pub proxy_versions: BTreeMap<String, usize>,
    /// Pods whose found upstreams are out of date.
    pub outdated_upstreams: usize,
    /// Pods that were not judged: they have ended, are being deleted, or their namespace came later.
    pub passed_over: usize,
}

/// A namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceRow {
    /// Its name.
    pub name: String,
    /// Whether a pod that says nothing gets the proxy.
    pub meshed: bool,
    /// Why so.
    pub why: String,
    /// What is done about violations in it.
    pub action: Action,
    /// Its pods that were judged.
    pub pods: usize,
    /// These by state.
    pub states: Counts,
    /// Its pods that would be refused.
    pub denied: usize,
}

/// Pods of one workload of which the same is said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRow {
    /// Whose pods.
    #[serde(flatten)]
    pub workload: Workload,
    /// What is said of each.
    #[serde(flatten)]
    pub judgement: Judgement,
    /// How many there are.
    pub count: usize,
    /// Their names.
    pub pods: Vec<String>,
}

/// What cannot be judged.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// A Namespace cannot be read.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// A pod has no name, or a field of a wrong type.
    #[error("the answer holds what is no pod: {0}")]
    Pod(#[from] serde_json::Error),
    /// A template fails.
    #[error(transparent)]
    Internal(#[from] InternalError),
}

impl<'i> Auditor<'i> {
    /// An auditor that knows these namespaces: v1 Namespace objects. Others are passed over.
    ///
    /// # Errors
    /// A label or annotation of one is no string.
    pub fn new(injector: &'i Injector, source: Source, namespaces: &[Value]) -> Result<Self, AuditError> {
        let read = namespaces
            .iter()
            .filter_map(|object| NamespaceInfo::from_object(object).transpose());
        Ok(Self {
            injector,
            source,
            namespaces: read.collect::<Result<_, _>>()?,
            services: None,
            rows: BTreeMap::new(),
            passed_over: 0,
        })
    }

    /// The same that knows the Services of the cluster, and so whether the upstreams that pods have found are those of
    /// today.
    #[must_use]
    pub fn knowing(self, services: Services) -> Self {
        Self {
            services: Some(services),
            ..self
        }
    }

    /// Judges a pod, given as JSON.
    ///
    /// # Errors
    /// It is no pod, or a template fails on it.
    pub fn add(&mut self, raw: &str) -> Result<(), AuditError> {
        let live: Live<'_> = serde_json::from_str(raw)?;
        let info = self.namespaces.get(&*live.metadata.namespace);
        let Some(info) = info.filter(|_| !live.is_ending()) else {
            self.passed_over += 1;
            return Ok(());
        };
        let services = self.services.as_ref().map_or(View::Off, View::Known);
        let judgement = Judgement::of(self.injector, &live.metadata.namespace, info, services, raw)?;
        let pods = self.rows.entry((live.workload(), judgement)).or_default();
        pods.push(live.metadata.name.into_owned());
        Ok(())
    }

    /// The report.
    #[must_use]
    pub fn finish(self) -> Audit {
        let (injector, passed_over) = (self.injector, self.passed_over);
        let rows = self.rows.into_iter().map(|((workload, judgement), mut pods)| {
            pods.sort();
            WorkloadRow {
                workload,
                judgement,
                count: pods.len(),
                pods,
            }
        });
        let workloads: Vec<WorkloadRow> = rows.collect();
        let namespaces: Vec<NamespaceRow> = self
            .namespaces
            .iter()
            .map(|(name, info)| NamespaceRow::new(injector, name, info, &workloads))
            .collect();
        Audit {
            version: env!("CARGO_PKG_VERSION"),
            source: self.source,
            summary: Summary::new(&namespaces, &workloads, passed_over),
            namespaces,
            workloads,
        }
    }
}

impl Audit {
    /// Whether a pod lacks the proxy or would be refused.
    #[must_use]
    pub fn has_problems(&self) -> bool {
        self.workloads.iter().any(WorkloadRow::is_problem)
    }

    /// The report as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("keys are strings") + "\n"
    }
}

impl WorkloadRow {
    /// Whether its pods lack the proxy or would be refused.
    #[must_use]
    pub fn is_problem(&self) -> bool {
        matches!(self.judgement.state, State::Missing | State::Invalid) || self.is_denied()
    }

    /// Whether its pods would be refused.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        self.judgement.gravest() == Some(Action::Deny)
    }
}

impl NamespaceRow {
    fn new(injector: &Injector, name: &str, info: &NamespaceInfo, rows: &[WorkloadRow]) -> Self {
        let rows = rows.iter().filter(|row| row.workload.namespace == name);
        let (meshed, why) = judge::namespace(injector, name, info);
        Self {
            name: name.to_owned(),
            meshed,
            why,
            action: injector.requirements().action(name),
            pods: rows.clone().map(|row| row.count).sum(),
            states: by_state(rows.clone()),
            denied: rows.filter(|row| row.is_denied()).map(|row| row.count).sum(),
        }
    }
}

impl Summary {
    fn new(namespaces: &[NamespaceRow], rows: &[WorkloadRow], passed_over: usize) -> Self {
        let mut violations: BTreeMap<Action, usize> = Action::ALL.iter().map(|action| (*action, 0)).collect();
        let mut proxy_versions = BTreeMap::new();
        for row in rows {
            if let Some(action) = row.judgement.gravest() {
                *violations.entry(action).or_default() += row.count;
            }
            if let Some(proxy) = &row.judgement.proxy {
                *proxy_versions.entry(proxy.version.clone()).or_default() += row.count;
            }
        }
        let outdated = rows.iter().filter(|row| row.judgement.upstreams.is_some());
        Self {
            namespaces: namespaces.len(),
            meshed_namespaces: namespaces.iter().filter(|namespace| namespace.meshed).count(),
            workloads: rows.iter().map(|row| &row.workload).collect::<BTreeSet<_>>().len(),
            pods: rows.iter().map(|row| row.count).sum(),
            states: by_state(rows.iter()),
            violations,
            proxy_versions,
            outdated_upstreams: outdated.map(|row| row.count).sum(),
            passed_over,
        }
    }
}

fn by_state<'r>(rows: impl Iterator<Item = &'r WorkloadRow>) -> Counts {
    let mut counts: Counts = State::ALL.iter().map(|state| (*state, 0)).collect();
    for row in rows {
        *counts.entry(row.judgement.state).or_default() += row.count;
    }
    counts
}
