//! Start-up: a program that begins, or gets its first load, is interpreted yet. It becomes up to 20 times as fast, so methods
//! that are within the budget now would overrun it again and again. Until its first wave of throttling is over, more is
//! throttled at once, and compiled out earlier. [`super`] has the steady state.

use super::period::SECOND_NS;

/// Share of the budget that stays in use in the first wave: a twentieth of what stays in use later.
const TARGET: f64 = 0.025;
/// Methods are interpreted, and take several times as long themselves.
const INTERPRETED: f64 = 5.0;
/// Throttled methods are compiled out if they have a share of the calls that would be needed later: they were counted while
/// they were interpreted, and are called more often soon.
const CALLS: u64 = 20;
/// The first wave often comes so soon after the beginning of recording. Methods that are not throttled before they are
/// compiled cost more, so periods are short until then.
const EARLY_NS: u64 = 10 * SECOND_NS;
/// A program that gets its first load costs more than this many times the budget at once. One that has been compiled
/// for long, and grows, does not.
const FAR: f64 = 2.0;

/// How far the program is.
#[derive(Debug, Default)]
pub(super) struct StartUp {
    /// When recording began.
    began_ns: Option<u64>,
    /// Something has been throttled for it.
    was_strict: bool,
    /// The first wave is over.
    has_ended: bool,
}

impl StartUp {
    /// Recording began then, unless that is known already.
    pub(super) fn begin(&mut self, at_ns: u64) {
        self.began_ns.get_or_insert(at_ns);
    }

    /// Whether recording began a short time ago.
    pub(super) fn is_early(&self, now_ns: u64) -> bool {
        self.began_ns.is_none_or(|began_ns| now_ns < began_ns + EARLY_NS)
    }

    /// Whether what is throttled now belongs to a program that is not compiled yet: in the first wave, if it comes early or
    /// probes cost far more than the budget.
    pub(super) fn is_strict(&self, now_ns: u64, times_budget: f64) -> bool {
        let least = if self.is_early(now_ns) { 1.0 } else { FAR };
        !self.has_ended && (self.was_strict || times_budget > least)
    }

    /// Methods whose probes cost more than this share of their own time may be throttled, if it is strict.
    pub(super) fn worth_it(budget: f64) -> f64 {
        budget / INTERPRETED
    }

    /// So much of the budget may stay in use, in nanoseconds, if it is strict.
    pub(super) fn target_ns(budget_ns: f64) -> f64 {
        TARGET * budget_ns
    }

    /// Methods were throttled.
    pub(super) fn add(&mut self, is_strict: bool) {
        self.was_strict |= is_strict;
    }

    /// How many calls a second throttled methods must have to be compiled out, instead of `later`.
    pub(super) fn least_calls_per_s(&self, later: u64) -> u64 {
        if self.was_strict { later / CALLS } else { later }
    }

    /// A wave is over.
    pub(super) fn end(&mut self) {
        self.has_ended = true;
    }

    /// Whether methods are compiled out has been decided: being strict counted until the end of its wave.
    pub(super) fn decided(&mut self) {
        self.was_strict &= !self.has_ended;
    }
}
