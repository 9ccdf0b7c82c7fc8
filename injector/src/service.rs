//! What `upstreams: auto` finds: the HTTP and gRPC ports of the Services within reach of a pod. Pure: who knows the
//! Services (a watch, or a file) hands them in.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Service, ServicePort};

use crate::decision::{Policy, takes_part};
use crate::names;
use crate::namespace::NamespaceInfo;
use crate::settings::upstreams::{ServicePort as UpstreamService, UpstreamProtocol};
use crate::settings::values::{DnsLabel, NamespaceList, Protocol, Toggle, is_dns_label};

/// What is known of Services when a pod is decided on.
#[derive(Debug, Clone, Copy, Default)]
pub enum View<'s> {
    /// These are all.
    Known(&'s Services),
    /// They are watched, and have not been listed yet.
    NotListed,
    /// Nobody looks at them.
    #[default]
    Off,
}

/// The Services of a cluster, as far as they can be found, and the namespaces that they are in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Services {
    /// Of each namespace only the label that switches injection.
    namespaces: BTreeMap<String, NamespaceInfo>,
    ports: BTreeMap<String, Arc<InNamespace>>,
}

/// The Services of one namespace, and how many ports they have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct InNamespace {
    services: BTreeMap<DnsLabel, Kept>,
    count: usize,
}

/// What is kept of a Service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Kept {
    addresses: Vec<IpAddr>,
    ports: Vec<Port>,
}

/// A port of a Service that can be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    /// The Service's port.
    pub number: u16,
    /// What is spoken: HTTP or gRPC.
    pub protocol: UpstreamProtocol,
}

/// Where a pod's upstreams are looked for.
#[derive(Debug, Clone, Copy)]
pub struct Reach<'r> {
    /// The pod's namespace, and what is known of it.
    pub own: (&'r str, &'r NamespaceInfo),
    /// Where else.
    pub others: Option<&'r NamespaceList>,
    /// Ports that are called without the proxy.
    pub excluded: &'r [u16],
    /// How many ports there may be.
    pub most: usize,
    /// Which namespaces take part.
    pub policy: &'r Policy,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The ports: those of the pod's own namespace first, then by namespace, Service and number.
    pub ports: Vec<FoundPort>,
    /// How many more there were than may be.
    pub more: usize,
    /// The first of them, `service.namespace:port`.
    pub first: Vec<String>,
}

/// A port that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundPort {
    /// The Service's namespace.
    pub namespace: DnsLabel,
    /// The Service's name.
    pub service: DnsLabel,
    /// The port.
    pub port: Port,
    /// The Service's addresses, the one of its first family first; none where it is not in a cluster yet.
    pub addresses: Vec<IpAddr>,
}

/// How many names of those left out a message holds.
const SHOWN: usize = 3;

impl Services {
    /// These, in namespaces of which nothing is known yet.
    pub fn of<'l>(listed: impl IntoIterator<Item = &'l Service>) -> Self {
        let mut services = Self::default();
        for service in listed {
            services.apply(service);
        }
        services
    }

    /// Takes a Service in, in place of what it was before; whether anything changed.
    pub fn apply(&mut self, service: &Service) -> bool {
        let metadata = &service.metadata;
        let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
        // Names of a cluster are such labels; those of a file may be anything.
        let namespace = namespace.filter(|name| is_dns_label(name));
        let Some((namespace, name)) = namespace.zip(name.and_then(|name| name.parse::<DnsLabel>().ok())) else {
            return false;
        };
        self.set(namespace, name, Kept::of(service))
    }

    /// Forgets a Service; whether it was known.
    pub fn remove(&mut self, namespace: &str, name: &str) -> bool {
        name.parse()
            .is_ok_and(|name| self.set(namespace, name, Kept::default()))
    }

    fn set(&mut self, namespace: &str, name: DnsLabel, kept: Kept) -> bool {
        let before = self.ports.get(namespace).and_then(|known| known.services.get(&name));
        if before.unwrap_or(&Kept::default()) == &kept {
            return false;
        }
        let known = Arc::make_mut(self.ports.entry(namespace.to_owned()).or_default());
        known.count += kept.ports.len();
        let before = match kept.ports.is_empty() {
            true => known.services.remove(&name),
            false => known.services.insert(name, kept),
        };
        known.count -= before.map_or(0, |before| before.ports.len());
        if known.services.is_empty() {
            self.ports.remove(namespace);
        }
        true
    }

    /// Takes in what is known of a namespace; `None`: it is gone.
    pub fn namespace(&mut self, name: &str, info: Option<&NamespaceInfo>) {
        match info.map(NamespaceInfo::switch_alone) {
            Some(info) => self.namespaces.insert(name.to_owned(), info),
            None => self.namespaces.remove(name),
        };
    }

    /// Takes namespaces that nothing is known of for enabled ones: what is given in files is asked for.
    pub fn enable_unknown(&mut self) {
        for name in self.ports.keys() {
            let info = self.namespaces.entry(name.clone());
            info.or_insert_with(NamespaceInfo::enabled);
        }
    }

    /// Replaces all Services by those of `listed`; the namespaces stay.
    pub fn replace(&mut self, listed: Self) {
        self.ports = listed.ports;
    }

    /// How many namespaces have a Service that can be found, and how many ports these have.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.ports.len(), self.ports.values().map(|known| known.count).sum())
    }

    /// What a pod's upstreams are.
    #[must_use]
    pub fn find(&self, reach: &Reach<'_>) -> Found {
        let mut found = Found::default();
        let own = takes_part(reach.own.0, reach.own.1, reach.policy).then_some(reach.own.0);
        for name in own.into_iter().chain(self.others(reach)) {
            let Some(known) = self.ports.get(name) else { continue };
            found.add(name, known, reach);
        }
        found
    }

    /// The other namespaces in which to look, each once, by name.
    fn others<'r>(&'r self, reach: &Reach<'r>) -> impl Iterator<Item = &'r str> {
        let names: BTreeSet<&str> = match reach.others {
            None => BTreeSet::new(),
            Some(NamespaceList::All) => self.ports.keys().map(String::as_str).collect(),
            Some(NamespaceList::Names(names)) => names.iter().map(DnsLabel::as_str).collect(),
        };
        let (own, policy) = (reach.own.0, reach.policy);
        let enabled = move |name: &&str| {
            let info = self.namespaces.get(*name);
            *name != own && info.is_some_and(|info| takes_part(name, info, policy))
        };
        names.into_iter().filter(enabled)
    }
}

