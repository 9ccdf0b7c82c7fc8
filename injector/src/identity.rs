//! Identities of the mesh: who a proxy is, and how a certificate says so.
//!
//! [`name`] has the forms of an identity. The rest is the signer: it answers the requests that kubelets
//! make for pods ([KEP-4317](https://kep.k8s.io/4317), PodCertificateRequest), with no control plane
//! but the API server.

pub mod name;

#[cfg(feature = "server")]
mod bundle;
#[cfg(feature = "server")]
pub mod given;
#[cfg(feature = "server")]
mod held;
#[cfg(feature = "server")]
pub mod issuer;
#[cfg(feature = "server")]
mod keep;
#[cfg(feature = "server")]
pub mod metrics;
#[cfg(feature = "server")]
pub mod plan;
#[cfg(feature = "server")]
mod serve;
#[cfg(feature = "server")]
mod signer;
#[cfg(feature = "server")]
pub mod state;
#[cfg(feature = "server")]
pub mod trust;

#[cfg(feature = "server")]
pub use self::serve::serve;
