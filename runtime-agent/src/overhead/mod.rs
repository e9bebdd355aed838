//! Decides which methods are throttled, so that the profiler stays within its share of the process's CPU time.
//!
//! CPU samples in probes say what they cost in all, and calls divide it among methods ([`call_cost`]). Over the budget,
//! the methods are throttled that cost most for the least time measured in them: many calls, each about as long as
//! its probes. A method whose slow calls are worth its probes is needed, and stays.
//!
//! [`limits`] has what differs between the first seconds of recording and later.
//!
//! [`return_to_budget`] decides which throttled methods are measured again, and [`compile_out`] for which of them
//! even the guard costs too much. Nothing here retransforms a class: a running loop would stay slow for good.
//!
//! These are decisions only, without a clock or a JVM; [`controller`] carries them out.

mod call_cost;
mod compile_out;
pub(crate) mod controller;
mod limits;
mod period;
mod return_to_budget;
mod startup;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use log_format::ids::MethodId;

use self::call_cost::CallCost;
use self::limits::Limits;
use self::period::{Cost, LEAST_CPU, SECOND_NS, as_f64, sum_ns};
pub(crate) use self::period::{Period, SampledProbes};
use self::startup::Startup;
use crate::drain::hot_methods::Recent;
use crate::options::CpuShare;
use crate::probe::traced;
use crate::sys::clock::{self, as_u64};

/// Share of the budget that stays in use after an overrun: with all of it, the next overrun would come at once.
const TARGET: f64 = 0.5;
/// Slow calls that take this many times as long as a method's probes make it needed. One of a millisecond in a
/// thousand calls is enough; calls that a pause of the JVM happens to hit are not.
const NEEDED: f64 = 10.0;
/// After this time, a third is left of what is known about a method: what was slow when the program began says
/// nothing about later.
const MEMORY_S: f64 = 10.0;
/// Methods with fewer calls are not compiled yet by the compiler that matters.
const COMPILED_CALLS: u64 = 10_000;

/// Since when and why a method is throttled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Throttled {
    pub since_unix_ns: u64,
    pub calls_per_s: u64,
    pub mean_ns: u64,
    /// How often it was throttled.
    times: u32,
    /// When it may come back if there is room.
    again_ns: u64,
    /// Calls a second, scaled to the program's speed when methods were first throttled.
    base_calls_per_s: f64,
    /// Self time of a call, in nanoseconds.
    self_ns: f64,
    /// It was throttled just now, and little or no compiled code contains its probes.
    is_fresh: bool,
    /// It had been called so often that compiled code contains its probes.
    is_compiled: bool,
    /// It is compiled out: code that the JIT compiles from then on has nothing of its probes.
    pub is_compiled_out: bool,
}

impl Throttled {
    /// Cost of its probes relative to the measured time, if those of a call cost so much.
    fn ratio(&self, call_ns: f64) -> f64 {
        call_ns / self.self_ns
    }
}

/// The budget, and what is done to keep to it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct OverheadFigures {
    pub budget: Option<CpuShare>,
    /// What the profiler costs now, as a share of the CPU time; 0 while recording is off.
    pub share: f64,
    /// The same of a processor.
    pub of_processor: f64,
    pub throttled_methods: u64,
    /// What a call's probes cost, in nanoseconds; whether samples have said so.
    pub call_ns: f64,
    pub is_sampled: bool,
    /// Calls that were in progress when the budget throttled their method, or measured it again.
    pub dropped_calls: u64,
}

/// Time of a method's slow calls and of all its calls, and what its probes cost meanwhile, in nanoseconds; all decay.
#[derive(Clone, Copy, Debug, Default)]
struct Worth {
    slow_ns: f64,
    /// Of a recursion, only the outermost call counts.
    total_ns: f64,
    cost_ns: f64,
}

impl Worth {
    /// Whether its slow calls are worth its probes.
    fn is_needed(self) -> bool {
        // One wait makes all calls of a recursion slow, and is still one.
        self.slow_ns.min(self.total_ns) >= NEEDED * self.cost_ns
    }
}

