//! The plain twin of a stranger's text: what asks for the same number of the same things, with plain values in all of them.
//! Whatever the text was, its pod has to get a configuration of the same shape as its twin's.

use std::collections::BTreeMap;

use outrigger::names;
use outrigger::settings::upstreams::{Upstream, Upstreams};
use outrigger::settings::values::{IdentityPatterns, InboundPorts, PortList};
use serde_json::{Map, Value, json};

use crate::hostile::{OWN_PORTS, Spot, UPSTREAM_PORTS, harmless};

/// The twin of a text that was taken.
pub(crate) fn of(spot: Spot, text: &str) -> String {
    match spot {
        Spot::ProbePath => probe_path(text).to_owned(),
        Spot::ProbePort => (if text == "http" || text == "grpc" { text } else { "x" }).to_owned(),
        Spot::ProbeScheme => (if text.eq_ignore_ascii_case("https") {
            "HTTPS"
        } else {
            "HTTP"
        })
        .to_owned(),
        Spot::Names => format!("{}-a", protocol(text)),
        Spot::Annotation(key) | Spot::NamespaceAnnotation(key) => annotation(key, text),
        Spot::ServiceAccount | Spot::Namespace => harmless(spot).to_owned(),
    }
}

fn annotation(key: &'static str, text: &str) -> String {
    match key {
        names::UPSTREAMS => upstreams(&read(text)),
        names::INBOUND_PORTS => inbound_ports(&read(text)),
        names::EXCLUDE_INBOUND_PORTS => ports(&read(text), &OWN_PORTS),
        names::EXCLUDE_OUTBOUND_PORTS => ports(&read(text), &UPSTREAM_PORTS),
        names::ALLOW_FROM => identities(&read(text)),
        _ => match words(key) {
            // A closed set has no values but its own.
            Some(words) => words.iter().find(|word| text.trim().eq_ignore_ascii_case(word)),
            None => None,
        }
        .map_or_else(|| harmless(Spot::Annotation(key)).to_owned(), |word| (*word).to_owned()),
    }
}

/// The words of the settings that decide which directives there are.
fn words(key: &str) -> Option<&'static [&'static str]> {
    Some(match key {
        names::TEMPLATE => &["proxy-sidecar", "mtls"],
        names::MTLS => &["permissive", "strict"],
        names::PROBES => &["path", "node", "off"],
        names::TRAFFIC => &["redirect", "explicit"],
        names::POSITION => &["first", "last", "native"],
        _ => return None,
    })
}

/// A text that the core has taken is one of the setting's.
fn read<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse()
        .unwrap_or_else(|e| panic!("{text:?} was taken, but: {e:?}"))
}

/// Which requests the kubelet makes has a say; how it says it has not. By docs/templates.md and RFC 3986.
fn probe_path(text: &str) -> &'static str {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/-._~+@,:=?&%".contains(c);
    let served = text.is_empty() || text.starts_with('/') && text.len() <= 512 && text.chars().all(plain);
    if served { "/alive" } else { "/not served" }
}

fn protocol(port_name: &str) -> &str {
    match port_name.split('-').next() {
        Some(known @ ("http" | "http2" | "grpc")) => known,
        _ => "tcp",
    }
}

/// Ports that mean something in the pod stay, others become plain ones.
fn ports(PortList(list): &PortList, known: &[u16]) -> String {
    let plain = |port: &u16| if known.contains(port) { *port } else { 1 };
    join(list.iter().map(|port| plain(port).to_string()))
}

fn inbound_ports(InboundPorts(list): &InboundPorts) -> String {
    join(list.iter().zip(20_000u16..).map(|(entry, plain)| {
        let port = if OWN_PORTS.contains(&entry.port) {
            entry.port
        } else {
            plain
        };
        entry
            .protocol
            .map_or_else(|| port.to_string(), |protocol| format!("{port}/{protocol}"))
    }))
}

fn identities(IdentityPatterns(list): &IdentityPatterns) -> String {
    join(
        list.iter()
            .enumerate()
            .map(|(n, pattern)| match pattern.service_account {
                Some(_) => format!("n{n}/s"),
                None => format!("n{n}/*"),
            }),
    )
}

fn join(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(",")
}

fn upstreams(upstreams: &Upstreams) -> String {
    match upstreams {
        Upstreams::Auto => "auto".to_owned(),
        Upstreams::None => "none".to_owned(),
        Upstreams::List(list) => {
            Value::Array(list.iter().enumerate().map(|(n, u)| upstream(n, u)).collect()).to_string()
        }
    }
}

/// The entry with the same keys; the number of tries is one of lines.
fn upstream(n: usize, upstream: &Upstream) -> Value {
    let Upstream {
        service,
        identity,
        protocol,
        timeout,
        retries,
        max_fails,
        fail_timeout,
        listen,
        split,
    } = upstream;
    // A namespace of its own or the pod's: a name all the same.
    let name = |m: usize| {
        if service.namespace.is_some() {
            format!("p{n}-{m}.q:1")
        } else {
            format!("p{n}-{m}:1")
        }
    };
    let shares = split
        .iter()
        .enumerate()
        .map(|(m, share)| json!({"service": name(m + 1), "weight": share.weight}));
    let given = |is_given: bool, value: Value| is_given.then_some(value);
    let entry: BTreeMap<&str, Option<Value>> = BTreeMap::from([
        ("service", Some(json!(name(0)))),
        ("identity", given(identity.is_some(), json!("q/p"))),
        ("protocol", Some(json!(protocol.as_str()))),
        ("timeout", given(timeout.is_some(), json!("1s"))),
        ("retries", Some(json!(retries))),
        ("maxFails", given(max_fails.is_some(), json!(1))),
        ("failTimeout", given(fail_timeout.is_some(), json!("1s"))),
        ("listen", given(listen.is_some(), json!(30_000 + n))),
        ("split", given(!split.is_empty(), shares.collect())),
    ]);
    let entry: Map<String, Value> = entry
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect();
    Value::Object(entry)
}
