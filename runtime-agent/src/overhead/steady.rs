//! The steady state, after the first seconds of recording.

use super::period::{PeriodBudget, Phase, SECOND_NS};

/// Rare methods stay as long as all of them together cost at most this share of the budget.
const MOST_RARE: f64 = 0.5;
/// Share of the budget that is always left for methods that are neither needed nor worth it: time that threads wait
/// for a processor makes many look as if they were worth it.
const LEAST_ROOM: f64 = 0.25;
/// How long a throttled method waits before it comes back, if there is room in the budget; twice as long each time.
const FIRST_WAIT_NS: u64 = 60 * SECOND_NS;
const LONGEST_WAIT_NS: u64 = 3_600 * SECOND_NS;

/// The steady state.
#[derive(Debug)]
pub(super) struct Steady;

impl Phase for Steady {
    fn worth_it(&self, budget: f64) -> f64 {
        budget
    }

    fn spares_rare(&self, rare_ns: f64, in_period: &PeriodBudget<'_>) -> bool {
        rare_ns <= MOST_RARE * in_period.budget * in_period.cpu_ns
    }

    /// Methods that stay leave less room for the others.
    fn room_ns(&self, stays_ns: f64, in_period: &PeriodBudget<'_>) -> f64 {
        let PeriodBudget { budget, cpu_ns, own_ns, .. } = *in_period;
        (budget * cpu_ns - stays_ns - own_ns).max(LEAST_ROOM * budget * cpu_ns)
    }

    fn target(&self, room_ns: f64, in_period: &PeriodBudget<'_>) -> f64 {
        room_ns / in_period.cpu_ns
    }

    fn again_ns(&self, _ratio: f64, times: u32, in_period: &PeriodBudget<'_>) -> u64 {
        let wait_ns = FIRST_WAIT_NS << (times - 1).min(16);
        in_period.period.now_ns + wait_ns.min(LONGEST_WAIT_NS)
    }

    /// A method that is rare now may soon be called often.
    fn is_fresh(&self, is_compiled: bool, is_rare: bool) -> bool {
        !is_compiled && !is_rare
    }
}
