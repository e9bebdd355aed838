//! The first seconds of recording. The program gets faster, and soon calls everything [`FASTER`] times as often.
//! Throttling more methods again and again would prevent that. So as much is throttled at once as will be necessary
//! then, and what was too much comes back afterwards.

use std::collections::HashMap;

use log_format::ids::MethodId;

use super::period::{Cost, PeriodBudget, Phase, SECOND_NS, as_f64};

const EARLY_NS: u64 = 10 * SECOND_NS;
pub(super) const FASTER: f64 = 20.0;
/// When methods come back that are not worth their probes.
const SETTLED_NS: u64 = 18 * SECOND_NS;
/// After this many overruns in the beginning, methods are throttled as soon as the rest would be over the budget if it
/// were called [`FASTER`] times as often. Methods that the compiler gets to before that stay slow.
const TIGHT: u32 = 2;
/// While methods are interpreted, they take several times as long themselves.
const INTERPRETED: f64 = 5.0;

/// When recording began, and what is known of the beginning.
#[derive(Debug)]
pub(super) struct Startup {
    began_ns: Option<u64>,
    /// Periods in which the budget was overrun.
    overruns: u32,
    /// Calls a second of measured methods when methods were first throttled.
    rates: HashMap<MethodId, f64>,
    /// How many times as often they are called now.
    growth: f64,
}

impl Default for Startup {
    fn default() -> Self {
        Self { began_ns: None, overruns: 0, rates: HashMap::new(), growth: 1.0 }
    }
}

impl Startup {
    /// Recording began then, unless that is known already.
    pub(super) fn begin(&mut self, at_ns: u64) {
        self.began_ns.get_or_insert(at_ns);
    }

    /// Recording begins again.
    pub(super) fn begin_again(&mut self) {
        (self.began_ns, self.overruns) = (None, 0);
    }

    /// Whether it is one of the first seconds.
    pub(super) fn is_on(&self, now_ns: u64) -> bool {
        self.began_ns.is_some_and(|began_ns| now_ns < began_ns + EARLY_NS)
    }

    /// Whether recording has been on for so long.
    pub(super) fn is_older_than(&self, ns: u64, now_ns: u64) -> bool {
        self.began_ns.is_some_and(|began_ns| now_ns >= began_ns + ns)
    }

    /// Counts an overrun, if it is one of the first seconds.
    pub(super) fn add_overrun(&mut self, now_ns: u64) {
        self.overruns += u32::from(self.is_on(now_ns));
    }

    /// Notes how often methods are called when methods are first throttled.
    pub(super) fn note_rates(&mut self, costs: &[Cost], seconds: f64) {
        if self.rates.is_empty() {
            let rates = costs.iter().map(|cost| (cost.id, as_f64(cost.did.calls) / seconds));
            self.rates.extend(rates);
        }
    }

    /// Finds how many times as often methods are called now as when methods were first throttled.
    pub(super) fn grow(&mut self, costs: &[Cost], seconds: f64) {
        let (mut then, mut now) = (0.0, 0.0);
        for Cost { id, did, .. } in costs {
            if let Some(calls_per_s) = self.rates.get(id) {
                then += calls_per_s;
                now += as_f64(did.calls) / seconds;
            }
        }
        if then > 0.0 && now > 0.0 {
            self.growth = (now / then).min(FASTER);
        }
    }

    /// How many times as often methods are called now as when methods were first throttled.
    pub(super) fn growth(&self) -> f64 {
        self.growth
    }
}

impl Phase for Startup {
    fn worth_it(&self, budget: f64) -> f64 {
        budget / INTERPRETED
    }

    /// When the program begins, most methods are rare, for a moment.
    fn spares_rare(&self, _rare_ns: f64, _in_period: &PeriodBudget<'_>) -> bool {
        true
    }

    fn room_ns(&self, _stays_ns: f64, in_period: &PeriodBudget<'_>) -> f64 {
        let PeriodBudget { period, budget, cpu_ns, .. } = *in_period;
        if self.overruns < TIGHT {
            return budget * cpu_ns;
        }
        // Of a processor, because a program that has nothing to do yet uses little of one.
        budget / FASTER * cpu_ns.max(as_f64(period.length_ns))
    }

    fn target(&self, _room_ns: f64, in_period: &PeriodBudget<'_>) -> f64 {
        in_period.budget / FASTER
    }

    fn again_ns(&self, ratio: f64, _times: u32, in_period: &PeriodBudget<'_>) -> u64 {
        let began_ns = self.began_ns.unwrap_or(in_period.period.now_ns);
        began_ns + if ratio <= in_period.budget { EARLY_NS } else { SETTLED_NS }
    }

    fn is_fresh(&self, _is_compiled: bool, _is_rare: bool) -> bool {
        true
    }
}
