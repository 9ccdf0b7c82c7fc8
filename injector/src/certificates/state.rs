//! What the Secret holds, parsed and checked.
//!
//! Which authority signs, which is next and which is on its way out is said by the keys: the
//! certificate in `ca.crt` that `ca.key` belongs to signs, that of `next-ca.key` is next, and the
//! others are on their way out. So their order does not matter, and nothing is said twice.

use std::collections::BTreeMap;
use std::fmt;

use rcgen::KeyPair;

use super::{Certificate, CertificateError, Moment};

/// Every authority that is trusted now, PEM.
pub const CA_CERTIFICATES: &str = "ca.crt";
/// The key of the authority that signs, PEM.
pub const CA_KEY: &str = "ca.key";
/// The key of the authority that will sign next, PEM; only while it is being introduced.
pub const NEXT_CA_KEY: &str = "next-ca.key";
/// When the present step of a rotation began to count, RFC 3339; only during one.
pub const ROTATION_SINCE: &str = "rotation-since";
/// The serving certificate, PEM.
pub const CERTIFICATE: &str = "tls.crt";
/// Its key, PEM.
pub const KEY: &str = "tls.key";

/// Every key of the Secret that the server reads or writes.
pub const KEYS: [&str; 6] = [CA_CERTIFICATES, CA_KEY, NEXT_CA_KEY, ROTATION_SINCE, CERTIFICATE, KEY];

