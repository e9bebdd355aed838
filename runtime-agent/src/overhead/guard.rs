//! What the guard costs that turns away the calls of methods that are left out, and what is done about it: it
//! is sealed, what was compiled with it is compiled anew, or the probes are taken out.

use super::{FASTER, LeftOut, Overhead, SECOND_NS, USUAL};

/// What was compiled before methods were sealed is thrown away once, when most that will be are: a program that has
/// just begun compiles much anew as it is.
const RENEW_NS: u64 = 4 * SECOND_NS;
/// What a call costs that the guard turns away, in terms of what one costs in a loop that it does not: H2 with all
/// methods muted.
const GUARD: f64 = 0.15;
/// When that is more than this share of the CPU time in all, the probes of the hottest methods are taken out,
/// until it is less than the last.
const TAKE_OUT: f64 = 0.02;
const LEAVE_IN: f64 = 0.002;
/// A method that nobody would show is looked at again and again: it is not closed as long as the guard costs no
/// more than this.
const LEAVE_OPEN_OUTER: f64 = 0.01;

impl Overhead {
    /// Finds the methods that are to be sealed, of those that were left out just now and have ids below `end`:
    /// they will not be worth their probes. In the beginning that is done even if they may be compiled, for
    /// most of it will be compiled again. Later on it is not: to measure them again would have a price, each
    /// time that one comes back.
    pub(crate) fn seal(&mut self, now_ns: u64, end: u32) -> Vec<u32> {
        let faster = if self.is_early(now_ns) { FASTER } else { 1.0 };
        let mut sealed = Vec::new();
        for (id, left) in self.dear(faster) {
            if left.is_fresh && id < end {
                left.is_sealed = true;
                sealed.push(id);
            }
        }
        self.left_out.values_mut().for_each(|left| left.is_fresh = false);
        sealed
    }

    /// Whether all that is compiled with probes is to be thrown away now: much of it is slow for sealed methods. That
    /// is asked once, a few seconds after the beginning.
    pub(crate) fn is_to_renew(&mut self, now_ns: u64) -> bool {
        if self.is_renewed || self.began_ns.is_none_or(|began_ns| now_ns < began_ns + RENEW_NS) {
            return false;
        }
        self.is_renewed = true;
        let compiled = self.left_out.values().filter(|left| left.is_sealed && left.is_compiled);
        let calls_per_s: f64 = compiled.map(|left| left.base_calls_per_s).sum();
        calls_per_s * self.guard_share(FASTER) >= TAKE_OUT
    }

    /// It was thrown away.
    pub(crate) fn renewed(&mut self, now_ns: u64) {
        self.signs.retransformed(now_ns);
        for left in self.left_out.values_mut().filter(|left| left.is_sealed) {
            left.is_compiled = false;
        }
    }

    /// Finds the methods whose probes are to be taken out of their classes now, if there are any: the guard
    /// turns so many calls away that it costs too much. What was compiled of a class is thrown away with its
    /// probes, and a program may take ten seconds to be as fast as before.
    pub(crate) fn take_out(&mut self) -> bool {
        // Of a process that is idle it would be a large share.
        if self.cpu_rate < USUAL * self.usual_cpu_rate {
            return false;
        }
        let of_one = self.guard_share(1.0);
        let guarded = self.dear(1.0).map(|(_, left)| left);
        let mut guarded: Vec<&mut LeftOut> =
            guarded.filter(|left| !left.is_out && (!left.is_sealed || left.is_compiled)).collect();
        let mut share: f64 = guarded.iter().map(|left| left.base_calls_per_s * of_one).sum();
        if share < TAKE_OUT {
            return false;
        }
        guarded.sort_by(|one, other| other.base_calls_per_s.total_cmp(&one.base_calls_per_s));
        for left in guarded {
            if share < LEAVE_IN {
                break;
            }
            share -= left.base_calls_per_s * of_one;
            left.is_out = true;
        }
        true
    }

    /// What the guard costs a method that was called once a second, as a share of the CPU time.
    fn guard_share(&self, faster: f64) -> f64 {
        GUARD * self.pair_ns * self.growth * faster / self.cpu_rate
    }

    /// Methods that are left out and for which the guard may be too dear.
    fn dear(&mut self, faster: f64) -> impl Iterator<Item = (u32, &mut LeftOut)> {
        let of_one = self.guard_share(faster);
        // Of a method that takes so long itself nobody notices the guard.
        let budget = self.budget.map_or(0.0, |budget| f64::from(budget) / 1e6);
        let Self { signs, left_out, .. } = self;
        left_out.iter_mut().map(|(id, left)| (*id, left)).filter(move |(id, left)| {
            let is_outer = signs.is_outer(*id) && left.base_calls_per_s * of_one < LEAVE_OPEN_OUTER;
            left.ratio > budget && !is_outer
        })
    }
}
