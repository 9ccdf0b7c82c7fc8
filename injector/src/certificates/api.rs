//! Calls to the API server: each has a deadline, and what is said about a failure names a remedy.

use std::time::Duration;

use kube::api::{PatchParams, PostParams};
use tokio::time::timeout;

use crate::names::FIELD_MANAGER;

/// How long one call may take.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(4);

/// Why a call came to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("the API server said nothing within {} s", CALL_TIMEOUT.as_secs())]
    Timeout,
    #[error(transparent)]
    Api(#[from] kube::Error),
}

impl CallError {
    /// Somebody has changed the object since it was read, or made it first.
    pub(crate) fn is_conflict(&self) -> bool {
        self.code() == Some(409) || self.is_test_failed()
    }

    /// A JSON patch did not fit the object. The API server says 422 then, as for an object that would be
    /// invalid, but names no cause.
    fn is_test_failed(&self) -> bool {
        let Self::Api(kube::Error::Api(status)) = self else {
            return false;
        };
        let causes = status.details.as_ref().map_or(0, |details| details.causes.len());
        status.code == 422 && causes == 0
    }

    /// There is no such object.
    pub(crate) fn is_missing(&self) -> bool {
        self.code() == Some(404)
    }

    /// What to do about it.
    pub(crate) fn remedy(&self) -> &'static str {
        match self.code() {
            Some(404) => "it belongs to the Helm release: restore it with helm upgrade",
            Some(401 | 403) => "give the service account the rights in docs/examples/certificates.yaml",
            _ => "it is tried again",
        }
    }

    fn code(&self) -> Option<u16> {
        match self {
            Self::Api(kube::Error::Api(status)) => Some(status.code),
            _ => None,
        }
    }
}

/// Makes a call, with a deadline.
pub(crate) async fn call<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, CallError> {
    Ok(timeout(CALL_TIMEOUT, call).await.map_err(|_| CallError::Timeout)??)
}

/// For a patch in our name.
pub(crate) fn patch_params() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

/// For an object made in our name.
pub(crate) fn post_params() -> PostParams {
    PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    }
}
