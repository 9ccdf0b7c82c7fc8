//! The types of setting values and how each is read from text. Nothing else of an annotation's
//! text gets past this file.

use std::collections::BTreeSet;
use std::str::FromStr;

use serde::Serialize;

/// Why a value was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ValueError(pub String);

impl ValueError {
    /// An error with this sentence.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// Declares a closed set of words: an enum with `ALL`, `as_str`, `FromStr` and `Display`.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal $(| $alias:literal)*),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// Every member, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word that stands for the member.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::settings::values::ValueError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text.trim().to_ascii_lowercase().as_str() {
                    $($word $(| $alias)* => Ok(Self::$variant),)+
                    _ => Err($crate::settings::values::ValueError::new("unknown value")),
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    };
}
pub(crate) use words;

mod text;
pub use text::{DnsLabel, DnsName, ImageRef, Resolver, is_dns_label, is_dns_name};

words! {
    /// On or off.
    Toggle {
        /// Inject.
        Enabled = "enabled" | "true",
        /// Leave alone.
        Disabled = "disabled" | "false",
    }
}

words! {
    /// Where the proxy stands.
    Position {
        /// Index 0 of `spec.containers`.
        First = "first",
        /// The end of `spec.containers`.
        Last = "last",
        /// A native sidecar (KEP-753): an init container with `restartPolicy: Always`.
        Native = "native",
    }
}

words! {
    /// How traffic reaches the proxy.
    Traffic {
        /// nftables rules, written by an init container.
        Redirect = "redirect",
        /// The application and the Service name the proxy's ports.
        Explicit = "explicit",
    }
}

words! {
    /// Who may call a pod whose template has mTLS.
    Mtls {
        /// Plain callers too.
        Permissive = "permissive",
        /// Callers with a certificate of the mesh only.
        Strict = "strict",
    }
}

words! {
    /// How the kubelet's probes pass a strict proxy.
    Probes {
        /// Plain requests are served on the path of the HTTP probe and nowhere else.
        Path = "path",
        /// As `path`, and TCP, gRPC and HTTPS probes are let through from the node's addresses.
        Node = "node",
        /// Plain requests are refused.
        Off = "off",
    }
}

words! {
    /// The levels of nginx's error log.
    LogLevel {
        /// Everything.
        Debug = "debug",
        /// Informational messages and worse.
        Info = "info",
        /// Notices and worse.
        Notice = "notice",
        /// Warnings and worse.
        Warn = "warn",
        /// Errors and worse.
        Error = "error",
        /// Critical errors and worse.
        Crit = "crit",
        /// Alerts and worse.
        Alert = "alert",
        /// Emergencies only.
        Emerg = "emerg",
    }
}

words! {
    /// The IP families on which the proxy listens.
    IpFamilies {
        /// IPv4 and IPv6.
        Dual = "dual",
        /// IPv4 alone.
        Ipv4 = "ipv4",
        /// IPv6 alone.
        Ipv6 = "ipv6",
    }
}

words! {
    /// What is spoken on an inbound port.
    Protocol {
        /// HTTP/1.1.
        Http = "http",
        /// HTTP/2 without TLS.
        Http2 = "http2",
        /// gRPC, which is HTTP/2.
        Grpc = "grpc",
        /// Anything else.
        Tcp = "tcp",
    }
}

impl Protocol {
    /// The protocol that a port's name tells by its prefix (`http`, `http2-api`, `grpc-web`), else `tcp`.
    #[must_use]
    pub fn of_port_name(name: &str) -> Self {
        match name.split('-').next() {
            Some("http") => Self::Http,
            Some("http2") => Self::Http2,
            Some("grpc") => Self::Grpc,
            _ => Self::Tcp,
        }
    }
}

/// A port number, 1 to 65535.
pub(super) fn port(text: &str) -> Result<u16, ValueError> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let number = digits.then(|| text.parse().ok()).flatten().filter(|n| *n != 0);
    number.ok_or_else(|| ValueError::new(format!("{} is not a port (1 to 65535)", shown(text))))
}

/// A stranger's text as messages may show it: quoted, escaped, at most 64 characters.
#[must_use]
pub fn shown(text: &str) -> String {
    const MOST: usize = 64;
    let short: String = text.chars().take(MOST).collect();
    let more = if short.len() < text.len() { "…" } else { "" };
    format!("{short:?}{more}")
}

/// The items of a list separated by commas; an empty text is an empty list.
pub(super) fn items(text: &str) -> impl Iterator<Item = &str> {
    let text = text.trim();
    text.split(',').map(str::trim).filter(move |_| !text.is_empty())
}

/// The most ports that a list may have.
const MOST_PORTS: usize = 1000;

/// A list of ports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
pub struct PortList(pub Vec<u16>);

impl FromStr for PortList {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        at_most(MOST_PORTS, text)?;
        items(text).map(port).collect::<Result<_, _>>().map(Self)
    }
}

/// Refuses a list that is too long, before its items are looked at.
fn at_most(most: usize, text: &str) -> Result<(), ValueError> {
    match items(text).nth(most) {
        Some(_) => Err(ValueError::new(format!("more than {most} entries"))),
        None => Ok(()),
    }
}

/// A declared inbound port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct InboundPort {
    /// The application's port.
    pub port: u16,
    /// What is spoken there; `None`: as the container port's name tells.
    pub protocol: Option<Protocol>,
}

