//! What a call costs in this program: as in a loop of its own, times what CPU samples say.
//!
//! Code around probes is no longer inlined, and caches miss. Samples in probes say how much that takes in all; they
//! come too seldom to say it of each method. With all methods measured, samples said 24.4 ns a call of H2 and 22.9 of
//! Lucene, and their throughput 29.8 and 22.9.

use super::period_cost::{Period, as_f64};
use crate::drain::run_sums::SampledProbes;

/// Before samples say it. H2 and Lucene with all methods measured: 75 to 95 ns where the loop says 25.
const ASSUMED: f64 = 3.0;
/// The same without a budget: most calls are the ones that are compiled best. 47 to 52 ns a call in three programs
/// where the loop says 52.
const ASSUMED_WITHOUT_BUDGET: f64 = 1.0;
/// What is assumed counts as much as samples of so much cost as in a loop: some ten with `cpu=10ms`.
const ASSUMED_NS: f64 = 3e7;
/// After this time, a third is left of what samples said.
const MEMORY_S: f64 = 60.0;
/// Samples of less CPU time say nothing.
const LEAST_SAMPLED_NS: f64 = 1e6;
/// More is chance. Most that was seen: 160 ns where the loop says 28.
const MOST: f64 = 10.0;

/// What a call costs, and what samples said of it lately.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallCost {
    /// In a loop of its own, in nanoseconds.
    pub pair_ns: f64,
    pub has_budget: bool,
    /// What calls would have cost in such a loop while there were samples, and the CPU time then.
    loop_ns: f64,
    cpu_ns: f64,
    probes_ns: f64,
    sampled_ns: f64,
}

impl CallCost {
    pub(super) fn new(pair_ns: f64, has_budget: bool) -> Self {
        let [loop_ns, cpu_ns, probes_ns, sampled_ns] = [0.0; 4];
        Self { pair_ns, has_budget, loop_ns, cpu_ns, probes_ns, sampled_ns }
    }

    /// Adds a period in which calls would have cost `loop_ns` in a loop of their own.
    pub(super) fn add(&mut self, loop_ns: f64, period: &Period) {
        let remains = (-period.seconds() / MEMORY_S).exp();
        let SampledProbes { probes_ns, all_ns } = period.sampled;
        // Without samples, nothing is known, and nothing is forgotten.
        if all_ns == 0 && self.sampled_ns == 0.0 {
            return;
        }
        self.loop_ns = self.loop_ns * remains + loop_ns;
        self.cpu_ns = self.cpu_ns * remains + as_f64(period.cpu_ns);
        self.probes_ns = self.probes_ns * remains + as_f64(probes_ns);
        self.sampled_ns = self.sampled_ns * remains + as_f64(all_ns);
        // There have been no samples for long.
        if self.sampled_ns < LEAST_SAMPLED_NS {
            *self = Self::new(self.pair_ns, self.has_budget);
        }
    }

    /// How many times as much a call costs as in a loop of its own.
    pub(super) fn times(&self) -> f64 {
        let assumed = if self.has_budget { ASSUMED } else { ASSUMED_WITHOUT_BUDGET };
        // Some threads live too short for samples.
        let probes_ns = self.probes_ns * self.cpu_ns / self.sampled_ns.max(1.0);
        let times = (probes_ns + assumed * ASSUMED_NS) / (self.loop_ns + ASSUMED_NS);
        times.clamp(1.0, MOST)
    }

    pub(crate) fn is_sampled(&self) -> bool {
        self.sampled_ns > 0.0
    }

    /// What a call costs, in nanoseconds.
    pub(crate) fn ns(&self) -> f64 {
        self.pair_ns * self.times()
    }

    /// What a call is assumed to cost, whatever samples say.
    pub(super) fn assumed_ns(&self) -> f64 {
        self.pair_ns * ASSUMED
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A minute in which calls would have cost a tenth of the time in a loop, with these samples of the time.
    fn minute(has_budget: bool, probes_ns: u64, all_ns: u64) -> f64 {
        let mut cost = CallCost::new(25.0, has_budget);
        go_on(&mut cost, 60, SampledProbes { probes_ns, all_ns });
        cost.times()
    }

    fn go_on(cost: &mut CallCost, seconds: u64, sampled: SampledProbes) {
        for second in 1..=seconds {
            let (now_ns, length_ns) = (second * SECOND, SECOND);
            let (unix_ns, cpu_ns, methods) = (now_ns, SECOND, HashMap::new());
            let (own_ns, paused_ns) = (0, 0);
            let period =
                Period { now_ns, unix_ns, length_ns, cpu_ns, own_ns, paused_ns, sampled, methods };
            cost.add(1e8, &period);
        }
    }

    #[test]
    fn without_samples_for_long_the_cost_is_assumed_again() {
        let mut cost = CallCost::new(25.0, true);
        go_on(&mut cost, 60, SampledProbes { probes_ns: SECOND / 2, all_ns: SECOND });
        assert!(cost.is_sampled() && cost.times() > 4.0);
        go_on(&mut cost, 3_600, SampledProbes::default());
        assert!(!cost.is_sampled());
        assert!((cost.times() - 3.0).abs() < 0.1, "{}", cost.times());
    }

    #[test]
    fn samples_outweigh_what_is_assumed() {
        let is = |times: f64, expected: f64| assert!((times - expected).abs() < 0.1, "{times}");
        is(minute(true, 0, 0), 3.0);
        is(minute(false, 0, 0), 1.0);
        is(minute(true, SECOND / 2, SECOND), 5.0);
        is(minute(false, SECOND / 5, SECOND), 2.0);
        // Half of the threads have no samples.
        is(minute(true, SECOND / 4, SECOND / 2), 5.0);
        // No less than in a loop, and no chance.
        is(minute(true, 0, SECOND), 1.0);
        is(minute(true, 2 * SECOND, SECOND), 10.0);
    }
}
