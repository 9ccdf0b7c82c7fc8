//! Whether the upstreams that a pod found when it was created are those that it would find now.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::decision::Subject;
use crate::error::InternalError;
use crate::inject::Injector;
use crate::names;
use crate::service::{FoundPort, View};

/// Services that a pod calls otherwise than one that is created now.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Outdated {
    /// Those that it calls past its proxy: `service.namespace:port`, in the order of that.
    pub missing: Vec<String>,
    /// What its proxy is called for in vain: an address and port that no such Service has any more.
    pub gone: Vec<String>,
}

/// How many of each are named in a sentence.
const SHOWN: usize = 3;

impl Outdated {
    /// Compares what stands in the pod, given as JSON too, with what would be found; `None`: it is the same, or the Services
    /// are not known.
    pub(super) fn of(injector: &Injector, subject: Subject<'_, '_>, raw: &str) -> Result<Option<Self>, InternalError> {
        if !matches!(subject.services, View::Known(_)) {
            return Ok(None);
        }
        let now = injector.found_upstreams(subject)?;
        let then = written(raw);
        let has = |port: &FoundPort| addresses(port).all(|address| then.contains(&address));
        let all: BTreeSet<String> = now.iter().flat_map(addresses).collect();
        let missing = now.iter().filter(|port| !has(port)).map(called);
        let outdated = Self {
            missing: missing.collect(),
            gone: then.difference(&all).cloned().collect(),
        };
        Ok((!outdated.missing.is_empty() || !outdated.gone.is_empty()).then_some(outdated))
    }
}

/// A sentence's part, such as `lacks orders.shop:8080; has 10.96.0.9:80, which is gone`.
impl fmt::Display for Outdated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [("lacks ", &self.missing, ""), ("has ", &self.gone, ", gone since")];
        let parts = parts.iter().filter(|(_, all, _)| !all.is_empty());
        let parts: Vec<String> = parts
            .map(|(before, all, after)| format!("{before}{}{after}", some(all)))
            .collect();
        f.write_str(&parts.join("; "))
    }
}

fn some(all: &[String]) -> String {
    let shown = all[..all.len().min(SHOWN)].join(", ");
    match all.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn called(found: &FoundPort) -> String {
    format!("{}.{}:{}", found.service, found.namespace, found.port.number)
}

fn addresses(found: &FoundPort) -> impl Iterator<Item = String> + '_ {
    let addresses = found.addresses.iter();
    addresses.map(|address| SocketAddr::new(*address, found.port.number).to_string())
}

/// What the redirecting container of a pod was told of found Services, without the proxy's ports for them.
fn written(raw: &str) -> BTreeSet<String> {
    #[derive(Deserialize)]
    struct Pod {
        spec: Spec,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec {
        #[serde(default)]
        init_containers: Option<Vec<Container>>,
    }
    #[derive(Deserialize)]
    struct Container {
        name: String,
        #[serde(default)]
        args: Option<Vec<String>>,
    }
    let containers = serde_json::from_str::<Pod>(raw)
        .ok()
        .and_then(|pod| pod.spec.init_containers);
    let redirecting = containers
        .into_iter()
        .flatten()
        .filter(|c| c.name == names::REDIRECT_CONTAINER);
    let args = redirecting.flat_map(|container| container.args.unwrap_or_default());
    args.filter_map(|arg| {
        let (address, _listen) = arg.strip_prefix("--found=")?.rsplit_once(':')?;
        Some(address.to_owned())
    })
    .collect()
}
