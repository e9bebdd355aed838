//! How long the agent has stopped threads of the service, at most and in all.
//!
//! A pause is measured from outside, as the time of the call that causes it. Waiting for a processor counts, so
//! on a busy machine the figures are too high, never too low.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Why threads were stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Classes were retransformed: all threads.
    Retransform,
    /// A stack was read: its thread, on JDK 11 all threads.
    StackLook,
    /// Compiled code was thrown away by a call site: all threads.
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

static COUNTS: [Counts; 3] = [const {
    Counts {
        count: AtomicU64::new(0),
        long: AtomicU64::new(0),
        longest_ns: AtomicU64::new(0),
        total_ns: AtomicU64::new(0),
    }
}; 3];

/// Figures of one cause, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub count: u64,
    /// Pauses longer than [`SHORT`].
    pub long: u64,
    pub longest_ns: u64,
    pub total_ns: u64,
}

fn counts(cause: Cause) -> &'static Counts {
    let [retransform, look, call_site] = &COUNTS;
    match cause {
        Cause::Retransform => retransform,
        Cause::StackLook => look,
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

/// Does what stops threads, and counts the pause.
pub(crate) fn timed<R>(cause: Cause, work: impl FnOnce() -> R) -> R {
    let begun = Instant::now();
    let result = work();
    add(cause, begun.elapsed());
    result
}

/// Figures of one cause since the attachment began.
pub(crate) fn figures_of(cause: Cause) -> Figures {
    let counts = counts(cause);
    Figures {
        count: counts.count.load(Ordering::Relaxed),
        long: counts.long.load(Ordering::Relaxed),
        longest_ns: counts.longest_ns.load(Ordering::Relaxed),
        total_ns: counts.total_ns.load(Ordering::Relaxed),
    }
}

/// Figures of all causes since the attachment began.
pub(crate) fn figures() -> Figures {
    let all = [Cause::Retransform, Cause::StackLook, Cause::CallSite].map(figures_of);
    all.into_iter().fold(Figures::default(), |sum, of| Figures {
        count: sum.count + of.count,
        long: sum.long + of.long,
        longest_ns: sum.longest_ns.max(of.longest_ns),
        total_ns: sum.total_ns + of.total_ns,
    })
}

/// Forgets all pauses: an attachment begins.
pub(crate) fn forget() {
    for counts in &COUNTS {
        for counter in [&counts.count, &counts.long, &counts.longest_ns, &counts.total_ns] {
            counter.store(0, Ordering::Relaxed);
        }
    }
}