/// The declared inbound ports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
pub struct InboundPorts(pub Vec<InboundPort>);

impl FromStr for InboundPorts {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        at_most(crate::names::PORTS_IN_RANGE, text)?;
        let ports: Vec<InboundPort> = items(text).map(inbound_port).collect::<Result<_, _>>()?;
        match first_duplicate(ports.iter().map(|p| p.port)) {
            Some(port) => Err(ValueError::new(format!("port {port} is listed twice"))),
            None => Ok(Self(ports)),
        }
    }
}

fn inbound_port(text: &str) -> Result<InboundPort, ValueError> {
    let (number, protocol) = match text.split_once('/') {
        Some((number, protocol)) => (number, Some(protocol.parse()?)),
        None => (text, None),
    };
    Ok(InboundPort {
        port: port(number.trim())?,
        protocol,
    })
}

/// The first value that occurs a second time.
pub(crate) fn first_duplicate<T: Ord + Copy>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut seen = BTreeSet::new();
    values.into_iter().find(|value| !seen.insert(*value))
}

/// An identity that may call: a ServiceAccount of a namespace, or all of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IdentityPattern {
    /// The namespace.
    pub namespace: DnsLabel,
    /// The ServiceAccount; `None` for `*`.
    pub service_account: Option<DnsName>,
}

impl FromStr for IdentityPattern {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let wrong = || {
            ValueError::new(format!(
                "{} is not namespace/serviceaccount or namespace/*",
                shown(text)
            ))
        };
        let (namespace, account) = text.trim().split_once('/').ok_or_else(wrong)?;
        let service_account = match account {
            "*" => None,
            name => Some(name.parse().map_err(|_| wrong())?),
        };
        Ok(Self {
            namespace: namespace.parse().map_err(|_| wrong())?,
            service_account,
        })
    }
}

/// The identities that may call; an empty list admits nobody.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
pub struct IdentityPatterns(pub Vec<IdentityPattern>);

/// The most identities that a list may have.
const MOST_IDENTITIES: usize = 1000;

impl FromStr for IdentityPatterns {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        at_most(MOST_IDENTITIES, text)?;
        // Each once: nginx refuses a map with the same key twice.
        let patterns: BTreeSet<IdentityPattern> = items(text).map(str::parse).collect::<Result<_, _>>()?;
        Ok(Self(patterns.into_iter().collect()))
    }
}

/// Namespaces by name, or all.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum NamespaceList {
    /// `*`
    All,
    /// These.
    Names(Vec<DnsLabel>),
}

impl FromStr for NamespaceList {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        match text.trim() {
            "*" => Ok(Self::All),
            names => items(names).map(str::parse).collect::<Result<_, _>>().map(Self::Names),
        }
    }
}

/// How many upstreams `auto` finds at the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct FoundLimit(pub u16);

impl FromStr for FoundLimit {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let number = text.trim().parse().ok().filter(|n| *n <= crate::names::MOST_FOUND);
        number
            .map(Self)
            .ok_or_else(|| ValueError::new(format!("{} is no such number", shown(text))))
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    fn round_trip<T: FromStr<Err = ValueError> + fmt::Display + PartialEq + fmt::Debug + Copy>(all: &[T]) {
        for member in all {
            assert_eq!(member.to_string().parse(), Ok(*member));
            assert_eq!(format!(" {} ", member.to_string().to_uppercase()).parse(), Ok(*member));
        }
    }

    #[test]
    fn words_round_trip() {
        round_trip(Toggle::ALL);
        round_trip(Position::ALL);
        round_trip(Traffic::ALL);
        round_trip(Mtls::ALL);
        round_trip(Probes::ALL);
        round_trip(LogLevel::ALL);
        round_trip(IpFamilies::ALL);
        round_trip(Protocol::ALL);
    }

    #[test]
    fn reads_lists_of_ports() {
        assert_eq!("".parse(), Ok(PortList(vec![])));
        assert_eq!(" 80, 443 ".parse(), Ok(PortList(vec![80, 443])));
        for bad in ["0", "65536", "80,", "-1", "+80", "８０", "80;", "http"] {
            assert!(bad.parse::<PortList>().is_err(), "{bad}");
        }
    }

    #[test]
    fn rejects_names_with_text_of_another_language() {
        for bad in [
            "", "a b", "a;b", "a\nb", "{a}", "$a", "A", "-a", "a-", "a..b", "a\"", "ä",
        ] {
            assert!(bad.parse::<DnsName>().is_err(), "{bad:?}");
        }
        assert!(DnsLabel::from_str(&"a".repeat(64)).is_err());
        assert!("x/y:1\n;".parse::<ImageRef>().is_err());
    }

    #[test]
    fn tells_the_protocol_by_the_name_of_the_port() {
        for (name, protocol) in [
            ("http", Protocol::Http),
            ("http-api", Protocol::Http),
            ("http2", Protocol::Http2),
            ("grpc-web", Protocol::Grpc),
            ("httpx", Protocol::Tcp),
            ("https", Protocol::Tcp),
            ("", Protocol::Tcp),
        ] {
            assert_eq!(Protocol::of_port_name(name), protocol, "{name}");
        }
    }

    #[test]
    fn shows_a_strangers_text_short_and_escaped() {
        assert_eq!(shown("a\nb"), r#""a\nb""#);
        assert!(shown(&"x".repeat(200_000)).len() < 100);
    }
}
