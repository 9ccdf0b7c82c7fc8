//! Placeholder for the core's admission reviews.
use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// Which webhook was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// The mutating webhook.
    Mutate,
    /// The validating webhook.
    Validate,
}

impl Endpoint {
    /// Every endpoint.
    pub const ALL: &[Self] = &[Self::Mutate, Self::Validate];

    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mutate => "mutate",
            Self::Validate => "validate",
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .iter()
            .copied()
            .find(|known| known.as_str() == text)
            .ok_or_else(|| text.to_owned())
    }
}

/// A request that cannot be decoded.
#[derive(Debug, thiserror::Error)]
#[error("not an AdmissionReview: {0}")]
pub struct ReviewError(#[from] serde_json::Error);

/// A decoded review.
#[derive(Debug)]
pub struct Review<'a> {
    request: Request<'a>,
}

#[derive(Debug, Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    request: Request<'a>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    uid: &'a str,
    #[serde(default)]
    namespace: &'a str,
    #[serde(default)]
    name: &'a str,
    #[serde(default)]
    dry_run: bool,
}

/// Decodes the body of an admission request.
///
/// # Errors
/// When the body is not an AdmissionReview.
pub fn decode(body: &[u8]) -> Result<Review<'_>, ReviewError> {
    let Envelope { request } = serde_json::from_slice(body)?;
    Ok(Review { request })
}

impl Review<'_> {
    /// The request's uid.
    pub fn uid(&self) -> &str {
        self.request.uid
    }

    /// The request's namespace.
    pub fn namespace(&self) -> &str {
        self.request.namespace
    }

    /// The pod's name.
    pub fn pod(&self) -> String {
        self.request.name.to_owned()
    }

    /// Whether nothing will be stored.
    pub fn dry_run(&self) -> bool {
        self.request.dry_run
    }

    /// Whether the answer depends on the Namespace.
    pub fn needs_namespace(&self, _endpoint: Endpoint) -> bool {
        true
    }
}

/// What the webhook answers.
#[derive(Debug)]
pub struct Answer {
    /// The complete AdmissionReview as JSON.
    pub body: Vec<u8>,
    /// What was decided.
    pub outcome: Outcome,
    /// What the user is told.
    pub message: Option<String>,
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The pod got its sidecar.
    Injected,
    /// The namespace is not part of the mesh.
    NamespaceNotEnabled,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: &[Self] = &[Self::Injected, Self::NamespaceNotEnabled];

    /// The stable id.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Injected => "injected",
            Self::NamespaceNotEnabled => "namespace-not-enabled",
        }
    }
}
