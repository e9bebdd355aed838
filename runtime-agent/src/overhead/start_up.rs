//! Start-up: a program that begins, or gets its first load, is interpreted at first. It becomes up to 20 times as fast,
//! so methods that are within the budget now would overrun it again and again. Until its first wave of throttling is
//! over, more is throttled at once, and compiled out earlier. `steady_state` follows.

use super::period_cost::SECOND_NS;

/// Share of the budget that stays in use in the first wave: a twentieth of what stays in use later.
pub(super) const TARGET: f64 = 0.025;
/// Methods are interpreted, and take several times as long themselves.
pub(super) const INTERPRETED: f64 = 5.0;
/// Methods that were counted while they and their probes were interpreted, perhaps for a part of the period, and on a
/// busy machine, are called up to so many times as often soon.
const FASTER: u64 = 100;
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

    /// Whether what is throttled now belongs to a program that is not compiled yet: in the first wave, if it comes
    /// early or probes cost far more than the budget.
    pub(super) fn is_strict(&self, now_ns: u64, times_budget: f64) -> bool {
        let least = if self.is_early(now_ns) { 1.0 } else { FAR };
        !self.has_ended && (self.was_strict || times_budget > least)
    }

    /// Methods were throttled.
    pub(super) fn add(&mut self, is_strict: bool) {
        self.was_strict |= is_strict;
    }

    /// How many calls a second throttled methods must have to be compiled out, where `later` are needed later.
    pub(super) fn least_calls_per_s(&self, later: u64) -> u64 {
        if self.was_strict { later / FASTER } else { later }
    }

    /// A wave is over.
    pub(super) fn end(&mut self) {
        (self.has_ended, self.was_strict) = (true, false);
    }
}
