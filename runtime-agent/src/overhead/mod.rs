//! Decides which methods are throttled, so that the profiler stays within its share of the process's CPU time.
//!
//! The cost of a call is calibrated, so the calls of the last period give the cost of each method. Over the budget,
//! the methods are throttled that cost most for the least time measured in them: many calls, each about as long as
//! its probes. A method whose slow calls are worth its probes is needed, and stays.
//!
//! [`return_to_budget`] decides which throttled methods are measured again, and [`compile_out`] for which of them
//! even the guard costs too much. Nothing here retransforms a class: a running loop would stay slow for good.
//!
//! These are decisions only, without a clock or a JVM; [`controller`] carries them out.

mod compile_out;
pub(crate) mod controller;
mod return_to_budget;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use crate::drain::hot_methods::Recent;
use crate::sys::clock;

const SECOND_NS: u64 = 1_000_000_000;
/// Cost of a call in a program, as a multiple of its cost in a loop of its own: code around probes is no longer
/// inlined, and caches miss. H2 and Lucene with all methods measured: 75 to 95 ns where the loop says 25.
const IN_PROGRAM: f64 = 3.0;
/// The same for methods whose calls take [`LONG`] times as long: they would not have been inlined. That is less than
/// the real cost, 53 to 71 ns in a service by samples of `perf`, but it keeps the methods that take the time.
const IN_PROGRAM_LONG: f64 = 1.5;
const LONG: f64 = 40.0;
/// The same in a large program, however long methods take: neither code nor data of probes are in the nearest
/// caches. By samples of `perf`, a call took 108 to 160 ns in H2 and Lucene with the budget, where the loop says 28.
const IN_LARGE_PROGRAM: f64 = 5.0;
/// A program is large if more measured methods than this were called since the JVM began.
const LARGE_PROGRAM: usize = 200;
/// Share of the budget that stays in use after an overrun: with all of it, the next overrun would come at once.
const TARGET: f64 = 0.5;
/// After recording begins, the program gets faster, and soon calls everything [`FASTER`] times as often. Throttling
/// more methods again and again would prevent that. So as much is throttled at once as will be necessary then, and
/// what was too much comes back afterwards.
const EARLY_NS: u64 = 10 * SECOND_NS;
const FASTER: f64 = 20.0;
const SETTLED_NS: u64 = 18 * SECOND_NS;
/// After this many overruns in the beginning, methods are throttled as soon as the rest would be over the budget if it
/// were called [`FASTER`] times as often. Methods that the compiler gets to before that stay slow.
const TIGHT: u32 = 2;
/// A process with less CPU time than this share of a processor is practically idle.
const LEAST_CPU: f64 = 0.05;
/// A method with fewer calls a second is not worth throttling, as long as all such methods together cost at most the
/// share [`MOST_RARE`] of the budget. When the program begins, most methods are that rare, for a moment.
const LEAST_CALLS: f64 = 200.0;
const MOST_RARE: f64 = 0.5;
/// Slow calls that take this many times as long as a method's probes make it needed. One of a millisecond in a
/// thousand calls is enough; calls that a pause of the JVM happens to hit are not.
const NEEDED: f64 = 10.0;
/// Share of the budget that is always left for methods that are neither needed nor worth it: time that threads wait
/// for a processor makes many look as if they were worth it.
const LEAST_ROOM: f64 = 0.25;
/// After this time, a third is left of what is known about a method: what was slow when the program began says
/// nothing about later.
const MEMORY_S: f64 = 10.0;
/// How long a method that came back is measured before it may be throttled again; less if it costs more than the
/// share [`DEAR`] of the CPU time.
const LOOK_NS: u64 = SECOND_NS;
const SHORT_LOOK_NS: u64 = SECOND_NS / 5;
const DEAR: f64 = 0.05;
/// How long a throttled method waits before it comes back, if there is room in the budget; twice as long each time.
const FIRST_WAIT_NS: u64 = 60 * SECOND_NS;
const LONGEST_WAIT_NS: u64 = 3_600 * SECOND_NS;
/// Methods with fewer calls are not compiled yet by the compiler that matters.
const COMPILED_CALLS: u64 = 10_000;

