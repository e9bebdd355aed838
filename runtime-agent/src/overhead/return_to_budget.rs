//! Decides which throttled methods are measured again: when there is room in the budget, or when they have turned slow.
//! Only their guard opens. Compiled-out methods stay throttled, unless they are traced (see the controller).

use log_format::ids::MethodId;

use super::period_cost::{SECOND_NS, as_f64};
use super::steady_state::{NEEDED, Overhead, Throttled};
use crate::drain::method_waits::Waits;

/// How long a method waits before it comes back; twice as long each time.
const FIRST_WAIT_NS: u64 = 60 * SECOND_NS;
const LONGEST_WAIT_NS: u64 = 3_600 * SECOND_NS;
/// How long it has been throttled before it can turn slow; twice as long each time, up to 16 minutes. Perhaps its calls
/// wait, but each is fast; then it is throttled again.
const SLOW_WAIT_NS: u64 = 30 * SECOND_NS;
const MOST_DOUBLINGS: u32 = 5;
/// A method in which threads wait for less than this share of a processor's time has no slow calls that matter.
const LEAST_WAIT: f64 = 0.01;
/// Fewer looks may be chance.
const LEAST_LOOKS: u32 = 5;

/// How long a method waits that is throttled for the `times`-th time.
pub(super) fn wait_ns(times: u32) -> u64 {
    (FIRST_WAIT_NS << (times - 1).min(16)).min(LONGEST_WAIT_NS)
}

impl Overhead {
    /// The throttled methods that only need their guard opened.
    pub(crate) fn returnable(&self) -> impl Iterator<Item = MethodId> {
        self.throttled.iter().filter(|(_, left)| !left.is_compiled_out).map(|(id, _)| *id)
    }

    /// The methods to measure again now, because they fit into the budget: first those that cost least.
    pub(crate) fn fitting(&self, now_ns: u64) -> Vec<MethodId> {
        let mut room_ns = self.free_rate;
        let has_waited = |id: &MethodId| {
            self.throttled.get(id).is_some_and(|left| left.since_ns + wait_ns(left.times) <= now_ns)
        };
        let mut waiting: Vec<MethodId> = self.returnable().filter(has_waited).collect();
        waiting.sort_by_key(|id| (self.throttled.get(id).map(|left| left.why.calls_per_s), *id));
        waiting.retain(|id| {
            room_ns -= self.throttled_ns(*id);
            room_ns >= 0.0
        });
        waiting
    }

    /// Throttled methods that have turned slow: in these seconds, threads have waited in them for much longer than
    /// their probes would have cost.
    pub(crate) fn turned_slow(
        &self,
        waited: &[(MethodId, Waits)],
        seconds: f64,
        now_ns: u64,
    ) -> Vec<MethodId> {
        let is_slow = |(id, Waits { ns, looks }): &&(MethodId, Waits)| {
            let least = (NEEDED * self.throttled_ns(*id)).max(LEAST_WAIT * as_f64(SECOND_NS));
            let has_waited = |left: &Throttled| {
                let wait_ns = SLOW_WAIT_NS << (left.times - 1).min(MOST_DOUBLINGS);
                !left.is_compiled_out && left.since_ns + wait_ns <= now_ns
            };
            self.throttled.get(id).is_some_and(has_waited)
                && *looks >= LEAST_LOOKS
                && as_f64(*ns) >= least * seconds
        };
        waited.iter().filter(is_slow).map(|(id, _)| *id).collect()
    }

    /// What the probes of a throttled method would cost, in nanoseconds a second.
    fn throttled_ns(&self, id: MethodId) -> f64 {
        let calls_per_s = self.throttled.get(&id).map_or(0, |left| left.why.calls_per_s);
        as_f64(calls_per_s) * self.call_cost.ns()
    }
}
