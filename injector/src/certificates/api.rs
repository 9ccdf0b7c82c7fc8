//! Calls to the API server: each has a deadline, and what is said about a failure names a remedy.

use std::time::Duration;

use kube::api::PatchParams;
use tokio::time::timeout;

use crate::names::FIELD_MANAGER;

/// How long one call may take.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(4);

/// Why a call came to nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    #[error("the API server said nothing within {} s", CALL_TIMEOUT.as_secs())]
    Timeout,
    #[error(transparent)]
    Api(#[from] kube::Error),
}

impl CallError {
    /// Somebody has changed the object since it was read.
    pub(super) fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// What to do about it.
    pub(super) fn remedy(&self) -> &'static str {
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
pub(super) async fn call<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, CallError> {
    Ok(timeout(CALL_TIMEOUT, call).await.map_err(|_| CallError::Timeout)??)
}

/// For a patch in our name.
pub(super) fn patch_params() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}
