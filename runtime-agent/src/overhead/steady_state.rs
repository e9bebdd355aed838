//! The steady state: over the budget, throttles the methods that cost most for the least time measured in them: many
//! calls, each about as long as its probes. A method whose slow calls are worth its probes is needed, and stays.

use std::collections::HashMap;

use log_format::ids::MethodId;

use super::call_cost::CallCost;
use super::period_cost::{Cost, LEAST_CPU, Period, as_f64, sum_ns};
use super::start_up::{self, StartUp};
use super::waves::Waves;
use crate::drain::events::Throttling;
use crate::drain::hot_methods::Recent;
use crate::options::CpuShare;
use crate::probe::traced;
use crate::sys::clock::{self, as_u64};

/// Share of the room that stays in use after an overrun: with all of it, the next overrun would come at once.
const TARGET: f64 = 0.5;
/// With so many throttled methods or fewer, those that would fit into the budget are not compiled out after the first
/// wave, so they can come back. With more, their guards cost too much.
const SMALL_PROGRAM: usize = 100;
/// Share of the budget that is always left for methods that are neither needed nor worth it, whatever the agent itself
/// and the others cost. In a process that is nearly idle, that can be all of it.
const LEAST_ROOM: f64 = 0.25;
/// Slow calls that take this many times as long as a method's probes make it needed. One of a millisecond in a
/// thousand calls is enough; calls that a pause of the JVM happens to hit are not.
pub(super) const NEEDED: f64 = 10.0;
/// After this time, a third is left of what is known about a method: what was slow when the program began says
/// nothing about later.
const MEMORY_S: f64 = 10.0;

/// Since when and why a method is throttled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Throttled {
    pub why: Throttling,
    pub(super) since_ns: u64,
    /// How often it was throttled.
    pub(super) times: u32,
    /// Code that the JIT compiles from then on has nothing of its probes.
    pub is_compiled_out: bool,
}

/// What the profiler cost in a period.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Spent {
    /// CPU time, in nanoseconds.
    pub ns: u64,
    /// As a share of the process's CPU time, which the budget is held against.
    pub share: f64,
    /// What of it is the probes' cost; the rest is the agent's own work.
    pub probes_share: f64,
    /// The whole as a share of a processor.
    pub of_processor: f64,
}

/// The budget, and what is done to keep to it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct OverheadFigures {
    pub budget: Option<CpuShare>,
    /// In the last period; nothing while recording is off.
    pub spent: Spent,
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
    pub call_cost: CallCost,
    pub(super) throttled: HashMap<MethodId, Throttled>,
    /// How often methods that are measured again were throttled.
    before: HashMap<MethodId, u32>,
    /// Measured methods that had slow calls.
    worth: HashMap<MethodId, Worth>,
    start_up: StartUp,
    waves: Waves,
    /// In the last period, and how much more probes may cost, in nanoseconds a second.
    pub spent: Spent,
    pub(super) free_rate: f64,
}

impl Overhead {
    pub(crate) fn new(budget: Option<CpuShare>, pair_ns: f64) -> Self {
        Self {
            budget,
            call_cost: CallCost::new(pair_ns, budget.is_some()),
            throttled: HashMap::new(),
            before: HashMap::new(),
            worth: HashMap::new(),
            start_up: StartUp::default(),
            waves: Waves::default(),
            spent: Spent::default(),
            free_rate: 0.0,
        }
    }

    pub(crate) fn budget(&self) -> Option<CpuShare> {
        self.budget
    }

    /// Sets the budget. Without one, nothing more is throttled; methods that still are could not be measured again.
    pub(crate) fn set_budget(&mut self, budget: Option<CpuShare>) {
        if self.budget.is_some() != budget.is_some() {
            self.begin_again();
            self.call_cost = CallCost::new(self.call_cost.pair_ns, budget.is_some());
            self.worth.clear();
        }
        self.budget = budget;
    }

