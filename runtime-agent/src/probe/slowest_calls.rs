//! The duration of each method's slowest call of this interval that is in the log, or will be when the interval ends. A
//! longer call is recorded even if thresholds are raised, and one that is longer by an eighth even if its thread's ring
//! is nearly full. So no method with slow calls lacks a recorded call because other methods have too many.

use std::sync::atomic::{AtomicU64, Ordering};

use log_format::ids::MethodId;

use crate::sys::clock;
use crate::sys::memory::two_level::TwoLevel;

/// In ticks, by method; 0 if there is none. It has room for sixteen million methods.
static SLOWEST_TICKS: TwoLevel<AtomicU64, 32_768> = TwoLevel::new();

/// The slowest call of each method that went into the reserved part of a ring, in ticks.
static RESERVED_TICKS: TwoLevel<AtomicU64, 32_768> = TwoLevel::new();

/// Whether a call may go into the reserved part of a ring: only if it is slower by an eighth than every earlier one of
/// its method there. A method whose calls get slower bit by bit then leaves room for others.
pub(super) fn may_use_reserve(method: MethodId, total_ticks: u64) -> bool {
    let Some(slowest) = RESERVED_TICKS.get_or_make(method.get()) else { return true };
    let before = slowest.load(Ordering::Relaxed);
    let is_slower = total_ticks > before.saturating_add(before / 8);
    if is_slower {
        slowest.fetch_max(total_ticks, Ordering::Relaxed);
    }
    is_slower
}

/// Whether the log neither has nor will have a call of this method that took as long.
pub(super) fn is_slower_by_ticks(method: MethodId, total_ticks: u64) -> bool {
    SLOWEST_TICKS
        .get(method.get())
        .is_none_or(|slowest| total_ticks > slowest.load(Ordering::Relaxed))
}

/// The same for a call in nanoseconds.
pub(crate) fn is_slower(method: MethodId, total_ns: u64) -> bool {
    is_slower_by_ticks(method, clock::ns_to_ticks(total_ns))
}

/// Notes a call that the log gets, now or when the interval ends. Agent thread only.
pub(crate) fn keep(method: MethodId, total_ns: u64) {
    // Without memory, all calls of the method count as slower, and may displace others.
    if is_slower(method, total_ns)
        && let Some(slowest) = SLOWEST_TICKS.get_or_make(method.get())
    {
        slowest.store(clock::ns_to_ticks(total_ns), Ordering::Relaxed);
    }
}

/// Begins another interval.
pub(crate) fn forget() {
    SLOWEST_TICKS.forget();
    RESERVED_TICKS.forget();
}
