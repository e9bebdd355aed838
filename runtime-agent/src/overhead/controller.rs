//! Measures what the profiler costs, and keeps it within its overhead budget if there is one. Lets `overhead` judge
//! each period, and closes and opens guards as it decides.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

use jvmti_bindings::env::JniEnv;

use log_format::ids::MethodId;

use crate::allocations;
use crate::drain::hot_methods::Recent;
use crate::drain::recorder::Recorder;
use crate::drain::run_sums::SampledProbes;
use crate::error::JvmError;
use crate::instrument::guards::{ClosedReason, Guards};
use crate::instrument::methods::{Method, Methods};
use crate::jvm::pauses;
use crate::jvm::probe_class::ProbeClass;
use crate::locks;
use crate::log::run_log::Now;
use crate::options::CpuShare;
use crate::overhead::calibration::{Calibration, FIRST_GUESS_NS};
use crate::overhead::{Overhead, OverheadFigures, Period, Spent, Throttled};
use crate::probe::mute::{self, Cause};
use crate::probe::traced;
use crate::sampling::cost;
use crate::statements;
use crate::stderr::message;
use crate::sys::clock::{self, as_f64, as_u64};
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
/// How long the JVM is left alone after it refused to discard code.
const REFUSED_NS: u64 = 60 * PERIOD_NS;
/// If this can be compiled out, methods can.
const FIRST_ID: MethodId = MethodId::new(1);

/// What the agent thread keeps for its overhead budget.
pub(crate) struct OverheadController {
    pub overhead: Overhead,
    calibration: Calibration,
    /// Probes of an earlier attachment have been compiled out.
    has_cleaned: bool,
    /// When the JVM may be asked for a discard again after it refused one.
    refused_until_ns: u64,
    /// When the period began; `None` while nothing is recorded.
    began: Option<Reading>,
    length_ns: u64,
    /// The process did nearly nothing in the last period.
    pub is_idle: bool,
    run_delay: RunDelay,
    /// When waiting in throttled methods was last looked for.
    waits_since: Now,
}

/// The parts of the agent loop that it reads and changes.
pub(crate) struct Parts<'e> {
    pub recorder: &'e mut Recorder,
    pub guards: &'e mut Guards,
    pub probe_class: &'e ProbeClass,
    pub jni: &'e JniEnv,
}

/// Clocks and counts at one moment.
#[derive(Clone, Copy)]
struct Reading {
    now: Now,
    process_cpu_ns: u64,
    /// CPU time of the agent thread, and of all that is done for it in the program's threads besides probes.
    agent_cpu_ns: u64,
    paused_ns: u64,
    /// Calls lost for lack of memory.
    lost_calls: u64,
    sampled: SampledProbes,
}

impl Reading {
    /// Must be called by the agent thread.
    fn take(recorder: &Recorder) -> Self {
        Self {
            now: Now::read(),
            process_cpu_ns: clock::process_cpu_ns(),
            agent_cpu_ns: clock::thread_cpu_ns()
                + cost::total_ns()
                + locks::cost_ns()
                + allocations::cost_ns()
                + statements::cost_ns()
                + traces::cost_ns(),
            paused_ns: pauses::figures().total_ns,
            lost_calls: recorder.lost_calls(),
            sampled: recorder.sampled_probes(),
        }
    }

    /// The period from an earlier moment on, in which methods did this. A call that was lost costs `call_ns`.
    fn period_since(self, began: Self, methods: HashMap<MethodId, Recent>, call_ns: f64) -> Period {
        let length_ns = self.now.since(began.now).max(1);
        let cpu_ns = self.process_cpu_ns.saturating_sub(began.process_cpu_ns);
        // While it was stopped, the process would have used as much CPU time as it does on average.
        let paused_ns = as_f64(self.paused_ns.saturating_sub(began.paused_ns));
        let paused_ns = paused_ns * as_f64(cpu_ns) / as_f64(length_ns);
        // A lost call goes through its probes like any other.
        let lost_ns = as_f64(self.lost_calls.saturating_sub(began.lost_calls)) * call_ns;
        Period {
            now_ns: self.now.monotonic_ns,
            unix_ns: self.now.unix_ns,
            length_ns,
            cpu_ns,
            own_ns: self.agent_cpu_ns.saturating_sub(began.agent_cpu_ns) + as_u64(lost_ns),
            paused_ns: as_u64(paused_ns),
            sampled: self.sampled.since(began.sampled),
            methods,
        }
    }
}

