//! Placeholder for the core's injector: it admits everything unchanged.
use crate::namespace_info::NamespaceInfo;
use crate::review::{Answer, Endpoint, Outcome, Review};

/// A failure of ours.
#[derive(Debug, thiserror::Error)]
#[error("the injector failed")]
pub struct InternalError;

/// Placeholder.
#[derive(Debug, Default)]
pub struct Injector;

impl Injector {
    /// Admits the review unchanged.
    ///
    /// # Errors
    /// None in this placeholder.
    pub fn answer(
        &self,
        _endpoint: Endpoint,
        review: &Review<'_>,
        _namespace: Option<&NamespaceInfo>,
    ) -> Result<Answer, InternalError> {
        let body = serde_json::json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "response": {"uid": review.uid(), "allowed": true},
        });
        Ok(Answer {
            body: body.to_string().into_bytes(),
            outcome: Outcome::NamespaceNotEnabled,
            message: None,
        })
    }
}
