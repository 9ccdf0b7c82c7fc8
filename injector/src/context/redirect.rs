//! The redirecting init container and its arguments.

use super::build::{redirects, text};
use super::inbound::{ProbedPorts, is_https};
use super::{InboundContext, RedirectContext, TlsContext, UpstreamContext};
use crate::names;
use crate::pod::{PodView, Probe};
use crate::settings::Settings;
use crate::settings::values::Probes;

/// Ports of protocols in which the server speaks first (FTP, SSH, SMTP, POP3, IMAP, MySQL, NATS and others), by IANA's
/// registry and common use.
pub const SERVER_FIRST_PORTS: [u16; 10] = [21, 22, 25, 110, 143, 587, 3306, 4222, 4444, 5900];

/// The init container; none where traffic is explicit.
pub(super) fn context(
    pod: &PodView<'_>,
    settings: &Settings,
    inbound: &[InboundContext],
    upstreams: &[UpstreamContext],
    tls: Option<&TlsContext>,
    warnings: &mut Vec<String>,
) -> Option<RedirectContext> {
    if !redirects(settings) {
        return None;
    }
    let mut args = vec!["redirect".to_owned(), format!("--proxy-uid={}", names::PROXY_UID)];
    args.extend(inbound.iter().map(|p| format!("--inbound={}:{}", p.port, p.listen)));
    args.extend(outbound(settings, upstreams));
    let strict = tls.is_some_and(|tls| tls.strict);
    let probes = node_probes(pod, settings, strict, inbound, warnings);
    let needs_host_ips = !probes.is_empty();
    args.extend(probes);
    Some(RedirectContext {
        image: text(settings.redirect_image.as_ref()),
        args,
        needs_host_ips,
    })
}

fn outbound<'u>(settings: &'u Settings, upstreams: &'u [UpstreamContext]) -> impl Iterator<Item = String> + 'u {
    let excluded = settings.exclude_outbound_ports.as_ref().map_or(&[][..], |list| &list.0);
    // What stands in a list is called by the name of its first service.
    let called = |u: &'u UpstreamContext| &u.targets[..if u.found { u.targets.len() } else { 1 }];
    let targets = upstreams
        .iter()
        .flat_map(move |u| called(u).iter().map(|t| (u.found, t)));
    let port = |address: &str| address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    let meshed = targets.filter(move |(_, t)| port(&t.address).is_some_and(|p| !excluded.contains(&p)));
    meshed.flat_map(|(found, target)| {
        let option = if found { "found" } else { "outbound" };
        let addresses = std::iter::once(&target.address).chain(&target.others);
        addresses.map(move |address| format!("--{option}={address}:{}", target.listen))
    })
}

/// The ports whose probes are let through from the node's own addresses, since they would get no answer from the proxy,
/// or none that counts.
fn node_probes(
    pod: &PodView<'_>,
    settings: &Settings,
    strict: bool,
    inbound: &[InboundContext],
    warnings: &mut Vec<String>,
) -> Vec<String> {
    let probes = ProbedPorts::of(pod);
    let misled = |port: &u16| probes.at(*port).any(|probe| is_misled(probe, strict));
    let probed = inbound.iter().map(|p| p.port).filter(misled);
    if lets_through(settings.probes, strict) {
        let mut args: Vec<String> = probed.map(|port| format!("--node-probe={port}")).collect();
        if !args.is_empty() {
            // The kubelet puts the variable's value in.
            args.push("--node-ips=$(HOST_IPS)".to_owned());
        }
        return args;
    }
    let why = if strict {
        "has a tcp, grpc or https probe, which strict mTLS refuses"
    } else {
        "has a tcp probe, to which the proxy always answers"
    };
    warnings.extend(probed.map(|port| format!("port {port} {why}; see {}", names::PROBES)));
    Vec::new()
}

/// Whether the proxy has no true answer to a probe. It takes a connection before it knows whether the application would.
/// Other probes get the application's answer through it, except that strict mTLS knows plain HTTP ones alone.
fn is_misled(probe: &Probe<'_>, strict: bool) -> bool {
    let refused = probe.grpc.is_some() || probe.http_get.as_ref().is_some_and(is_https);
    probe.tcp_socket.is_some() || strict && refused
}

/// Under strict mTLS it is a hole that the owner of the pod has to want; without, plain callers are served anyway.
fn lets_through(probes: Option<Probes>, strict: bool) -> bool {
    match probes {
        Some(Probes::Node) => true,
        Some(Probes::Off) => false,
        Some(Probes::Path) | None => !strict,
    }
}
