//! Exact debug information in compiled code: without it, the JVM knows a line or an inlined method only at safepoints,
//! and nine of ten samples of a tight loop name another.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::hotspot::tables::Tables;

/// The JVM's switch, if the agent has set it.
static SET: Mutex<Option<&'static AtomicBool>> = Mutex::new(None);

/// What is compiled from now on has it. The event CompiledMethodLoad has this effect too, but early versions of JDK 11
/// may crash with it (JDK-8173361).
pub(super) fn want(tables: &Tables) {
    const NAME: &str = "DebugNonSafepoints";
    // What the user has set counts.
    let switch = tables.switch(NAME).filter(|_| tables.is_default(NAME) != Some(false));
    if let Some(switch) = switch.filter(|switch| !switch.swap(true, Ordering::Relaxed)) {
        *SET.lock().unwrap_or_else(PoisonError::into_inner) = Some(switch);
    }
}

/// Lets the JIT note it from the first method on that it compiles, though sampling begins later.
pub(crate) fn want_from_the_start() {
    if let Some(tables) = Tables::read() {
        want(&tables);
    }
}

/// Restores the JVM's switch.
pub(super) fn restore() {
    if let Some(switch) = SET.lock().unwrap_or_else(PoisonError::into_inner).take() {
        switch.store(false, Ordering::Relaxed);
    }
}