/// A share of the CPU time, in millionths.
pub(crate) type Millionths = u32;

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
    /// Cost of its probes, for a call and relative to the measured time.
    call_ns: f64,
    ratio: f64,
    /// It was throttled just now, and little or no compiled code contains its probes.
    is_fresh: bool,
    /// It had been called so often that compiled code contains its probes.
    is_compiled: bool,
    /// It is compiled out: code that the JIT compiles from then on has nothing of its probes.
    pub is_compiled_out: bool,
}

/// A period, and what methods did in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Period<'p> {
    /// Its end, by the monotonic clock and by the calendar.
    pub now_ns: u64,
    pub unix_ns: u64,
    pub length_ns: u64,
    /// The process's CPU time.
    pub cpu_ns: u64,
    /// What the profiler cost besides its probes: the agent thread's CPU time, and CPU time that the process lost to
    /// pauses.
    pub own_ns: u64,
    pub methods: &'p HashMap<u32, Recent>,
}

/// What a measured method did in a period, and what its probes cost, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Cost {
    id: u32,
    did: Recent,
    ns: f64,
}

impl Cost {
    /// Cost of its probes relative to the measured time.
    fn ratio(&self) -> f64 {
        self.ns / as_f64(clock::ticks_to_ns(self.did.self_ticks)).max(1.0)
    }

    /// Methods with the highest score are throttled first: they cost most for the least measured time.
    fn score(&self) -> f64 {
        self.ns * self.ratio()
    }
}

/// Time of a method's slow calls, and what its probes cost meanwhile, in nanoseconds; both decay.
#[derive(Clone, Copy, Debug, Default)]
struct Worth {
    slow_ns: f64,
    cost_ns: f64,
}

impl Worth {
    /// Whether its slow calls are worth its probes.
    fn is_needed(self) -> bool {
        self.slow_ns >= NEEDED * self.cost_ns
    }
}

/// The budget, and the methods throttled for it.
#[derive(Debug)]
pub(crate) struct Overhead {
    budget: Option<Millionths>,
    /// What a call costs in a loop of its own, in nanoseconds.
    pair_ns: f64,
    throttled: HashMap<u32, Throttled>,
    /// How often methods that are measured again were throttled.
    before: HashMap<u32, u32>,
    /// Measured calls of methods until now.
    called: HashMap<u32, u64>,
    /// Measured methods that had slow calls.
    worth: HashMap<u32, Worth>,
    /// Methods that came back and may not be throttled yet, and since when.
    looks: HashMap<u32, u64>,
    next_return_ns: u64,
    /// When recording began, and in how many periods the budget was overrun in the seconds after that.
    began_ns: Option<u64>,
    early_overruns: u32,
    /// Whether it has been decided since then if compiled code is discarded.
    is_renewed: bool,
    /// Calls a second of measured methods when methods were first throttled, and how many times as often they are
    /// called now.
    base: HashMap<u32, f64>,
    growth: f64,
    /// CPU time of the last period, in nanoseconds a second.
    cpu_rate: f64,
    share: f64,
}

impl Overhead {
    pub(crate) fn new(budget: Option<Millionths>, pair_ns: f64) -> Self {
        Self {
            budget,
            pair_ns,
            throttled: HashMap::new(),
            before: HashMap::new(),
            called: HashMap::new(),
            worth: HashMap::new(),
            looks: HashMap::new(),
            next_return_ns: 0,
            began_ns: None,
            early_overruns: 0,
            is_renewed: false,
            base: HashMap::new(),
            growth: 1.0,
            cpu_rate: 1.0,
            share: 0.0,
        }
    }

