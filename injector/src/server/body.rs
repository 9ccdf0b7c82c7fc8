//! Reads request bodies within three bounds: size, time, and bytes held by all requests together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use actix_web::error::PayloadError;
use actix_web::http::header::{CONTENT_LENGTH, HeaderMap};
use actix_web::web::{Bytes, Payload};
use futures::StreamExt;
use prometheus_client::metrics::gauge::Gauge;
use tokio::time::timeout;

use super::failure::Failure;
use super::state::State;

/// A body, and its share of the budget until it is dropped.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) bytes: Vec<u8>,
    share: Share,
}

/// Bytes that all requests together may hold.
///
/// A request may grow only while it holds no more than what is still free. So large requests can
/// never use up the budget among themselves, and small ones get through; this is the dynamic
/// threshold of Choudhury and Hahne (IEEE/ACM Transactions on Networking 6(2), 1998) with factor 1.
/// What counts are bytes that have arrived, never what a `Content-Length` promises.
#[derive(Debug)]
pub(super) struct Budget {
    limit: usize,
    used: AtomicUsize,
    /// Shows `used` to the outside.
    gauge: Gauge,
}

#[derive(Debug)]
struct Share {
    budget: Arc<Budget>,
    held: usize,
}

/// Reads the whole body.
pub(super) async fn read(headers: &HeaderMap, payload: &mut Payload, state: &State) -> Result<Body, Failure> {
    let limit = state.max_body_bytes;
    if promised_length(headers).is_some_and(|length| length > limit) {
        return Err(Failure::TooLarge { limit });
    }
    let empty = Body {
        bytes: Vec::new(),
        share: Share {
            budget: Arc::clone(&state.budget),
            held: 0,
        },
    };
    match timeout(state.body_timeout, empty.fill(payload, limit)).await {
        Ok(read) => read,
        Err(_) => Err(Failure::Slow {
            deadline: state.body_timeout,
        }),
    }
}

fn promised_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

impl Body {
    async fn fill(mut self, payload: &mut Payload, limit: usize) -> Result<Self, Failure> {
        while let Some(chunk) = payload.next().await {
            self.push(&chunk.map_err(|error| aborted(&error))?, limit)?;
        }
        Ok(self)
    }

    fn push(&mut self, chunk: &Bytes, limit: usize) -> Result<(), Failure> {
        if self.bytes.len() + chunk.len() > limit {
            return Err(Failure::TooLarge { limit });
        }
        if !self.share.grow(chunk.len()) {
            return Err(Failure::Overloaded);
        }
        self.bytes.extend_from_slice(chunk);
        Ok(())
    }
}

fn aborted(error: &PayloadError) -> Failure {
    Failure::Aborted(error.to_string())
}

impl Budget {
    pub(super) fn new(limit: usize, gauge: Gauge) -> Self {
        let used = AtomicUsize::new(0);
        Self { limit, used, gauge }
    }

    /// Takes `more` bytes for someone who holds `held`, if that is fair.
    fn take(&self, held: usize, more: usize) -> bool {
        let grown = |used: usize| {
            let free = self.limit - used;
            (held + more <= free).then(|| used + more)
        };
        let taken = self
            .used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, grown)
            .is_ok();
        if taken {
            self.gauge.inc_by(gauged(more));
        }
        taken
    }

    fn give_back(&self, held: usize) {
        self.used.fetch_sub(held, Ordering::AcqRel);
        self.gauge.dec_by(gauged(held));
    }
}

fn gauged(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

impl Share {
    fn grow(&mut self, more: usize) -> bool {
        let taken = self.budget.take(self.held, more);
        self.held += if taken { more } else { 0 };
        taken
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.give_back(self.held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(budget: &Arc<Budget>) -> Share {
        Share {
            budget: Arc::clone(budget),
            held: 0,
        }
    }

    #[test]
    fn one_request_may_hold_half() {
        let budget = Arc::new(Budget::new(100, Gauge::default()));
        let mut only = share(&budget);
        assert!(
            (0..50).all(|_| only.grow(1)),
            "half of the budget is always free for one"
        );
        assert!(!only.grow(2));
    }

    #[test]
    fn large_requests_leave_room_for_small_ones() {
        let budget = Arc::new(Budget::new(100, Gauge::default()));
        let mut large: Vec<Share> = (0..20).map(|_| share(&budget)).collect();
        for _ in 0..100 {
            for share in &mut large {
                share.grow(1);
            }
        }
        assert!(
            large.iter_mut().all(|share| !share.grow(5)),
            "the large ones are held back"
        );
        assert!(share(&budget).grow(1), "a small one gets through");
    }

    #[test]
    fn what_is_dropped_is_free_again() {
        let budget = Arc::new(Budget::new(100, Gauge::default()));
        for _ in 0..10 {
            assert!(share(&budget).grow(100));
        }
        assert_eq!(budget.used.load(Ordering::Acquire), 0);
    }
}
