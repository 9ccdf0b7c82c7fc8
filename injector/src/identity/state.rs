//! What the signer's Secret holds, parsed and checked.
//!
//! Which authority signs, which is next and which is on its way out is said as in the Secret of the webhooks'
//! certificates: by the keys.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::certificates::certificate::Certificate;
use crate::certificates::state::{CA_CERTIFICATES, CA_KEY, Entries, NEXT_CA_KEY, Pair, ROTATION_SINCE};
use crate::certificates::{Moment, Unsound};

/// The longest lifetime, in seconds, that the authority that signs may have given to a leaf.
pub const LEAF_SECONDS: &str = "leaf-seconds";
/// When the last leaf of the authorities that signed before has expired, RFC 3339; only while there are such.
pub const RETIRE_AT: &str = "retire-at";

/// Every key of the Secret that the server reads or writes.
pub const KEYS: [&str; 6] = [
    CA_CERTIFICATES,
    CA_KEY,
    NEXT_CA_KEY,
    ROTATION_SINCE,
    LEAF_SECONDS,
    RETIRE_AT,
];

/// The authorities of the mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The one that signs.
    pub signer: Pair,
    /// The one that will sign next, while it is being introduced.
    pub next: Option<Pair>,
    /// Those that signed before, until their last leaf has expired.
    pub retiring: Vec<Certificate>,
    /// Since when the next authority is published.
    pub since: Option<Moment>,
    /// No leaf of the signer is valid for longer. It is written down before the first such leaf is made, so that a
    /// shorter lifetime in the configuration does not let an authority go too soon.
    pub longest_leaf: Duration,
    /// When the last leaf of those on their way out has expired; `None` when that is not known.
    pub retire_at: Option<Moment>,
}

impl State {
    /// Reads the entries of a Secret; those of others are passed over.
    ///
    /// # Errors
    /// When there is no authority that can sign.
    pub fn decode<T: AsRef<[u8]>>(entries: &BTreeMap<String, T>) -> Result<Self, Unsound> {
        let entries = Entries(entries);
        if KEYS.iter().all(|key| entries.get(key).is_none()) {
            return Err(Unsound::Empty);
        }
        let mut authorities = entries.authorities()?;
        Ok(Self {
            signer: entries.signer(&mut authorities)?,
            next: entries.next(&mut authorities),
            retiring: authorities,
            since: entries.parsed(ROTATION_SINCE),
            longest_leaf: Duration::from_secs(entries.parsed(LEAF_SECONDS).unwrap_or_default()),
            retire_at: entries.parsed(RETIRE_AT),
        })
    }

    /// All entries, `None` for one that must not be there.
    #[must_use]
    pub fn encode(&self) -> [(&'static str, Option<String>); KEYS.len()] {
        let key = |pair: &Pair| pair.key.expose().to_owned();
        [
            (CA_CERTIFICATES, Some(self.bundle())),
            (CA_KEY, Some(key(&self.signer))),
            (NEXT_CA_KEY, self.next.as_ref().map(key)),
            (ROTATION_SINCE, self.since.map(|since| since.to_string())),
            (LEAF_SECONDS, Some(self.longest_leaf.as_secs().to_string())),
            (RETIRE_AT, self.retire_at.map(|at| at.to_string())),
        ]
    }

    /// Every authority that is trusted now, PEM: the trust bundle.
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
