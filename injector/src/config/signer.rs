//! The signer of the mesh's identities.

use std::time::Duration;

use super::{
    CLUSTER_ROLE, ConfigError, Election, Reader, SIGNER_CA_LIFETIME, SIGNER_KEY_TYPE, SIGNER_LEAF_LIFETIME,
    SIGNER_MODE, SIGNER_OVERLAP, SIGNER_SECRET, parse,
};
use crate::settings::values::words;

/// How many overlaps the authority's lifetime must hold at least: a third of it is left when its successor is made.
const OVERLAPS: u32 = 12;
/// How many lifetimes of a leaf, so that none is cut short by its authority's end.
const LEAVES: u32 = 6;

words! {
    /// The kind of the mesh authority's key.
    KeyType {
        /// ECDSA with the curve P-256.
        EcdsaP256 = "ecdsa-p256",
        /// ECDSA with the curve P-384.
        EcdsaP384 = "ecdsa-p384",
        /// Ed25519.
        Ed25519 = "ed25519",
    }
}

words! {
    /// Who makes and renews the authority of the mesh.
    KeptBy {
        /// The server itself.
        Server = "self-managed",
        /// Somebody else, cert-manager say.
        Others = "secret",
    }
}

/// An authority of the mesh, and with which it answers what kubelets ask for pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer {
    /// Who writes, and signs.
    pub election: Election,
    /// The Secret that holds the authority.
    pub secret: String,
    /// Who fills it.
    pub kept_by: KeptBy,
    /// The ClusterRole that the published trust bundle belongs to: both go together. `None`: it stays.
    pub cluster_role: Option<String>,
    /// How long everything is valid.
    pub lifetimes: SignerLifetimes,
    /// The kind of the authority's key.
    pub key_type: KeyType,
}

/// How long identities are valid, in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignerLifetimes {
    /// Of a proxy's certificate, if its pod does not ask for less.
    pub leaf: Duration,
    /// Of the authority.
    pub authority: Duration,
    /// How long a new authority is published before it signs.
    pub overlap: Duration,
}

/// The variables of [`Signer`], not parsed yet.
pub(super) struct Raw {
    pub(super) secret: Option<String>,
    pub(super) mode: Option<String>,
    pub(super) leaf_lifetime: Option<String>,
    pub(super) authority_lifetime: Option<String>,
    pub(super) overlap: Option<String>,
    pub(super) key_type: Option<String>,
    pub(super) cluster_role: Option<String>,
}

impl Reader {
    /// Checks all of it also where no Secret is named: a bad value is never ignored.
    pub(super) fn signer(&mut self, raw: Raw, election: Option<&Election>) -> Option<Option<Signer>> {
        let secret = self.optional(SIGNER_SECRET, raw.secret, parse::OBJECT_NAME);
        let kept_by = self.required(SIGNER_MODE, raw.mode, parse::KEPT_BY);
        let key_type = self.required(SIGNER_KEY_TYPE, raw.key_type, parse::KEY_TYPE);
        let cluster_role = self.optional(CLUSTER_ROLE, raw.cluster_role, parse::OBJECT_NAME);
        let leaf = self.required(SIGNER_LEAF_LIFETIME, raw.leaf_lifetime, parse::LEAF_LIFETIME);
        let authority = self.required(SIGNER_CA_LIFETIME, raw.authority_lifetime, parse::LIFETIME);
        let overlap = self.required(SIGNER_OVERLAP, raw.overlap, parse::OVERLAP);
        let lifetimes = SignerLifetimes {
            leaf: leaf?,
            authority: authority?,
            overlap: overlap?,
        };
        self.fits(lifetimes)?;
        let signer = Signer {
            election: election?.clone(),
            secret: String::new(),
            kept_by: kept_by?,
            cluster_role: cluster_role?,
            lifetimes,
            key_type: key_type?,
        };
        Some(secret?.map(|secret| Signer { secret, ..signer }))
    }

    fn fits(&mut self, lifetimes: SignerLifetimes) -> Option<()> {
        let SignerLifetimes {
            leaf,
            authority,
            overlap,
        } = lifetimes;
        let least = (leaf * LEAVES).max(overlap * OVERLAPS);
        if authority < least {
            self.errors.push(ConfigError::ShortMeshAuthority { authority, least });
            return None;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::config::tests::{lines, read};

    fn signer(vars: &[(&str, &str)]) -> Signer {
        read(vars).unwrap().server.signer.unwrap()
    }

    #[test]
    fn a_secret_alone_is_enough_for_identities() {
        let expected = Signer {
            election: Election {
                namespace: "outrigger-system".into(),
                lease: "outrigger-leader".into(),
                holder: None,
            },
            secret: "mesh".into(),
            kept_by: KeptBy::Server,
            cluster_role: None,
            lifetimes: SignerLifetimes {
                leaf: Duration::from_hours(24),
                authority: Duration::from_hours(365 * 24),
                overlap: Duration::from_mins(10),
            },
            key_type: KeyType::EcdsaP256,
        };
        assert_eq!(signer(&[("OUTRIGGER_SIGNER_SECRET", "mesh")]), expected);
        assert_eq!(read(&[]).unwrap().server.signer, None);
    }

    #[test]
    fn reads_every_value_of_the_signer() {
        let found = signer(&[
            ("OUTRIGGER_RELEASE_NAMESPACE", "mesh"),
            ("OUTRIGGER_SIGNER_SECRET", "ca"),
            ("OUTRIGGER_SIGNER_MODE", "secret"),
            ("OUTRIGGER_SIGNER_LEAF_LIFETIME", "1h"),
            ("OUTRIGGER_SIGNER_CA_LIFETIME", "6h"),
            ("OUTRIGGER_SIGNER_OVERLAP", "7s"),
            ("OUTRIGGER_SIGNER_KEY_TYPE", "Ed25519"),
            ("OUTRIGGER_CLUSTER_ROLE", "mesh.example"),
            ("OUTRIGGER_LEASE", "boss"),
            ("OUTRIGGER_POD_NAME", "outrigger-7d9f-x2"),
        ]);
        let expected = Signer {
            election: Election {
                namespace: "mesh".into(),
                lease: "boss".into(),
                holder: Some("outrigger-7d9f-x2".into()),
            },
            secret: "ca".into(),
            kept_by: KeptBy::Others,
            cluster_role: Some("mesh.example".into()),
            lifetimes: SignerLifetimes {
                leaf: Duration::from_hours(1),
                authority: Duration::from_hours(6),
                overlap: Duration::from_secs(7),
            },
            key_type: KeyType::Ed25519,
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn the_authority_outlives_leaves_and_overlaps() {
        let found = lines(&[("OUTRIGGER_SIGNER_CA_LIFETIME", "100h")]);
        let sentence = "OUTRIGGER_SIGNER_CA_LIFETIME is 100h: expected at least 144h, six times \
                        OUTRIGGER_SIGNER_LEAF_LIFETIME and twelve times OUTRIGGER_SIGNER_OVERLAP";
        assert_eq!(found, [sentence]);
        let found = lines(&[
            ("OUTRIGGER_SIGNER_CA_LIFETIME", "200h"),
            ("OUTRIGGER_SIGNER_OVERLAP", "20h"),
        ]);
        assert!(found[0].contains("at least 240h"), "{found:?}");
    }
}
