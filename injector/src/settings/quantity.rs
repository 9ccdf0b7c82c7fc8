//! Kubernetes resource quantities, as far as CPU and memory of a container need them.
//!
//! Source: the API reference of `resource.Quantity`: a decimal number with a binary suffix
//! (`Ki` to `Ei`), a decimal one (`n u m k M G T P E`) or an exponent (`e3`).

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::values::{ValueError, shown};

/// A quantity: its text and its size, by which a request is compared with a limit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Quantity {
    text: String,
    /// In units of a billionth.
    nanos: u128,
}

/// Suffixes and their factor as (base, power), the longest first.
const SUFFIXES: [(&str, u32, i32); 15] = [
    ("Ki", 2, 10),
    ("Mi", 2, 20),
    ("Gi", 2, 30),
    ("Ti", 2, 40),
    ("Pi", 2, 50),
    ("Ei", 2, 60),
    ("n", 10, -9),
    ("u", 10, -6),
    ("m", 10, -3),
    ("k", 10, 3),
    ("M", 10, 6),
    ("G", 10, 9),
    ("T", 10, 12),
    ("P", 10, 15),
    ("E", 10, 18),
];

impl Quantity {
    /// The greater of two.
    #[must_use]
    pub fn at_least(self, other: &Self) -> Self {
        if self.nanos < other.nanos { other.clone() } else { self }
    }

    /// Whether this is more than `other`.
    #[must_use]
    pub const fn exceeds(&self, other: &Self) -> bool {
        self.nanos > other.nanos
    }
}

impl FromStr for Quantity {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let text = text.trim();
        let wrong = || {
            ValueError::new(format!(
                "{} is not a quantity such as 100m, 1 or 64Mi, above zero",
                shown(text)
            ))
        };
        let nanos = nanos(text).filter(|n| *n > 0).ok_or_else(wrong)?;
        Ok(Self {
            text: text.to_owned(),
            nanos,
        })
    }
}

fn nanos(text: &str) -> Option<u128> {
    let (number, base, power) = split(text)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    let plain = !digits.is_empty() && digits.len() <= 18 && digits.bytes().all(|b| b.is_ascii_digit());
    let value: u128 = plain.then(|| digits.parse().ok()).flatten()?;
    let places = i32::try_from(fraction.len()).ok()?;
    match base {
        10 => scale(value, power - places + 9),
        _ => scale(value.checked_mul(2u128.checked_pow(power.unsigned_abs())?)?, 9 - places),
    }
}

/// The number, and its factor as base and power.
fn split(text: &str) -> Option<(&str, u32, i32)> {
    for (suffix, base, power) in SUFFIXES {
        if let Some(number) = text.strip_suffix(suffix) {
            return Some((number, base, power));
        }
    }
    match text.split_once(['e', 'E']) {
        Some((number, exponent)) => Some((number, 10, exponent.parse().ok().filter(|e| (-18..=18).contains(e))?)),
        None => Some((text, 10, 0)),
    }
}

fn scale(value: u128, power: i32) -> Option<u128> {
    let factor = 10u128.checked_pow(power.unsigned_abs())?;
    if power >= 0 {
        value.checked_mul(factor)
    } else {
        Some(value.div_ceil(factor))
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Quantity {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Quantity {
        text.parse().unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn compares_across_notations() {
        for (small, large) in [
            ("999m", "1"),
            ("64M", "64Mi"),
            ("1Ki", "1025"),
            ("0.5", "501m"),
            ("1e2", "1E3"),
            ("20m", "1k"),
        ] {
            assert!(read(large).exceeds(&read(small)), "{small} < {large}");
            assert!(!read(small).exceeds(&read(large)), "{small} < {large}");
        }
        assert!(!read("1000m").exceeds(&read("1")) && !read("1").exceeds(&read("1000m")));
        assert_eq!(read("2").at_least(&read("5")).to_string(), "5");
        assert_eq!(read("5").at_least(&read("1")).to_string(), "5");
    }

    #[test]
    fn rejects_what_the_api_server_would_refuse_or_zero() {
        for bad in [
            "",
            "20 m",
            "lots",
            "-1",
            "1.2.3",
            "0",
            "m",
            "1mm",
            "1e99",
            "١",
            "1Zi",
            "\"1\"",
            "9999999999999999999",
        ] {
            assert!(bad.parse::<Quantity>().is_err(), "{bad}");
        }
    }
}
