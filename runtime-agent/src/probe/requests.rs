//! The requests that a profile task records: outermost calls of its endpoint's methods.
//!
//! Inside them, calls under their thresholds are recorded too. A call that reaches the lowest of all these durations
//! looks for the endpoint on its thread's stack; shorter calls do not notice a task.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use log_format::ids::MethodId;

use super::own::Own;
use super::stack::ShadowStack;
use crate::sys::clock;
use crate::sys::memory::two_level::TwoLevel;

/// Calls in requests are recorded from this duration on; `u64::MAX` without a task.
static LEAST_NS: AtomicU64 = AtomicU64::new(u64::MAX);
/// The same in ticks.
static LEAST_TICKS: AtomicU64 = AtomicU64::new(u64::MAX);

/// Not 0 for the endpoint's methods. It has room for sixteen million methods; others are no endpoints.
static NUMBERS: TwoLevel<AtomicU8, 4_096> = TwoLevel::new();

/// Whether a method is the endpoint of the task.
pub(crate) fn is_endpoint(method: MethodId) -> bool {
    NUMBERS.get(method.get()).is_some_and(|number| number.load(Ordering::Relaxed) > 0)
}

/// If a call with this place and duration belongs to a request and is to be recorded, the place of the request.
pub(super) fn request_of(stack: Own<'_, ShadowStack>, index: u32, total_ticks: u64) -> Option<u32> {
    if total_ticks < LEAST_TICKS.load(Ordering::Relaxed) {
        return None;
    }
    (0..=index).find(|at| is_endpoint(stack.frame(*at).method()))
}

/// Sets from which duration on calls in requests are recorded, with the next [`renew_least_ticks`].
pub(super) fn set_least_ns(ns: u64) {
    LEAST_NS.store(ns, Ordering::Relaxed);
}

/// Recomputes the duration in ticks, and returns it.
pub(super) fn renew_least_ticks() -> u64 {
    let ticks = clock::ns_to_ticks(LEAST_NS.load(Ordering::Relaxed));
    LEAST_TICKS.store(ticks, Ordering::Relaxed);
    ticks
}

/// Makes a method an endpoint, or none with number 0. Without memory for the table, or for a method beyond its end, it
/// is none.
pub(crate) fn assign(method: MethodId, number: u8) {
    let entry =
        if number == 0 { NUMBERS.get(method.get()) } else { NUMBERS.get_or_make(method.get()) };
    if let Some(entry) = entry {
        entry.store(number, Ordering::Relaxed);
    }
}

/// No method is an endpoint any more.
pub(crate) fn forget() {
    NUMBERS.forget();
}
