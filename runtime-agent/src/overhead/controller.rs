//! Measures what the profiler costs, and keeps it within its overhead budget if there is one. Calibrates the cost of
//! a call, lets `overhead` judge each period, and closes and opens guards as it decides.
use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use jvmti_bindings::env::JniEnv;

use log_format::ids::MethodId;

use crate::allocations;
use crate::drain::hot_methods::Recent;
use crate::drain::recorder::Recorder;
use crate::instrument::guards::{ClosedReason, Guards};
use crate::instrument::methods::{Method, Methods};
use crate::jvm::error::JvmError;
use crate::jvm::pauses;
use crate::jvm::probe_class::ProbeClass;
use crate::locks;
use crate::log::run_log::Now;
use crate::options::CpuShare;
use crate::overhead::{Overhead, OverheadFigures, Period, SampledProbes, Throttled};
use crate::probe::CALIBRATION;
use crate::probe::mute::{self, Cause};
use crate::probe::traced;
use crate::sampling::cost;
use crate::statements;
use crate::stderr::message;
use crate::sys::clock::{self, as_u64};
use crate::sys::run_delay::RunDelay;
use crate::traces;

/// Length of a period, and of a short one while there is something to decide soon.
const PERIOD_NS: u64 = 1_000_000_000;
const SHORT_PERIOD_NS: u64 = 200_000_000;
/// A period lasts at least this many times as long as reading all method statistics, which grows with threads and
/// methods; but no longer than the longest.
const TIMES_READING: u64 = 200;
const LONGEST_PERIOD_NS: u64 = 5 * PERIOD_NS;
/// How often waiting in throttled methods is looked for.
const WAITS_NS: u64 = 10 * PERIOD_NS;
/// Assumed cost of a call until it is known, in nanoseconds.
const FIRST_GUESS_NS: f64 = 40.0;

/// What the agent thread keeps for its overhead budget.
pub(crate) struct OverheadController {
    pub overhead: Overhead,
    calibration: Calibration,
    /// When the period began; `None` while nothing is recorded.
    began: Option<Reading>,
    /// Calls lost for lack of memory, and samples, until then.
    lost_calls: u64,
    sampled: SampledProbes,
    length_ns: u64,
    run_delay: RunDelay,
    /// When waiting in throttled methods was last looked for.
    waits_since: Now,
}

/// Clocks at one moment.
#[derive(Clone, Copy)]
struct Reading {
    now: Now,
    process_cpu_ns: u64,
    agent_cpu_ns: u64,
    sampling_ns: u64,
    paused_ns: u64,
}

impl Reading {
    /// Must be called by the agent thread.
    fn take() -> Self {
        Self {
            now: Now::read(),
            process_cpu_ns: clock::process_cpu_ns(),
            agent_cpu_ns: clock::thread_cpu_ns(),
            sampling_ns: cost::total_ns()
                + locks::cost_ns()
                + allocations::cost_ns()
                + statements::cost_ns()
                + traces::cost_ns(),
            paused_ns: pauses::figures().total_ns,
        }
    }
}

/// A period that has ended, and what was done in it.
struct Measured {
    end: Reading,
    methods: HashMap<MethodId, Recent>,
    length_ns: u64,
    cpu_ns: u64,
    own_ns: u64,
    sampled: SampledProbes,
    /// CPU time that reading the methods took.
    reading_ns: u64,
}

impl Measured {
    fn period(&self) -> Period<'_> {
        let Self { end, ref methods, length_ns, cpu_ns, own_ns, sampled, .. } = *self;
        let Now { unix_ns, monotonic_ns: now_ns } = end.now;
        Period { now_ns, unix_ns, length_ns, cpu_ns, own_ns, sampled, methods }
    }
}

impl OverheadController {
    pub(crate) fn new(budget: Option<CpuShare>) -> Self {
        Self {
            overhead: Overhead::new(budget, FIRST_GUESS_NS),
            calibration: Calibration::default(),
            began: None,
            lost_calls: 0,
            sampled: SampledProbes::default(),
            length_ns: SHORT_PERIOD_NS,
            run_delay: RunDelay::default(),
            waits_since: Now::read(),
        }
    }
}

/// Measures what a call costs. The JVM has yet to compile the loop that makes the calls, so the first batches say
/// little.
#[derive(Debug, Default)]
struct Calibration {
    began: Option<Instant>,
    /// How often it was repeated.
    again: usize,
    best: Option<Duration>,
    batches: u32,
    /// Batches in a row that were no better.
    no_better: u32,
    /// The cost has been known once.
    is_known: bool,
}

impl Calibration {
    /// A millisecond or two.
    const CALLS: i32 = 20_000;
    const MOST: u32 = 60;
    const ENOUGH: u32 = 10;
    /// When to repeat it: at first the JVM may have had no time to compile the loop.
    const AGAIN: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(60)];

    /// Makes a batch of calls, if more are needed. Returns what a call costs in nanoseconds, if that is new.
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
        // Ignores changes under 3%, the noise between runs.
        let is_better = self.best.is_none_or(|best| took < best - best / 32);
        self.no_better = if is_better { 0 } else { self.no_better + 1 };
        if is_better {
            self.best = Some(took);
        }
        let ns = self.best?.as_secs_f64() * 1e9 / f64::from(Self::CALLS);
        // Until batches stop improving, the loop may be interpreted: the cost is at most the first guess.
        let is_known = self.no_better >= Self::ENOUGH || self.batches >= Self::MOST;
        self.is_known |= is_known;
        Some(if self.is_known { ns } else { ns.min(FIRST_GUESS_NS) })
    }
}