    pub(crate) fn budget(&self) -> Option<Millionths> {
        self.budget
    }

    /// Sets the budget. Without one, nothing more is throttled; methods that still are could not be measured again.
    pub(crate) fn set_budget(&mut self, budget: Option<Millionths>) {
        self.budget = budget;
        if budget.is_none() {
            let throttled = std::mem::take(&mut self.throttled);
            let before = std::mem::take(&mut self.before);
            let (called, share) = (std::mem::take(&mut self.called), self.share);
            *self = Self { throttled, before, called, share, ..Self::new(None, self.pair_ns) };
        }
    }

    /// Forgets methods that could not be throttled.
    pub(crate) fn forget(&mut self, ids: &[u32]) {
        self.throttled.retain(|id, _| !ids.contains(id));
    }

    /// Sets what a call costs in a loop of its own, as measured.
    pub(crate) fn set_pair_ns(&mut self, ns: f64) {
        self.pair_ns = ns;
    }

    /// The least that the probes of a call cost, in nanoseconds: as in a loop of their own.
    pub(crate) fn call_ns(&self) -> u64 {
        as_u64(self.pair_ns)
    }

    /// Estimated cost of a method's probes, in nanoseconds.
    pub(crate) fn cost_ns(&self, did: &Recent) -> f64 {
        let calls = as_f64(did.calls);
        let is_long = as_f64(clock::ticks_to_ns(did.self_ticks)) >= calls * self.pair_ns * LONG;
        let times = match self.budget {
            // Most of the calls are the ones that are compiled best: 47 to 52 ns a call in three programs where the
            // loop says 52.
            None => 1.0,
            Some(_) if self.is_large() => IN_LARGE_PROGRAM,
            Some(_) if is_long => IN_PROGRAM_LONG,
            Some(_) => IN_PROGRAM,
        };
        calls * self.pair_ns * times
    }

    fn is_large(&self) -> bool {
        self.called.len() > LARGE_PROGRAM
    }

    /// What the profiler cost in the last period, as a share of the CPU time, with a budget or without.
    pub(crate) fn share(&self) -> f64 {
        self.share
    }

    pub(crate) fn throttled(&self) -> &HashMap<u32, Throttled> {
        &self.throttled
    }

    /// Whether a method is or ever was throttled.
    pub(crate) fn has_throttled(&self, id: u32) -> bool {
        self.throttled.contains_key(&id) || self.before.contains_key(&id)
    }

    /// Whether the next period should be short: methods have just come back, or the program begins. A method that is
    /// not throttled before it is compiled costs more.
    pub(crate) fn is_busy(&self, now_ns: u64) -> bool {
        !self.looks.is_empty() || self.is_early(now_ns)
    }

    fn is_early(&self, now_ns: u64) -> bool {
        self.began_ns.is_some_and(|began_ns| now_ns < began_ns + EARLY_NS)
    }

