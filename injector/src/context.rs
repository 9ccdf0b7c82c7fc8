//! `RenderContext`: all that a template can see. Every value in it is typed, allow-listed or made here.

use serde::Serialize;

use crate::names;
use crate::settings::quantity::Quantity;
use crate::settings::values::{LogLevel, Protocol};

mod build;
mod inbound;
mod outbound;
mod redirect;
#[cfg(test)]
mod tests;

pub use build::build;
pub use outbound::finds;
pub use redirect::SERVER_FIRST_PORTS;

/// What a template is rendered with. Optional values are present as null, since strict rendering
/// refuses a name that is not there.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RenderContext {
    /// The pod.
    pub pod: PodContext,
    /// The proxy's container.
    pub proxy: ProxyContext,
    /// The redirecting init container; null with explicit traffic.
    pub redirect: Option<RedirectContext>,
    /// The application's ports that are served through the proxy.
    pub inbound: Vec<InboundContext>,
    /// The services that are called through the proxy.
    pub upstreams: Vec<UpstreamContext>,
    /// mTLS; null where the template has none.
    pub tls: Option<TlsContext>,
    /// The DNS server of the upstreams' names; null where there are none.
    pub resolver: Option<String>,
    /// The families on which the proxy listens.
    pub listen: Listen,
}

/// The pod, as far as templates need it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodContext {
    /// The namespace of the request.
    pub namespace: String,
    /// The ServiceAccount; null where its name is none.
    pub service_account: Option<String>,
}

/// The proxy's container.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyContext {
    /// The image.
    pub image: String,
    /// The uid.
    pub uid: i64,
    /// Whether it is a native sidecar.
    pub native: bool,
    /// Whether it stands at the end of `spec.containers`.
    pub last: bool,
    /// The CPU request.
    pub cpu_request: Quantity,
    /// The CPU limit.
    pub cpu_limit: Quantity,
    /// The memory request.
    pub memory_request: Quantity,
    /// The memory limit.
    pub memory_limit: Quantity,
    /// The level of the error log.
    pub log_level: LogLevel,
    /// The port of the health and status pages.
    pub health_port: u16,
    /// The same port as `/proc/net/tcp` writes it.
    pub health_port_hex: String,
    /// How long to wait in the end until nginx is told to keep no connection, as an argument.
    pub drain_delay_seconds: String,
    /// Seconds to wait before nginx begins to stop, while the application of an ordinary container drains.
    pub pre_stop_seconds: String,
    /// Seconds that nginx gives to open connections once it stops, or reads its configuration again.
    pub shutdown_seconds: i64,
}

/// The redirecting init container.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RedirectContext {
    /// The image.
    pub image: String,
    /// The arguments of `outrigger`.
    pub args: Vec<String>,
    /// Whether they need the node's addresses, as the variable `HOST_IPS`.
    pub needs_host_ips: bool,
}

/// A port of the application.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InboundContext {
    /// The application's port.
    pub port: u16,
    /// The proxy's port for it.
    pub listen: u16,
    /// The loopback port on which TLS is ended.
    pub tls_listen: u16,
    /// The loopback port of plain requests to an mTLS proxy.
    pub plain_listen: u16,
    /// What is spoken.
    pub protocol: Protocol,
    /// Whether nginx's http module serves it.
    pub http: bool,
    /// Whether it is HTTP/2 without TLS.
    pub http2: bool,
    /// What the kubelet's HTTP probes of this port ask for: path and query.
    pub probes: Vec<String>,
}

/// A service that is called.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamContext {
    /// The name of the block in nginx.conf.
    pub id: String,
    /// The proxy's port for it.
    pub listen: u16,
    /// The proxy's last port for it: there is one for each target of those that were found.
    pub last: u16,
    /// Whether these are Services that `auto` found, all that speak one protocol: the port that is called tells the target.
    pub found: bool,
    /// Whether nginx's http module serves it.
    pub http: bool,
    /// Whether gRPC is spoken.
    pub grpc: bool,
    /// Whether it is called with the mesh's certificate.
    pub tls: bool,
    /// Whether a request is made again in plain where no TLS handshake was completed.
    pub fallback: bool,
    /// The same for gRPC, whose requests cannot be kept: the connection is made again, in TLS to the proxy itself, which
    /// takes it off.
    pub unwraps: bool,
    /// Whether each request is sent to one of several targets.
    pub split: bool,
    /// The services; the first takes what the others leave.
    pub targets: Vec<TargetContext>,
    /// How long an answer may take; null: nginx's default.
    pub timeout: Option<String>,
    /// How often an idempotent request is tried; null: once.
    pub tries: Option<u8>,
}

/// One service of an upstream.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetContext {
    /// The name of its block in nginx.conf.
    pub id: String,
    /// The proxy's port for it.
    pub listen: u16,
    /// DNS name and port, or address and port.
    pub address: String,
    /// Whether it is a name, whose addresses the proxy looks up.
    pub resolve: bool,
    /// More addresses of the same service, each with the port: the application may call any of them.
    pub others: Vec<String>,
    /// An item for each retry: nginx tries a server once, so that it needs as many more lines.
    pub retries: Vec<u8>,
    /// The name that its certificate must hold.
    pub server_name: String,
    /// Its share in percent; null for the first.
    pub weight: Option<u8>,
    /// Failures after which an endpoint is left out.
    pub max_fails: u16,
    /// How long an endpoint is left out, as nginx's parameter.
    pub fail_timeout: String,
    /// How it is called.
    pub url: String,
    /// The name of its block for plain calls.
    pub plain_id: String,
    /// How it is called in plain where TLS has no answer.
    pub plain_url: String,
    /// The loopback address on which the proxy takes TLS off such calls of gRPC.
    pub unwrap_listen: String,
}

/// mTLS.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TlsContext {
    /// Whether plain callers are refused.
    pub strict: bool,
    /// The trust domain.
    pub trust_domain: String,
    /// The name in the pod's own certificate that all pods of its namespace have.
    pub own_name: String,
    /// The names that a meshed caller asks for.
    pub server_names: Vec<String>,
    /// A TLS Secret; null: a pod certificate.
    pub secret: Option<String>,
    /// The signer of pod certificates.
    pub signer: &'static str,
    /// The file with the certificate chain.
    pub certificate_file: &'static str,
    /// The file with the key.
    pub key_file: &'static str,
    /// The file with the mesh's root certificates.
    pub ca_file: &'static str,
    /// Whether only the callers of `allowFrom` are served. (A list alone would not tell: an empty
    /// one admits nobody.)
    pub restricted: bool,
    /// The callers that are served, as their certificates' subjects: each in both orders of the attributes.
    pub allow_from: Vec<String>,
}

/// The families on which the proxy listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listen {
    /// IPv4.
    pub ipv4: bool,
    /// IPv6.
    pub ipv6: bool,
}

impl RenderContext {
    /// Every TCP port on which the rendered nginx listens.
    #[must_use]
    pub fn ports(&self) -> Vec<u16> {
        let inbound = self.inbound.iter().flat_map(|port| match self.tls {
            Some(_) => vec![port.listen, port.tls_listen, port.plain_listen],
            None => vec![port.listen],
        });
        let health = std::iter::once(names::HEALTH_PORT);
        health
            .chain(inbound)
            .chain(self.upstreams.iter().flat_map(|u| u.listen..=u.last))
            .collect()
    }
}
