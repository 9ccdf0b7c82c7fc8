//! Certificates that renew themselves: an authority and a serving certificate, kept in a Secret.
//!
//! [`State`] is what the Secret holds, [`plan`](plan::plan) says what has to happen next, and
//! [`apply`](make::apply) makes the state after it. These three are pure: time is an argument, the
//! only thing taken from the system is randomness for keys. Each step is one write of the Secret, so
//! that a leader that dies at any point is followed by one that goes on from there.
//!
//! An authority is replaced in such an order that every certificate that may be served is trusted
//! by every `caBundle` that may be in force:
//!
//! 1. *begin*: the next authority joins `ca.crt`, and so `caBundle`.
//! 2. *mark*: both webhook configurations carry it; the overlap starts to count.
//! 3. *switch*: the overlap has passed, and the next authority signs a new serving certificate.
//! 4. *retire*: another overlap has passed, so that no replica serves what the old authority signed,
//!    and it leaves `ca.crt`.

pub(crate) mod api;
pub mod certificate;
mod configuration;
pub mod election;
mod follow;
mod keep;
mod lease;
pub mod make;
pub mod metrics;
pub mod moment;
pub(crate) mod pace;
pub mod plan;
mod publish;
pub(crate) mod secret;
pub(crate) mod sight;
pub mod state;

#[cfg(test)]
mod simulation;

pub use self::certificate::{Certificate, CertificateError};
pub use self::keep::keep;
pub use self::moment::Moment;
pub use self::state::{State, Unsound};
