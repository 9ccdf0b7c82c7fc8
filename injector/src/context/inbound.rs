//! The application's ports that are served through the proxy.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use super::redirect::SERVER_FIRST_PORTS;
use super::{InboundContext, TlsContext};
use crate::names;
use crate::pod::{ContainerView, PodView, PortRef, Probe, ProbeTarget};
use crate::settings::Settings;
use crate::settings::values::{Probes, Protocol, shown};

/// The ports in the order of the setting, or of the containers. A pod may declare every port there is, so nothing
/// here looks at one twice.
pub(super) fn ports(
    pod: &PodView<'_>,
    settings: &Settings,
    tls: Option<&TlsContext>,
    warnings: &mut Vec<String>,
) -> Result<Vec<InboundContext>, String> {
    let excluded: BTreeSet<u16> = settings
        .exclude_inbound_ports
        .iter()
        .flat_map(|list| &list.0)
        .copied()
        .collect();
    let named = named(pod);
    let ports = match &settings.inbound_ports {
        Some(declared) => declared
            .0
            .iter()
            .map(|p| (p.port, p.protocol.unwrap_or_else(|| named.of(p.port))))
            .collect(),
        None => found(&named, tls),
    };
    let ports: Vec<(u16, Protocol)> = ports.into_iter().filter(|(port, _)| !excluded.contains(port)).collect();
    if ports.len() > names::PORTS_IN_RANGE {
        return Err(format!(
            "{}: the pod has {} inbound ports; at most {} are possible; list those that matter",
            names::INBOUND_PORTS,
            ports.len(),
            names::PORTS_IN_RANGE
        ));
    }
    let probes = ProbedPorts::of(pod);
    let numbered = ports.into_iter().zip(0u16..);
    Ok(numbered
        .map(|((port, protocol), n)| context(settings, &probes, port, protocol, n, warnings))
        .collect())
}

/// The declared TCP ports, each once, in their order, with the protocol that the first name tells.
struct NamedPorts {
    order: Vec<u16>,
    protocols: BTreeMap<u16, Protocol>,
}

impl NamedPorts {
    fn of(&self, port: u16) -> Protocol {
        self.protocols.get(&port).copied().unwrap_or(Protocol::Tcp)
    }
}

fn named(pod: &PodView<'_>) -> NamedPorts {
    let mut ports = NamedPorts {
        order: Vec::new(),
        protocols: BTreeMap::new(),
    };
    for (port, name) in pod.serving_containers().flat_map(|container| container.tcp_ports()) {
        if let Entry::Vacant(vacant) = ports.protocols.entry(port) {
            vacant.insert(Protocol::of_port_name(name));
            ports.order.push(port);
        }
    }
    ports
}

/// Every TCP containerPort. Where plain callers are told from meshed ones by their first bytes, a
/// protocol in which the server speaks first would hang, so its well-known ports are left out.
fn found(named: &NamedPorts, tls: Option<&TlsContext>) -> Vec<(u16, Protocol)> {
    let peeks = tls.is_some_and(|tls| !tls.strict);
    let ports = named.order.iter().map(|port| (*port, named.of(*port)));
    ports
        .filter(|(port, protocol)| !(peeks && *protocol == Protocol::Tcp && SERVER_FIRST_PORTS.contains(port)))
        .collect()
}

fn context(
    settings: &Settings,
    probes: &ProbedPorts<'_>,
    port: u16,
    protocol: Protocol,
    n: u16,
    warnings: &mut Vec<String>,
) -> InboundContext {
    let http = protocol != Protocol::Tcp;
    let serves_probes = http && settings.probes != Some(Probes::Off);
    InboundContext {
        port,
        listen: names::INBOUND_BASE + n,
        tls_listen: names::INBOUND_TLS_BASE + n,
        plain_listen: names::INBOUND_PLAIN_BASE + n,
        protocol,
        http,
        http2: matches!(protocol, Protocol::Http2 | Protocol::Grpc),
        probes: if serves_probes {
            probe_uris(probes, port, warnings)
        } else {
            Vec::new()
        },
    }
}

/// What the plain HTTP probes of a port ask for, path and query, each once.
fn probe_uris(probes: &ProbedPorts<'_>, port: u16, warnings: &mut Vec<String>) -> Vec<String> {
    let mut uris: Vec<String> = Vec::new();
    for target in probes
        .at(port)
        .filter_map(|probe| probe.http_get.as_ref())
        .filter(|t| !is_https(t))
    {
        let uri = target.path.as_deref().filter(|p| !p.is_empty()).unwrap_or("/");
        if !is_plain_uri(uri) {
            warnings.push(format!(
                "probe path {} has unusual characters: it is not served under strict mTLS",
                shown(uri)
            ));
        } else if !uris.iter().any(|known| known == uri) {
            uris.push(uri.to_owned());
        }
    }
    uris
}

/// The kubelet's probes by the port that they reach.
pub(super) struct ProbedPorts<'p>(Vec<(u16, &'p Probe<'p>)>);

impl<'p> ProbedPorts<'p> {
    /// The probes of the containers that serve; a name is looked up in the container's own ports.
    pub(super) fn of(pod: &'p PodView<'_>) -> Self {
        let all = pod
            .serving_containers()
            .flat_map(|container| container.probes().map(move |probe| (container, probe)));
        let reached = all.flat_map(|(container, probe)| {
            let targets = [&probe.http_get, &probe.tcp_socket, &probe.grpc].into_iter().flatten();
            targets.filter_map(move |target| Some((number(target, container)?, probe)))
        });
        Self(reached.collect())
    }

    /// Those that reach `port`.
    pub(super) fn at(&self, port: u16) -> impl Iterator<Item = &'p Probe<'p>> {
        self.0
            .iter()
            .filter(move |(number, _)| *number == port)
            .map(|(_, probe)| *probe)
    }
}

fn number(target: &ProbeTarget<'_>, container: &ContainerView<'_>) -> Option<u16> {
    match target.port.as_ref()? {
        PortRef::Number(number) => u16::try_from(*number).ok(),
        // A port without a name is not to be had by name.
        PortRef::Name(name) if name.is_empty() => None,
        PortRef::Name(name) => container
            .tcp_ports()
            .find(|(_, known)| *known == &**name)
            .map(|(number, _)| number),
    }
}

/// Whether a probe speaks TLS.
pub(super) fn is_https(target: &ProbeTarget<'_>) -> bool {
    target
        .scheme
        .as_deref()
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"))
}

/// A path and query of RFC 3986's characters that mean nothing to nginx.
fn is_plain_uri(uri: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"/-._~+@,:=?&%".contains(&b);
    uri.starts_with('/') && uri.len() <= 512 && uri.bytes().all(allowed)
}