/// The budget, and the methods throttled for it.
#[derive(Debug)]
pub(crate) struct Overhead {
    budget: Option<CpuShare>,
    call_cost: CallCost,
    throttled: HashMap<MethodId, Throttled>,
    /// How often methods that are measured again were throttled.
    before: HashMap<MethodId, u32>,
    /// Measured calls of methods until now.
    called: HashMap<MethodId, u64>,
    /// Measured methods that had slow calls.
    worth: HashMap<MethodId, Worth>,
    next_return_ns: u64,
    /// Methods that came back because they are slow, and until when they do so once only.
    slow_until: HashMap<MethodId, u64>,
    startup: Startup,
    /// Whether it has been decided since then if compiled code is discarded.
    is_renewed: bool,
    /// CPU time of the last period, in nanoseconds a second.
    cpu_rate: f64,
    /// What the profiler cost in it, and the share of the CPU time that the budget is held against.
    cost_ns: u64,
    share: f64,
}

impl Overhead {
    pub(crate) fn new(budget: Option<CpuShare>, pair_ns: f64) -> Self {
        Self {
            budget,
            call_cost: CallCost::new(pair_ns, budget.is_some()),
            throttled: HashMap::new(),
            before: HashMap::new(),
            called: HashMap::new(),
            worth: HashMap::new(),
            next_return_ns: 0,
            slow_until: HashMap::new(),
            startup: Startup::default(),
            is_renewed: false,
            cpu_rate: 1.0,
            cost_ns: 0,
            share: 0.0,
        }
    }

    pub(crate) fn budget(&self) -> Option<CpuShare> {
        self.budget
    }

    /// Sets the budget. Without one, nothing more is throttled; methods that still are could not be measured again.
    pub(crate) fn set_budget(&mut self, budget: Option<CpuShare>) {
        if self.budget.is_none() && budget.is_some() {
            self.startup.begin_again();
            self.call_cost.has_budget = true;
        }
        self.budget = budget;
        if budget.is_none() {
            let throttled = std::mem::take(&mut self.throttled);
            let before = std::mem::take(&mut self.before);
            let (called, share) = (std::mem::take(&mut self.called), self.share);
            let pair_ns = self.call_cost.pair_ns;
            *self = Self { throttled, before, called, share, ..Self::new(None, pair_ns) };
        }
    }

    /// Forgets methods that could not be throttled.
    pub(crate) fn forget(&mut self, ids: &[MethodId]) {
        self.throttled.retain(|id, _| !ids.contains(id));
    }

    /// Sets what a call costs in a loop of its own, as measured.
    pub(crate) fn set_pair_ns(&mut self, ns: f64) {
        self.call_cost.pair_ns = ns;
    }

    /// The least that the probes of a call cost, in nanoseconds: as in a loop of their own.
    pub(crate) fn call_ns(&self) -> u64 {
        as_u64(self.call_cost.pair_ns)
    }

    /// What the probes of a call cost in this program, in nanoseconds, and whether samples have said so.
    pub(crate) fn program_call_ns(&self) -> (f64, bool) {
        (self.call_cost.ns(), self.call_cost.is_sampled())
    }

    /// Estimated cost of a method's probes, in nanoseconds.
    pub(crate) fn cost_ns(&self, did: &Recent) -> f64 {
        as_f64(did.calls) * self.call_cost.ns()
    }

    /// What the profiler cost in the last period, as a share of the CPU time, with a budget or without.
    pub(crate) fn share(&self) -> f64 {
        self.share
    }

    /// The same as a share of a processor.
    pub(crate) fn of_processor(&self) -> f64 {
        self.share * self.cpu_rate / as_f64(SECOND_NS)
    }

    /// What the profiler cost in the last period, in nanoseconds of CPU time.
    pub(crate) fn last_cost_ns(&self) -> u64 {
        self.cost_ns
    }

    pub(crate) fn throttled(&self) -> &HashMap<MethodId, Throttled> {
        &self.throttled
    }

