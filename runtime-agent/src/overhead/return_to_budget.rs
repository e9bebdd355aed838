//! Decides which throttled methods are measured again: those that only need their guard opened, when there is room
//! in the budget, or when they have turned slow. Compiled-out methods stay throttled, unless they are traced (see the
//! controller).

use log_format::ids::MethodId;

use super::{NEEDED, Overhead, SECOND_NS, TARGET, as_f64};
use crate::drain::waited::Waits;
use crate::options::CpuShare;

/// Share of the budget that may be in use after methods that are worth their probes come back: they will not be
/// throttled again.
const WORTH_IT: f64 = 0.8;
/// How often methods come back.
const ROUND_NS: u64 = 30 * SECOND_NS;
/// A method in which threads wait for less than this share of a processor's time has no slow calls that matter.
const LEAST_WAIT: f64 = 0.01;
/// Fewer looks may be chance.
const LEAST_LOOKS: u32 = 5;
/// After a method has come back because it is slow, it does so again only so much later: perhaps its calls wait, but
/// each is fast.
const SLOW_AGAIN_NS: u64 = 600 * SECOND_NS;

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

    /// Throttled methods that have turned slow: in these seconds, threads have waited in them for much longer than their
    /// probes would have cost.
    pub(crate) fn slow_again(
        &mut self,
        waited: &[(MethodId, Waits)],
        seconds: f64,
        now_ns: u64,
    ) -> Vec<MethodId> {
        let call_ns = self.call_cost.ns();
        self.slow_until.retain(|_, until_ns| now_ns < *until_ns);
        let is_slow = |(id, Waits { ns, looks }): &&(MethodId, Waits)| {
            self.throttled.get(id).is_some_and(|left| {
                let cost_ns = left.base_calls_per_s * self.startup.growth() * call_ns * seconds;
                let least_ns = (NEEDED * cost_ns).max(LEAST_WAIT * 1e9 * seconds);
                let is_first = !self.slow_until.contains_key(id);
                let is_long = *looks >= LEAST_LOOKS && as_f64(*ns) >= least_ns;
                !left.is_compiled_out && is_first && is_long
            })
        };
        let slow: Vec<MethodId> = waited.iter().filter(is_slow).map(|(id, _)| *id).collect();
        self.slow_until.extend(slow.iter().map(|id| (*id, now_ns + SLOW_AGAIN_NS)));
        slow
    }

    /// The throttled methods that only need their guard opened.
    pub(crate) fn returnable(&self) -> impl Iterator<Item = MethodId> {
        self.throttled.iter().filter(|(_, left)| !left.is_compiled_out).map(|(id, _)| *id)
    }

    /// The methods that fit into the budget; first those that cost least for the time they take.
    fn fitting(&self, now_ns: u64) -> Vec<MethodId> {
        let budget = self.budget.map_or(0.0, CpuShare::of_one);
        let call_ns = self.call_cost.ns();
        let is_waiting = |id: &MethodId| {
            self.throttled
                .get(id)
                .is_some_and(|left| !left.is_compiled_out && left.again_ns <= now_ns)
        };
        let mut waiting: Vec<MethodId> =
            self.throttled.keys().copied().filter(is_waiting).collect();
        waiting.sort_by(|one, other| {
            let ratio = |id| self.throttled.get(id).map_or(0.0, |left| left.ratio(call_ns));
            ratio(one).total_cmp(&ratio(other)).then(one.cmp(other))
        });
        let mut used_ns = self.share * self.cpu_rate;
        waiting.retain(|id| {
            let Some(left) = self.throttled.get(id) else { return false };
            let cost_ns = left.base_calls_per_s * self.startup.growth() * call_ns;
            let target = if left.ratio(call_ns) <= budget { WORTH_IT } else { TARGET };
            let fits = used_ns + cost_ns <= target * budget * self.cpu_rate;
            used_ns += if fits { cost_ns } else { 0.0 };
            fits
        });
        waiting
    }
}
