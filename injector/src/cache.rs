//! What was rendered, kept: the pods of one Deployment differ in nothing that a template sees.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::context::RenderContext;
use crate::rendered::Rendered;

/// How many renderings are kept. One is a few kilobytes, so a stranger who makes every pod differ
/// fills a few megabytes and gains nothing.
const MOST: usize = 512;

type Key = (String, RenderContext);

/// Renderings by template and context.
#[derive(Debug, Default)]
pub struct Cache(Mutex<HashMap<Key, Arc<Rendered>>>);

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
        if let Some(kept) = self.lock().get(&key) {
            return Ok(Arc::clone(kept));
        }
        // Made outside of the lock: two threads may do the same work, none waits for another's.
        let made = make(&key.1)?;
        let mut map = self.lock();
        if map.len() >= MOST {
            map.clear();
        }
        map.insert(key, Arc::clone(&made));
        Ok(made)
    }

    /// A panic elsewhere cannot leave the map half written.
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Arc<Rendered>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
