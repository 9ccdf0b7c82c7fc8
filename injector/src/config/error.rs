//! What can be wrong with the configuration.

use std::time::Duration;

use jiff::SignedDuration;

use super::{
    CA_LIFETIME, CA_OVERLAP, CERT_FILE, CERT_LIFETIME, CERT_SECRET, MAX_BODY_BYTES, MAX_IN_FLIGHT_BYTES,
    SIGNER_CA_LIFETIME, SIGNER_LEAF_LIFETIME, SIGNER_OVERLAP, unknown,
};

/// One thing wrong with the configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The value does not parse.
    #[error("{variable} is {value:?}: expected {expected}")]
    Invalid {
        /// The variable's name.
        variable: &'static str,
        /// What it was set to.
        value: String,
        /// What is allowed.
        expected: &'static str,
    },
    /// One of two variables that belong together is missing.
    #[error("{set} is set but {missing} is not: a certificate and its key go together, set both")]
    HalfCertificate {
        /// The variable that is set.
        set: &'static str,
        /// The variable that is not.
        missing: &'static str,
    },
    /// Two sources of the serving certificate are named.
    #[error("{CERT_SECRET} and {CERT_FILE} are both set: the certificate comes from one place, unset one of them")]
    TwoCertificates,
    /// The serving certificate would be valid for longer than the authority that signs it.
    #[error(
        "{CERT_LIFETIME} is {}: expected at most {}, which is {CA_LIFETIME}",
        shown(.certificate), shown(.authority)
    )]
    OutlivesAuthority {
        /// The serving certificate's lifetime.
        certificate: Duration,
        /// The authority's lifetime.
        authority: Duration,
    },
    /// The overlap does not fit into the time that a renewal has.
    #[error(
        "{CA_OVERLAP} is {}, too long for {CERT_LIFETIME} of {}: expected a certificate's lifetime of at least {}, twelve \
         overlaps",
        shown(.overlap), shown(.certificate), shown(.least)
    )]
    LongOverlap {
        /// The overlap.
        overlap: Duration,
        /// The serving certificate's lifetime.
        certificate: Duration,
        /// The least that lifetime may be.
        least: Duration,
    },
    /// The mesh's authority does not live long enough.
    #[error(
        "{SIGNER_CA_LIFETIME} is {}: expected at least {}, six times {SIGNER_LEAF_LIFETIME} and twelve times \
         {SIGNER_OVERLAP}",
        shown(.authority), shown(.least)
    )]
    ShortMeshAuthority {
        /// The authority's lifetime.
        authority: Duration,
        /// The least that it may be.
        least: Duration,
    },
    /// The budget of bytes in flight cannot hold what one body may be.
    #[error("{MAX_IN_FLIGHT_BYTES} is {in_flight} bytes: expected at least {least}, twice {MAX_BODY_BYTES}")]
    SmallBudget {
        /// The budget, in bytes.
        in_flight: usize,
        /// The least it may be, in bytes.
        least: usize,
    },
    /// No such variable.
    #[error("{variable} is not a variable of Outrigger{}; unset or rename it", unknown::hint(.suggestion.as_deref()))]
    Unknown {
        /// The name as found.
        variable: String,
        /// A variable whose name is close.
        suggestion: Option<String>,
    },
    /// Variables that Kubernetes sets for a Service called `outrigger`.
    #[error(
        "{} look like the variables Kubernetes sets for a Service called outrigger: set enableServiceLinks: false in \
         the pod's spec",
        .variables.join(", ")
    )]
    ServiceLinks {
        /// Their names.
        variables: Vec<String>,
    },
}

/// Everything wrong with the configuration, one line each.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct ConfigErrors(pub Vec<ConfigError>);

/// As it would be written into a variable.
fn shown(duration: &Duration) -> String {
    SignedDuration::try_from(*duration).map_or_else(|_| format!("{duration:?}"), |duration| format!("{duration:#}"))
}