impl OverheadController {
    pub(crate) fn new(budget: Option<CpuShare>) -> Self {
        Self {
            overhead: Overhead::new(budget, FIRST_GUESS_NS),
            calibration: Calibration::default(),
            has_cleaned: false,
            refused_until_ns: 0,
            began: None,
            length_ns: SHORT_PERIOD_NS,
            is_idle: false,
            run_delay: RunDelay::default(),
            waits_since: Now::read(),
        }
    }

    pub(crate) fn figures(&self, is_recording: bool) -> OverheadFigures {
        let call_cost = self.overhead.call_cost;
        OverheadFigures {
            call_ns: call_cost.ns(),
            is_sampled: call_cost.is_sampled(),
            budget: self.overhead.budget(),
            spent: if is_recording { self.overhead.spent } else { Spent::default() },
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
            (Reverse(left.why.calls_per_s), method.class.name.clone(), method.name.clone())
        });
        throttled
    }

    /// Recording has ended. What was spent until now counts; nothing is throttled for it.
    pub(crate) fn end(&mut self, parts: &mut Parts<'_>) {
        self.is_idle = false;
        let Some(began) = self.began.take() else { return };
        let (period, _) = self.measure(began, parts);
        self.overhead.measure(&period);
        self.add_cost(&period, parts);
    }

    /// Must be called in each round while recording is on.
    pub(crate) fn go_on(&mut self, parts: &mut Parts<'_>) {
        if let Some(ns) = self.calibration.go_on(parts.probe_class, parts.jni) {
            self.overhead.call_cost.pair_ns = ns;
        }
        let Some(began) = self.began else { return self.begin_period(parts) };
        let now = Now::read();
        if now.since(began.now) < self.length_ns {
            return;
        }
        self.judge(began, parts);
        let mut again = self.overhead.fitting(now.monotonic_ns);
        again.extend(self.turned_slow(now, parts.recorder));
        if now.monotonic_ns >= self.refused_until_ns {
            again.extend(self.overhead.throttled().keys().filter(|id| traced::is_traced(**id)));
        }
        again.sort_unstable();
        again.dedup();
        if !again.is_empty()
            && let Err(error) = self.measure_again(&again, parts)
        {
            message!("overhead: {error}");
        }
    }

    /// Throttled methods in which threads wait for long, by looks at waiting threads.
    fn turned_slow(&mut self, now: Now, recorder: &mut Recorder) -> Vec<MethodId> {
        let length_ns = now.since(self.waits_since);
        if length_ns < WAITS_NS {
            return Vec::new();
        }
        self.waits_since = now;
        let waited = recorder.take_waited(self.overhead.returnable());
        let seconds = Duration::from_nanos(length_ns).as_secs_f64();
        self.overhead.turned_slow(&waited, seconds, now.monotonic_ns)
    }

    fn begin_period(&mut self, parts: &mut Parts<'_>) {
        parts.recorder.take_recent();
        self.began = Some(Reading::take(parts.recorder));
    }

    /// Reads what the process, the methods and the profiler did since a moment. Returns the period until now.
    fn measure(&self, began: Reading, parts: &mut Parts<'_>) -> (Period, Reading) {
        let now = Reading::take(parts.recorder);
        let methods = parts.recorder.take_recent();
        (now.period_since(began, methods, self.overhead.call_cost.ns()), now)
    }

    /// Adds what the last period cost to the log's sums.
    fn add_cost(&self, period: &Period, parts: &mut Parts<'_>) {
        let Overhead { call_cost, spent, .. } = &self.overhead;
        let call_ns = if self.calibration.is_known() { as_u64(call_cost.pair_ns) } else { 0 };
        parts.recorder.add_cost(spent.ns, period.cpu_ns, call_ns);
    }

    fn judge(&mut self, began: Reading, parts: &mut Parts<'_>) {
        let began_ns = clock::thread_cpu_ns();
        let (mut period, now) = self.measure(began, parts);
        // CPU time, because a program that begins has no processor to spare, and waiting for one costs nothing.
        let reading_ns = clock::thread_cpu_ns().saturating_sub(began_ns);
        if self.overhead.budget().is_some() {
            let delay = self.run_delay.read(period.seconds());
            period.leave_out(delay);
        }
        let end = ProbeClass::compile_out_limit();
        let throttled = self.overhead.judge(&period, end);
        self.add_cost(&period, parts);
        let is_busy = self.overhead.is_busy(period.now_ns);
        let length_ns = if is_busy { SHORT_PERIOD_NS } else { PERIOD_NS };
        self.length_ns = length_ns.max(TIMES_READING * reading_ns).min(LONGEST_PERIOD_NS);
        self.began = Some(now);
        self.is_idle = period.is_idle();
        if !throttled.is_empty() {
            self.throttle(throttled, parts);
        }
        self.compile_out(period.now_ns, end, parts);
    }

    /// Compiles out what is due. Only methods with ids below `end` can be.
    fn compile_out(&mut self, now_ns: u64, end: MethodId, parts: &mut Parts<'_>) {
        let throttled = self.overhead.compile_out(now_ns, end);
        // Running loops keep the probes of an earlier attachment, and a closed guard costs a tiny loop a quarter.
        let can_discard = end > FIRST_ID && now_ns >= self.refused_until_ns;
        let cleans = !self.has_cleaned && !self.overhead.is_busy(now_ns) && can_discard;
        let stale: Vec<MethodId> = parts.guards.stale().filter(|_| cleans).collect();
        let throttled = match throttled {
            None if stale.is_empty() => return,
            throttled => throttled.unwrap_or_default(),
        };
        match self.discard(stale.iter().chain(&throttled), true, parts) {
            Ok(()) => self.has_cleaned |= cleans,
            Err(error) => {
                message!("{error}; throttled methods keep their guard, which costs time");
                self.overhead.set_compiled_out(&throttled, false);
            }
        }
    }

    /// Compiles methods out, or no more. For that, discards all code that was compiled with probes.
    ///
    /// # Errors
    /// The JVM refuses it. Nothing has changed then.
    fn discard<'i>(
        &mut self,
        ids: impl Iterator<Item = &'i MethodId> + Clone,
        is_out: bool,
        parts: &Parts<'_>,
    ) -> Result<(), JvmError> {
        let Parts { probe_class, jni, .. } = parts;
        probe_class.compile_out(jni, ids.clone().copied(), is_out);
        probe_class.renew_compiled(jni).inspect_err(|_| {
            probe_class.compile_out(jni, ids.copied(), !is_out);
            self.refused_until_ns = Now::read().monotonic_ns + REFUSED_NS;
        })
    }

    /// Throttles methods from now on.
    fn throttle(&mut self, mut throttled: Vec<(MethodId, Throttled)>, parts: &mut Parts<'_>) {
        let Parts { guards, probe_class, jni, .. } = parts;
        let ids: Vec<MethodId> = throttled.iter().map(|(id, _)| *id).collect();
        if let Err(error) = guards.set(ClosedReason::Throttled, &ids, true, probe_class, jni) {
            message!("overhead: {error}");
        }
        // Those that could not be marked are measured as before.
        throttled.retain(|(id, _)| guards.is_closed(*id));
        self.overhead.add_throttled(&throttled);
        probe_class.compile_out(jni, self.overhead.compiled_out(&ids).into_iter(), true);
        let why: Vec<_> = throttled.iter().map(|(id, left)| (*id, left.why)).collect();
        parts.recorder.throttle(&why);
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
            self.discard(compiled_out.iter(), false, parts)?;
            self.overhead.set_compiled_out(&compiled_out, false);
        }
        // The guard opens only now, when no compiled code is left that would count only some of the calls.
        parts.guards.set(ClosedReason::Throttled, ids, false, parts.probe_class, parts.jni)?;
        self.overhead.measured_again(ids);
        parts.recorder.measure_again(ids);
        // They are judged by a whole period, which begins when recording goes on.
        self.began = None;
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