/// Why nothing can be signed with what the Secret holds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsound {
    /// It holds nothing of ours.
    #[error("it holds no certificates yet")]
    Empty,
    /// An entry is missing.
    #[error("it has no entry {0}")]
    Missing(&'static str),
    /// The authorities cannot be read.
    #[error("its entry {CA_CERTIFICATES} cannot be used: {0}")]
    Authorities(#[source] CertificateError),
    /// A certificate among the authorities may not sign.
    #[error("its entry {CA_CERTIFICATES} holds a certificate of no authority: {0}")]
    NoAuthority(String),
    /// The key of the authority cannot be read.
    #[error("its entry {CA_KEY} holds no private key: {0}")]
    Key(String),
    /// It is kept by somebody else, and cannot be used.
    #[error("{0}")]
    Given(String),
    /// The key belongs to none of the authorities.
    #[error("the key in its entry {CA_KEY} is that of no certificate in {CA_CERTIFICATES}")]
    Stranger,
}

/// Why a serving certificate is not to be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeafFault {
    /// Certificate or key is missing.
    #[error("there is no entry {0}")]
    Missing(&'static str),
    /// The certificate cannot be read.
    #[error("the entry {CERTIFICATE} cannot be used: {0}")]
    Certificate(#[source] CertificateError),
    /// The key cannot be read.
    #[error("the entry {KEY} holds no private key: {0}")]
    Key(String),
    /// The two do not belong together.
    #[error("the key in the entry {KEY} is not the one of the certificate in {CERTIFICATE}")]
    Mismatch,
    /// No authority that is trusted has signed it.
    #[error("no certificate in the entry {CA_CERTIFICATES} has signed that in {CERTIFICATE}")]
    Untrusted,
}

/// A private key, PEM. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

/// A certificate and its key, which belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The certificate.
    pub certificate: Certificate,
    /// Its key.
    pub key: Key,
}

/// What the Secret holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The authority that signs.
    pub signer: Pair,
    /// The one that will sign next, while it is being introduced.
    pub next: Option<Pair>,
    /// Those on their way out.
    pub retiring: Vec<Certificate>,
    /// The serving certificate, signed by one of the above.
    pub leaf: Result<Pair, LeafFault>,
    /// When the present step of a rotation began to count.
    pub since: Option<Moment>,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

impl Key {
    pub(crate) fn new(key: &KeyPair) -> Self {
        Self(key.serialize_pem())
    }

    /// The PEM text, for who must write it down.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// For signing.
    pub(crate) fn pair(&self) -> Result<KeyPair, rcgen::Error> {
        KeyPair::from_pem(&self.0)
    }

    fn parse(bytes: &[u8]) -> Result<(Self, KeyPair), String> {
        let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
        let pair = KeyPair::from_pem(text).map_err(|error| error.to_string())?;
        Ok((Self(text.to_owned()), pair))
    }
}

impl State {
    /// Reads the entries of a Secret; those of others are passed over.
    ///
    /// # Errors
    /// When there is no authority that can sign. A serving certificate that is wrong is no error
    /// here: it can be replaced.
    pub fn decode<T: AsRef<[u8]>>(entries: &BTreeMap<String, T>) -> Result<Self, Unsound> {
        let entries = Entries(entries);
        if KEYS.iter().all(|key| entries.get(key).is_none()) {
            return Err(Unsound::Empty);
        }
        let mut authorities = entries.authorities()?;
        let mut state = Self {
            signer: entries.signer(&mut authorities)?,
            next: entries.next(&mut authorities),
            retiring: authorities,
            leaf: entries.leaf(),
            since: entries.since(),
        };
        if state.leaf.as_ref().is_ok_and(|leaf| !state.trusts(&leaf.certificate)) {
            state.leaf = Err(LeafFault::Untrusted);
        }
        Ok(state)
    }

    /// Whether an overlap is counting during which every `caBundle` must be this one. If one is not,
    /// the count has to be ended, in the Secret, before that `caBundle` is repaired: whoever comes
    /// later could not know that it was another one for a while.
    #[must_use]
    pub fn counts_on_its_bundle(&self) -> bool {
        self.next.is_some() && self.since.is_some()
    }

    /// Whether an authority that is trusted now has signed this certificate.
    #[must_use]
    pub fn trusts(&self, leaf: &Certificate) -> bool {
        self.trusted().any(|authority| leaf.is_signed_by(authority))
    }

    /// All entries, `None` for one that must not be there.
    #[must_use]
    pub fn encode(&self) -> [(&'static str, Option<String>); KEYS.len()] {
        let leaf = self.leaf.as_ref().ok();
        let key = |pair: &Pair| pair.key.0.clone();
        [
            (CA_CERTIFICATES, Some(self.bundle())),
            (CA_KEY, Some(key(&self.signer))),
            (NEXT_CA_KEY, self.next.as_ref().map(key)),
            (ROTATION_SINCE, self.since.map(|since| since.to_string())),
            (CERTIFICATE, leaf.map(|leaf| leaf.certificate.pem())),
            (KEY, leaf.map(key)),
        ]
    }

    /// Every authority that is trusted now, PEM: the `caBundle`.
    #[must_use]
    pub fn bundle(&self) -> String {
        self.trusted().map(Certificate::pem).collect()
    }

    /// Every authority that is trusted now: the one that signs, the next, and those on their way out.
    pub fn trusted(&self) -> impl Iterator<Item = &Certificate> {
        let next = self.next.iter().map(|next| &next.certificate);
        std::iter::once(&self.signer.certificate)
            .chain(next)
            .chain(&self.retiring)
    }
}

/// The entries of a Secret.
pub(crate) struct Entries<'a, T>(pub(crate) &'a BTreeMap<String, T>);

impl<T: AsRef<[u8]>> Entries<'_, T> {
    pub(crate) fn get(&self, key: &str) -> Option<&[u8]> {
        self.0.get(key).map(AsRef::as_ref).filter(|bytes| !bytes.is_empty())
    }

    /// All that are trusted, each once.
    pub(crate) fn authorities(&self) -> Result<Vec<Certificate>, Unsound> {
        let text = self.get(CA_CERTIFICATES).ok_or(Unsound::Missing(CA_CERTIFICATES))?;
        let mut found: Vec<Certificate> = Vec::new();
        for certificate in Certificate::parse_all(text).map_err(Unsound::Authorities)? {
            if !certificate.is_authority {
                return Err(Unsound::NoAuthority(certificate.subject));
            }
            if !found.contains(&certificate) {
                found.push(certificate);
            }
        }
        Ok(found)
    }

    /// The one that signs, taken out of those that are trusted.
    pub(crate) fn signer(&self, authorities: &mut Vec<Certificate>) -> Result<Pair, Unsound> {
        let key = self.get(CA_KEY).ok_or(Unsound::Missing(CA_KEY))?;
        let (key, pair) = Key::parse(key).map_err(Unsound::Key)?;
        let certificate = take(authorities, &pair).ok_or(Unsound::Stranger)?;
        Ok(Pair { certificate, key })
    }

    /// The next one, taken out of those that are trusted. One that cannot be used is none: the rotation then begins
    /// anew.
    pub(crate) fn next(&self, authorities: &mut Vec<Certificate>) -> Option<Pair> {
        let (key, pair) = Key::parse(self.get(NEXT_CA_KEY)?).ok()?;
        let certificate = take(authorities, &pair)?;
        Some(Pair { certificate, key })
    }

    fn leaf(&self) -> Result<Pair, LeafFault> {
        self.pair().map(|(pair, _)| pair)
    }

    /// A certificate and its key, and what comes with them on the way to an authority.
    pub(crate) fn pair(&self) -> Result<(Pair, Vec<Certificate>), LeafFault> {
        let get = |entry| self.get(entry).ok_or(LeafFault::Missing(entry));
        let (certificate, key) = (get(CERTIFICATE)?, get(KEY)?);
        let mut chain = Certificate::parse_all(certificate).map_err(LeafFault::Certificate)?;
        let certificate = chain.remove(0); // An empty chain is an error above.
        let (key, pair) = Key::parse(key).map_err(LeafFault::Key)?;
        match certificate.has_key(&pair) {
            true => Ok((Pair { certificate, key }, chain)),
            false => Err(LeafFault::Mismatch),
        }
    }

    /// A time that cannot be read is none: the step then counts from now on.
    fn since(&self) -> Option<Moment> {
        self.parsed(ROTATION_SINCE)
    }

    /// An entry that cannot be read is none.
    pub(crate) fn parsed<V: std::str::FromStr>(&self, key: &str) -> Option<V> {
        std::str::from_utf8(self.get(key)?).ok()?.parse().ok()
    }
}

/// Takes the certificate with this key out of the list.
fn take(authorities: &mut Vec<Certificate>, key: &KeyPair) -> Option<Certificate> {
    let index = authorities.iter().position(|authority| authority.has_key(key))?;
    Some(authorities.remove(index))
}

#[cfg(test)]
mod tests;
