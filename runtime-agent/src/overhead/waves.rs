//! When throttled methods are compiled out: after a wave of throttling.
//!
//! A program that gets its first load, or another one, is compiled meanwhile, becomes faster, and overruns the budget
//! again and again. A throttled method's guard costs about a nanosecond a call, but many of them keep the JIT from
//! inlining: H2, whose load began 15 s after its start, was at 0.3 to 0.4 of its speed with the guards of 800 methods.
//! So the methods are compiled out: code that the JIT compiles from then on has nothing of their probes. Code that was
//! compiled before is discarded. That makes the program slow for a moment, so it is done after a wave, seldom, and not
//! for a few methods.
//!
//! A compiled-out method stays throttled: measuring it again would need another discard. One with a guard comes back
//! (`return_to_budget`).

use super::period_cost::SECOND_NS;
use super::start_up::StartUp;

/// A wave has ended when nothing has been throttled for so long, or after the longest time. Of H2, nearly all that ever
/// is throttled is by then.
const QUIET_NS: u64 = 2 * SECOND_NS;
const LONGEST_NS: u64 = 20 * SECOND_NS;
/// Methods with guards may be called so often a second in all. Guards of 131 methods of Lucene with 130,000 calls a
/// second cost nothing that could be measured, those of 50 of H2 with over a million 7%, and a discard costs some
/// seconds.
const LEAST_CALLS_PER_S: u64 = 1_000_000;
/// How long after a discard the next one may come; twice as long each time.
const FIRST_WAIT_NS: u64 = 10 * SECOND_NS;
const LONGEST_WAIT_NS: u64 = 3_600 * SECOND_NS;
/// The JIT compiles discarded code again for so long.
const COMPILED_NS: u64 = 10 * SECOND_NS;
/// The current wave, and when compiled code was discarded.
#[derive(Debug, Default)]
pub(super) struct Waves {
    /// When methods of this wave were first throttled, and last.
    throttled_ns: Option<(u64, u64)>,
    discards: u32,
    discarded_ns: u64,
    /// Calls a second of methods that were compiled out since then. Code that was compiled before that has their
    /// guards.
    late_calls_per_s: u64,
}

impl Waves {
    /// Whether there is a wave.
    pub(super) fn is_going_on(&self) -> bool {
        self.throttled_ns.is_some()
    }

    /// Whether compiled code has been discarded.
    pub(super) fn has_discarded(&self) -> bool {
        self.discards > 0
    }

    /// Methods with so many calls a second were throttled. Returns whether code is being compiled again, so that they
    /// can be compiled out at once.
    pub(super) fn add(&mut self, now_ns: u64, calls_per_s: u64) -> bool {
        let (_, last_ns) = self.throttled_ns.get_or_insert((now_ns, now_ns));
        *last_ns = now_ns;
        let is_late = self.discards > 0 && now_ns < self.discarded_ns + COMPILED_NS;
        self.late_calls_per_s += if is_late { calls_per_s } else { 0 };
        is_late
    }

    /// Whether throttled methods that have guards and so many calls a second are to be compiled out now, and compiled
    /// code discarded.
    pub(super) fn discards(
        &mut self,
        now_ns: u64,
        calls_per_s: u64,
        start_up: &mut StartUp,
    ) -> bool {
        let is_over =
            |(first_ns, last_ns)| now_ns >= last_ns + QUIET_NS || now_ns >= first_ns + LONGEST_NS;
        // Of the wave that ends now, too.
        let first_least = start_up.least_calls_per_s(LEAST_CALLS_PER_S);
        if self.throttled_ns.is_some_and(is_over) {
            self.throttled_ns = None;
            start_up.end();
        }
        let (least, wait_ns) = match self.discards {
            0 => (first_least, 0),
            times => {
                (LEAST_CALLS_PER_S, (FIRST_WAIT_NS << (times - 1).min(16)).min(LONGEST_WAIT_NS))
            }
        };
        let is_due = self.throttled_ns.is_none()
            && calls_per_s + self.late_calls_per_s >= least
            && now_ns >= self.discarded_ns + wait_ns;
        if is_due {
            (self.discards, self.discarded_ns, self.late_calls_per_s) =
                (self.discards + 1, now_ns, 0);
        }
        is_due
    }
}
