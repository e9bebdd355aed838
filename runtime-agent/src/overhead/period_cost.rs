//! A period of the overhead budget, and what a method cost in it.

use std::collections::HashMap;

use log_format::ids::MethodId;

use crate::drain::hot_methods::Recent;
use crate::drain::run_sums::SampledProbes;
pub(super) use crate::sys::clock::as_f64;
use crate::sys::clock::{self, as_u64};
use crate::sys::run_delay::Delay;

pub(super) const SECOND_NS: u64 = 1_000_000_000;

/// A process with less CPU time than this share of a processor is practically idle.
pub(super) const LEAST_CPU: f64 = 0.05;

/// The part of the waiting for a processor that falls to a method is a matter of chance, and this many times as much
/// is seldom.
const UNEVEN: f64 = 2.0;

/// A period, and what methods did in it.
#[derive(Debug)]
pub(crate) struct Period {
    /// Its end, by the monotonic clock and by the calendar.
    pub now_ns: u64,
    pub unix_ns: u64,
    pub length_ns: u64,
    /// The process's CPU time.
    pub cpu_ns: u64,
    /// What the profiler cost besides its probes: the agent thread's CPU time, and that of lost calls.
    pub own_ns: u64,
    /// CPU time that the process lost to pauses.
    pub paused_ns: u64,
    pub sampled: SampledProbes,
    pub methods: HashMap<MethodId, Recent>,
}

impl Period {
    /// Its length.
    pub(super) fn seconds(&self) -> f64 {
        as_f64(self.length_ns.max(1)) / 1e9
    }

    /// Leaves out what threads waited for a processor.
    pub(super) fn leave_out(&mut self, delay: Delay) {
        let seconds = self.seconds();
        self.methods.values_mut().for_each(|did| did.leave_out(delay, seconds));
    }

    /// Whether the process did nearly nothing.
    pub(super) fn is_idle(&self) -> bool {
        as_f64(self.cpu_ns) < LEAST_CPU * as_f64(self.length_ns)
    }

    /// The process's CPU time, or a little of a processor's if the process is idle, in nanoseconds.
    pub(super) fn budgeted_cpu_ns(&self) -> f64 {
        as_f64(self.cpu_ns).max(LEAST_CPU * as_f64(self.length_ns))
    }
}

impl Recent {
    /// Leaves out what a method's threads waited for a processor in a period of so many seconds. Otherwise a busy
    /// machine would make any method look as if it took long.
    pub(super) fn leave_out(&mut self, delay: Delay, seconds: f64) {
        // Time that threads wait for something else is in it too, so no more than all threads have waited.
        let all_ns = delay.ns_per_s * seconds;
        let of = |ticks: u64| (as_f64(clock::ticks_to_ns(ticks)) * delay.share).min(all_ns);
        self.slow_ns = self.slow_ns.saturating_sub(as_u64(UNEVEN * of(self.total_ticks)));
        self.self_ticks -= clock::ns_to_ticks(as_u64(of(self.self_ticks))).min(self.self_ticks);
    }
}

/// What an instrumented method did in a period, and what its probes cost, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub id: MethodId,
    pub did: Recent,
    pub ns: f64,
}

impl Cost {
    /// Cost of its probes relative to the measured time.
    pub(super) fn ratio(&self) -> f64 {
        self.ns / self.self_ns()
    }

    /// The time measured in it.
    pub(super) fn self_ns(&self) -> f64 {
        as_f64(clock::ticks_to_ns(self.did.self_ticks)).max(1.0)
    }

    /// Methods with the highest score are throttled first: they cost most for the least measured time.
    pub(super) fn score(&self) -> f64 {
        self.ns * self.ratio()
    }
}

pub(super) fn sum_ns(costs: &[Cost]) -> f64 {
    // An empty sum is -0.0.
    0.0 + costs.iter().map(|cost| cost.ns).sum::<f64>()
}
