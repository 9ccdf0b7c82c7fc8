//! The services that are called through the proxy.

use std::net::SocketAddr;

use super::build::{redirects, text};
use super::{TargetContext, TlsContext, UpstreamContext};
use crate::identity::name;
use crate::names;
use crate::service::{Found, FoundPort};
use crate::settings::Settings;
use crate::settings::upstreams::{Identity, ServicePort, Upstream, UpstreamProtocol, Upstreams};
use crate::settings::values::first_duplicate;

/// Whether a pod's upstreams are to be found: where it says so, and with mTLS where it says nothing. With explicit
/// traffic the application would have to know the ports, which come and go with the Services.
pub fn finds(settings: &Settings, mtls: bool) -> bool {
    let auto = match settings.upstreams {
        Some(Upstreams::Auto) => true,
        Some(Upstreams::None | Upstreams::List(_)) => false,
        None => mtls,
    };
    auto && redirects(settings)
}

/// The upstreams in the order of the setting, or those that were found.
pub(super) fn upstreams(
    namespace: &str,
    settings: &Settings,
    found: &Found,
    tls: Option<&TlsContext>,
) -> Result<Vec<UpstreamContext>, String> {
    let list = match &settings.upstreams {
        Some(Upstreams::List(list)) => list.as_slice(),
        Some(Upstreams::Auto | Upstreams::None) | None => &[],
    };
    let domain = text(settings.cluster_domain.as_ref());
    let maker = Maker {
        namespace,
        domain: &domain,
        tls,
    };
    let listed = list.iter().zip(0u16..).map(|(upstream, n)| maker.upstream(upstream, n));
    let contexts: Vec<UpstreamContext> = listed.chain(maker.found(found)).collect();
    if let Some(port) = first_duplicate(contexts.iter().map(|c| c.listen)) {
        return Err(format!(
            "{}: two entries listen on port {port}; give one another listen",
            names::UPSTREAMS
        ));
    }
    let addresses = contexts
        .iter()
        .filter_map(|c| c.targets.first())
        .map(|target| target.address.as_str());
    match first_duplicate(addresses).filter(|_| redirects(settings)) {
        Some(address) => Err(format!(
            "{}: {address} is listed twice; its calls can be redirected to one",
            names::UPSTREAMS
        )),
        None => Ok(contexts),
    }
}

/// Where TLS is taken off calls in plain: the port of the upstream on loopback addresses from 127.0.0.2 on, one for each
/// of its targets. All of 127.0.0.0/8 is local (RFC 6890, section 2.2.2), and 127.0.0.1 is where the application calls.
const UNWRAP_HOST: u16 = 2;

struct Maker<'m> {
    namespace: &'m str,
    domain: &'m str,
    tls: Option<&'m TlsContext>,
}

