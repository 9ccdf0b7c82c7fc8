//! The signals that end the server.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::ServeError;

/// SIGTERM and SIGINT. From its making on, neither ends the process by itself.
#[derive(Debug)]
pub struct Termination {
    terminate: Signal,
    interrupt: Signal,
}

impl Termination {
    /// Starts to receive both signals.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn install() -> Result<Self, ServeError> {
        let install = |kind| signal(kind).map_err(ServeError::Signals);
        Ok(Self {
            terminate: install(SignalKind::terminate())?,
            interrupt: install(SignalKind::interrupt())?,
        })
    }

    /// Is ready once one of them was received.
    pub async fn received(&mut self) {
        let name = tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        };
        tracing::info!(signal = name, "stopping");
    }
}
