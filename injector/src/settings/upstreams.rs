//! The list of services that a pod calls through its proxy.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::values::{DnsLabel, DnsName, ValueError, first_duplicate, port, shown, words};
use crate::map_only::map_only;
use crate::yaml;

/// Which services are called through the proxy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Upstreams {
    /// Those that the cluster's Services tell.
    Auto,
    /// None.
    None,
    /// These.
    List(Vec<Upstream>),
}

/// One service that is called through the proxy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Upstream {
    /// The service and its port.
    pub service: ServicePort,
    /// The ServiceAccount that must answer; without it, any of the service's namespace.
    pub identity: Option<Identity>,
    /// What is spoken.
    pub protocol: UpstreamProtocol,
    /// How long an answer may take.
    pub timeout: Option<Duration>,
    /// How often an idempotent request is tried again.
    pub retries: u8,
    /// After how many failures an endpoint is left out for `fail_timeout`.
    pub max_fails: Option<u16>,
    /// How long an endpoint is left out.
    pub fail_timeout: Option<Duration>,
    /// The loopback port on which the application reaches the service; without it the next of the range.
    pub listen: Option<u16>,
    /// Other services that take a share of the requests.
    pub split: Vec<Share>,
}

/// A service that takes a share of the requests.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Share {
    /// The service and its port.
    pub service: ServicePort,
    /// Its share in percent, 1 to 99.
    pub weight: u8,
}

/// A service's port, `name[.namespace]:port`; the namespace is the pod's own when left out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServicePort {
    /// The Service's name.
    pub name: DnsLabel,
    /// Its namespace.
    pub namespace: Option<DnsLabel>,
    /// The Service's port.
    pub port: u16,
}

/// A ServiceAccount, `namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// The namespace.
    pub namespace: DnsLabel,
    /// The ServiceAccount's name.
    pub service_account: DnsName,
}

words! {
    /// What is spoken with an upstream.
    UpstreamProtocol {
        /// HTTP/1.1.
        Http = "http",
        /// gRPC.
        Grpc = "grpc",
        /// Anything else.
        Tcp = "tcp",
    }
}

/// A length of time as nginx writes it: `500ms`, `5s`, `1m`, `1h`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Duration(String);

impl Upstreams {
    /// The most entries that fit in the proxy's range of ports.
    pub const MOST: usize = crate::names::PORTS_IN_RANGE;
}

impl FromStr for Upstreams {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        match text.trim() {
            "auto" => Ok(Self::Auto),
            "none" | "" => Ok(Self::None),
            _ => list(text).map(Self::List),
        }
    }
}

fn list(text: &str) -> Result<Vec<Upstream>, ValueError> {
    let value = yaml::parse_one(text).map_err(|e| ValueError::new(format!("not YAML: {e}")))?;
    let Value::Array(entries) = value else {
        return Err(ValueError::new(
            "expected auto, none or a YAML list such as \"- orders.shop:8080\"",
        ));
    };
    if entries.len() > Upstreams::MOST {
        return Err(ValueError::new(format!(
            "{} entries; at most {} are possible",
            entries.len(),
            Upstreams::MOST
        )));
    }
    let entries = entries.into_iter().enumerate();
    let upstreams = entries.map(|(i, e)| upstream(e).map_err(|e| ValueError::new(format!("entry {i}: {e}"))));
    let upstreams: Vec<Upstream> = upstreams.collect::<Result<_, _>>()?;
    match first_duplicate(upstreams.iter().filter_map(|u| u.listen)) {
        Some(port) => Err(ValueError::new(format!("two entries listen on port {port}"))),
        None => Ok(upstreams),
    }
}

/// An entry as it is written; unknown keys are errors.
#[derive(Deserialize)]
#[serde(remote = "Self", rename_all = "camelCase", deny_unknown_fields)]
struct RawUpstream {
    service: String,
    identity: Option<String>,
    protocol: Option<String>,
    timeout: Option<String>,
    retries: Option<u8>,
    max_fails: Option<u16>,
    fail_timeout: Option<String>,
    listen: Option<u16>,
    #[serde(default)]
    split: Vec<RawShare>,
}

#[derive(Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
struct RawShare {
    service: String,
    weight: u8,
}

map_only!(RawUpstream, RawShare);

fn upstream(entry: Value) -> Result<Upstream, ValueError> {
    let raw = match entry {
        Value::String(short) => {
            return short
                .parse()
                .map(|service| Upstream::of(service, UpstreamProtocol::Http));
        }
        entry => {
            serde_path_to_error::deserialize::<_, RawUpstream>(entry).map_err(|e| ValueError::new(e.to_string()))?
        }
    };
    let RawUpstream {
        service,
        identity,
        protocol,
        timeout,
        retries,
        max_fails,
        fail_timeout,
        listen,
        split,
    } = raw;
    let upstream = Upstream {
        service: field("service", &service)?,
        identity: optional("identity", identity)?,
        protocol: optional("protocol", protocol)?.unwrap_or(UpstreamProtocol::Http),
        timeout: optional("timeout", timeout)?,
        retries: retries.unwrap_or_default(),
        max_fails,
        fail_timeout: optional("failTimeout", fail_timeout)?,
        listen,
        split: split.iter().map(share).collect::<Result<_, _>>()?,
    };
    upstream.checked()
}

fn field<T: FromStr<Err = ValueError>>(name: &str, text: &str) -> Result<T, ValueError> {
    text.parse().map_err(|e| ValueError::new(format!("{name}: {e}")))
}