    /// Whether a throttled method is also compiled out.
    pub(crate) fn is_compiled_out(&self, id: MethodId) -> bool {
        self.throttled.get(&id).is_some_and(|left| left.is_compiled_out)
    }

    /// Whether a method is or ever was throttled.
    pub(crate) fn has_throttled(&self, id: MethodId) -> bool {
        self.throttled.contains_key(&id) || self.before.contains_key(&id)
    }

    /// Whether the next period should be short, because the program begins. A method that is not throttled before it is
    /// compiled costs more.
    pub(crate) fn is_busy(&self, now_ns: u64) -> bool {
        self.startup.is_on(now_ns)
    }

    /// Judges a period: finds what the profiler cost in it, and returns the methods to throttle from now on.
    pub(crate) fn judge(&mut self, period: Period<'_>) -> Vec<MethodId> {
        let costs = self.costs_of(&period);
        let own_ns = self.own_ns(&period);
        self.startup.begin(period.now_ns - period.length_ns);
        let Some(budget) = self.budget else { return Vec::new() };
        let limits = Limits::new(period, own_ns, budget.of_one(), &self.startup);
        self.startup.grow(&costs, limits.seconds);
        self.weigh(&costs, limits.seconds);
        let (candidates, stays_ns) = self.candidates(&costs, &limits);
        let room_ns = limits.room_ns(stays_ns);
        let mut leave = Vec::new();
        if sum_ns(&candidates) > room_ns {
            if sum_ns(&candidates) > limits.budget * limits.cpu_ns {
                self.startup.add_overrun(period.now_ns);
            }
            self.startup.note_rates(&costs, limits.seconds);
            leave = self.throttle(candidates, room_ns, &limits);
        }
        leave
    }

    /// Finds what the profiler cost in a period, and decides nothing.
    pub(crate) fn measure(&mut self, period: &Period<'_>) {
        self.costs_of(period);
    }

    /// Finds what the profiler cost in a period. Returns the cost of each measured method.
    fn costs_of(&mut self, period: &Period<'_>) -> Vec<Cost> {
        let costs = self.costs(period);
        let cpu_ns = period.budgeted_cpu_ns();
        let cost_ns = sum_ns(&costs) + self.own_ns(period);
        self.cost_ns = as_u64(cost_ns).min(period.cpu_ns);
        self.share = (cost_ns / cpu_ns).min(1.0);
        self.cpu_rate = cpu_ns / period.seconds();
        costs
    }

    /// What the profiler cost in a period besides the probes of measured methods.
    fn own_ns(&self, period: &Period<'_>) -> f64 {
        as_f64(period.own_ns) + self.guards_ns() * period.seconds()
    }

    /// Counts the calls of a period, and estimates what the probes of measured methods cost in it.
    fn costs(&mut self, period: &Period<'_>) -> Vec<Cost> {
        for (id, did) in period.methods {
            *self.called.entry(*id).or_default() += did.calls;
        }
        let measured = period.methods.iter().filter(|(id, _)| !self.throttled.contains_key(*id));
        let measured: Vec<(&MethodId, &Recent)> = measured.collect();
        // What is interpreted yet says nothing about later.
        if !self.startup.is_on(period.now_ns) {
            let calls: u64 = measured.iter().map(|(_, did)| did.calls).sum();
            self.call_cost.add(as_f64(calls) * self.call_cost.pair_ns, period);
        }
        let cost =
            |(id, did): (&MethodId, &Recent)| Cost { id: *id, did: *did, ns: self.cost_ns(did) };
        measured.into_iter().map(cost).collect()
    }

    /// The methods that may be throttled, and what those cost that stay because they are worth it or rare. Needed
    /// methods do not count: all others would be throttled for them, in vain. What is traced stays.
    fn candidates(&self, costs: &[Cost], limits: &Limits<'_>) -> (Vec<Cost>, f64) {
        let is_needed =
            |cost: &Cost| self.worth.get(&cost.id).is_some_and(|worth| worth.is_needed());
        let free = costs.iter().copied().filter(|cost| !is_needed(cost));
        let may_go = |cost: &Cost| limits.may_go(cost) && !traced::is_traced(cost.id);
        let (candidates, stay): (Vec<Cost>, Vec<Cost>) = free.partition(may_go);
        (candidates, sum_ns(&stay))
    }

