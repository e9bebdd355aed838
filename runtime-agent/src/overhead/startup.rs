//! The first seconds of recording, and how much faster the program has become since.

use std::collections::HashMap;

use log_format::ids::MethodId;

use super::period::{Cost, SECOND_NS, as_f64};

pub(super) const EARLY_NS: u64 = 10 * SECOND_NS;
pub(super) const FASTER: f64 = 20.0;
/// After this many overruns in the beginning, methods are throttled as soon as the rest would be over the budget if it
/// were called [`FASTER`] times as often. Methods that the compiler gets to before that stay slow.
const TIGHT: u32 = 2;

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

    /// When recording began, if it is one of the first seconds.
    pub(super) fn began_ns(&self, now_ns: u64) -> Option<u64> {
        self.began_ns.filter(|began_ns| now_ns < began_ns + EARLY_NS)
    }

    /// Whether it is one of the first seconds.
    pub(super) fn is_on(&self, now_ns: u64) -> bool {
        self.began_ns(now_ns).is_some()
    }

    /// Whether there were overruns enough.
    pub(super) fn is_tight(&self) -> bool {
        self.overruns >= TIGHT
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
