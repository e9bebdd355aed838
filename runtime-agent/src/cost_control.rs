//! Keeps the profiler within its overhead budget: measures what a call costs here, has each second judged,
//! takes probes out and gives them back. What is decided is decided in `overhead`.
#![allow(unsafe_code)]

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use jvmti_bindings::env::JniEnv;

use crate::engine::Engine;
use crate::message::message;
use crate::methods::CALIBRATION;
use crate::overhead::{LeftOut, Millionths, Overhead, Period};
use crate::probe_class::{ProbeClass, SEALABLE};
use crate::run_log::Now;
use crate::stack_samples::StackSamples;

/// How long a period is, and when there is something to be done soon.
const PERIOD_NS: u64 = 1_000_000_000;
const SHORT_PERIOD_NS: u64 = 200_000_000;
/// How many times as long as it takes to read all totals, which grows with threads and methods, and the longest.
const TIMES_READING: u64 = 200;
const LONGEST_PERIOD_NS: u64 = 5 * PERIOD_NS;
/// How many times as long as the threads stand still for it stacks are not looked at, and while there is
/// a question.
const TIMES_STANDING: u64 = 500;
const TIMES_CURIOUS: u64 = 50;
/// Most of what takes longer is waiting for a processor, with so much more for each stack.
const LONGEST_STANDING_NS: u64 = 5_000_000;
const LONGEST_STANDING_EACH_NS: u64 = 20_000;
/// Stacks are looked at so often, when methods are left out.
const SAMPLE_NS: u64 = 1_000_000_000;
/// How long to wait after the JVM began, or probes were taken out of classes, until it is done again: twice as
/// long each time. What was compiled is thrown away then, and the program is slower than before for a while.
const FIRST_WAIT: Duration = Duration::from_secs(60);
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);
/// What a call is taken to cost until that is known, in nanoseconds.
const FIRST_GUESS_NS: f64 = 40.0;

/// What the engine keeps for its overhead budget.
pub(crate) struct CostControl {
    pub overhead: Overhead,
    calibration: Calibration,
    samples: StackSamples,
    /// When the period began, and the process's CPU time then; `None` while nothing is recorded.
    began: Option<(Now, u64)>,
    length_ns: u64,
    next_sample_ns: u64,
    /// When probes may be taken out of classes again, and how long to wait then.
    next_withdrawal: Instant,
    wait: Duration,
}

impl CostControl {
    pub(crate) fn new(budget: Option<Millionths>) -> Self {
        Self {
            overhead: Overhead::new(budget, FIRST_GUESS_NS),
            calibration: Calibration::default(),
            samples: StackSamples::default(),
            began: None,
            length_ns: SHORT_PERIOD_NS,
            next_sample_ns: 0,
            next_withdrawal: Instant::now() + FIRST_WAIT,
            wait: FIRST_WAIT,
        }
    }

    /// Whether there are probes that are to be taken out now.
    fn is_to_withdraw(&mut self) -> bool {
        let is_due = Instant::now() >= self.next_withdrawal && self.overhead.take_out();
        if is_due {
            self.wait = (self.wait * 2).min(LONGEST_WAIT);
            self.next_withdrawal = Instant::now() + self.wait;
        }
        is_due
    }

    /// Probes were taken out until now.
    pub(crate) fn withdrew(&mut self) {
        self.overhead.retransformed(Now::read().monotonic_ns);
    }
}

/// Finds out what a call costs: the JVM compiles the loop that makes calls, so the first batches say little.
#[derive(Debug, Default)]
struct Calibration {
    began: Option<Instant>,
    /// How often it was begun anew.
    again: usize,
    best: Option<Duration>,
    batches: u32,
    /// Batches in a row that were no better.
    no_better: u32,
}

