//! What the agent thread does during a run: it drains, and it alone starts and stops recording.
//!
//! Other threads ask it through [`Handle`](crate::request::Handle), so nothing that waits is ever near a probe.

mod observed;
mod tasks;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use jvmti_bindings::env::{JniEnv, Jvmti};
use log_format::ids::MethodId;
use log_format::pattern::Pattern;
use log_format::units;

use crate::drain::recorder::Recorder;
use crate::error::{Error, JvmError};
use crate::instrument::class_hook::ClassCounts;
use crate::instrument::guards::{ClosedReason, Guards};
use crate::instrument::include_hints::WhyEmpty;
use crate::instrument::methods::Methods;
use crate::instrument::retransformation::Retransformation;
use crate::jvm::probe_class::ProbeClass;
use crate::jvm::virtual_threads;
use crate::options::CpuShare;
use crate::options::retransform::Retransform;
use crate::options::{Fault, SamplingOptions, TestOptions, Trick};
use crate::overhead::controller::{OverheadController, Parts};
use crate::probe::{self, mounts};
use crate::request::{Answer, Asked, Found, Reply, Request, Requests, Status};
use crate::sampling::engine_choice::Chosen;
use crate::sampling::sampler::Sampler;
use crate::schedule::Schedule;
use crate::session::active::Active;
use crate::session::no_classes::NoClasses;
use crate::session::recording_switch::RecordingSwitch;
use crate::session::status;
use crate::stderr::message;
use crate::sys::clock;
use crate::tasks::Tasks;

/// How often the threads' rings are drained.
const ROUND: Duration = Duration::from_millis(50);
/// The same in a process that did nearly nothing in the last period.
const IDLE_ROUND: Duration = Duration::from_millis(100);
/// How often to look for something to do while recording is off for long. Commands are carried out at once.
const LONG_ROUND: Duration = Duration::from_millis(500);
/// So many times as often while a profile task runs: virtual threads that share a ring record many calls.
const ROUNDS_IN_TASK: u32 = 8;
/// How often the clock is corrected.
const CLOCK_ROUND: Duration = Duration::from_secs(1);
const NO_CALLS: &str = "recording is off, so no calls are known";
const NO_THREADS: &str =
    "threads are looked at while recording is on, with the options cpu=10ms,wall=100ms";
/// Probe calls of a method that was called less often are in no compiled code.
const COMPILED_CALLS: u64 = 1_000;

/// The loop of the agent thread, and what it owns.
pub(crate) struct AgentLoop<'j> {
    retransform: Retransform,
    jni: &'j JniEnv,
    active: Arc<Active>,
    probe_class: ProbeClass,
    recording: RecordingSwitch<'j>,
    recorder: Recorder,
    methods: Arc<Methods>,
    guards: Guards,
    cost: OverheadController,
    class_counts: Arc<ClassCounts>,
    classes: Retransformation<'j>,
    no_classes: NoClasses,
    schedule: Schedule,
    sampler: Option<Sampler<'j>>,
    tasks: Tasks,
}

/// What the loop is made of.
pub(crate) struct AgentLoopParts<'j> {
    pub jvmti: &'j Jvmti,
    pub jni: &'j JniEnv,
    pub active: Arc<Active>,
    pub probe_class: ProbeClass,
    pub recorder: Recorder,
    pub class_counts: Arc<ClassCounts>,
    pub why_empty: Arc<WhyEmpty>,
    pub schedule: Schedule,
    pub tests: TestOptions,
    pub overhead: Option<CpuShare>,
    pub retransform: Retransform,
    pub sampling: SamplingOptions,
    pub engine: Option<Chosen>,
}

impl<'j> AgentLoop<'j> {
    pub(crate) fn new(parts: AgentLoopParts<'j>) -> Self {
        let AgentLoopParts { jvmti, jni, probe_class, tests, .. } = parts;
        let methods = Methods::all();
        let can_walk = !tests.pretend.fails(Trick::Walker);
        Self {
            jni,
            retransform: parts.retransform,
            active: parts.active,
            probe_class,
            recording: RecordingSwitch::new(jni, probe_class, tests.pretend),
            recorder: parts.recorder,
            guards: Guards::new(methods.clone()),
            cost: OverheadController::new(parts.overhead),
            classes: Retransformation::new(jvmti, jni, methods.clone(), parts.retransform),
            methods,
            no_classes: NoClasses::new(
                parts.class_counts.clone(),
                parts.why_empty,
                parts.retransform,
            ),
            class_counts: parts.class_counts,
            schedule: parts.schedule,
            sampler: Sampler::new(
                jvmti,
                jni,
                parts.sampling,
                parts.engine,
                (tests.fault == Fault::Walks, can_walk),
            ),
            tasks: Tasks::default(),
        }
    }