impl Maker<'_> {
    fn upstream(&self, upstream: &Upstream, n: u16) -> UpstreamContext {
        let Upstream {
            service,
            identity: _,
            protocol,
            timeout,
            retries,
            max_fails: _,
            fail_timeout: _,
            listen,
            split,
        } = upstream;
        let http = *protocol != UpstreamProtocol::Tcp;
        let unwraps = *protocol == UpstreamProtocol::Grpc && self.is_opportunistic(upstream);
        let listen = listen.unwrap_or(names::OUTBOUND_BASE + n);
        let first = self.target((listen, n, 0), service, None, upstream);
        let others = split
            .iter()
            .zip(1u16..)
            .map(|(share, m)| self.target((listen, n, m), &share.service, Some(share.weight), upstream));
        UpstreamContext {
            id: format!("u{n}"),
            listen,
            last: listen,
            found: false,
            http,
            grpc: *protocol == UpstreamProtocol::Grpc,
            tls: self.speaks_tls(upstream),
            fallback: *protocol == UpstreamProtocol::Http && self.is_opportunistic(upstream),
            unwraps,
            split: !split.is_empty(),
            targets: std::iter::once(first).chain(others).collect(),
            timeout: timeout.as_ref().map(ToString::to_string),
            // The plain connection of gRPC is one more.
            tries: (*retries > 0).then_some(retries + 1 + u8::from(unwraps)),
        }
    }

    /// Those that were found, all of one protocol together: each has a port of the proxy, one after the other.
    fn found(&self, found: &Found) -> Vec<UpstreamContext> {
        const PROTOCOLS: [UpstreamProtocol; 2] = [UpstreamProtocol::Http, UpstreamProtocol::Grpc];
        let mut listen = names::FOUND_BASE;
        let mut groups = Vec::new();
        for protocol in PROTOCOLS {
            let ports: Vec<&FoundPort> = found.ports.iter().filter(|p| p.port.protocol == protocol).collect();
            let (Some(first), Ok(count)) = (ports.first(), u16::try_from(ports.len())) else {
                continue;
            };
            let like = Upstream::of(first.service_port(), protocol);
            let targets = ports
                .iter()
                .zip(listen..)
                .map(|(port, n)| found_target(port, self.target((n, n, 0), &port.service_port(), None, &like)));
            groups.push(UpstreamContext {
                listen,
                last: listen + count - 1,
                found: true,
                split: true,
                targets: targets.collect(),
                ..self.upstream(&like, listen)
            });
            listen += count;
        }
        groups
    }

    /// Whether plain servers are called too: under `permissive`, where no identity is declared.
    fn is_opportunistic(&self, upstream: &Upstream) -> bool {
        self.tls.is_some_and(|tls| !tls.strict) && upstream.identity.is_none()
    }

    /// An opportunistic call is tried a second time, which makes sense only where servers are known to break off a
    /// handshake that they do not understand: a stream stays plain.
    fn speaks_tls(&self, upstream: &Upstream) -> bool {
        self.tls.is_some() && (upstream.protocol != UpstreamProtocol::Tcp || !self.is_opportunistic(upstream))
    }

    /// The `m`-th service of the `n`-th upstream; a declared identity is that of the first.
    fn target(
        &self,
        (listen, n, m): (u16, u16, u16),
        service: &ServicePort,
        weight: Option<u8>,
        upstream: &Upstream,
    ) -> TargetContext {
        let ServicePort { name, namespace, port } = service;
        let namespace = namespace.as_ref().map_or(self.namespace, |ns| ns.as_str());
        let identity = upstream.identity.as_ref().filter(|_| m == 0);
        TargetContext {
            listen,
            id: format!("u{n}_{m}"),
            address: format!("{name}.{namespace}.svc.{}:{port}", self.domain),
            resolve: true,
            others: Vec::new(),
            retries: (0..upstream.retries).collect(),
            server_name: self.server_name(namespace, identity),
            weight,
            max_fails: upstream.max_fails.unwrap_or_default(),
            fail_timeout: upstream
                .fail_timeout
                .as_ref()
                .map_or_else(|| "fail_timeout=10s".to_owned(), |t| format!("fail_timeout={t}")),
            url: format!("{}://u{n}_{m}", scheme(upstream.protocol, self.speaks_tls(upstream))),
            plain_id: format!("u{n}_{m}_plain"),
            plain_url: format!("http://u{n}_{m}_plain"),
            unwrap_listen: format!("127.0.0.{}:{listen}", m + UNWRAP_HOST),
        }
    }

    /// The DNS name that the answering certificate must hold: one identity, or any of the namespace.
    fn server_name(&self, namespace: &str, identity: Option<&Identity>) -> String {
        let trust_domain = self.tls.map_or(self.domain, |tls| &tls.trust_domain);
        match identity {
            Some(identity) => name::Identity {
                trust_domain,
                namespace: identity.namespace.as_str(),
                service_account: identity.service_account.as_str(),
            }
            .account_name(),
            None => name::namespace_name(trust_domain, namespace),
        }
    }
}

/// A Service of a cluster is called by the address to which its calls were made: nothing has to be looked up, and an
/// address that another Service has in the meantime is never called by the old one's name.
fn found_target(port: &FoundPort, target: TargetContext) -> TargetContext {
    let addresses = port.addresses.iter();
    let mut addresses = addresses.map(|address| SocketAddr::new(*address, port.port.number).to_string());
    match addresses.next() {
        Some(address) => TargetContext {
            address,
            resolve: false,
            others: addresses.collect(),
            ..target
        },
        None => target,
    }
}

/// nginx's scheme for a protocol; a stream has none that is used.
const fn scheme(protocol: UpstreamProtocol, tls: bool) -> &'static str {
    match (protocol, tls) {
        (UpstreamProtocol::Grpc, true) => "grpcs",
        (UpstreamProtocol::Grpc, false) => "grpc",
        (_, true) => "https",
        (_, false) => "http",
    }
}
