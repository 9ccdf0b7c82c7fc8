//! The application's ports that are served through the proxy.

use super::redirect::SERVER_FIRST_PORTS;
use super::{InboundContext, TlsContext};
use crate::names;
use crate::pod::{PodView, PortRef, Probe, ProbeTarget};
use crate::settings::Settings;
use crate::settings::values::{Probes, Protocol, shown};

/// The ports in the order of the setting, or of the containers.
pub(super) fn ports(
    pod: &PodView<'_>,
    settings: &Settings,
    tls: Option<&TlsContext>,
    warnings: &mut Vec<String>,
) -> Result<Vec<InboundContext>, String> {
    let mut ports = declared(pod, settings).unwrap_or_else(|| found(pod, tls));
    let excluded = settings.exclude_inbound_ports.as_ref().map_or(&[][..], |list| &list.0);
    ports.retain(|(port, _)| !excluded.contains(port));
    if ports.len() > names::PORTS_IN_RANGE {
        return Err(format!(
            "{}: the pod has {} inbound ports; at most {} are possible; list those that matter",
            names::INBOUND_PORTS,
            ports.len(),
            names::PORTS_IN_RANGE
        ));
    }
    let numbered = ports.into_iter().zip(0u16..);
    Ok(numbered
        .map(|((port, protocol), n)| context(pod, settings, port, protocol, n, warnings))
        .collect())
}

fn declared(pod: &PodView<'_>, settings: &Settings) -> Option<Vec<(u16, Protocol)>> {
    let list = &settings.inbound_ports.as_ref()?.0;
    let protocol = |port| {
        named(pod)
            .find(|(number, _)| *number == port)
            .map_or(Protocol::Tcp, |(_, protocol)| protocol)
    };
    Some(
        list.iter()
            .map(|p| (p.port, p.protocol.unwrap_or_else(|| protocol(p.port))))
            .collect(),
    )
}

/// Every TCP containerPort once. Where plain callers are told from meshed ones by their first
/// bytes, a protocol in which the server speaks first would hang, so its well-known ports are left out.
fn found(pod: &PodView<'_>, tls: Option<&TlsContext>) -> Vec<(u16, Protocol)> {
    let peeks = tls.is_some_and(|tls| !tls.strict);
    let mut ports: Vec<(u16, Protocol)> = Vec::new();
    for (port, protocol) in named(pod) {
        let speaks_first = peeks && protocol == Protocol::Tcp && SERVER_FIRST_PORTS.contains(&port);
        if !speaks_first && !ports.iter().any(|(known, _)| *known == port) {
            ports.push((port, protocol));
        }
    }
    ports
}

fn named<'p>(pod: &'p PodView<'_>) -> impl Iterator<Item = (u16, Protocol)> + 'p {
    let ports = pod.serving_containers().flat_map(|container| container.tcp_ports());
    ports.map(|(port, name)| (port, Protocol::of_port_name(name)))
}

fn context(
    pod: &PodView<'_>,
    settings: &Settings,
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
        probe_paths: if serves_probes {
            probe_paths(pod, port, warnings)
        } else {
            Vec::new()
        },
    }
}

/// The paths of the plain HTTP probes of a port, each once.
fn probe_paths(pod: &PodView<'_>, port: u16, warnings: &mut Vec<String>) -> Vec<String> {
    let mut paths = Vec::new();
    for target in probes_of(pod, port)
        .filter_map(|probe| probe.http_get.as_ref())
        .filter(|t| !is_https(t))
    {
        let whole = target.path.as_deref().filter(|p| !p.is_empty()).unwrap_or("/");
        let path = whole.split('?').next().unwrap_or(whole);
        if !is_plain_path(path) {
            warnings.push(format!(
                "probe path {} has unusual characters: it is not served under strict mTLS",
                shown(path)
            ));
        } else if !paths.iter().any(|known| known == path) {
            paths.push(path.to_owned());
        }
    }
    paths
}

/// The probes that reach `port` of the container they belong to.
pub(super) fn probes_of<'p>(pod: &'p PodView<'_>, port: u16) -> impl Iterator<Item = &'p Probe<'p>> {
    pod.serving_containers().flat_map(move |container| {
        let ports: Vec<(u16, &str)> = container.tcp_ports().collect();
        container.probes().filter(move |probe| {
            let targets = [&probe.http_get, &probe.tcp_socket, &probe.grpc];
            targets
                .into_iter()
                .flatten()
                .any(|target| reaches(target, port, &ports))
        })
    })
}

fn reaches(target: &ProbeTarget<'_>, port: u16, ports: &[(u16, &str)]) -> bool {
    match &target.port {
        Some(PortRef::Number(number)) => *number == i64::from(port),
        Some(PortRef::Name(name)) => ports.iter().any(|(number, known)| *number == port && *known == &**name),
        None => false,
    }
}

/// Whether a probe speaks TLS.
pub(super) fn is_https(target: &ProbeTarget<'_>) -> bool {
    target
        .scheme
        .as_deref()
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"))
}

/// A path of RFC 3986's unreserved characters and a few more that mean nothing to nginx.
fn is_plain_path(path: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"/-._~+@,:=".contains(&b);
    path.starts_with('/') && path.len() <= 512 && path.bytes().all(allowed)
}