    /// Judges a period: finds what the profiler cost in it, and returns the methods to throttle from now on.
    pub(crate) fn judge(&mut self, period: Period<'_>) -> Vec<u32> {
        let seconds = as_f64(period.length_ns.max(1)) / 1e9;
        let cpu_ns = as_f64(period.cpu_ns).max(LEAST_CPU * as_f64(period.length_ns));
        for (id, did) in period.methods {
            *self.called.entry(*id).or_default() += did.calls;
        }
        let measured = period.methods.iter().filter(|(id, _)| !self.throttled.contains_key(*id));
        let mut costs: Vec<Cost> =
            measured.map(|(id, did)| Cost { id: *id, did: *did, ns: self.cost_ns(did) }).collect();
        let probes_ns = costs.iter().map(|cost| cost.ns).sum::<f64>();
        let own_ns = as_f64(period.own_ns) + self.guards_ns() * seconds;
        self.share = ((probes_ns + own_ns) / cpu_ns).min(1.0);
        self.cpu_rate = cpu_ns / seconds;
        let Some(budget) = self.budget else { return Vec::new() };
        let budget = f64::from(budget) / 1e6;
        let began_ns = *self.began_ns.get_or_insert(period.now_ns - period.length_ns);
        let is_early = period.now_ns < began_ns + EARLY_NS;
        self.grow(&costs, seconds);
        self.weigh(&costs, seconds);
        let looked_at = std::mem::take(&mut self.looks);
        let is_protected = |id: u32, cost: f64| {
            let length = if cost > DEAR * cpu_ns { SHORT_LOOK_NS } else { LOOK_NS };
            looked_at.get(&id).is_some_and(|since_ns| period.now_ns < since_ns + length)
        };
        let mut leave = Vec::new();
        // While methods are interpreted, they take several times as long themselves.
        let worth_it = if is_early { budget / 5.0 } else { budget };
        let is_free = |cost: &Cost| {
            let Cost { id, ns, .. } = cost;
            !self.worth.get(id).is_some_and(|worth| worth.is_needed()) && !is_protected(*id, *ns)
        };
        // If all methods were worth it, they would be within the budget.
        let may_go_if_often = |cost: &Cost| is_free(cost) && cost.ratio() > worth_it;
        let is_rare = |cost: &Cost| as_f64(cost.did.calls) < LEAST_CALLS * seconds;
        let sum = |costs: &[Cost], of: &dyn Fn(&Cost) -> bool| -> f64 {
            costs.iter().filter(|cost| of(cost)).map(|cost| cost.ns).sum()
        };
        let rare_ns = sum(&costs, &|cost| may_go_if_often(cost) && is_rare(cost));
        let spares_rare = is_early || rare_ns <= MOST_RARE * budget * cpu_ns;
        let may_go = |cost: &Cost| may_go_if_often(cost) && !(spares_rare && is_rare(cost));
        // Needed methods do not count: all others would be throttled for them, in vain. Methods that are worth it or
        // rare count, and leave less room for others. In the beginning, there is far less room for all.
        let mut cost = sum(&costs, &may_go);
        let stays_ns = sum(&costs, &|cost| is_free(cost) && !may_go(cost));
        let room_ns = match is_early {
            // Of a processor, because a program that has nothing to do yet uses little of one.
            true if self.early_overruns >= TIGHT => {
                budget / FASTER * cpu_ns.max(as_f64(period.length_ns))
            }
            true => budget * cpu_ns,
            false => (budget * cpu_ns - stays_ns - own_ns).max(LEAST_ROOM * budget * cpu_ns),
        };
        if cost > room_ns {
            if is_early && cost > budget * cpu_ns {
                self.early_overruns += 1;
            }
            if self.base.is_empty() {
                let rates = costs.iter().map(|cost| (cost.id, as_f64(cost.did.calls) / seconds));
                self.base.extend(rates);
            }
            costs.retain(may_go);
            costs.sort_by(|one, other| {
                other.score().total_cmp(&one.score()).then(one.id.cmp(&other.id))
            });
            let target = TARGET * if is_early { budget / FASTER } else { room_ns / cpu_ns };
            let mut gone = 0.0;
            for cost_of_one in costs {
                let Cost { id, did, ns } = cost_of_one;
                // Without their cost, the rest is a larger share of the process, or is called more often.
                if cost <= target * (cpu_ns - gone).max(LEAST_CPU * cpu_ns) {
                    break;
                }
                cost -= ns;
                gone += ns;
                let times = self.before.get(&id).copied().unwrap_or_default() + 1;
                let is_compiled =
                    self.called.get(&id).is_some_and(|calls| *calls >= COMPILED_CALLS);
                let wait_ns = FIRST_WAIT_NS << (times - 1).min(16);
                let again_ns = match is_early {
                    true if cost_of_one.ratio() <= budget => began_ns + EARLY_NS,
                    true => began_ns + SETTLED_NS,
                    false => period.now_ns + wait_ns.min(LONGEST_WAIT_NS),
                };
                let calls_per_s = as_f64(did.calls) / seconds;
                let throttled = Throttled {
                    since_unix_ns: period.unix_ns,
                    calls_per_s: as_u64(calls_per_s).max(1),
                    mean_ns: clock::ticks_to_ns(did.total_ticks) / did.calls.max(1),
                    times,
                    again_ns,
                    base_calls_per_s: calls_per_s / self.growth,
                    call_ns: ns / as_f64(did.calls.max(1)),
                    ratio: cost_of_one.ratio(),
                    // A method that is rare now may soon be called often.
                    is_fresh: is_early || !is_compiled && !is_rare(&cost_of_one),
                    is_compiled,
                    is_compiled_out: false,
                };
                self.throttled.insert(id, throttled);
                leave.push(id);
            }
        }
        self.looks = looked_at;
        self.looks.retain(|id, since_ns| {
            period.now_ns < *since_ns + LOOK_NS && !self.throttled.contains_key(id)
        });
        leave
    }