impl Calibration {
    /// A millisecond or two.
    const CALLS: i32 = 20_000;
    const MOST: u32 = 60;
    const ENOUGH: u32 = 10;
    /// When it is begun anew: at first the JVM may have had no time for the loop.
    const AGAIN: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(60)];

    /// Makes a batch of calls, if more have to be. What a call costs in nanoseconds, when that is new.
    fn go_on(&mut self, probe_class: &ProbeClass, jni: &JniEnv) -> Option<f64> {
        let since = self.began.get_or_insert_with(Instant::now).elapsed();
        if Self::AGAIN.get(self.again).is_some_and(|at| since >= *at) {
            (self.again, self.batches, self.no_better) = (self.again + 1, 0, 0);
        }
        if self.batches >= Self::MOST || self.no_better >= Self::ENOUGH {
            return None;
        }
        self.batches += 1;
        let began = Instant::now();
        probe_class.calibrate(jni, Self::CALLS, CALIBRATION);
        let took = began.elapsed();
        // As it is run to run.
        let is_better = self.best.is_none_or(|best| took < best - best / 32);
        self.no_better = if is_better { 0 } else { self.no_better + 1 };
        if is_better {
            self.best = Some(took);
        }
        let ns = self.best?.as_secs_f64() * 1e9 / f64::from(Self::CALLS);
        // Until it is known that it gets no better, it is not taken to be as bad as it is interpreted.
        let is_known = self.no_better >= Self::ENOUGH || self.batches >= Self::MOST;
        Some(if is_known { ns } else { ns.min(FIRST_GUESS_NS) })
    }
}

