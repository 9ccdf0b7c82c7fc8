//! The services that are called through the proxy.

use super::build::text;
use super::{TargetContext, TlsContext, UpstreamContext};
use crate::names;
use crate::settings::Settings;
use crate::settings::upstreams::{Identity, ServicePort, Upstream, UpstreamProtocol, Upstreams};

/// The upstreams in the order of the setting.
pub(super) fn upstreams(
    namespace: &str,
    settings: &Settings,
    tls: Option<&TlsContext>,
    warnings: &mut Vec<String>,
) -> Result<Vec<UpstreamContext>, String> {
    let list = match &settings.upstreams {
        Some(Upstreams::List(list)) => list.as_slice(),
        Some(Upstreams::Auto) => {
            warnings.push(format!(
                "{}: auto finds no services in this version; list them",
                names::UPSTREAMS
            ));
            &[]
        }
        Some(Upstreams::None) | None => &[],
    };
    let domain = text(settings.cluster_domain.as_ref());
    let maker = Maker {
        namespace,
        domain: &domain,
        tls,
    };
    let contexts: Vec<UpstreamContext> = list
        .iter()
        .zip(0u16..)
        .map(|(upstream, n)| maker.upstream(upstream, n))
        .collect();
    match crate::settings::values::first_duplicate(contexts.iter().map(|c| c.listen)) {
        Some(port) => Err(format!(
            "{}: two entries listen on port {port}; give one another listen",
            names::UPSTREAMS
        )),
        None => Ok(contexts),
    }
}

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
        let first = self.target((n, 0), service, None, upstream);
        let others = split
            .iter()
            .zip(1u16..)
            .map(|(share, m)| self.target((n, m), &share.service, Some(share.weight), upstream));
        UpstreamContext {
            id: format!("u{n}"),
            listen: listen.unwrap_or(names::OUTBOUND_BASE + n),
            http,
            grpc: *protocol == UpstreamProtocol::Grpc,
            tls: self.speaks_tls(upstream),
            fallback: http && self.is_opportunistic(upstream),
            split: !split.is_empty(),
            targets: std::iter::once(first).chain(others).collect(),
            timeout: timeout.as_ref().map(ToString::to_string),
            tries: (*retries > 0).then_some(retries + 1),
        }
    }

    /// Whether plain servers are called too: under `permissive`, where no identity is declared.
    fn is_opportunistic(&self, upstream: &Upstream) -> bool {
        self.tls.is_some_and(|tls| !tls.strict) && upstream.identity.is_none()
    }

    /// A stream has no second try, so an opportunistic one stays plain.
    fn speaks_tls(&self, upstream: &Upstream) -> bool {
        self.tls.is_some() && (upstream.protocol != UpstreamProtocol::Tcp || !self.is_opportunistic(upstream))
    }

    /// The `m`-th service of the `n`-th upstream; a declared identity is that of the first.
    fn target(
        &self,
        (n, m): (u16, u16),
        service: &ServicePort,
        weight: Option<u8>,
        upstream: &Upstream,
    ) -> TargetContext {
        let ServicePort { name, namespace, port } = service;
        let namespace = namespace.as_ref().map_or(self.namespace, |ns| ns.as_str());
        let identity = upstream.identity.as_ref().filter(|_| m == 0);
        TargetContext {
            id: format!("u{n}_{m}"),
            address: format!("{name}.{namespace}.svc.{}:{port}", self.domain),
            attempts: (0..=upstream.retries).collect(),
            server_name: self.server_name(namespace, identity),
            weight,
            max_fails: upstream.max_fails.unwrap_or_default(),
            fail_timeout: upstream
                .fail_timeout
                .as_ref()
                .map_or_else(|| "fail_timeout=10s".to_owned(), |t| format!("fail_timeout={t}")),
            url: format!("{}://u{n}_{m}", scheme(upstream.protocol, self.speaks_tls(upstream))),
            plain_url: format!("{}://u{n}_{m}", scheme(upstream.protocol, false)),
        }
    }

    /// The DNS name that the answering certificate must hold: one identity, or any of the namespace.
    fn server_name(&self, namespace: &str, identity: Option<&Identity>) -> String {
        let domain = self.tls.map_or(self.domain, |tls| &tls.trust_domain);
        match identity {
            Some(Identity {
                namespace,
                service_account,
            }) => format!("{service_account}.{namespace}.sa.{domain}"),
            None => format!("{namespace}.ns.{domain}"),
        }
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
