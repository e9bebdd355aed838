//! From which duration on a call is recorded: by method, readable in a probe without a lock.
//!
//! Every method has one of 256 thresholds; number 0 is that of all methods without one of their own.
//! What the probe compares with is the lowest of all, on its common path with where the shortest calls of the
//! histogram end, if that is lower; only a call that took as long as the lowest looks up its method's own.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use super::buckets;
use crate::sys::clock;
use crate::sys::memory::two_level::TwoLevel;

/// Thresholds that can be told apart.
const COUNT: usize = 256;

/// In nanoseconds; `u64::MAX` for those that are not used.
static OWN_NS: [AtomicU64; COUNT] = [const { AtomicU64::new(u64::MAX) }; COUNT];

/// The same in ticks.
static OWN_TICKS: [AtomicU64; COUNT] = [const { AtomicU64::new(u64::MAX) }; COUNT];

/// What all of them are raised to, in nanoseconds and in ticks.
static RAISED_TO_NS: AtomicU64 = AtomicU64::new(0);
static RAISED_TO_TICKS: AtomicU64 = AtomicU64::new(0);

/// The lowest of them, in ticks.
static LOWEST_TICKS: AtomicU64 = AtomicU64::new(u64::MAX);

/// The same or where the bucket of the shortest calls ends, whichever is lower.
static SHORT_TICKS: AtomicU64 = AtomicU64::new(0);

/// The number of each method's threshold. It has room for sixteen million methods; those with a higher number have
/// the threshold of all.
static NUMBERS: TwoLevel<AtomicU8, 4_096> = TwoLevel::new();

/// The lowest duration in ticks that any method's calls are recorded from, when nothing is raised.
#[inline]
pub(super) fn lowest_ticks() -> u64 {
    LOWEST_TICKS.load(Ordering::Relaxed)
}

/// Calls that take less, in ticks, are in the bucket of the shortest and have no record.
#[inline]
pub(super) fn short_ticks() -> u64 {
    SHORT_TICKS.load(Ordering::Relaxed)
}

/// From which duration on a method's calls are recorded, in ticks, when nothing is raised.
pub(super) fn ticks_of(method: u32) -> u64 {
    OWN_TICKS.get(number_of(method)).map_or(u64::MAX, |ticks| ticks.load(Ordering::Relaxed))
}

/// From which duration on they are recorded, whatever their methods' thresholds are.
pub(super) fn raised_to_ticks() -> u64 {
    RAISED_TO_TICKS.load(Ordering::Relaxed)
}

/// From which duration on a method's calls are recorded, when nothing is raised.
pub(crate) fn threshold_ns_of(method: u32) -> u64 {
    OWN_NS.get(number_of(method)).map_or(u64::MAX, |ns| ns.load(Ordering::Relaxed))
}

/// Sets the duration from which on calls are recorded, of all methods without one of their own.
pub(crate) fn set_threshold_ns(ns: u64) {
    set_numbered_ns(0, ns);
}

/// Sets a threshold of methods that were given its number.
pub(crate) fn set_numbered_ns(number: u8, ns: u64) {
    if let Some(own) = OWN_NS.get(usize::from(number)) {
        own.store(ns, Ordering::Relaxed);
    }
    renew_ticks();
}

/// Raises all thresholds that are lower to `ns`, until it is called again.
pub(crate) fn raise_thresholds(ns: u64) {
    RAISED_TO_NS.store(ns, Ordering::Relaxed);
    renew_ticks();
}

/// The lowest of all thresholds, when nothing is raised.
pub(crate) fn lowest_threshold_ns() -> u64 {
    OWN_NS.iter().map(|ns| ns.load(Ordering::Relaxed)).min().unwrap_or(u64::MAX)
}

/// Computes anew what the probe compares durations with; the length of a tick may have changed.
pub(crate) fn renew_ticks() {
    buckets::renew();
    let raised_to = clock::ns_to_ticks(RAISED_TO_NS.load(Ordering::Relaxed));
    RAISED_TO_TICKS.store(raised_to, Ordering::Relaxed);
    let mut lowest = u64::MAX;
    for (ns, ticks) in OWN_NS.iter().zip(&OWN_TICKS) {
        let own = clock::ns_to_ticks(ns.load(Ordering::Relaxed));
        ticks.store(own, Ordering::Relaxed);
        lowest = lowest.min(own);
    }
    LOWEST_TICKS.store(lowest, Ordering::Relaxed);
    SHORT_TICKS.store(lowest.min(buckets::shortest_end()), Ordering::Relaxed);
}

/// Gives a method the threshold with this number. Without memory for the table, or for a method
/// beyond its end, it keeps that of all.
pub(crate) fn assign(method: u32, number: u8) {
    // Most programs have no threshold but one, and need no table.
    let entry = if number == 0 { NUMBERS.get(method) } else { NUMBERS.get_or_make(method) };
    if let Some(entry) = entry {
        entry.store(number, Ordering::Relaxed);
    }
}

/// No method has a threshold, as at the beginning.
pub(crate) fn forget_thresholds() {
    RAISED_TO_NS.store(0, Ordering::Relaxed);
    for ns in &OWN_NS {
        ns.store(u64::MAX, Ordering::Relaxed);
    }
    NUMBERS.forget();
    renew_ticks();
}

fn number_of(method: u32) -> usize {
    NUMBERS.get(method).map_or(0, |number| usize::from(number.load(Ordering::Relaxed)))
}