    /// Throttles candidates until the rest is within a part of the room. Returns their ids.
    fn throttle(
        &mut self,
        mut candidates: Vec<Cost>,
        room_ns: f64,
        limits: &Limits<'_>,
    ) -> Vec<MethodId> {
        let cpu_ns = limits.cpu_ns;
        let target = TARGET * limits.target(room_ns);
        let (mut left_ns, mut gone_ns) = (sum_ns(&candidates), 0.0);
        candidates.sort_by(|one, other| {
            other.score().total_cmp(&one.score()).then(one.id.cmp(&other.id))
        });
        let mut ids = Vec::new();
        for cost in &candidates {
            // Without their cost, the rest is a larger share of the process, or is called more often.
            if left_ns <= target * (cpu_ns - gone_ns).max(LEAST_CPU * cpu_ns) {
                break;
            }
            left_ns -= cost.ns;
            gone_ns += cost.ns;
            self.throttled.insert(cost.id, self.throttled_at(cost, limits));
            ids.push(cost.id);
        }
        ids
    }

    /// How a method is throttled at the end of a period.
    fn throttled_at(&self, cost: &Cost, limits: &Limits<'_>) -> Throttled {
        let Cost { id, did, .. } = *cost;
        let times = self.before.get(&id).copied().unwrap_or_default() + 1;
        let is_compiled = self.called.get(&id).is_some_and(|calls| *calls >= COMPILED_CALLS);
        let calls_per_s = as_f64(did.calls) / limits.seconds;
        Throttled {
            since_unix_ns: limits.period.unix_ns,
            calls_per_s: as_u64(calls_per_s).max(1),
            mean_ns: clock::ticks_to_ns(did.total_ticks) / did.calls.max(1),
            times,
            again_ns: limits.again_ns(cost, times),
            base_calls_per_s: calls_per_s / self.startup.growth(),
            self_ns: cost.self_ns() / as_f64(did.calls.max(1)),
            is_fresh: limits.is_fresh(is_compiled, cost),
            is_compiled,
            is_compiled_out: false,
        }
    }

    /// Adds what methods cost, and the time of their slow calls.
    fn weigh(&mut self, costs: &[Cost], seconds: f64) {
        let remains = (-seconds / MEMORY_S).exp();
        self.worth.retain(|_, worth| {
            worth.slow_ns *= remains;
            worth.total_ns *= remains;
            worth.cost_ns *= remains;
            worth.slow_ns > 1.0
        });
        for Cost { id, did, .. } in costs {
            // Slow calls are needed as much where calls cost more.
            let cost_ns = as_f64(did.calls) * self.call_cost.assumed_ns();
            if did.slow_ns > 0 || self.worth.contains_key(id) {
                let worth = self.worth.entry(*id).or_default();
                worth.slow_ns += as_f64(did.slow_ns);
                worth.total_ns += as_f64(clock::ticks_to_ns(did.total_ticks));
                worth.cost_ns += cost_ns;
            }
        }
    }

    /// Recording begins again, and all code that was compiled with probes has been discarded.
    pub(crate) fn begin_again(&mut self) {
        self.startup.begin_again();
        self.is_renewed = false;
        self.renewed();
    }

    /// Which of these methods are compiled out.
    pub(crate) fn compiled_out(&self, ids: &[MethodId]) -> Vec<MethodId> {
        ids.iter().copied().filter(|id| self.is_compiled_out(*id)).collect()
    }

    /// Notes that these methods are measured again, from now on.
    pub(crate) fn measured_again(&mut self, ids: &[MethodId]) {
        for id in ids {
            if let Some(throttled) = self.throttled.remove(id) {
                self.before.insert(*id, throttled.times);
            }
        }
        // What their slow calls were worth before says nothing now.
        self.worth.retain(|id, _| !ids.contains(id));
    }
}