    /// Finds how many times as often methods are called now as when methods were first throttled.
    fn grow(&mut self, costs: &[Cost], seconds: f64) {
        let (mut then, mut now) = (0.0, 0.0);
        for Cost { id, did, .. } in costs {
            if let Some(calls_per_s) = self.base.get(id) {
                then += calls_per_s;
                now += as_f64(did.calls) / seconds;
            }
        }
        if then > 0.0 && now > 0.0 {
            self.growth = (now / then).min(FASTER);
        }
    }

    /// Adds what methods cost, and the time of their slow calls.
    fn weigh(&mut self, costs: &[Cost], seconds: f64) {
        let remains = (-seconds / MEMORY_S).exp();
        self.worth.retain(|_, worth| {
            worth.slow_ns *= remains;
            worth.cost_ns *= remains;
            worth.slow_ns > 1.0
        });
        for Cost { id, did, ns } in costs {
            // Slow calls are needed as much in a large program, so its higher factor does not count here.
            let cost_ns = ns.min(as_f64(did.calls) * self.pair_ns * IN_PROGRAM);
            if let Some(worth) = self.worth.get_mut(id) {
                worth.slow_ns += as_f64(did.slow_ns);
                worth.cost_ns += cost_ns;
            } else if did.slow_ns > 0 {
                let worth = Worth { slow_ns: as_f64(did.slow_ns), cost_ns };
                self.worth.insert(*id, worth);
            }
        }
    }

    /// Recording begins again, and all code that was compiled with probes has been discarded.
    pub(crate) fn begin_again(&mut self) {
        self.looks.clear();
        (self.began_ns, self.early_overruns, self.is_renewed) = (None, 0, false);
        self.renewed();
    }

    /// Which of these methods are compiled out.
    pub(crate) fn compiled_out(&self, ids: &[u32]) -> Vec<u32> {
        let is_compiled_out =
            |id: &u32| self.throttled.get(id).is_some_and(|left| left.is_compiled_out);
        ids.iter().copied().filter(is_compiled_out).collect()
    }

    /// Notes that these methods are measured again, from now on.
    pub(crate) fn measured_again(&mut self, ids: &[u32], now_ns: u64) {
        for id in ids {
            if let Some(throttled) = self.throttled.remove(id) {
                self.before.insert(*id, throttled.times);
            }
        }
        // What their slow calls were worth before says nothing now.
        self.worth.retain(|id, _| !ids.contains(id));
        self.looks.extend(ids.iter().map(|id| (*id, now_ns)));
    }
}

/// Times of a period: far below the 52 bits that are exact.
#[allow(clippy::cast_precision_loss)]
fn as_f64(number: u64) -> f64 {
    number as f64
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(crate) fn as_u64(number: f64) -> u64 {
    number as u64
}
