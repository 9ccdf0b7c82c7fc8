//! How values of the configuration parse: one [`Kind`] for each sort of value.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use jiff::SignedDuration;

use super::{KeptBy, KeyType, LogFormat};
use crate::settings::values::{is_dns_label, is_dns_name};

/// A sort of value: what is allowed, in words, and as code.
pub(super) struct Kind<T> {
    pub(super) expected: &'static str,
    pub(super) parse: fn(&str) -> Option<T>,
}

impl<T> Clone for Kind<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Kind<T> {}

pub(super) const ADDRESS: Kind<SocketAddr> = Kind {
    expected: "an IP address and a port, such as [::]:8443 or 127.0.0.1:8443",
    parse: |text| text.parse().ok(),
};

pub(super) const INTERVAL: Kind<Duration> = Kind {
    expected: "a duration from 100ms to 1h, such as 500ms, 10s or 2m",
    parse: |text| duration(text).filter(|value| *value >= Duration::from_millis(100)),
};

pub(super) const DELAY: Kind<Duration> = Kind {
    expected: "a duration up to 1h, such as 0s, 500ms, 10s or 2m",
    parse: duration,
};

/// Whole seconds: certificates know no smaller ones. The upper end keeps every date within four digits of a year.
pub(super) const LIFETIME: Kind<Duration> = Kind {
    expected: "a duration in whole seconds from 1m to 876000h, such as 90m, 2160h or 43800h",
    parse: |text| whole_seconds(text, Duration::from_mins(1), Duration::from_hours(876_000)),
};

/// Within the bounds that the API server sets to a pod's certificate.
pub(super) const LEAF_LIFETIME: Kind<Duration> = Kind {
    expected: "a duration in whole seconds from 1h to 2184h, such as 1h, 24h or 168h",
    parse: |text| whole_seconds(text, Duration::from_hours(1), Duration::from_hours(91 * 24)),
};

pub(super) const KEY_TYPE: Kind<KeyType> = Kind {
    expected: "ecdsa-p256, ecdsa-p384 or ed25519",
    parse: |text| text.parse().ok(),
};

pub(super) const KEPT_BY: Kind<KeptBy> = Kind {
    expected: "self-managed or secret",
    parse: |text| text.parse().ok(),
};

pub(super) const OVERLAP: Kind<Duration> = Kind {
    expected: "a duration in whole seconds from 1s to 24h, such as 30s or 5m",
    parse: |text| whole_seconds(text, Duration::from_secs(1), Duration::from_hours(24)),
};

pub(super) const SIZE: Kind<usize> = Kind {
    expected: "a number of bytes from 1Ki to 4095Mi, such as 7340032, 7168Ki or 7Mi",
    parse: size,
};

/// The upper end is the most that the HTTP server takes.
pub(super) const WORKERS: Kind<usize> = Kind {
    expected: "a number from 1 to 512",
    parse: |text| text.parse().ok().filter(|count| (1..=512).contains(count)),
};

pub(super) const NAMESPACE: Kind<String> = Kind {
    expected: "the name of a namespace: lower-case letters, digits and '-', at most 63",
    parse: |text| is_dns_label(text).then(|| text.to_owned()),
};

pub(super) const NAMESPACES: Kind<BTreeSet<String>> = Kind {
    expected: "names of namespaces separated by commas, each of lower-case letters, digits and '-', at most 63",
    parse: |text| text.split(',').map(|name| (NAMESPACE.parse)(name.trim())).collect(),
};

pub(super) const OBJECT_NAME: Kind<String> = Kind {
    expected: "the name of an object: lower-case letters, digits, '-' and '.', at most 253",
    parse: |text| is_dns_name(text).then(|| text.to_owned()),
};

pub(super) const CERTIFICATE_NAMES: Kind<BTreeSet<String>> = Kind {
    expected: "DNS names and IP addresses separated by commas, such as outrigger.mesh.svc,10.0.0.7",
    parse: |text| text.split(',').map(|name| certificate_name(name.trim())).collect(),
};

pub(super) const SWITCH: Kind<bool> = Kind {
    expected: "enabled or disabled",
    parse: |text| match text.to_ascii_lowercase().as_str() {
        "enabled" | "true" => Some(true),
        "disabled" | "false" => Some(false),
        _ => None,
    },
};

pub(super) const LOG_FORMAT: Kind<LogFormat> = Kind {
    expected: "text or json",
    parse: |text| match text {
        "text" => Some(LogFormat::Text),
        "json" => Some(LogFormat::Json),
        _ => None,
    },
};

pub(super) const FILE: Kind<PathBuf> = Kind {
    expected: "a path without NUL bytes",
    parse: |text| (!text.contains('\0')).then(|| text.into()),
};

pub(super) const TEXT: Kind<String> = Kind {
    expected: "a text",
    parse: |text| Some(text.to_owned()),
};

fn duration(text: &str) -> Option<Duration> {
    any_duration(text).filter(|value| *value <= Duration::from_hours(1))
}

fn whole_seconds(text: &str, least: Duration, most: Duration) -> Option<Duration> {
    any_duration(text).filter(|value| (least..=most).contains(value) && value.subsec_nanos() == 0)
}

fn any_duration(text: &str) -> Option<Duration> {
    let value: SignedDuration = text.parse().ok()?;
    value.try_into().ok()
}

/// An address in its short form, or a DNS name in lower case: as they stand in a certificate.
fn certificate_name(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    match text.parse::<IpAddr>() {
        Ok(address) => Some(address.to_string()),
        Err(_) => is_dns_name(&lower).then_some(lower),
    }
}

const UNITS: &[(&str, u64)] = &[("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30)];

fn size(text: &str) -> Option<usize> {
    let scaled = UNITS
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    let (digits, factor) = scaled.unwrap_or((text, 1));
    let digits = Some(digits).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    let bytes = digits.parse::<u64>().ok()?.checked_mul(factor)?;
    usize::try_from(bytes)
        .ok()
        .filter(|bytes| (1 << 10..1 << 32).contains(bytes))
}
