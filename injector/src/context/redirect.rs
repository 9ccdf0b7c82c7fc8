//! The redirecting init container and its arguments.

use super::build::{redirects, text};
use super::inbound::{ProbedPorts, is_https};
use super::{InboundContext, RedirectContext, TlsContext, UpstreamContext};
use crate::names;
use crate::pod::PodView;
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
    let probes = if strict {
        node_probes(pod, settings, inbound, warnings)
    } else {
        Vec::new()
    };
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
    let targets = upstreams
        .iter()
        .filter_map(|u| Some((u.listen, &u.targets.first()?.address)));
    let port = |address: &str| address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    let meshed = targets.filter(move |(_, address)| port(address).is_some_and(|p| !excluded.contains(&p)));
    meshed.map(|(listen, address)| format!("--outbound={address}:{listen}"))
}

/// The ports whose TCP, gRPC and HTTPS probes are let through from the node's own addresses.
fn node_probes(
    pod: &PodView<'_>,
    settings: &Settings,
    inbound: &[InboundContext],
    warnings: &mut Vec<String>,
) -> Vec<String> {
    let probes = ProbedPorts::of(pod);
    let probed = inbound.iter().map(|p| p.port).filter(|port| {
        probes.at(*port).any(|probe| {
            probe.tcp_socket.is_some() || probe.grpc.is_some() || probe.http_get.as_ref().is_some_and(is_https)
        })
    });
    if settings.probes == Some(Probes::Node) {
        let mut args: Vec<String> = probed.map(|port| format!("--node-probe={port}")).collect();
        if !args.is_empty() {
            // The kubelet puts the variable's value in.
            args.push("--node-ips=$(HOST_IPS)".to_owned());
        }
        return args;
    }
    warnings.extend(probed.map(|port| {
        format!(
            "port {port} has a tcp, grpc or https probe, which strict mTLS refuses; see {}",
            names::PROBES
        )
    }));
    Vec::new()
}
