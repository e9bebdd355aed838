//! Whether statements are counted, how many are lost, and what the probes cost.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::slow;
use crate::sys::clock;

static IS_ON: AtomicBool = AtomicBool::new(false);
/// Executions that are not counted for lack of memory.
pub(super) static LOST: AtomicU64 = AtomicU64::new(0);

/// What `status` says of SQL statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatementFigures {
    /// Executions that ended.
    pub executions: u64,
    /// Slow ones that were not written.
    pub dropped: u64,
    /// Executions that are counted nowhere for lack of memory.
    pub lost: u64,
}

/// What is missing since the JVM began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Executions that were not kept although they took long.
    pub dropped: u64,
    /// Others, which are counted nowhere for lack of memory.
    pub lost: u64,
}

impl Counts {
    pub(crate) fn now() -> Self {
        Self { dropped: slow::dropped(), lost: LOST.load(Ordering::Relaxed) }
    }
}

/// One in so many calls of a probe has its time measured.
const MEASURED: u64 = 16;
/// What takes longer was interrupted: usually it takes 0.1 us, and some 10 us with a stack.
const MOST_NS: u64 = 100_000;
/// The CPU time that probes took, in ticks.
static COST: AtomicU64 = AtomicU64::new(0);

/// The CPU time that probes took of the service's threads so far, in nanoseconds.
pub(crate) fn cost_ns() -> u64 {
    clock::ticks_to_ns(COST.load(Ordering::Relaxed))
}

/// Notes what a probe took that began then.
pub(super) fn add_cost(began: u64) {
    // The lowest bits of a counter may always be 0.
    if began >> 6 & (MEASURED - 1) == 0 {
        let took = clock::ticks().saturating_sub(began).min(clock::ns_to_ticks(MOST_NS));
        COST.fetch_add(MEASURED * took, Ordering::Relaxed);
    }
}

/// Whether statements are counted now.
pub(super) fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// Statements are counted from now on, or not.
pub(super) fn turn_on(is_on: bool) {
    IS_ON.store(is_on, Ordering::Release);
}
