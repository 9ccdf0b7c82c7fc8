//! What was rendered, kept: the pods of one Deployment differ in nothing that a template sees.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::context::RenderContext;
use crate::rendered::Rendered;

/// How many bytes of renderings are kept, about: a stranger who makes every pod differ fills this and gains nothing.
const MOST_BYTES: usize = 16 << 20;
/// A larger rendering is not kept: its pod is refused for its annotations' size, or is one of its kind.
const MOST_ENTRY_BYTES: usize = 256 << 10;

type Key = (String, RenderContext);

/// Renderings by template and context.
#[derive(Debug, Default)]
pub struct Cache(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    renderings: HashMap<Key, Arc<Rendered>>,
    bytes: usize,
}

impl Cache {
    /// The rendering of `context`, made by `make` where it is not kept.
    ///
    /// # Errors
    /// That of `make`; nothing is kept then.
    pub fn get_or_make<E>(
        &self,
        template: &str,
        context: RenderContext,
        make: impl FnOnce(&RenderContext) -> Result<Arc<Rendered>, E>,
    ) -> Result<Arc<Rendered>, E> {
        let key = (template.to_owned(), context);
        if let Some(kept) = self.lock().renderings.get(&key) {
            return Ok(Arc::clone(kept));
        }
        // Made outside of the lock: two threads may do the same work, none waits for another's.
        let made = make(&key.1)?;
        self.lock().keep(key, &made);
        Ok(made)
    }

    /// A panic elsewhere cannot leave the map half written.
    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn keep(&mut self, key: Key, made: &Arc<Rendered>) {
        // nginx.conf holds all that the context does, and more.
        let bytes = 2 * made.bytes();
        if bytes > MOST_ENTRY_BYTES {
            return;
        }
        if self.bytes + bytes > MOST_BYTES {
            *self = Self::default();
        }
        if self.renderings.insert(key, Arc::clone(made)).is_none() {
            self.bytes += bytes;
        }
    }
}