/// The parts of the agent loop that it reads and changes.
pub(crate) struct Parts<'e> {
    pub recorder: &'e mut Recorder,
    pub guards: &'e mut Guards,
    pub probe_class: &'e ProbeClass,
    pub jni: &'e JniEnv,
}

impl OverheadController {
    pub(crate) fn figures(&self, is_recording: bool) -> OverheadFigures {
        let (call_ns, is_sampled) = self.overhead.program_call_ns();
        OverheadFigures {
            call_ns,
            is_sampled,
            budget: self.overhead.budget(),
            share: if is_recording { self.overhead.share() } else { 0.0 },
            of_processor: if is_recording { self.overhead.of_processor() } else { 0.0 },
            throttled_methods: self.overhead.throttled().len() as u64,
            dropped_calls: mute::dropped_calls(Cause::Agent),
        }
    }

    /// The throttled methods, those that were called most often first.
    pub(crate) fn throttled_methods(&self, methods: &Methods) -> Vec<(Method, Throttled)> {
        let throttled = self.overhead.throttled().iter();
        let mut throttled: Vec<(Method, Throttled)> =
            throttled.filter_map(|(id, left)| Some((methods.get(*id)?, *left))).collect();
        throttled.sort_by_cached_key(|(method, left)| {
            (Reverse(left.calls_per_s), method.class.name.clone(), method.name.clone())
        });
        throttled
    }

    /// Recording has ended. What was spent until now counts; nothing is throttled for it.
    pub(crate) fn end(&mut self, parts: &mut Parts<'_>) {
        let Some(began) = self.began.take() else { return };
        let measured = self.measure(began, parts);
        self.overhead.measure(&measured.period());
        self.add_cost(measured.cpu_ns, parts);
    }

    /// Must be called in each round while recording is on.
    pub(crate) fn go_on(&mut self, parts: &mut Parts<'_>) {
        if let Some(ns) = self.calibration.go_on(parts.probe_class, parts.jni) {
            self.overhead.set_pair_ns(ns);
        }
        let Some(began) = self.began else { return self.begin_period(parts) };
        let now = Now::read();
        if now.since(began.now) < self.length_ns {
            return;
        }
        self.judge(began, parts);
        let mut again = self.overhead.measure_again(now.monotonic_ns);
        again.extend(self.slow_again(now, parts.recorder));
        again.extend(self.overhead.throttled().keys().filter(|id| traced::is_traced(**id)));
        again.sort_unstable();
        again.dedup();
        if !again.is_empty()
            && let Err(error) = self.measure_again(&again, parts)
        {
            message!("overhead: {error}");
        }
    }

    /// Throttled methods in which threads wait for long, by looks at waiting threads.
    fn slow_again(&mut self, now: Now, recorder: &mut Recorder) -> Vec<MethodId> {
        let length_ns = now.since(self.waits_since);
        if length_ns < WAITS_NS {
            return Vec::new();
        }
        self.waits_since = now;
        let waited = recorder.take_waited(self.overhead.returnable());
        let seconds = Duration::from_nanos(length_ns).as_secs_f64();
        self.overhead.slow_again(&waited, seconds, now.monotonic_ns)
    }

    fn begin_period(&mut self, parts: &mut Parts<'_>) {
        parts.recorder.take_recent();
        self.lost_calls = parts.recorder.lost_calls();
        self.sampled = parts.recorder.sampled_probes();
        self.began = Some(Reading::take());
    }

    /// Reads what the process, the methods and the profiler did since a moment.
    fn measure(&mut self, began: Reading, parts: &mut Parts<'_>) -> Measured {
        let end = Reading::take();
        let methods = parts.recorder.take_recent();
        let lost_calls = parts.recorder.lost_calls();
        let before = std::mem::replace(&mut self.lost_calls, lost_calls);
        let sampled = parts.recorder.sampled_probes();
        let sampled = sampled.since(std::mem::replace(&mut self.sampled, sampled));
        // CPU time, because a program that begins has no processor to spare, and waiting for one costs nothing.
        let reading_ns = Reading::take().agent_cpu_ns.saturating_sub(end.agent_cpu_ns);
        let length_ns = end.now.since(began.now).max(1);
        let cpu_ns = end.process_cpu_ns.saturating_sub(began.process_cpu_ns);
        // While it was stopped, the process would have used as much CPU time as it does on average.
        let paused_ns = u128::from(end.paused_ns.saturating_sub(began.paused_ns));
        let paused_ns = paused_ns * u128::from(cpu_ns) / u128::from(length_ns);
        let agent_ns = end.agent_cpu_ns.saturating_sub(began.agent_cpu_ns)
            + end.sampling_ns.saturating_sub(began.sampling_ns);
        // A lost call goes through its probes like any other.
        let lost = Recent { calls: lost_calls.saturating_sub(before), ..Recent::default() };
        let own_ns = agent_ns
            .saturating_add(u64::try_from(paused_ns).unwrap_or(u64::MAX / 2))
            .saturating_add(as_u64(self.overhead.cost_ns(&lost)));
        Measured { end, methods, length_ns, cpu_ns, own_ns, sampled, reading_ns }
    }

