//! A point in time that can be calculated with, without end.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

/// Milliseconds since 1970 in UTC. Calculations saturate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(i64);

impl Moment {
    /// By this machine's clock.
    #[must_use]
    pub fn now() -> Self {
        Timestamp::now().into()
    }

    /// From whole seconds since 1970, as certificates have them.
    #[must_use]
    pub const fn from_second(second: i64) -> Self {
        Self(second.saturating_mul(1000))
    }

    /// Whole seconds since 1970, rounded down.
    #[must_use]
    pub const fn second(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// So much later.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(millis(duration)))
    }

    /// So much earlier.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(millis(duration)))
    }

    /// How long until `later`; nothing if that has passed.
    #[must_use]
    pub fn until(self, later: Self) -> Duration {
        let millis = later.0.saturating_sub(self.0);
        Duration::from_millis(u64::try_from(millis).unwrap_or_default())
    }

    /// The moment in the middle of two.
    #[must_use]
    pub fn midpoint(self, other: Self) -> Self {
        Self(self.0.midpoint(other.0))
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl From<Timestamp> for Moment {
    fn from(timestamp: Timestamp) -> Self {
        Self(timestamp.as_millisecond())
    }
}

/// RFC 3339, to the millisecond.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Timestamp::from_millisecond(self.0) {
            Ok(timestamp) => write!(f, "{timestamp:.3}"),
            Err(_) => write!(f, "{} ms since 1970", self.0),
        }
    }
}

/// RFC 3339.
impl std::str::FromStr for Moment {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<Timestamp>().map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn survives_its_text() {
        let text = "2026-02-03T04:05:06.789Z";
        let moment: Moment = text.parse().unwrap();
        assert_eq!(moment.to_string(), text);
        assert_eq!(moment.second(), 1_770_091_506);
        assert_eq!(Moment::from_second(0).to_string(), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn calculates_without_end() {
        let end = Moment::from_second(i64::MAX);
        assert_eq!(end.plus(Duration::MAX), end);
        assert_eq!(Moment::from_second(1).until(Moment::from_second(0)), Duration::ZERO);
        assert_eq!(
            Moment::from_second(0).until(Moment::from_second(2)),
            Duration::from_secs(2)
        );
        assert_eq!(
            Moment::from_second(0).midpoint(Moment::from_second(3)),
            Moment::from_second(1).plus(Duration::from_millis(500))
        );
        assert!(!end.to_string().is_empty());
    }
}
