//! What is published about the authorities beside their certificates: which of them signs, and how many of its
//! certificates may be valid still.
//!
//! It stands in an annotation of the trust bundle, so that whoever wants to know needs no right to read a Secret, and a
//! new leader goes on counting where the one before stopped. Nothing depends on it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::certificates::Moment;

/// Ends of certificates are counted together by the hour.
const HOUR: i64 = 3600;

/// The authorities by the subjects of their certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Trust(pub BTreeMap<String, Authority>);

/// One of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Authority {
    /// What it does.
    pub role: Role,
    /// When that changes, as far as it is known, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// How many certificates end before the second, since 1970, that each counts for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub leaves: BTreeMap<i64, u64>,
}

/// What an authority does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// It signs.
    Signs,
    /// It is published, and will sign.
    Next,
    /// It is trusted until its last certificate has ended.
    Retiring,
    /// It is trusted; what it does is not known, as others keep it.
    #[default]
    Trusted,
}

impl Role {
    /// The word for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Signs => "signs",
            Self::Next => "next",
            Self::Retiring => "retiring",
            Self::Trusted => "trusted",
        }
    }
}

impl Trust {
    /// Counts a certificate.
    pub fn count(&mut self, authority: &str, not_after: Moment) {
        let hour = (not_after.second().div_euclid(HOUR) + 1) * HOUR;
        let authority = self.0.entry(authority.to_owned()).or_default();
        *authority.leaves.entry(hour).or_default() += 1;
    }

    /// Takes over what the authorities are now. The counts of those that stay, stay, without those of certificates that
    /// have ended.
    pub fn update(&mut self, authorities: impl Iterator<Item = (String, Role, Option<Moment>)>, now: Moment) {
        let mut before = std::mem::take(&mut self.0);
        let known = authorities.map(|(subject, role, until)| {
            let mut leaves = before.remove(&subject).unwrap_or_default().leaves;
            leaves.retain(|end, _| *end > now.second());
            let until = until.map(|until| until.to_string());
            (subject, Authority { role, until, leaves })
        });
        self.0 = known.collect();
    }
}

impl Authority {
    /// How many of its certificates may be valid still, up to an hour too many.
    #[must_use]
    pub fn valid(&self, now: Moment) -> u64 {
        let valid = self.leaves.iter().filter(|(end, _)| **end > now.second());
        valid.map(|(_, count)| count).sum()
    }

    /// When the last of them ends, up to an hour late; `None` where there is none.
    #[must_use]
    pub fn last_end(&self, now: Moment) -> Option<Moment> {
        let (last, _) = self.leaves.last_key_value()?;
        Some(Moment::from_second(*last)).filter(|end| *end > now)
    }
}

/// How often it is written, at most: each writing makes every kubelet look at the bundle.
pub(super) const INTERVAL: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn at(second: i64) -> Moment {
        Moment::from_second(second)
    }

    #[test]
    fn counts_what_may_be_valid() {
        let mut trust = Trust::default();
        for end in [10, 3599, 3600, 9000] {
            trust.count("a", at(end));
        }
        trust.count("b", at(10));
        let a = &trust.0["a"];
        assert_eq!(
            [0, 3599, 3600, 7200, 10_799, 10_800].map(|now| a.valid(at(now))),
            [4, 4, 2, 1, 1, 0]
        );
        assert_eq!((a.last_end(at(0)), a.last_end(at(10_800))), (Some(at(10_800)), None));
    }

    #[test]
    fn keeps_the_counts_of_those_that_stay() {
        let mut trust = Trust::default();
        trust.count("old", at(10));
        trust.count("old", at(5000));
        trust.count("gone", at(5000));
        let now = [
            ("old".to_owned(), Role::Retiring, Some(at(7200))),
            ("new".to_owned(), Role::Signs, None),
        ];
        trust.update(now.into_iter(), at(4000));
        let text = serde_json::to_string(&trust).unwrap();
        assert_eq!(
            text,
            r#"{"new":{"role":"signs"},"old":{"role":"retiring","until":"1970-01-01T02:00:00.000Z","leaves":{"7200":1}}}"#
        );
        assert_eq!(serde_json::from_str::<Trust>(&text).unwrap(), trust);
    }
}
