//! How long the agent has stopped threads of the service, at most and in total.
//!
//! A pause is measured from outside, as the duration of the call that causes it. That includes waiting for a processor,
//! so on a busy machine the figures are too high, never too low.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Why threads were stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Classes were retransformed: all threads.
    Retransform,
    /// Stacks were read before JDK 12: all threads.
    LookAtAll,
    /// A stack was read since JDK 12: its thread alone.
    LookAtOne,
    /// A call site discarded compiled code: all threads.
    CallSite,
}

/// Pauses up to this are short.
pub(crate) const SHORT: Duration = Duration::from_millis(50);
/// No pause may be longer.
pub(crate) const LONGEST: Duration = Duration::from_millis(200);

#[derive(Debug)]
struct Counts {
    count: AtomicU64,
    long: AtomicU64,
    longest_ns: AtomicU64,
    total_ns: AtomicU64,
}

static COUNTS: [Counts; 4] = [const {
    Counts {
        count: AtomicU64::new(0),
        long: AtomicU64::new(0),
        longest_ns: AtomicU64::new(0),
        total_ns: AtomicU64::new(0),
    }
}; 4];

/// Figures of a group of pauses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub count: u64,
    /// Pauses longer than [`SHORT`].
    pub long: u64,
    pub longest_ns: u64,
    pub total_ns: u64,
}

fn counts(cause: Cause) -> &'static Counts {
    let [retransform, look_at_all, look_at_one, call_site] = &COUNTS;
    match cause {
        Cause::Retransform => retransform,
        Cause::LookAtAll => look_at_all,
        Cause::LookAtOne => look_at_one,
        Cause::CallSite => call_site,
    }
}

/// Counts a pause.
pub(crate) fn add(cause: Cause, took: Duration) {
    let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    let counts = counts(cause);
    counts.count.fetch_add(1, Ordering::Relaxed);
    counts.long.fetch_add(u64::from(took > SHORT), Ordering::Relaxed);
    counts.longest_ns.fetch_max(ns, Ordering::Relaxed);
    counts.total_ns.fetch_add(ns, Ordering::Relaxed);
}

/// Runs work that stops threads, and counts the pause.
pub(crate) fn timed<R>(cause: Cause, work: impl FnOnce() -> R) -> R {
    let begun = Instant::now();
    let result = work();
    add(cause, begun.elapsed());
    result
}

fn figures_of(cause: Cause) -> Figures {
    let counts = counts(cause);
    Figures {
        count: counts.count.load(Ordering::Relaxed),
        long: counts.long.load(Ordering::Relaxed),
        longest_ns: counts.longest_ns.load(Ordering::Relaxed),
        total_ns: counts.total_ns.load(Ordering::Relaxed),
    }
}

fn sum<const N: usize>(causes: [Cause; N]) -> Figures {
    causes.map(figures_of).into_iter().fold(Figures::default(), |sum, of| Figures {
        count: sum.count + of.count,
        long: sum.long + of.long,
        longest_ns: sum.longest_ns.max(of.longest_ns),
        total_ns: sum.total_ns + of.total_ns,
    })
}

/// Pauses of all threads since the attachment began.
pub(crate) fn figures() -> Figures {
    sum([Cause::Retransform, Cause::LookAtAll, Cause::CallSite])
}

/// Readings of stacks since the attachment began.
pub(crate) fn looks() -> Figures {
    sum([Cause::LookAtAll, Cause::LookAtOne])
}

/// Forgets all pauses, because an attachment begins.
pub(crate) fn forget() {
    for counts in &COUNTS {
        for counter in [&counts.count, &counts.long, &counts.longest_ns, &counts.total_ns] {
            counter.store(0, Ordering::Relaxed);
        }
    }
}
