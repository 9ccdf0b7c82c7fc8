//! Requests that get no admission answer: why, and what HTTP says about it.
//!
//! The body is a `metav1.Status`, the one form whose message the API server passes on to its user
//! whatever the code is.

use std::any::Any;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::RETRY_AFTER;
use serde::Serialize;

use crate::error::InternalError;
use crate::namespaces::NamespaceError;
use crate::review::ReviewError;
use crate::telemetry::panic_text;

/// Why a request got no admission answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("the content type must be application/json, not {0:?}")]
    MediaType(String),
    #[error("the body is larger than {limit} bytes; OUTRIGGER_MAX_BODY_BYTES sets this limit")]
    TooLarge { limit: usize },
    #[error("the body did not arrive within {} ms", .deadline.as_millis())]
    Slow { deadline: Duration },
    #[error("too many request bytes are in flight, try again")]
    Overloaded,
    #[error("this replica is shutting down, try again")]
    Draining,
    #[error("the body ended early: {0}")]
    Aborted(String),
    #[error(transparent)]
    Review(#[from] ReviewError),
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    #[error(transparent)]
    Internal(#[from] InternalError),
    #[error("internal error: a panic, see the log")]
    Panicked(String),
}

/// The kinds of failure: what metrics and HTTP tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The request is not one the API server would send.
    BadRequest,
    /// The content type is wrong.
    UnsupportedMediaType,
    /// The body is too large.
    TooLarge,
    /// The body arrives too slowly.
    Timeout,
    /// Too many bytes are in flight.
    Overloaded,
    /// The server is stopping.
    Draining,
    /// It is our fault.
    Error,
}

impl FailureKind {
    /// Every kind.
    pub const ALL: &[Self] = &[
        Self::BadRequest,
        Self::UnsupportedMediaType,
        Self::TooLarge,
        Self::Timeout,
        Self::Overloaded,
        Self::Draining,
        Self::Error,
    ];

    /// The stable id.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.row().0
    }

    /// Id, HTTP status and Kubernetes' reason.
    fn row(self) -> (&'static str, StatusCode, &'static str) {
        match self {
            Self::BadRequest => ("bad-request", StatusCode::BAD_REQUEST, "BadRequest"),
            Self::UnsupportedMediaType => (
                "unsupported-media-type",
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "UnsupportedMediaType",
            ),
            Self::TooLarge => ("too-large", StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge"),
            Self::Timeout => ("timeout", StatusCode::REQUEST_TIMEOUT, "Timeout"),
            Self::Overloaded => ("overloaded", StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"),
            Self::Draining => ("draining", StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
            Self::Error => ("error", StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
        }
    }

    /// The API server tries again, within its deadline, only on 429 and 503 with `Retry-After`.
    fn retry(self) -> bool {
        matches!(self, Self::Overloaded | Self::Draining)
    }

    /// Whether the connection is in no state, or has no future, to be kept.
    fn closes(self) -> bool {
        matches!(self, Self::TooLarge | Self::Timeout | Self::Overloaded | Self::Draining)
    }
}

impl Failure {
    pub(super) fn panicked(payload: &(dyn Any + Send)) -> Self {
        Self::Panicked(panic_text(payload).to_owned())
    }

    pub(super) fn kind(&self) -> FailureKind {
        match self {
            Self::MediaType(_) => FailureKind::UnsupportedMediaType,
            Self::TooLarge { .. } => FailureKind::TooLarge,
            Self::Slow { .. } => FailureKind::Timeout,
            Self::Overloaded => FailureKind::Overloaded,
            Self::Draining => FailureKind::Draining,
            Self::Aborted(_) | Self::Review(_) | Self::Namespace(NamespaceError::BadName { .. }) => {
                FailureKind::BadRequest
            }
            Self::Namespace(_) | Self::Internal(_) | Self::Panicked(_) => FailureKind::Error,
        }
    }

    pub(super) fn respond(&self) -> HttpResponse {
        let kind = self.kind();
        let (_, code, reason) = kind.row();
        let mut response = status(code, reason, &self.to_string());
        if kind.retry() {
            response
                .headers_mut()
                .insert(RETRY_AFTER, "1".parse().expect("a digit is a header value"));
        }
        if kind.closes() {
            super::admission::close(&mut response);
        }
        response
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    api_version: &'a str,
    kind: &'a str,
    status: &'a str,
    message: &'a str,
    reason: &'a str,
    code: u16,
}

/// An error in Kubernetes' own form.
pub(super) fn status(code: StatusCode, reason: &str, message: &str) -> HttpResponse {
    let body = Status {
        api_version: "v1",
        kind: "Status",
        status: "Failure",
        message,
        reason,
        code: code.as_u16(),
    };
    HttpResponse::build(code).json(body)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_distinct() {
        let ids: BTreeSet<_> = FailureKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(ids.len(), FailureKind::ALL.len());
    }
}