impl FoundPort {
    /// The same as an entry of a list would name it.
    #[must_use]
    pub fn service_port(&self) -> UpstreamService {
        UpstreamService {
            name: self.service.clone(),
            namespace: Some(self.namespace.clone()),
            port: self.port.number,
        }
    }
}

impl Found {
    fn add(&mut self, namespace: &str, known: &InNamespace, reach: &Reach<'_>) {
        // Where nothing can be taken any more, nothing has to be looked at.
        if reach.excluded.is_empty() && self.ports.len() == reach.most && self.first.len() == SHOWN {
            self.more += known.count;
            return;
        }
        let Ok(label) = namespace.parse::<DnsLabel>() else {
            return;
        };
        let each = known.services.iter();
        let each = each.flat_map(|(name, kept)| kept.ports.iter().map(move |port| (name, kept, *port)));
        for (service, kept, port) in each.filter(|(.., port)| !reach.excluded.contains(&port.number)) {
            if self.ports.len() < reach.most {
                self.ports.push(FoundPort {
                    namespace: label.clone(),
                    service: service.clone(),
                    port,
                    addresses: kept.addresses.clone(),
                });
                continue;
            }
            self.more += 1;
            if self.first.len() < SHOWN {
                self.first.push(format!("{service}.{namespace}:{}", port.number));
            }
        }
    }

    /// What the pod's owner should know of those that were left out.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let others = self.more.checked_sub(self.first.len()).filter(|_| self.more > 0)?;
        let others = match others {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        Some(format!(
            "{}: auto found {} ports, of which {} are called through the proxy; not {}{others}; list those that matter",
            names::UPSTREAMS,
            self.ports.len() + self.more,
            self.ports.len(),
            self.first.join(", "),
        ))
    }
}

impl Kept {
    /// The ports of a Service that can be found, by number; none where it has no address of its own, or a switch that
    /// says anything but enabled.
    fn of(service: &Service) -> Self {
        let switch = service
            .metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get(names::INJECT));
        let stays_out = switch.is_some_and(|text| text.parse() != Ok(Toggle::Enabled));
        let Some(spec) = service.spec.as_ref().filter(|_| !stays_out) else {
            return Self::default();
        };
        let headless = spec.cluster_ip.as_deref() == Some("None");
        if headless || spec.type_.as_deref() == Some("ExternalName") {
            return Self::default();
        }
        let mut ports: Vec<Port> = spec.ports.iter().flatten().filter_map(port_of).collect();
        ports.sort_unstable();
        ports.dedup_by_key(|port| port.number);
        if ports.is_empty() {
            return Self::default();
        }
        // Clusters before 1.20, and what people write, have the first alone.
        let first = spec.cluster_ip.iter().filter(|_| spec.cluster_ips.is_none());
        let addresses = spec.cluster_ips.iter().flatten().chain(first);
        Self {
            addresses: addresses.filter_map(|text| text.parse().ok()).collect(),
            ports,
        }
    }
}

fn port_of(port: &ServicePort) -> Option<Port> {
    let tcp = port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP");
    let number = u16::try_from(port.port).ok().filter(|number| tcp && *number != 0)?;
    let protocol = match port.app_protocol.as_deref() {
        Some(told) => of_app_protocol(told),
        None => Protocol::of_port_name(port.name.as_deref().unwrap_or_default()),
    };
    let protocol = match protocol {
        Protocol::Http => UpstreamProtocol::Http,
        // nginx calls a server by HTTP/2 as one of gRPC.
        Protocol::Http2 | Protocol::Grpc => UpstreamProtocol::Grpc,
        Protocol::Tcp => return None,
    };
    Some(Port { number, protocol })
}

/// The protocol that `appProtocol` tells: one of the names that Kubernetes defines (KEP-3726), or the same words as in
/// the name of a port.
fn of_app_protocol(told: &str) -> Protocol {
    match told.to_ascii_lowercase().as_str() {
        "kubernetes.io/h2c" | "h2c" => Protocol::Http2,
        "kubernetes.io/ws" => Protocol::Http,
        word => Protocol::ALL
            .iter()
            .copied()
            .find(|protocol| protocol.as_str() == word)
            .unwrap_or(Protocol::Tcp),
    }
}

#[cfg(test)]
mod tests;