fn optional<T: FromStr<Err = ValueError>>(name: &str, text: Option<String>) -> Result<Option<T>, ValueError> {
    text.map(|text| field(name, &text)).transpose()
}

fn share(raw: &RawShare) -> Result<Share, ValueError> {
    if !(1..=99).contains(&raw.weight) {
        return Err(ValueError::new(format!(
            "split.weight: {} is not a share of 1 to 99 percent",
            raw.weight
        )));
    }
    Ok(Share {
        service: field("split.service", &raw.service)?,
        weight: raw.weight,
    })
}

impl Upstream {
    /// A service of which nothing is said but what it speaks.
    pub(crate) const fn of(service: ServicePort, protocol: UpstreamProtocol) -> Self {
        Self {
            service,
            identity: None,
            protocol,
            timeout: None,
            retries: 0,
            max_fails: None,
            fail_timeout: None,
            listen: None,
            split: Vec::new(),
        }
    }

    /// What holds between the fields of an entry.
    fn checked(self) -> Result<Self, ValueError> {
        const MOST_RETRIES: u8 = 10;
        let shares: u32 = self.split.iter().map(|s| u32::from(s.weight)).sum();
        if self.retries > MOST_RETRIES {
            return Err(ValueError::new(format!("retries: at most {MOST_RETRIES}")));
        }
        if self.retries > 0 && self.protocol == UpstreamProtocol::Tcp {
            return Err(ValueError::new("retries: a tcp connection cannot be tried again"));
        }
        if self.fail_timeout.is_some() && self.max_fails.is_none() {
            return Err(ValueError::new("failTimeout: needs maxFails"));
        }
        if self.listen == Some(0) {
            return Err(ValueError::new("listen: 0 is not a port"));
        }
        if shares > 99 {
            return Err(ValueError::new(format!(
                "split: the weights add up to {shares}, which leaves nothing to service"
            )));
        }
        Ok(self)
    }
}

impl FromStr for ServicePort {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let wrong = || ValueError::new(format!("{} is not service[.namespace]:port", shown(text)));
        let (host, number) = text.trim().rsplit_once(':').ok_or_else(wrong)?;
        let (name, namespace) = match host.trim_end_matches(".svc").split_once('.') {
            Some((name, namespace)) => (name, Some(namespace.parse().map_err(|_| wrong())?)),
            None => (host, None),
        };
        Ok(Self {
            name: name.parse().map_err(|_| wrong())?,
            namespace,
            port: port(number)?,
        })
    }
}

impl FromStr for Identity {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let wrong = || ValueError::new(format!("{} is not namespace/serviceaccount", shown(text)));
        let (namespace, account) = text.trim().split_once('/').ok_or_else(wrong)?;
        let service_account = account.parse().map_err(|_| wrong())?;
        Ok(Self {
            namespace: namespace.parse().map_err(|_| wrong())?,
            service_account,
        })
    }
}

impl FromStr for Duration {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        const UNITS: [&str; 4] = ["ms", "s", "m", "h"];
        let text = text.trim();
        let digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
        let number = &text[..text.len() - digits.len()];
        let valid = UNITS.contains(&digits) && number.len() <= 7 && number.bytes().any(|b| b != b'0');
        valid
            .then(|| Self(text.to_owned()))
            .ok_or_else(|| ValueError::new(format!("{} is not a time such as 500ms, 5s or 1m", shown(text))))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &str) -> Vec<Upstream> {
        match text.parse() {
            Ok(Upstreams::List(entries)) => entries,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn reads_words_and_both_forms_of_an_entry() {
        assert_eq!("auto".parse(), Ok(Upstreams::Auto));
        assert_eq!(" none\n".parse(), Ok(Upstreams::None));
        let list = entries(
            "- orders.shop:8080\n- service: ledger.bank.svc:9000\n  identity: bank/ledger\n  protocol: grpc\n  timeout: 5s\n  \
             retries: 2\n  maxFails: 5\n  failTimeout: 10s\n  listen: 7000\n  split: [{service: ledger-v2.bank:9000, weight: 10}]\n",
        );
        assert_eq!(list[0].service.namespace.as_ref().map(DnsLabel::as_str), Some("shop"));
        assert_eq!(list[1].split[0].weight, 10);
        assert_eq!(list[1].service.namespace.as_ref().map(DnsLabel::as_str), Some("bank"));
    }

    #[test]
    fn rejects_what_does_not_parse_and_says_where() {
        for (text, part) in [
            ("orders", "expected auto, none or a YAML list"),
            ("- orders", "entry 0"),
            ("- orders:0", "not a port"),
            ("- a.b.c.d:1", "service[.namespace]:port"),
            ("- {service: a:1, colour: red}", "colour"),
            ("- {service: a:1, retries: 11}", "retries"),
            ("- {service: a:1, protocol: tcp, retries: 1}", "retries"),
            ("- {service: a:1, timeout: 5}", "timeout"),
            ("- {service: a:1, timeout: 0s}", "timeout"),
            ("- {service: a:1, failTimeout: 5s}", "maxFails"),
            ("- {service: a:1, split: [{service: b:1, weight: 0}]}", "weight"),
            (
                "- {service: a:1, split: [{service: b:1, weight: 50}, {service: c:1, weight: 50}]}",
                "split",
            ),
            (
                "- {service: a:1, listen: 1000}\n- {service: b:1, listen: 1000}",
                "listen",
            ),
            ("- \"a:80;\\n\"", "entry 0"),
            ("- {service: \"a}b:80\"}", "service"),
        ] {
            let error = text.parse::<Upstreams>().expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
