//! Decides which throttled methods are measured again: those that only need their guard opened, when there is room
//! in the budget. Compiled-out methods stay throttled.

use log_format::ids::MethodId;

use super::{Overhead, SECOND_NS, TARGET};

/// Share of the budget that may be in use after methods that are worth their probes come back: they will not be
/// throttled again.
const WORTH_IT: f64 = 0.8;
/// How often methods come back.
const ROUND_NS: u64 = 30 * SECOND_NS;

impl Overhead {
    /// The methods to measure again now.
    pub(crate) fn measure_again(&mut self, now_ns: u64) -> Vec<MethodId> {
        if self.throttled.is_empty() || now_ns < self.next_return_ns {
            return Vec::new();
        }
        let fitting = self.fitting(now_ns);
        self.next_return_ns = now_ns + if fitting.is_empty() { SECOND_NS } else { ROUND_NS };
        fitting
    }

    /// The methods that fit into the budget; first those that cost least for the time they take.
    fn fitting(&self, now_ns: u64) -> Vec<MethodId> {
        let budget = self.budget.map_or(0.0, |budget| f64::from(budget) / 1e6);
        let is_waiting = |id: &MethodId| {
            self.throttled
                .get(id)
                .is_some_and(|left| !left.is_compiled_out && left.again_ns <= now_ns)
        };
        let mut waiting: Vec<MethodId> =
            self.throttled.keys().copied().filter(is_waiting).collect();
        waiting.sort_by(|one, other| {
            let ratio = |id: &MethodId| self.throttled.get(id).map_or(0.0, |left| left.ratio);
            ratio(one).total_cmp(&ratio(other)).then(one.cmp(other))
        });
        let mut used_ns = self.share * self.cpu_rate;
        waiting.retain(|id| {
            let Some(left) = self.throttled.get(id) else { return false };
            let cost_ns = left.base_calls_per_s * self.startup.growth() * left.call_ns;
            let target = if left.ratio <= budget { WORTH_IT } else { TARGET };
            let fits = used_ns + cost_ns <= target * budget * self.cpu_rate;
            used_ns += if fits { cost_ns } else { 0.0 };
            fits
        });
        waiting
    }
}
