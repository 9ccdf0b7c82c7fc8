//! Settings and pod → context.

use super::{InboundContext, Listen, PodContext, ProxyContext, RenderContext, TlsContext, inbound, outbound, redirect};
use crate::identity::name::{self, Identity};
use crate::names;
use crate::pod::PodView;
use crate::service::Found;
use crate::settings::Settings;
use crate::settings::upstreams::Upstreams;
use crate::settings::values::{DnsName, IdentityPattern, IpFamilies, Mtls, Position, Traffic, first_duplicate};

/// The files of the identity volume: certificate, key and roots. A pod certificate's bundle holds
/// key and chain in one file, as the kubelet writes it (KEP-4317).
const POD_CERTIFICATE_FILES: [&str; 3] = [
    "/var/run/outrigger/identity/bundle.pem",
    "/var/run/outrigger/identity/bundle.pem",
    "/var/run/outrigger/identity/ca.pem",
];
const SECRET_FILES: [&str; 3] = [
    "/var/run/outrigger/identity/tls.crt",
    "/var/run/outrigger/identity/tls.key",
    "/var/run/outrigger/identity/ca.crt",
];

/// What to render for a pod in `namespace`, whose upstreams are `found` where they are not listed, and what its owner
/// should know.
///
/// # Errors
/// A sentence for each thing that the settings and the pod cannot have together.
pub fn build(
    namespace: &str,
    pod: &PodView<'_>,
    settings: &Settings,
    found: &Found,
    mtls: bool,
) -> Result<(RenderContext, Vec<String>), Vec<String>> {
    if !mtls && let Some(reason) = needs_mtls(settings) {
        return Err(vec![reason]);
    }
    let tls = mtls.then(|| tls(namespace, settings));
    let mut warnings = without_effect(settings, tls.as_ref());
    let inbound = inbound::ports(pod, settings, tls.as_ref(), &mut warnings);
    let upstreams = outbound::upstreams(namespace, settings, found, tls.as_ref());
    warnings.extend(found.warning());
    let (inbound, upstreams) = match (inbound, upstreams) {
        (Ok(inbound), Ok(upstreams)) => (inbound, upstreams),
        (inbound, upstreams) => return Err([inbound.err(), upstreams.err()].into_iter().flatten().collect()),
    };
    let context = RenderContext {
        pod: pod_context(namespace, pod),
        proxy: proxy(pod, settings, &inbound),
        redirect: redirect::context(pod, settings, &inbound, &upstreams, tls.as_ref(), &mut warnings),
        resolver: upstreams
            .iter()
            .flat_map(|upstream| &upstream.targets)
            .any(|target| target.resolve)
            .then(|| resolver(settings)),
        inbound,
        upstreams,
        tls,
        listen: listen(settings),
    };
    match own_port_taken(&context, settings) {
        Some(reason) => Err(vec![reason]),
        None => Ok((context, warnings)),
    }
}

/// What was set to keep callers out is never passed over.
fn needs_mtls(settings: &Settings) -> Option<String> {
    let key = match (settings.mtls, &settings.allow_from) {
        (Some(Mtls::Strict), _) => names::MTLS,
        (_, Some(_)) => names::ALLOW_FROM,
        (_, None) => return None,
    };
    Some(format!(
        "{key} needs a template with mTLS; set {} to mtls",
        names::TEMPLATE
    ))
}

/// Settings that change nothing for this pod.
fn without_effect(settings: &Settings, tls: Option<&TlsContext>) -> Vec<String> {
    let rows = [
        (
            settings.identity_secret.is_some() && tls.is_none(),
            names::IDENTITY_SECRET,
            "the template has no mTLS",
        ),
        (
            settings.upstreams == Some(Upstreams::Auto) && !redirects(settings),
            names::UPSTREAMS,
            "auto needs redirected traffic; list the services, so that the application knows their ports",
        ),
        (
            settings.upstream_namespaces.is_some() && !outbound::finds(settings, tls.is_some()),
            names::UPSTREAM_NAMESPACES,
            "the pod's upstreams are not auto",
        ),
        (
            tls.is_some_and(|tls| tls.restricted && !tls.strict),
            names::ALLOW_FROM,
            "plain callers are served under permissive",
        ),
    ];
    let idle = rows.into_iter().filter(|(idle, ..)| *idle);
    idle.map(|(_, key, why)| format!("{key}: {why}")).collect()
}