    /// Adds what the last period cost to the log's sums.
    fn add_cost(&self, cpu_ns: u64, parts: &mut Parts<'_>) {
        let Self { overhead, calibration, .. } = self;
        let call_ns = if calibration.is_known { overhead.call_ns() } else { 0 };
        parts.recorder.add_cost(overhead.last_cost_ns(), cpu_ns, call_ns);
    }

    fn judge(&mut self, began: Reading, parts: &mut Parts<'_>) {
        let mut measured = self.measure(began, parts);
        let Measured { end, cpu_ns, reading_ns, length_ns, .. } = measured;
        if self.overhead.budget().is_some() {
            let seconds = Duration::from_nanos(length_ns).as_secs_f64();
            let delay = self.run_delay.read(seconds);
            measured.methods.values_mut().for_each(|did| did.leave_out(delay, seconds));
        }
        let monotonic_ns = end.now.monotonic_ns;
        let leave = self.overhead.judge(measured.period());
        self.add_cost(cpu_ns, parts);
        let is_busy = self.overhead.is_busy(monotonic_ns);
        let length_ns = if is_busy { SHORT_PERIOD_NS } else { PERIOD_NS };
        self.length_ns = length_ns.max(TIMES_READING * reading_ns).min(LONGEST_PERIOD_NS);
        self.began = Some(end);
        if !leave.is_empty() {
            self.throttle(leave, parts);
        }
        let compiled_out = self.overhead.compile_out(monotonic_ns, ProbeClass::compile_out_limit());
        parts.probe_class.compile_out(parts.jni, compiled_out.into_iter(), true);
        let has_stale = parts.guards.stale().next().is_some();
        if self.overhead.is_to_renew(monotonic_ns, has_stale) {
            // Running loops keep the probes of an earlier attachment, and a closed guard costs a tiny loop a quarter.
            parts.probe_class.compile_out(parts.jni, parts.guards.stale(), true);
            match parts.probe_class.renew_compiled(parts.jni) {
                Ok(()) => self.overhead.renewed(),
                Err(error) => message!("{error}; throttled methods are slower than they could be"),
            }
        }
    }

    /// Throttles methods from now on.
    fn throttle(&mut self, leave: Vec<MethodId>, parts: &mut Parts<'_>) {
        let Parts { guards, probe_class, jni, .. } = parts;
        if let Err(error) = guards.set(ClosedReason::Throttled, &leave, true, probe_class, jni) {
            message!("overhead: {error}");
        }
        // Those that could not be marked are measured as before.
        let (leave, not): (Vec<MethodId>, Vec<MethodId>) =
            leave.into_iter().partition(|id| guards.is_closed(*id));
        self.overhead.forget(&not);
        let throttled: Vec<(MethodId, Throttled)> = leave
            .iter()
            .filter_map(|id| Some((*id, *self.overhead.throttled().get(id)?)))
            .collect();
        parts.recorder.throttle(&throttled);
    }

    /// Measures throttled methods again. If some are compiled out, discards all code that was compiled with probes,
    /// which makes no method's code old.
    ///
    /// # Errors
    /// The JVM refuses it. They stay throttled.
    pub(crate) fn measure_again(
        &mut self,
        ids: &[MethodId],
        parts: &mut Parts<'_>,
    ) -> Result<(), JvmError> {
        let compiled_out = self.overhead.compiled_out(ids);
        if !compiled_out.is_empty() {
            parts.probe_class.compile_out(parts.jni, compiled_out.iter().copied(), false);
            parts.probe_class.renew_compiled(parts.jni).inspect_err(|_| {
                parts.probe_class.compile_out(parts.jni, compiled_out.iter().copied(), true);
            })?;
        }
        // The guard opens only now, when no compiled code is left that would count only some of the calls.
        parts.guards.set(ClosedReason::Throttled, ids, false, parts.probe_class, parts.jni)?;
        self.overhead.measured_again(ids);
        parts.recorder.measure_again(ids);
        // They are judged by a whole period.
        self.begin_period(parts);
        self.length_ns = PERIOD_NS;
        Ok(())
    }

    /// Sets the budget. Without one, all methods are measured again.
    ///
    /// # Errors
    /// The JVM refuses it. The budget stays as it is.
    pub(crate) fn set_budget(
        &mut self,
        budget: Option<CpuShare>,
        parts: &mut Parts<'_>,
    ) -> Result<(), JvmError> {
        if budget.is_none() {
            self.end(parts);
            let all: Vec<MethodId> = self.overhead.throttled().keys().copied().collect();
            self.measure_again(&all, parts)?;
        }
        self.overhead.set_budget(budget);
        Ok(())
    }
}