impl Engine<'_> {
    /// To be called in each round.
    pub(crate) fn keep_to_overhead(&mut self) {
        if self.cost.overhead.budget().is_none() || !self.is_open {
            self.cost.began = None;
            return;
        }
        if let Some(ns) = self.cost.calibration.go_on(&self.probe_class, self.jni) {
            self.cost.overhead.set_pair_ns(ns);
        }
        let now = Now::read();
        let Some((began, cpu_ns)) = self.cost.began else {
            self.recorder.take_recent();
            self.cost.began = Some((now, process_cpu_ns()));
            return;
        };
        self.see_stacks(now);
        if now.since(began) >= self.cost.length_ns {
            self.judge(now, now.since(began), process_cpu_ns().saturating_sub(cpu_ns));
        }
        let again = self.cost.overhead.look_again(now.monotonic_ns);
        if !again.is_empty()
            && let Err(error) = self.measure_again(&again)
        {
            message!("overhead: {error}");
        }
    }

    fn judge(&mut self, now: Now, length_ns: u64, cpu_ns: u64) {
        // Of CPU time: a program that begins has no processor to spare, and waiting for one costs nothing.
        let reading_ns = cpu_ns_of(libc::CLOCK_THREAD_CPUTIME_ID);
        let methods = self.recorder.take_recent();
        let reading_ns = cpu_ns_of(libc::CLOCK_THREAD_CPUTIME_ID).saturating_sub(reading_ns);
        let Now { unix_ns, monotonic_ns } = now;
        let period = Period { now_ns: monotonic_ns, unix_ns, length_ns, cpu_ns, methods: &methods };
        let overhead = &mut self.cost.overhead;
        let leave = overhead.judge(period);
        let cost_ns = methods.values().map(|did| overhead.cost_ns(did)).sum();
        self.recorder.add_cost(cost_ns, cpu_ns);
        let is_busy = overhead.is_busy(monotonic_ns);
        let length_ns = if is_busy { SHORT_PERIOD_NS } else { PERIOD_NS };
        self.cost.length_ns = length_ns.max(TIMES_READING * reading_ns).min(LONGEST_PERIOD_NS);
        self.cost.began = Some((now, process_cpu_ns()));
        if !leave.is_empty() {
            self.leave_out(leave, monotonic_ns);
        }
        if self.cost.overhead.is_to_renew(monotonic_ns) {
            match self.probe_class.renew_compiled(self.jni) {
                Ok(()) => self.cost.overhead.renewed(Now::read().monotonic_ns),
                Err(error) => {
                    message!("{error}; methods that are left out are slower than they could be")
                }
            }
        }
        if self.cost.is_to_withdraw() {
            self.withdraw = Some(Instant::now());
        }
    }

    /// Leaves methods out from now on.
    fn leave_out(&mut self, leave: Vec<u32>, now_ns: u64) {
        if let Err(error) = self.muting.leave_out(&leave, true, &self.probe_class, self.jni) {
            message!("overhead: {error}");
        }
        // Those that could not be marked are measured as before.
        let (leave, not): (Vec<u32>, Vec<u32>) =
            leave.into_iter().partition(|id| self.muting.is_muted(*id));
        self.cost.overhead.forget(&not);
        let left_out: Vec<(u32, LeftOut)> = leave
            .iter()
            .filter_map(|id| Some((*id, *self.cost.overhead.left_out().get(id)?)))
            .collect();
        self.recorder.leave_out(&left_out);
        let sealed = self.cost.overhead.seal(now_ns, SEALABLE);
        self.probe_class.seal(self.jni, sealed.into_iter(), true);
    }

    /// Looks at what threads run, for signs that a method that is left out has become slow.
    fn see_stacks(&mut self, now: Now) {
        let CostControl { overhead, samples, next_sample_ns, .. } = &mut self.cost;
        if overhead.left_out().is_empty() || now.monotonic_ns < *next_sample_ns {
            return;
        }
        let began = Instant::now();
        let stacks = samples.take(self.jvmti, self.jni, &self.methods, |stack| {
            overhead.see(stack, now.monotonic_ns);
        });
        let took_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(PERIOD_NS);
        let longest_ns = LONGEST_STANDING_NS + LONGEST_STANDING_EACH_NS * stacks as u64;
        let took_ns = took_ns.min(longest_ns);
        let pause_ns = match overhead.is_curious(now.monotonic_ns) {
            true => TIMES_CURIOUS * took_ns,
            false => SAMPLE_NS.max(TIMES_STANDING * took_ns),
        };
        *next_sample_ns = now.monotonic_ns + pause_ns;
    }

    /// Has methods measured again that were left out, but for those of classes that the JVM refuses to
    /// retransform.
    ///
    /// # Errors
    /// One line: what the JVM refused. They stay as they are.
    fn measure_again(&mut self, ids: &[u32]) -> Result<(), String> {
        // As long as its class is not retransformed, a method would have some of its calls counted, and the
        // calls of what is compiled not: the guard opens afterwards.
        let sealed = self.cost.overhead.sealed(ids);
        let withheld =
            self.methods.take_withheld(|id| ids.contains(&id) && !self.muting.is_named(id));
        let closed: HashSet<u32> = sealed.union(&withheld).copied().collect();
        self.probe_class.seal(self.jni, sealed.iter().copied(), false);
        let mut refused = self.renew_each(&closed);
        let again: Vec<u32> = ids.iter().copied().filter(|id| !refused.contains(id)).collect();
        let opened = self.muting.leave_out(&again, false, &self.probe_class, self.jni);
        if opened.is_err() {
            refused = closed.clone();
        }
        self.probe_class.seal(self.jni, sealed.intersection(&refused).copied(), true);
        self.methods.withhold(&withheld.intersection(&refused).copied().collect());
        opened?;
        let now = Now::read();
        if !closed.is_empty() {
            self.cost.overhead.retransformed(now.monotonic_ns);
        }
        self.cost.overhead.measured_again(&again, now.monotonic_ns);
        self.recorder.measure_again(&again);
        // A period of its own, without the time that retransforming took.
        self.recorder.take_recent();
        self.cost.began = Some((now, process_cpu_ns()));
        self.cost.length_ns = SHORT_PERIOD_NS;
        Ok(())
    }

    /// Retransforms the classes of these methods; those of classes that the JVM refuses.
    fn renew_each(&mut self, ids: &HashSet<u32>) -> HashSet<u32> {
        const CONSEQUENCE: &str = "has methods that stay left out";
        if ids.is_empty() || self.renew(ids, CONSEQUENCE) {
            return HashSet::new();
        }
        let mut classes: HashMap<(String, String), HashSet<u32>> = HashMap::new();
        for id in ids {
            if let Some(method) = self.methods.get(*id) {
                let class = (method.class.loader.clone(), method.class.name.clone());
                classes.entry(class).or_default().insert(*id);
            }
        }
        classes.into_values().filter(|ids| !self.renew(ids, CONSEQUENCE)).flatten().collect()
    }

    /// Sets the budget. Without one, all methods are measured again.
    ///
    /// # Errors
    /// One line: what the JVM refused. The budget stays as it is.
    pub(crate) fn set_overhead(&mut self, budget: Option<Millionths>) -> Result<(), String> {
        if budget.is_none() {
            let all: Vec<u32> = self.cost.overhead.left_out().keys().copied().collect();
            self.measure_again(&all)?;
        }
        self.cost.overhead.set_budget(budget);
        Ok(())
    }
}

/// What all threads of the process have used.
fn process_cpu_ns() -> u64 {
    cpu_ns_of(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// What a clock of CPU time shows.
fn cpu_ns_of(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to the variable.
    let done = unsafe { libc::clock_gettime(clock, &raw mut time) };
    if done != 0 {
        return 0;
    }
    let (s, ns) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    s * 1_000_000_000 + ns
}