/// The DNS server: as set, or kube-dns of the cluster's domain. Its dot at the end keeps the search list of the pod's
/// resolv.conf out of it, with which nginx would look for the name first.
fn resolver(settings: &Settings) -> String {
    let domain = text(settings.cluster_domain.as_ref());
    let default = || format!("kube-dns.kube-system.svc.{domain}.");
    settings.resolver.as_ref().map_or_else(default, ToString::to_string)
}

/// A port that an annotation gives to an upstream or the application, and on which the proxy listens for
/// something else. (Ports that containers declare are looked at with the other conflicts.)
fn own_port_taken(context: &RenderContext, settings: &Settings) -> Option<String> {
    let listens = context.ports();
    let annotated = settings.inbound_ports.iter().flat_map(|list| &list.0);
    if let Some(port) = annotated.map(|p| p.port).find(|port| listens.contains(port)) {
        return Some(format!(
            "{}: the proxy itself listens on port {port}; the application needs another",
            names::INBOUND_PORTS
        ));
    }
    let twice = first_duplicate(listens.into_iter())?;
    Some(format!(
        "{}: an entry listens on port {twice}, which the proxy needs itself; choose another listen",
        names::UPSTREAMS
    ))
}

/// The text of a setting that has a built-in default.
pub(super) fn text<T: ToString>(value: Option<&T>) -> String {
    value.map(T::to_string).unwrap_or_default()
}

fn pod_context(namespace: &str, pod: &PodView<'_>) -> PodContext {
    let service_account = pod
        .service_account()
        .parse::<DnsName>()
        .ok()
        .map(|name| name.to_string());
    PodContext {
        namespace: namespace.to_owned(),
        service_account,
    }
}

/// Where the proxy stands: jobs must end, so theirs is native unless they say otherwise.
fn position(pod: &PodView<'_>, settings: &Settings) -> Position {
    let default = if pod.runs_to_completion() {
        Position::Native
    } else {
        Position::First
    };
    settings.position.unwrap_or(default)
}

fn proxy(pod: &PodView<'_>, settings: &Settings, inbound: &[InboundContext]) -> ProxyContext {
    let position = position(pod, settings);
    let native = position == Position::Native;
    let Stopping {
        drain_delay_seconds,
        pre_stop_seconds,
        shutdown_seconds,
    } = stopping(pod, native, inbound.iter().any(|port| port.http2));
    let quantity = |q: &Option<_>| q.clone().expect("the table has a default for every quantity");
    ProxyContext {
        image: text(settings.proxy_image.as_ref()),
        uid: names::PROXY_UID,
        native,
        last: position == Position::Last,
        cpu_request: quantity(&settings.proxy_cpu_request),
        cpu_limit: quantity(&settings.proxy_cpu_limit),
        memory_request: quantity(&settings.proxy_memory_request),
        memory_limit: quantity(&settings.proxy_memory_limit),
        log_level: settings
            .proxy_log_level
            .expect("the table has a default for the log level"),
        health_port: names::HEALTH_PORT,
        health_port_hex: format!("{:04X}", names::HEALTH_PORT),
        drain_delay_seconds: drain_delay_seconds.to_string(),
        pre_stop_seconds: pre_stop_seconds.to_string(),
        shutdown_seconds,
    }
}

/// How the grace period is used.
struct Stopping {
    /// How long until nginx is told to keep no connection.
    drain_delay_seconds: i64,
    /// How long it then goes on before it stops.
    pre_stop_seconds: i64,
    /// What it gives to the connections that it has when it stops, or reads its configuration again.
    shutdown_seconds: i64,
}

