//! What methods may cost in a period: in the first seconds of recording, and in the steady state.
//!
//! A program that begins gets faster, and soon calls everything [`FASTER`] times as often. Throttling more methods again
//! and again would prevent that. So as much is throttled at once as will be necessary then, and what was too much comes
//! back afterwards.

use super::period::{Cost, Period, SECOND_NS, as_f64};
use super::startup::{EARLY_NS, FASTER, Startup};

/// While methods are interpreted, they take several times as long themselves.
const INTERPRETED: f64 = 5.0;
/// A method with fewer calls a second is rare. When the program begins, most are, for a moment.
const LEAST_CALLS: f64 = 200.0;
/// Share of the budget that is always left for methods that are neither needed nor worth it, whatever the agent itself
/// and the others cost. In a process that is nearly idle, that can be all of it.
const LEAST_ROOM: f64 = 0.25;
/// When methods that are throttled in the first seconds come back if they are not worth their probes.
const SETTLED_NS: u64 = 18 * SECOND_NS;
/// How long others wait before they come back, if there is room in the budget; twice as long each time.
const FIRST_WAIT_NS: u64 = 60 * SECOND_NS;
const LONGEST_WAIT_NS: u64 = 3_600 * SECOND_NS;

/// A period, and the budget in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits<'p> {
    pub period: Period<'p>,
    pub seconds: f64,
    /// The process's CPU time, or a little of a processor's if the process is idle.
    pub cpu_ns: f64,
    /// A share of the CPU time.
    pub budget: f64,
    /// What the profiler cost besides the probes of measured methods.
    own_ns: f64,
    /// When recording began, if it is one of the first seconds.
    began_ns: Option<u64>,
    /// Methods are throttled as soon as the rest would be over the budget if it were called [`FASTER`] times as often.
    is_tight: bool,
}

impl<'p> Limits<'p> {
    pub(super) fn new(period: Period<'p>, own_ns: f64, budget: f64, startup: &Startup) -> Self {
        Self {
            period,
            seconds: period.seconds(),
            cpu_ns: period.budgeted_cpu_ns(),
            budget,
            own_ns,
            began_ns: startup.began_ns(period.now_ns),
            is_tight: startup.is_tight(),
        }
    }

    pub(super) fn is_startup(&self) -> bool {
        self.began_ns.is_some()
    }

    /// Whether a method may be throttled.
    pub(super) fn may_go(&self, cost: &Cost) -> bool {
        // If all methods were worth it, they would be within the budget.
        let worth_it = self.budget / if self.is_startup() { INTERPRETED } else { 1.0 };
        cost.ratio() > worth_it && !(self.is_startup() && self.is_rare(cost))
    }

    fn is_rare(&self, cost: &Cost) -> bool {
        as_f64(cost.did.calls) < LEAST_CALLS * self.seconds
    }

    /// What such methods may cost if others cost `stays_ns` that stay.
    pub(super) fn room_ns(&self, stays_ns: f64) -> f64 {
        let budget_ns = self.budget * self.cpu_ns;
        match (self.is_startup(), self.is_tight) {
            (false, _) => (budget_ns - stays_ns - self.own_ns).max(LEAST_ROOM * budget_ns),
            (true, false) => budget_ns,
            // Of a processor, because a program that has nothing to do yet uses little of one.
            (true, true) => self.budget / FASTER * self.cpu_ns.max(as_f64(self.period.length_ns)),
        }
    }

    /// The share of the CPU time that they may cost after some were throttled for lack of room.
    pub(super) fn target(&self, room_ns: f64) -> f64 {
        if self.is_startup() { self.budget / FASTER } else { room_ns / self.cpu_ns }
    }

    /// When a method may come back that is throttled for the `times`-th time.
    pub(super) fn again_ns(&self, cost: &Cost, times: u32) -> u64 {
        match self.began_ns {
            Some(began_ns) if cost.ratio() <= self.budget => began_ns + EARLY_NS,
            Some(began_ns) => began_ns + SETTLED_NS,
            None => {
                let wait_ns = FIRST_WAIT_NS << (times - 1).min(16);
                self.period.now_ns + wait_ns.min(LONGEST_WAIT_NS)
            }
        }
    }

    /// Whether little or no compiled code contains the probes of a method that is throttled now. One that is rare may
    /// soon be called often.
    pub(super) fn is_fresh(&self, is_compiled: bool, cost: &Cost) -> bool {
        self.is_startup() || !is_compiled && !self.is_rare(cost)
    }
}
