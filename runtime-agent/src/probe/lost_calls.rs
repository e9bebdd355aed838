//! Counts calls that were lost for lack of memory, and the threads that made them.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use super::recording::attachment;

/// Number of counters. Threads spread over them by address, so they seldom contend for a cache line.
const COUNTERS: usize = 16;

#[repr(align(64))]
struct Counter(AtomicU64);

static CALLS: [Counter; COUNTERS] = [const { Counter(AtomicU64::new(0)) }; COUNTERS];
static THREADS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The attachment in which the calling thread was counted, plus one.
    static COUNTED_IN: Cell<u32> = const { Cell::new(0) };
}

/// Counts calls of the calling thread that are in no thread's method statistics.
pub(super) fn add(calls: u64) {
    // Thread-local variables of different threads are pages apart.
    let place = COUNTED_IN.with(|own| std::ptr::from_ref(own).addr() >> 12) % COUNTERS;
    if let Some(counter) = CALLS.get(place) {
        counter.0.fetch_add(calls, Ordering::Relaxed);
    }
}

/// Counts the calling thread as one without memory, once in an attachment.
pub(super) fn add_thread() {
    let own = attachment().wrapping_add(1);
    if COUNTED_IN.replace(own) != own {
        THREADS.fetch_add(1, Ordering::Relaxed);
    }
}

/// Calls lost so far.
pub(crate) fn calls() -> u64 {
    CALLS.iter().map(|counter| counter.0.load(Ordering::Relaxed)).sum()
}

/// Threads so far that lost calls because there was no memory for the thread.
pub(crate) fn threads() -> u64 {
    THREADS.load(Ordering::Relaxed)
}

/// Resets all counters to 0.
pub(super) fn forget() {
    CALLS.iter().for_each(|counter| counter.0.store(0, Ordering::Relaxed));
    THREADS.store(0, Ordering::Relaxed);
}
