//! Decides which throttled methods are also compiled out, and when compiled code is discarded for that.
//!
//! A closed guard still costs about a nanosecond a call, and keeps the JIT from moving code across it. A
//! compiled-out method costs nothing in code that the JIT compiles from then on. It cannot be measured again unless
//! that code is discarded, so a method is compiled out only if its guard would cost too much.

use crate::options::CpuShare;
use log_format::ids::MethodId;

use super::startup::FASTER;
use super::{Overhead, SECOND_NS};

/// When compiled code is discarded, once. By then most methods that will be compiled out are, and a program that has
/// just begun compiles much of its code again anyway.
const RENEW_NS: u64 = 4 * SECOND_NS;
/// Cost of a call that the guard turns away, as a share of one that it lets through in a loop. From H2 with all
/// methods muted.
const GUARD: f64 = 0.15;
/// A program is large if more measured methods than this were called since the JVM began.
const LARGE_PROGRAM: usize = 200;
/// The guards of all throttled methods that are not compiled out may cost this share of the CPU time. In a large
/// program they may cost nothing: of H2's 850 throttled methods, the guards of 50 took 7% of the throughput, whatever
/// they cost in a loop, because the JIT optimizes the code around them less.
const GUARDS: f64 = 0.01;
/// Compiled code is discarded if it has guards of methods that were compiled out later, and these guards cost more
/// than this share of the CPU time. In a large program any cost is enough.
const RENEW: f64 = 0.02;

impl Overhead {
    /// Finds the methods to compile out that have ids below `end`: the hottest, until the guards of the rest cost
    /// little; in a large program all. Until compiled code is discarded, any throttled method qualifies, because
    /// neither its later calls nor the size of the program is known then. Later only methods qualify that were
    /// throttled just now and are not compiled yet: the guards of others stay in the compiled code.
    pub(crate) fn compile_out(&mut self, now_ns: u64, end: MethodId) -> Vec<MethodId> {
        let of_one = self.guard_share(if self.startup.is_on(now_ns) { FASTER } else { 1.0 });
        let budget = self.budget.map_or(0.0, CpuShare::of_one);
        let (is_renewed, call_ns) = (self.is_renewed, self.call_cost.ns());
        // The guard of a method that is worth its probes does not matter: the method itself takes long.
        let guarded = self.throttled.iter().filter(|(_, left)| {
            let can_help = !is_renewed || left.is_fresh || !left.is_compiled;
            !left.is_compiled_out && can_help && left.ratio(call_ns) > budget
        });
        let mut guarded: Vec<(MethodId, f64)> =
            guarded.map(|(id, left)| (*id, left.base_calls_per_s * of_one)).collect();
        guarded.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        let mut share: f64 = guarded.iter().map(|(_, share)| share).sum();
        let may_cost = if self.is_large() { f64::NEG_INFINITY } else { GUARDS };
        let mut found = Vec::new();
        for (id, of_method) in guarded {
            if share <= may_cost {
                break;
            }
            if let Some(left) = self.throttled.get_mut(&id)
                && (!is_renewed || left.is_fresh)
                && id < end
            {
                left.is_compiled_out = true;
                left.is_compiled |= !left.is_fresh;
                share -= of_method;
                found.push(id);
            }
        }
        self.throttled.values_mut().for_each(|left| left.is_fresh = false);
        found
    }

    /// Whether to discard all code that was compiled with probes now: because of throttled methods, or because some have
    /// probes of an earlier attachment. Decided once, a few seconds after the start.
    pub(crate) fn is_to_renew(&mut self, now_ns: u64, has_stale: bool) -> bool {
        if self.is_renewed || !self.startup.is_older_than(RENEW_NS, now_ns) {
            return false;
        }
        self.is_renewed = true;
        let compiled =
            self.throttled.values().filter(|left| left.is_compiled_out && left.is_compiled);
        let calls_per_s: f64 = compiled.map(|left| left.base_calls_per_s).sum();
        let share = calls_per_s * self.guard_share(FASTER);
        has_stale || share >= if self.is_large() { f64::MIN_POSITIVE } else { RENEW }
    }

    /// Notes that all code compiled with probes has been discarded.
    pub(crate) fn renewed(&mut self) {
        for left in self.throttled.values_mut().filter(|left| left.is_compiled_out) {
            left.is_compiled = false;
        }
    }

    /// Cost of the guards of throttled methods, in nanoseconds a second. Compiled-out methods have guards only in code
    /// that was compiled before.
    pub(super) fn guards_ns(&self) -> f64 {
        let guarded =
            self.throttled.values().filter(|left| !left.is_compiled_out || left.is_compiled);
        let calls_per_s: f64 = guarded.map(|left| left.base_calls_per_s).sum();
        calls_per_s * self.startup.growth() * GUARD * self.call_cost.pair_ns
    }

    fn is_large(&self) -> bool {
        self.called.len() > LARGE_PROGRAM
    }

    /// Cost of the guard of a method that was called once a second, as a share of the CPU time.
    fn guard_share(&self, faster: f64) -> f64 {
        GUARD * self.call_cost.pair_ns * self.startup.growth() * faster / self.cpu_rate
    }
}
