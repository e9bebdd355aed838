//! The duration from which on a call is recorded: by method, readable in a probe without a lock.
//!
//! Every method has one of 256 thresholds; number 0 applies to all methods without one of their own. The probe compares
//! a duration with the lowest of all. On the common path, it compares with the end of the histogram's first bucket
//! instead, if that is lower. Only a call that reaches the lowest looks up its method's own.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use super::{buckets, task_requests};
use log_format::ids::MethodId;

use crate::sys::clock;
use crate::sys::memory::two_level::TwoLevel;

/// Number of different thresholds.
const COUNT: usize = 256;

/// In nanoseconds; `u64::MAX` for unused ones.
static OWN_NS: [AtomicU64; COUNT] = [const { AtomicU64::new(u64::MAX) }; COUNT];

/// The same in ticks.
static OWN_TICKS: [AtomicU64; COUNT] = [const { AtomicU64::new(u64::MAX) }; COUNT];

/// The minimum to which all thresholds are raised, in nanoseconds and in ticks.
static RAISED_TO_NS: AtomicU64 = AtomicU64::new(0);
static RAISED_TO_TICKS: AtomicU64 = AtomicU64::new(0);

/// The lowest of them, or the shortest duration in requests of a task, in ticks.
static LOWEST_TICKS: AtomicU64 = AtomicU64::new(u64::MAX);

/// The lowest threshold or the end of the shortest calls' bucket, whichever is lower.
static SHORT_TICKS: AtomicU64 = AtomicU64::new(0);

/// Each method's threshold number. It has room for sixteen million methods; methods with higher ids use number 0.
static NUMBERS: TwoLevel<AtomicU8, 4_096> = TwoLevel::new();

/// The shortest duration in ticks from which on any call is recorded, before raising.
#[inline]
pub(super) fn lowest_ticks() -> u64 {
    LOWEST_TICKS.load(Ordering::Relaxed)
}

/// Calls shorter than this, in ticks, are in the bucket of the shortest and are not recorded.
#[inline]
pub(super) fn short_ticks() -> u64 {
    SHORT_TICKS.load(Ordering::Relaxed)
}

/// A method's threshold in ticks, before raising.
pub(super) fn ticks_of(method: MethodId) -> u64 {
    OWN_TICKS.get(number_of(method)).map_or(u64::MAX, |ticks| ticks.load(Ordering::Relaxed))
}

/// The duration in ticks to which all thresholds are raised.
pub(super) fn raised_to_ticks() -> u64 {
    RAISED_TO_TICKS.load(Ordering::Relaxed)
}

/// A method's threshold, before raising.
pub(crate) fn threshold_ns_of(method: MethodId) -> u64 {
    OWN_NS.get(number_of(method)).map_or(u64::MAX, |ns| ns.load(Ordering::Relaxed))
}

/// Sets the threshold of all methods without one of their own.
pub(crate) fn set_threshold_ns(ns: u64) {
    set_numbered_ns(0, ns);
}

/// Sets the threshold with this number.
pub(crate) fn set_numbered_ns(number: u8, ns: u64) {
    if let Some(own) = OWN_NS.get(usize::from(number)) {
        own.store(ns, Ordering::Relaxed);
    }
    renew_ticks();
}

/// Sets from which duration on calls in the requests of a task are recorded; with `u64::MAX`, none are.
pub(crate) fn set_least_in_requests_ns(ns: u64) {
    task_requests::set_least_ns(ns);
    renew_ticks();
}

/// Raises all lower thresholds to `ns`, until the next call.
pub(crate) fn raise_thresholds(ns: u64) {
    RAISED_TO_NS.store(ns, Ordering::Relaxed);
    renew_ticks();
}

/// The lowest of all thresholds, before raising.
pub(crate) fn lowest_threshold_ns() -> u64 {
    OWN_NS.iter().map(|ns| ns.load(Ordering::Relaxed)).min().unwrap_or(u64::MAX)
}

/// Recomputes the thresholds in ticks; the length of a tick may have changed.
pub(crate) fn renew_ticks() {
    buckets::renew();
    let raised_to = clock::ns_to_ticks(RAISED_TO_NS.load(Ordering::Relaxed));
    RAISED_TO_TICKS.store(raised_to, Ordering::Relaxed);
    let mut lowest = task_requests::renew_least_ticks();
    for (ns, ticks) in OWN_NS.iter().zip(&OWN_TICKS) {
        let own = clock::ns_to_ticks(ns.load(Ordering::Relaxed));
        ticks.store(own, Ordering::Relaxed);
        lowest = lowest.min(own);
    }
    LOWEST_TICKS.store(lowest, Ordering::Relaxed);
    SHORT_TICKS.store(lowest.min(buckets::shortest_end()), Ordering::Relaxed);
}

/// Gives a method the threshold with this number. Without memory for the table, or for a method beyond its end, the
/// method keeps threshold 0.
pub(crate) fn assign(method: MethodId, number: u8) {
    // Most programs have one threshold only, and need no table.
    let entry =
        if number == 0 { NUMBERS.get(method.get()) } else { NUMBERS.get_or_make(method.get()) };
    if let Some(entry) = entry {
        entry.store(number, Ordering::Relaxed);
    }
}

/// Removes all thresholds, as at the start.
pub(crate) fn forget_thresholds() {
    RAISED_TO_NS.store(0, Ordering::Relaxed);
    task_requests::set_least_ns(u64::MAX);
    for ns in &OWN_NS {
        ns.store(u64::MAX, Ordering::Relaxed);
    }
    NUMBERS.forget();
    renew_ticks();
}

fn number_of(method: MethodId) -> usize {
    NUMBERS.get(method.get()).map_or(0, |number| usize::from(number.load(Ordering::Relaxed)))
}