    /// Runs until the JVM ends, all handles are gone, or a detach is requested. Returns where to answer the detach.
    pub(crate) fn run(&mut self, requests: &Requests, fault: Fault) -> Option<SyncSender<Answer>> {
        let began = Instant::now();
        let mut clock_renewed = began;
        // Events that were missing from the beginning have been reported already.
        let mut told_missing = mounts::events() == mounts::Events::Missing;
        loop {
            match requests.recv_timeout(self.round_time()) {
                Ok(asked) if asked.is_late() => {}
                Ok(Asked { request: Request::Detach, answer, .. }) => {
                    let finish = AssertUnwindSafe(|| {
                        fault.panic_if(Fault::Finish);
                        self.carry_out(Request::Detach)
                    });
                    // The client waits for the rest of the detach all the same.
                    if catch_unwind(finish).is_err() {
                        self.give_up();
                    }
                    return Some(answer);
                }
                Ok(Asked { request, answer, .. }) => {
                    let is_last = request == Request::Finish;
                    let status = self.carry_out(request);
                    // The client may have gone.
                    let _ = answer.send(status);
                    if is_last {
                        return None;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
            if probe::gave_up() {
                // A failed write has been reported, and is tried again.
                let _ = self.stop_and_flush();
            }
            self.recording.go_on_with_self_test();
            virtual_threads::tell_if_missing(&mut told_missing);
            self.keep_to_schedule();
            self.follow_patterns();
            self.keep_to_overhead();
            self.withdraw_muted();
            self.change_classes();
            self.recording.remove_guard_if_due();
            if self.no_classes.is_due(began.elapsed()) {
                self.tell_unmatched();
            }
            if clock_renewed.elapsed() >= CLOCK_ROUND {
                clock_renewed = Instant::now();
                self.recorder.renew_clock();
                self.note_throttled();
            }
            self.recorder.forget_loaders();
            if let Some(sampler) = &mut self.sampler {
                self.recorder.take_samples(sampler, false);
            }
            self.recorder.round();
            self.keep_to_tasks();
            self.active.load_hook.classes.write_log();
        }
    }

    /// How long to wait for the next round. A thread that works and waits in the rhythm of the rounds would be seen in
    /// the same state each time.
    fn round_time(&self) -> Duration {
        // A turn may be short.
        let rests = !self.schedule.has_turns() && self.classes.is_idle();
        if rests && self.recording.is_off_for_long() {
            return LONG_ROUND;
        }
        let has_task = self.tasks.running().is_some();
        let is_idle = self.cost.is_idle && !has_task;
        let may_rest = is_idle && self.sampler.as_ref().is_none_or(Sampler::is_seldom);
        let round = if may_rest { IDLE_ROUND } else { ROUND };
        let round = round + self.sampler.as_ref().map_or(Duration::ZERO, Sampler::jitter);
        if has_task { round / ROUNDS_IN_TASK } else { round }
    }

    fn carry_out(&mut self, request: Request) -> Answer {
        let mut found = Found::Nothing;
        // After a command with a pattern, hints about the pattern replace the general ones.
        let mut hints = None;
        match request {
            Request::Start => self.start()?,
            Request::Stop => self.stop_and_flush()?,
            Request::Flush => self.flush()?,
            Request::Status => {}
            Request::Threshold(of, threshold) => hints = Some(self.set_threshold(of, threshold)?),
            Request::Top(of) => found = self.top(of)?,
            Request::InFlight(least) => {
                let hint = (!self.recording.is_on()).then(|| NO_CALLS.to_owned());
                hints = Some(hint.into_iter().collect());
                found = self.in_flight(least);
            }
            Request::Threads => {
                let threads = self.threads_now();
                let hint = threads.is_none().then(|| NO_THREADS.to_owned());
                hints = Some(hint.into_iter().collect());
                found = threads.unwrap_or(found);
            }
            Request::Methods(pattern) => {
                let (states, hint) = self.method_states(&pattern);
                hints = Some(hint.into_iter().collect());
                found = Found::Methods(states);
            }
            Request::Mute(pattern, mutes) => hints = Some(self.mute(&pattern, mutes)?),
            Request::Overhead(budget) => {
                let (cost, mut parts) = self.cost_control();
                cost.set_budget(budget, &mut parts)?;
                found = self.throttled();
            }
            Request::Alloc(bytes) => self.sampler("alloc")?.events.set_allocations(bytes)?,
            Request::Trace(of, every) => hints = Some(self.trace(&of, every)?),
            Request::Untrace => self.methods.forget_traces(),
            Request::Traces => hints = Some(self.untraceable()),
            Request::Throttled => found = self.throttled(),
            Request::Task(command) => {
                let (tasks, of_tasks) = self.carry_out_task(command)?;
                (found, hints) = (tasks, Some(of_tasks));
            }
            Request::Finish | Request::Detach => {
                self.stop();
                self.end_tasks();
                self.tell_unmatched();
                self.active.load_hook.classes.write_log();
                self.recorder.finish()?;
            }
        }
        let mut status = self.status();
        status.hints = hints.unwrap_or(status.hints);
        Ok(Reply { status, found })
    }

    /// Writes everything so far to the disk.
    fn flush(&mut self) -> Result<(), Error> {
        self.active.load_hook.classes.write_log();
        if let Some(sampler) = &mut self.sampler {
            self.recorder.take_samples(sampler, true);
        }
        Ok(self.recorder.flush()?)
    }

    /// Sets the threshold of the methods that a pattern names, or of all others. Returns hints.
    fn set_threshold(
        &mut self,
        of: Option<Pattern>,
        threshold: Duration,
    ) -> Result<Vec<String>, Error> {
        if let Some(pattern) = &of {
            self.refuse_mistake(pattern, "threshold")?;
        }
        let named = self.recorder.set_threshold(of.clone(), units::as_ns(threshold))?;
        Ok(of.filter(|_| named == Some(0)).map(|of| self.names_nothing(&of)).into_iter().collect())
    }

    /// Mutes the methods that a pattern names, or unmutes them. Returns hints.
    fn mute(&mut self, pattern: &Pattern, mutes: bool) -> Result<Vec<String>, Error> {
        if mutes {
            self.refuse_mistake(pattern, "mute")?;
        }
        let Self { guards, recorder, probe_class, jni, .. } = self;
        let round = || recorder.round();
        let named = guards.mute(pattern.clone(), mutes, probe_class, jni, round)?;
        self.classes.mutes_changed(&self.guards, || self.recorder.round());
        self.tasks.missing.was_muted = true;
        self.recorder.set_muted(self.guards.rules(), self.guards.muted_count());
        Ok((named == 0).then(|| self.names_nothing(pattern)).into_iter().collect())
    }

    /// The sampler, which a command needs.
    fn sampler(&mut self, command: &'static str) -> Result<&mut Sampler<'j>, Error> {
        self.sampler.as_mut().ok_or(Error::NeedsCpu(command))
    }

    /// Traces one in so many calls of the methods that a pattern names; with 0, none. Returns hints.
    fn trace(&mut self, pattern: &Pattern, every: u64) -> Result<Vec<String>, Error> {
        self.sampler("trace")?;
        if every > 0 {
            self.refuse_mistake(pattern, "trace")?;
        }
        let named = self.methods.change_trace(pattern.clone(), every, || self.recorder.round())?;
        if self.methods.traces().iter().all(|own| own.value == 0) {
            self.methods.forget_traces();
        }
        Ok(if named == 0 { vec![self.why_not_named(pattern, "trace")] } else { Vec::new() })
    }

    /// A pattern matches no instrumented method: why, and that it stays. A wildcard has no near names, and may take
    /// long to match.
    fn names_nothing(&mut self, pattern: &Pattern) -> String {
        let hint = if pattern.has_wildcards() { None } else { self.method_states(pattern).1 };
        let why = hint.unwrap_or_else(|| format!("{pattern} matches no instrumented method"));
        match self.active.load_hook.classes.why_excluded(pattern) {
            Some(_) => why,
            None => format!("{why}; it holds for classes loaded later"),
        }
    }

    /// Why a pattern names no method for this command.
    fn why_not_named(&mut self, pattern: &Pattern, command: &str) -> String {
        match self.method_states(pattern) {
            (_, Some(hint)) => hint,
            (states, None) => states.end_of_name(pattern, command).unwrap_or_else(|| {
                format!(
                    "{pattern} matches no instrumented method; tprofiler methods {pattern} says why"
                )
            }),
        }
    }

    /// Why a pattern is a mistake for this command: it names no method of a class that is known, or has no package and
    /// is the end of a name. What has a wildcard never is: a class of the same name may load later.
    fn why_mistaken(&mut self, pattern: &Pattern, command: &str) -> Option<String> {
        if pattern.has_wildcards() {
            return None;
        }
        let text = pattern.as_str();
        let has_package = text.contains('.') && !text.starts_with(char::is_uppercase);
        match self.method_states(pattern) {
            (states, Some(hint)) => states.similar.is_some().then_some(hint),
            (states, None) => states.end_of_name(pattern, command).filter(|_| !has_package),
        }
    }

    /// # Errors
    /// The pattern is a mistake.
    fn refuse_mistake(&mut self, pattern: &Pattern, command: &'static str) -> Result<(), Error> {
        let why = self.why_mistaken(pattern, command);
        why.map_or(Ok(()), |why| Err(Error::NamesNothing(command, why)))
    }

    /// Prints which patterns of the options match nothing.
    fn tell_unmatched(&mut self) {
        self.no_classes.tell(self.classes.postponed_count());
        for hint in self.untraceable() {
            message!("trace: {hint}");
        }
    }

    /// Hints for what is to be traced and is not there.
    fn untraceable(&mut self) -> Vec<String> {
        let mut named_by: Vec<(Pattern, bool)> =
            self.methods.traces().into_iter().map(|own| (own.pattern, false)).collect();
        if named_by.is_empty() {
            return Vec::new();
        }
        self.methods.for_each(
            || self.recorder.round(),
            |_, method| {
                for (pattern, is_named) in &mut named_by {
                    *is_named |= pattern.method(&method.class.name, &method.name);
                }
            },
        );
        named_by.retain(|(_, is_named)| !is_named);
        named_by.iter().map(|(pattern, _)| self.why_not_named(pattern, "trace")).collect()
    }

    /// Measures the profiler's cost and keeps it within the overhead budget.
    fn keep_to_overhead(&mut self) {
        if self.recording.is_on() {
            let (cost, mut parts) = self.cost_control();
            cost.go_on(&mut parts);
        }
    }

    fn cost_control(&mut self) -> (&mut OverheadController, Parts<'_>) {
        let Self { cost, recorder, guards, probe_class, jni, .. } = self;
        (cost, Parts { recorder, guards, probe_class, jni })
    }

    /// Applies thresholds and mute rules to methods that were instrumented since they were set.
    fn follow_patterns(&mut self) {
        self.methods.follow_patterns();
        match self.guards.follow(&self.probe_class, self.jni) {
            // Their probes stay behind the closed guard: only a command has classes retransformed.
            Ok(true) => self.recorder.set_muted(self.guards.rules(), self.guards.muted_count()),
            Ok(false) => {}
            Err(error) => message!("mute: {error}"),
        }
    }

    /// Retransforms out the methods that have been muted for long enough and were called often.
    fn withdraw_muted(&mut self) {
        if let Some(muted) = self.classes.take_long_muted(&self.guards) {
            let called = self.recorder.called(muted.into_iter(), COMPILED_CALLS);
            self.classes.withdraw(&called, || self.recorder.round());
        }
    }

    /// Retransforms classes that waited. Drains the rings between batches.
    pub(crate) fn change_classes(&mut self) {
        let Self { recorder, classes, recording, .. } = self;
        // Before recording begins there is nothing to write, and the first interval begins with it.
        let step = classes.step(|| {
            if recording.is_on() {
                recorder.round();
            }
        });
        if let Some(postponed) = step.postponed {
            recorder.set_postponed(&postponed);
        }
        let opened = step.no_longer_stale;
        if !opened.is_empty()
            && let Err(error) = self.set_stale(&opened, false)
        {
            message!("{error}; {} methods are not measured", opened.len());
        }
    }

    fn set_stale(&mut self, ids: &[MethodId], is_stale: bool) -> Result<(), JvmError> {
        if !is_stale {
            // Their class has been retransformed, and its compiled code is gone.
            self.probe_class.compile_out(self.jni, ids.iter().copied(), false);
        }
        self.guards.set(ClosedReason::Stale, ids, is_stale, &self.probe_class, self.jni)
    }

    /// Starts or stops recording at an edge of the schedule. A command holds until the next edge.
    fn keep_to_schedule(&mut self) {
        match self.schedule.edge() {
            Some(true) => {
                if let Err(error) = self.start()
                    && !probe::gave_up()
                {
                    message!("{error}; profiling stays off until the next start");
                }
            }
            // Method statistics are written when their interval ends, not at each pause: a pause every few seconds
            // would fill the disk with them.
            Some(false) => {
                self.stop();
                self.tasks.missing.was_off = true;
            }
            None => {}
        }
    }

    /// Opens the load hook, and retransforms loaded classes that the filters select or that have the probes of an
    /// earlier attachment.
    ///
    /// # Errors
    /// The JVM refuses it.
    pub(crate) fn instrument_loaded_classes(&mut self) -> Result<(), JvmError> {
        self.set_stale(&self.classes.stale_methods(), true)?;
        if self.sampler.as_ref().is_some_and(|sampler| sampler.events.sql().is_some()) {
            self.classes.begin_statements(self.jni);
        }
        self.classes.begin(&self.active.load_hook);
        self.change_classes();
        if self.sampler.as_ref().is_some_and(|sampler| sampler.events.counts_parks()) {
            self.classes.begin_parks(self.jni, self.retransform);
        }
        Ok(())
    }

    /// The loaded classes that are to be retransformed.
    pub(crate) fn classes(&self) -> &Retransformation<'j> {
        &self.classes
    }

    /// Cleans up before classes are restored: no class waits to be retransformed any more, and compiled code has no
    /// probes from now on.
    pub(crate) fn leave_classes(&mut self) {
        self.recorder.forget_loaders();
        self.classes.clear();
        self.recording.remove_guard();
    }

    /// Closes the log, and frees what muting used.
    pub(crate) fn close(&mut self) {
        self.recorder.close();
        if let Some(sampler) = &mut self.sampler {
            sampler.forget();
        }
        self.guards.forget_muted(&self.probe_class, self.jni);
    }

    /// Begins recording, if it is off.
    pub(crate) fn start(&mut self) -> Result<(), Error> {
        if probe::gave_up() {
            return Err(Error::State("profiling is off for good, after an internal error"));
        }
        if self.recording.put_guard_back()? {
            // All code with probes was discarded, so throttled methods can be measured again at no further cost.
            let throttled: Vec<MethodId> = self.cost.overhead.throttled().keys().copied().collect();
            let (cost, mut parts) = self.cost_control();
            cost.measure_again(&throttled, &mut parts)?;
            cost.overhead.begin_again();
        }
        // Rounds are long while recording is off.
        self.follow_patterns();
        if self.recording.turn_on(|| self.recorder.begin_recording())
            && let Some(sampler) = &mut self.sampler
            && let Err(error) = sampler.begin()
        {
            message!("cpu: {error}; nothing is sampled");
        }
        Ok(())
    }

    /// Ends recording, if it is on, and writes everything up to now.
    ///
    /// # Errors
    /// The write failed. Recording is off all the same.
    fn stop_and_flush(&mut self) -> Result<(), Error> {
        let was_on = self.stop();
        self.recording.stays_off();
        self.tasks.missing.was_off = true;
        if !was_on {
            return Ok(());
        }
        self.recorder.flush().map_err(Error::NotOnDisk)
    }

    /// Ends recording; `false` if it was off. Unfinished calls wait with the recorded calls.
    fn stop(&mut self) -> bool {
        if let Some(sampler) = &mut self.sampler {
            sampler.end();
            self.recorder.take_samples(sampler, true);
        }
        let ended = self.recording.turn_off();
        if let Some(recording) = ended {
            self.recorder.end_recording(recording, clock::ticks());
            let (cost, mut parts) = self.cost_control();
            cost.end(&mut parts);
        }
        ended.is_some()
    }

    /// Stops probes after an internal error, without touching the data.
    pub(crate) fn give_up(&self) {
        self.recording.give_up();
        if let Some(sampler) = &self.sampler {
            sampler.give_up();
        }
    }

    pub(crate) fn status(&mut self) -> Status {
        let of = status::Sources {
            recorder: &mut self.recorder,
            recording: &self.recording,
            classes: &self.classes,
            class_counts: &self.class_counts,
            guards: &self.guards,
            cost: &self.cost,
            sampler: self.sampler.as_ref(),
        };
        let reasons = self.no_classes.reasons(self.classes.postponed_count());
        status::read(of, reasons)
    }
}
