//! What all workers share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use super::Parts;
use super::body::Budget;
use crate::config::ServerConfig;
use crate::tls::Certificates;

/// Shared by all workers of both servers.
#[derive(Debug)]
pub(super) struct State {
    pub(super) parts: Parts,
    pub(super) certificates: Arc<Certificates>,
    pub(super) budget: Arc<Budget>,
    pub(super) max_body_bytes: usize,
    pub(super) body_timeout: Duration,
    phase: AtomicU8,
}

/// How far the server is on its way out, in order.
const SERVING: u8 = 0;
const DRAINING: u8 = 1;
const TURNING_AWAY: u8 = 2;

impl State {
    pub(super) fn new(config: &ServerConfig, parts: Parts, certificates: Arc<Certificates>) -> Self {
        let gauge = parts.metrics.in_flight_bytes.clone();
        Self {
            parts,
            certificates,
            budget: Arc::new(Budget::new(config.max_in_flight_bytes, gauge)),
            max_body_bytes: config.max_body_bytes,
            body_timeout: config.body_timeout,
            phase: AtomicU8::new(SERVING),
        }
    }

    pub(super) fn start_draining(&self) {
        self.phase.store(DRAINING, Ordering::Release);
    }

    pub(super) fn turn_away(&self) {
        self.phase.store(TURNING_AWAY, Ordering::Release);
    }

    pub(super) fn is_draining(&self) -> bool {
        self.phase.load(Ordering::Acquire) >= DRAINING
    }

    pub(super) fn turns_away(&self) -> bool {
        self.phase.load(Ordering::Acquire) >= TURNING_AWAY
    }
}
