//! How long the slowest call of each method took that the log has of this interval, or will have when it ends. A call that took longer is
//! recorded although thresholds are raised or its thread's ring is nearly full: so no method with slow calls is
//! without a record because others have too many.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::sys::clock;
use crate::sys::memory::two_level::TwoLevel;

/// In ticks, by method; 0 where there is none. It has room for sixteen million methods.
static SLOWEST_TICKS: TwoLevel<AtomicU64, 32_768> = TwoLevel::new();

/// Whether the log has no call of this method that took so long, and will have none.
pub(super) fn is_slower_by_ticks(method: u32, total_ticks: u64) -> bool {
    SLOWEST_TICKS.get(method).is_none_or(|slowest| total_ticks > slowest.load(Ordering::Relaxed))
}

/// The same of a call in nanoseconds.
pub(crate) fn is_slower(method: u32, total_ns: u64) -> bool {
    is_slower_by_ticks(method, clock::ns_to_ticks(total_ns))
}

/// The log gets a call, now or when the interval ends. To be called by the agent thread.
pub(crate) fn keep(method: u32, total_ns: u64) {
    // Without memory all its calls count as slower, and others may go for them.
    if is_slower(method, total_ns)
        && let Some(slowest) = SLOWEST_TICKS.get_or_make(method)
    {
        slowest.store(clock::ns_to_ticks(total_ns), Ordering::Relaxed);
    }
}

/// Another interval begins.
pub(crate) fn forget() {
    SLOWEST_TICKS.forget();
}
