//! Names, images and addresses: text by its alphabet.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use serde::Serialize;

use super::ValueError;

/// A DNS-1123 label (RFC 1123): lower-case letters, digits and `-`, at most 63 characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct DnsLabel(String);

/// A DNS-1123 subdomain: labels joined by dots, at most 253 characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct DnsName(String);

/// An image reference, by its alphabet: letters, digits and `. _ - / : @ +`, at most 512 characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct ImageRef(String);

macro_rules! text_type {
    ($name:ident, $check:expr, $expected:literal) => {
        impl FromStr for $name {
            type Err = ValueError;
            fn from_str(text: &str) -> Result<Self, ValueError> {
                let text = text.trim();
                let check: fn(&str) -> bool = $check;
                check(text)
                    .then(|| Self(text.to_owned()))
                    .ok_or_else(|| ValueError::new($expected))
            }
        }

        impl $name {
            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_type!(
    DnsLabel,
    is_dns_label,
    "expected lower-case letters, digits and '-', at most 63 characters"
);
text_type!(
    DnsName,
    is_dns_name,
    "expected a DNS name: lower-case letters, digits, '-' and '.', at most 253 characters"
);
text_type!(
    ImageRef,
    is_image_ref,
    "expected an image reference such as example.com/team/nginx:1.30.4"
);

/// Whether `text` is a DNS-1123 label.
#[must_use]
pub fn is_dns_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let alnum = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    (1..=63).contains(&bytes.len())
        && bytes.iter().all(|b| alnum(b) || *b == b'-')
        && bytes.first().is_some_and(alnum)
        && bytes.last().is_some_and(alnum)
}

/// Whether `text` is a DNS-1123 subdomain.
#[must_use]
pub fn is_dns_name(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_label)
}

fn is_image_ref(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-/:@+".contains(&b);
    (1..=512).contains(&text.len())
        && text.bytes().all(allowed)
        && text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
}

/// A DNS server: a DNS name, or an IP address, which nginx wants in brackets when it is of version 6.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Resolver(String);

impl FromStr for Resolver {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let text = text.trim();
        match text.parse::<Ipv6Addr>() {
            Ok(address) => Ok(Self(format!("[{address}]"))),
            Err(_) if is_dns_name(text) => Ok(Self(text.to_owned())),
            Err(_) => Err(ValueError::new("expected a DNS name or an IP address")),
        }
    }
}

impl fmt::Display for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