    /// All methods are measured again after a long time, so what is throttled next is a first wave.
    pub(crate) fn begin_again(&mut self) {
        (self.start_up, self.waves) = <(StartUp, Waves)>::default();
        self.before.values_mut().for_each(|times| *times = 0);
    }

    /// Methods are throttled from now on.
    pub(crate) fn add_throttled(&mut self, throttled: &[(MethodId, Throttled)]) {
        self.throttled.extend(throttled.iter().copied());
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

    /// Whether the next period should be short.
    pub(crate) fn is_busy(&self, now_ns: u64) -> bool {
        // There is a wave, or one is likely.
        self.waves.is_going_on() || self.start_up.is_early(now_ns)
    }

    /// The methods to compile out now, if compiled code is to be discarded. They have ids below `end`.
    pub(crate) fn compile_out(&mut self, now_ns: u64, end: MethodId) -> Option<Vec<MethodId>> {
        let is_small_first = !self.waves.has_discarded() && self.throttled.len() <= SMALL_PROGRAM;
        let mut guarded: Vec<MethodId> = self.returnable().filter(|id| *id < end).collect();
        if is_small_first {
            let fitting = self.fitting(u64::MAX);
            guarded.retain(|id| !fitting.contains(id));
        }
        let calls_per_s =
            guarded.iter().filter_map(|id| Some(self.throttled.get(id)?.why.calls_per_s));
        if !self.waves.discards(now_ns, calls_per_s.sum(), &mut self.start_up) {
            return None;
        }
        self.set_compiled_out(&guarded, true);
        Some(guarded)
    }

    /// Judges a period: finds what the profiler cost in it, and returns the methods to throttle from now on. Those with
    /// ids below `end` can be compiled out.
    pub(crate) fn judge(&mut self, period: &Period, end: MethodId) -> Vec<(MethodId, Throttled)> {
        self.start_up.begin(period.now_ns - period.length_ns);
        let costs = self.measure(period);
        let Some(budget) = self.budget else { return Vec::new() };
        self.weigh(&costs, period.seconds());
        let share = budget.of_one();
        let is_strict = self.start_up.is_strict(period.now_ns, self.spent.probes_share / share);
        let worth_it = share / if is_strict { start_up::INTERPRETED } else { 1.0 };
        let (candidates, stays_ns) = self.candidates(costs, worth_it);
        let budget_ns = share * period.budgeted_cpu_ns();
        // A pause is over, whatever is throttled for it.
        let room_ns = budget_ns - stays_ns - as_f64(period.own_ns);
        let room_ns = room_ns.max(LEAST_ROOM * budget_ns);
        let candidates_ns = sum_ns(&candidates);
        self.free_rate = (TARGET * room_ns - candidates_ns) / period.seconds();
        if candidates_ns <= room_ns {
            return Vec::new();
        }
        let target_ns = if is_strict { start_up::TARGET * budget_ns } else { TARGET * room_ns };
        let mut throttled = self.throttle(candidates, target_ns, period);
        let can_go = throttled.iter().filter(|(id, _)| *id < end);
        let calls_per_s = can_go.map(|(_, left)| left.why.calls_per_s).sum();
        self.start_up.add(is_strict);
        let is_compiled_out = self.waves.add(period.now_ns, calls_per_s);
        for (id, left) in &mut throttled {
            left.is_compiled_out = is_compiled_out && *id < end;
        }
        throttled
    }

    /// Finds what the profiler cost in a period. Returns what the probes of each instrumented method cost.
    pub(super) fn measure(&mut self, period: &Period) -> Vec<Cost> {
        let measured = period.methods.iter().filter(|(id, _)| !self.throttled.contains_key(*id));
        let measured: Vec<(&MethodId, &Recent)> = measured.collect();
        // What is interpreted yet says nothing about later.
        if !self.start_up.is_early(period.now_ns) {
            let calls: u64 = measured.iter().map(|(_, did)| did.calls).sum();
            self.call_cost.add(as_f64(calls) * self.call_cost.pair_ns, period);
        }
        let call_ns = self.call_cost.ns();
        let cost = |(id, did): (&MethodId, &Recent)| {
            let ns = as_f64(did.calls) * call_ns;
            Cost { id: *id, did: *did, ns }
        };
        let costs: Vec<Cost> = measured.into_iter().map(cost).collect();
        let cpu_ns = period.budgeted_cpu_ns();
        let probes_ns = sum_ns(&costs);
        let cost_ns = probes_ns + as_f64(period.own_ns + period.paused_ns);
        let share = (cost_ns / cpu_ns).min(1.0);
        self.spent = Spent {
            ns: as_u64(cost_ns).min(period.cpu_ns),
            share,
            probes_share: (probes_ns / cpu_ns).min(1.0),
            of_processor: share * cpu_ns / as_f64(period.length_ns),
        };
        costs
    }

    /// The methods that may be throttled, and what those cost that stay because they are worth their probes: if all
    /// were, they would be within the budget. Needed methods do not count: all others would be throttled for them, in
    /// vain. What is traced stays.
    fn candidates(&self, mut costs: Vec<Cost>, worth_it: f64) -> (Vec<Cost>, f64) {
        costs.retain(|cost| !self.worth.get(&cost.id).is_some_and(|worth| worth.is_needed()));
        let may_go = |cost: &Cost| cost.ratio() > worth_it && !traced::is_traced(cost.id);
        let (candidates, stay): (Vec<Cost>, Vec<Cost>) = costs.into_iter().partition(may_go);
        (candidates, sum_ns(&stay))
    }

    /// The candidates to throttle, so that the rest is within the target.
    fn throttle(
        &self,
        mut candidates: Vec<Cost>,
        target_ns: f64,
        period: &Period,
    ) -> Vec<(MethodId, Throttled)> {
        candidates.sort_by(|one, other| {
            other.score().total_cmp(&one.score()).then(one.id.cmp(&other.id))
        });
        let cpu_ns = period.budgeted_cpu_ns();
        let (mut left_ns, mut gone_ns) = (sum_ns(&candidates), 0.0);
        let goes = |cost: &Cost| {
            // Without their cost, the rest is a larger share of the process, or is called more often.
            let goes = left_ns > target_ns * (1.0 - gone_ns / cpu_ns).max(LEAST_CPU);
            left_ns -= cost.ns;
            gone_ns += cost.ns;
            goes
        };
        let throttled = |Cost { id, did, .. }| {
            let left = Throttled {
                why: Throttling {
                    since_unix_ns: period.unix_ns,
                    calls_per_s: as_u64(as_f64(did.calls) / period.seconds()).max(1),
                    mean_ns: clock::ticks_to_ns(did.total_ticks) / did.calls.max(1),
                },
                since_ns: period.now_ns,
                times: self.before.get(&id).copied().unwrap_or_default() + 1,
                is_compiled_out: false,
            };
            (id, left)
        };
        candidates.into_iter().take_while(goes).map(throttled).collect()
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
            if did.slow_ns > 0 || self.worth.contains_key(id) {
                let worth = self.worth.entry(*id).or_default();
                worth.slow_ns += as_f64(did.slow_ns);
                worth.total_ns += as_f64(clock::ticks_to_ns(did.total_ticks));
                // Slow calls are needed as much where calls cost more.
                worth.cost_ns += as_f64(did.calls) * self.call_cost.assumed_ns();
            }
        }
    }

    /// Methods have guards, also in code that is compiled from now on, or are compiled out.
    pub(crate) fn set_compiled_out(&mut self, ids: &[MethodId], is_compiled_out: bool) {
        for id in ids {
            if let Some(left) = self.throttled.get_mut(id) {
                left.is_compiled_out = is_compiled_out;
            }
        }
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