/// An ordinary container waits for the application, which the kubelet stops at the same time; a native sidecar is stopped
/// after it anyway, and needs the moment in which nginx reads its configuration. All begins with the grace period, and ends
/// with it at the latest.
///
/// nginx ends idle connections of HTTP/2 as soon as it is told, and a calling nginx may send its next call just then, which
/// it cannot send again. So it is told once Services lead elsewhere and callers of the mesh have made new connections,
/// which they do every second.
fn stopping(pod: &PodView<'_>, native: bool, http2: bool) -> Stopping {
    const DEFAULT_GRACE: i64 = 30;
    const MOST_WAIT: i64 = 15;
    const A_MOMENT: i64 = 1;
    const UNTIL_CALLERS_ARE_GONE: i64 = 4;
    let grace = pod
        .spec
        .as_ref()
        .and_then(|s| s.termination_grace_period_seconds)
        .unwrap_or(DEFAULT_GRACE);
    let grace = grace.clamp(1, 86_400);
    let delay = if http2 { UNTIL_CALLERS_ARE_GONE } else { 0 };
    let wait = if native { A_MOMENT + delay } else { MOST_WAIT };
    let wait = wait.min(grace / 2);
    let delay = delay.min((wait - A_MOMENT).max(0));
    Stopping {
        drain_delay_seconds: delay,
        pre_stop_seconds: wait - delay,
        shutdown_seconds: (grace - 1 - delay).max(1),
    }
}

fn tls(namespace: &str, settings: &Settings) -> TlsContext {
    let trust_domain = text(settings.trust_domain.as_ref());
    let secret = settings.identity_secret.as_ref().map(ToString::to_string);
    let [certificate_file, key_file, ca_file] = if secret.is_some() {
        SECRET_FILES
    } else {
        POD_CERTIFICATE_FILES
    };
    let allowed = settings.allow_from.iter().flat_map(|list| &list.0);
    TlsContext {
        strict: settings.mtls == Some(Mtls::Strict),
        server_names: name::server_names(&trust_domain).into(),
        own_name: name::namespace_name(&trust_domain, namespace),
        restricted: settings.allow_from.is_some(),
        allow_from: allowed.flat_map(|identity| subjects(identity, &trust_domain)).collect(),
        trust_domain,
        secret,
        signer: names::SIGNER,
        certificate_file,
        key_file,
        ca_file,
    }
}

/// A caller as nginx's map matches it: the subject of the leaf in the order of RFC 2253, which is the reverse of the
/// certificate's. The mesh's own certificates begin with CN; Go's library, and so cert-manager, writes it last.
fn subjects(identity: &IdentityPattern, trust_domain: &str) -> [String; 2] {
    let namespace = identity.namespace.as_str();
    let orders = |trust_domain: &str, service_account: &str| {
        let identity = Identity {
            trust_domain,
            namespace,
            service_account,
        };
        let mut parts = identity
            .subject()
            .map(|(attribute, value)| format!("{}={value}", attribute.short()));
        let forward = parts.join(",");
        parts.reverse();
        [parts.join(","), forward]
    };
    match &identity.service_account {
        Some(account) => orders(trust_domain, account.as_str()),
        None => orders(&trust_domain.replace('.', r"\."), "[a-z0-9.-]+").map(|subject| format!(r"~^{subject}\z")),
    }
}

fn listen(settings: &Settings) -> Listen {
    let families = settings.ip_families.unwrap_or(IpFamilies::Dual);
    Listen {
        ipv4: families != IpFamilies::Ipv6,
        ipv6: families != IpFamilies::Ipv4,
    }
}

/// Whether traffic is redirected.
pub(super) fn redirects(settings: &Settings) -> bool {
    settings.traffic != Some(Traffic::Explicit)
}
