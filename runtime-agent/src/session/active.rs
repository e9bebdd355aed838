//! What callbacks need while a run is active.

use std::sync::{Arc, PoisonError, RwLock};

use crate::instrument::load_hook::LoadHook;
use crate::phase;
use crate::request::Handle;

/// What callbacks need while a run is active.
pub(crate) struct Active {
    pub load_hook: LoadHook,
    pub agent: Handle,
}

static ACTIVE: RwLock<Option<Arc<Active>>> = RwLock::new(None);

/// The active run, once its load hook exists.
pub(crate) fn get() -> Option<Arc<Active>> {
    ACTIVE.read().unwrap_or_else(PoisonError::into_inner).clone()
}

pub(crate) fn set(active: Arc<Active>) {
    *ACTIVE.write().unwrap_or_else(PoisonError::into_inner) = Some(active);
}

/// Ends the run.
pub(crate) fn end() {
    clear();
    phase::end();
}

/// Ends the run; its thread goes on to restore classes.
pub(crate) fn end_and_restore() {
    clear();
    phase::end_and_restore();
}

fn clear() {
    *ACTIVE.write().unwrap_or_else(PoisonError::into_inner) = None;
}
