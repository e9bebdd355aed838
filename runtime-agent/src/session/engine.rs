//! The engine runs on the agent thread: it drains, and it alone starts and stops recording.
//!
//! Other threads ask it through [`Handle`](crate::request::Handle), so nothing that waits is ever near a probe.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use jvmti_bindings::env::{JniEnv, Jvmti};
use log_format::pattern::Pattern;

use crate::drain::hot_methods::Period;
use crate::drain::recorder::Recorder;
use crate::instrument::class_changes::{ClassChanges, Postponed};
use crate::instrument::class_hook::ClassCounts;
use crate::instrument::include_hints::WhyEmpty;
use crate::instrument::load_hook;
use crate::instrument::loaded_class::LoadedClass;
use crate::instrument::methods::{Method, Methods};
use crate::instrument::muting::Muting;
use crate::instrument::stale_classes::StaleClasses;
use crate::instrument::virtual_loops;
use crate::jvm::pauses;
use crate::jvm::probe_class::ProbeClass;
use crate::jvm::virtual_threads;
use crate::message::message;
use crate::options::retransform::Retransform;
use crate::options::{Fault, Pretend};
use crate::overhead::controller::{CostControl, Parts};
use crate::overhead::{Millionths, Throttled};
use crate::probe::mute::{self, Cause};
use crate::probe::{self, lost_calls, mounts};
use crate::request::{Answer, Asked, Found, Reply, Request, Requests, Status};
use crate::schedule::Schedule;
use crate::self_test;
use crate::self_test::compiled_out::{self, Attempts};
use crate::session::active::Active;
use crate::sys::clock;
use crate::sys::memory;

/// How often the threads' rings are drained.
const ROUND: Duration = Duration::from_millis(50);
/// How often the clock is corrected.
const CLOCK_ROUND: Duration = Duration::from_secs(1);
/// When to report why no class is instrumented, if none is.
const EMPTY_ROUND: Duration = Duration::from_secs(30);
/// How long methods stay muted before they are retransformed out: for a short mute it is not worth it.
const UNTIL_WITHDRAWN: Duration = Duration::from_secs(1);
/// How long recording stays off before the guard is removed, which discards compiled code: after a command, and in
/// a pause of the schedule.
const AFTER_STOP: Duration = Duration::from_secs(10);
const LONG_PAUSE: Duration = Duration::from_secs(600);
/// Probe calls of a method that was called less often are in no compiled code.
const COMPILED_CALLS: u64 = 1_000;
const UNCHECKED_THREADS: &str = "virtual threads that stayed parked for two seconds were not looked at; a loop of \
     theirs may be slow until it returns";

/// With `retransform=off`.
const LEFT_ALONE: &str =
    "classes that were loaded before the agent came are not instrumented (retransform=off)";

/// The engine; it stays on its thread.
pub(crate) struct Engine<'j> {
    jvmti: &'j Jvmti,
    jni: &'j JniEnv,
    running: Arc<Active>,
    probe_class: ProbeClass,
    /// When the self-test of compiled-out probes goes on.
    attempts: Attempts,
    pretend: Pretend,
    recorder: Recorder,
    methods: Arc<Methods>,
    muting: Muting,
    /// When to retransform muted methods out, if there may be any.
    withdraw: Option<Instant>,
    cost: CostControl,
    class_counts: Arc<ClassCounts>,
    changes: ClassChanges<'j>,
    stale: StaleClasses,
    since_ns: u64,
    /// The guard in front of the probes is open.
    is_open: bool,
    /// When to remove the guard, if it stays closed.
    guard_out: Option<Instant>,
    schedule: Schedule,
    why_empty: Arc<WhyEmpty>,
}

/// What an engine is made of.
pub(crate) struct EngineParts<'j> {
    pub jvmti: &'j Jvmti,
    pub jni: &'j JniEnv,
    pub running: Arc<Active>,
    pub probe_class: ProbeClass,
    pub recorder: Recorder,
    pub class_counts: Arc<ClassCounts>,
    pub why_empty: Arc<WhyEmpty>,
    pub schedule: Schedule,
    pub pretend: Pretend,
    pub overhead: Option<Millionths>,
    pub retransform: Retransform,
}

impl<'j> Engine<'j> {
    pub(crate) fn new(parts: EngineParts<'j>) -> Self {
        const CONSEQUENCE: &str = "was not retransformed";
        let EngineParts { jvmti, jni, retransform, .. } = parts;
        let methods = Methods::all();
        Self {
            jvmti,
            jni,
            running: parts.running,
            probe_class: parts.probe_class,
            attempts: Attempts::new(),
            pretend: parts.pretend,
            recorder: parts.recorder,
            muting: Muting::new(methods.clone()),
            withdraw: None,
            guard_out: None,
            cost: CostControl::new(parts.overhead),
            changes: ClassChanges::new(jvmti, jni, methods.clone(), retransform, CONSEQUENCE),
            stale: StaleClasses::new(methods.with_probes()),
            methods,
            class_counts: parts.class_counts,
            since_ns: clock::unix_ns(),
            is_open: false,
            schedule: parts.schedule,
            why_empty: parts.why_empty,
        }
    }

    /// Runs until the JVM ends, all handles are gone, or a detach is requested. Returns where to answer the detach.
    pub(crate) fn run(&mut self, requests: &Requests, fault: Fault) -> Option<SyncSender<Answer>> {
        let began = Instant::now();
        let mut clock_renewed = began;
        let mut told_why_empty = false;
        // Events that were missing from the beginning have been reported already.
        let mut told_missing = mounts::events() == mounts::Events::Missing;
        loop {
            match requests.recv_timeout(ROUND) {
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
            self.go_on_with_self_test();
            virtual_threads::tell_if_missing(&mut told_missing);
            self.keep_to_schedule();
            self.follow_patterns();
            self.keep_to_overhead();
            self.withdraw_muted();
            self.change_classes();
            self.take_guard_out();
            if !told_why_empty && began.elapsed() >= EMPTY_ROUND {
                told_why_empty = true;
                self.tell_why_empty();
            }
            if clock_renewed.elapsed() >= CLOCK_ROUND {
                clock_renewed = Instant::now();
                self.recorder.renew_clock();
            }
            self.recorder.forget_loaders();
            self.recorder.round();
            self.running.load_hook.classes.write_log();
        }
    }

    fn carry_out(&mut self, request: Request) -> Answer {
        let mut found = Found::Nothing;
        // After a command with a pattern, hints about the pattern replace the general ones.
        let mut hints = None;
        match request {
            Request::Start => self.start()?,
            Request::Stop => self.stop_and_flush()?,
            Request::Flush => {
                self.running.load_hook.classes.write_log();
                self.recorder.flush()?;
            }
            Request::Status => {}
            Request::Threshold(of, ns) => {
                let named = self.recorder.set_threshold(of.clone(), ns)?;
                let hint = of.zip(named).and_then(|(of, named)| names_nothing(&of, named));
                hints = Some(hint.into_iter().collect());
            }
            Request::Top(period, count) => found = self.top(period, count),
            Request::InFlight(least_ns) => {
                found = Found::InFlight(self.recorder.in_flight(least_ns));
            }
            Request::Mute(pattern, mutes) => {
                let Self { muting, recorder, probe_class, jni, .. } = self;
                let round = || recorder.round();
                let named = muting.set(pattern.clone(), mutes, probe_class, jni, round)?;
                hints = Some(names_nothing(&pattern, named).into_iter().collect());
                self.give_probes_back();
                self.withdraw = Some(Instant::now() + UNTIL_WITHDRAWN);
                self.recorder.set_muted(self.muting.rules(), self.muting.count());
            }
            Request::Overhead(budget) => {
                let (cost, mut parts) = self.cost_control();
                cost.set_budget(budget, &mut parts)?;
                found = self.throttled();
            }
            Request::Throttled => found = self.throttled(),
            Request::Finish | Request::Detach => {
                self.stop();
                self.tell_why_empty();
                self.running.load_hook.classes.write_log();
                self.recorder.finish()?;
            }
        }
        let mut status = self.status();
        status.hints = hints.unwrap_or(status.hints);
        Ok(Reply { status, found })
    }

    /// Measures the profiler's cost and keeps it within the overhead budget.
    fn keep_to_overhead(&mut self) {
        let is_open = self.is_open;
        let (cost, mut parts) = self.cost_control();
        if is_open {
            cost.go_on(&mut parts);
        } else {
            cost.pause();
        }
    }

    fn cost_control(&mut self) -> (&mut CostControl, Parts<'_>) {
        let Self { cost, recorder, muting, probe_class, jni, .. } = self;
        (cost, Parts { recorder, muting, probe_class, jni })
    }

    fn top(&mut self, period: Period, count: usize) -> Found {
        let mut top = self.recorder.top(period, count);
        // Every method that was called has a name.
        top.methods.retain(|(id, _)| self.methods.get(*id).is_some());
        let named =
            |id: &u32| Some((self.methods.get(*id)?, self.cost.overhead.has_throttled(*id)));
        let names = top.methods.iter().filter_map(|(id, _)| named(id)).collect();
        Found::Top(top, names)
    }

    fn throttled(&self) -> Found {
        let throttled = self.cost.overhead.throttled().iter();
        let mut throttled: Vec<(Method, Throttled)> =
            throttled.filter_map(|(id, left)| Some((self.methods.get(*id)?, *left))).collect();
        throttled.sort_by_cached_key(|(method, left)| {
            (Reverse(left.calls_per_s), method.class.name.clone(), method.name.clone())
        });
        Found::Throttled(throttled)
    }

    /// Applies thresholds and mute rules to methods that were instrumented since they were set.
    fn follow_patterns(&mut self) {
        self.methods.follow_thresholds();
        match self.muting.follow(&self.probe_class, self.jni) {
            Ok(true) => {
                self.withdraw = Some(Instant::now() + UNTIL_WITHDRAWN);
                self.recorder.set_muted(self.muting.rules(), self.muting.count());
            }
            Ok(false) => {}
            Err(error) => message!("mute: {error}"),
        }
    }

    /// Retransforms muted methods out, so that they cost nothing at all: code that was compiled while they were called
    /// would call the guard for good.
    fn withdraw_muted(&mut self) {
        if self.withdraw.is_none_or(|at| Instant::now() < at) {
            return;
        }
        let is_in = |id: &u32| !self.methods.is_withheld(*id) && self.muting.is_named(*id);
        let muted = self.muting.muted().filter(is_in);
        let withdrawn = self.recorder.called(muted, COMPILED_CALLS);
        self.withdraw = None;
        if !withdrawn.is_empty() {
            self.methods.withhold(&withdrawn);
            self.change_classes_of(&withdrawn);
        }
    }

    /// Puts the probes back into methods that are no longer muted.
    fn give_probes_back(&mut self) {
        let given = self.methods.take_withheld(|id| !self.muting.is_named(id));
        if !given.is_empty() {
            self.change_classes_of(&given);
        }
    }

    /// Retransforms the classes of these methods as soon as no loop runs in them. Drains the rings between batches.
    fn change_classes_of(&mut self, ids: &HashSet<u32>) {
        let Self { recorder, changes, methods, .. } = self;
        let wanted = |class: &LoadedClass<'_>| {
            let key = class.key()?;
            methods.has_any(key.0, &key.1, ids).then_some(key)
        };
        changes.add(wanted, || recorder.round());
    }

    /// Retransforms classes that waited for their loops to end, and classes of an earlier attachment that were loaded
    /// meanwhile.
    pub(crate) fn change_classes(&mut self) {
        let Self { recorder, changes, stale, methods, is_open, .. } = self;
        // Before recording begins there is nothing to write, and the first interval begins with it.
        let mut round = || {
            if *is_open {
                recorder.round();
            }
        };
        let mut opened = Vec::new();
        if stale.is_time() {
            // The ids of a class whose loader is gone may belong to another class now.
            opened.extend(stale.classes.extract_if(|class, _| !methods.knows(class)));
            let wanted = |class: &LoadedClass<'_>| class.key().filter(|key| stale.finds(key));
            changes.add(wanted, &mut round);
        }
        changes.step(&mut round);
        if changes.take_news() {
            // The others still have probes, and only wait to lose those of muted methods.
            let is_measured =
                |class: &Postponed| class.has_probes && !stale.classes.contains_key(&class.key);
            let mut postponed = changes.postponed();
            postponed.retain(|class| !is_measured(class));
            recorder.set_postponed(&postponed);
        }
        opened.extend(changes.take_done().iter().filter_map(|key| stale.classes.remove_entry(key)));
        let opened: Vec<u32> = opened.into_iter().flat_map(|(_, ids)| ids).collect();
        if !opened.is_empty()
            && let Err(error) = self.muting.set_stale(&opened, false, &self.probe_class, self.jni)
        {
            message!("{error}; {} methods are not measured", opened.len());
        }
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
            Some(false) => drop(self.stop()),
            None => {}
        }
    }

    /// Opens the load hook, and retransforms loaded classes that the filters select or that have the probes of an
    /// earlier attachment.
    ///
    /// # Errors
    /// One line: what the JVM refused.
    pub(crate) fn instrument_loaded_classes(&mut self) -> Result<(), String> {
        self.muting.set_stale(&self.stale.ids(), true, &self.probe_class, self.jni)?;
        let Self { running, jvmti, changes, stale, .. } = self;
        load_hook::open_hook(jvmti);
        let wanted = |class: &LoadedClass<'_>| {
            class.key().filter(|key| stale.finds(key) || class.is_selected(&running.load_hook, key))
        };
        changes.add(wanted, || {});
        self.change_classes();
        Ok(())
    }

    /// Whether it is not certain yet which loaded classes can be retransformed.
    pub(crate) fn is_settling(&self) -> bool {
        self.changes.is_unsent() || !self.changes.is_settled()
    }

    /// Whether classes wait in which no loop runs.
    pub(crate) fn has_unsent(&self) -> bool {
        self.changes.is_unsent()
    }

    /// The classes that are not retransformed for now.
    pub(crate) fn postponed(&self) -> Vec<Postponed> {
        self.changes.postponed()
    }

    /// Cleans up before classes are restored: no class waits to be retransformed any more, and compiled code has no
    /// probes from now on.
    pub(crate) fn leave_classes(&mut self) {
        self.recorder.forget_loaders();
        self.changes.clear();
        self.take_guard_out_now();
    }

    /// Closes the log, and frees what muting used.
    pub(crate) fn close(&mut self) {
        self.recorder.close();
        self.forget_muted();
    }

    fn tell_why_empty(&self) {
        for message in self.why_empty() {
            message!("{message}");
        }
    }

    /// Why no class is instrumented, if none is.
    fn why_empty(&self) -> Vec<String> {
        if self.class_counts.classes() > 0 {
            return Vec::new();
        }
        let left_alone =
            self.changes.are_loaded_classes_left_alone().then(|| LEFT_ALONE.to_owned());
        left_alone.into_iter().chain(self.why_empty.messages()).collect()
    }

    /// Frees what muting used. Recording has ended.
    fn forget_muted(&self) {
        // If the JVM has no memory for an empty array, it keeps the old one, which nobody reads any more.
        let _ = self.probe_class.set_muted(self.jni, &[]);
        mute::forget();
    }

    /// Begins recording, if it is off.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        if probe::gave_up() {
            return Err("profiling is off for good, after an internal error".to_owned());
        }
        self.guard_out = None;
        if self.probe_class.set_off(self.jni, false)? {
            // All code with probes was discarded, so throttled methods can be measured again at no further cost.
            let throttled: Vec<u32> = self.cost.overhead.throttled().keys().copied().collect();
            let (cost, mut parts) = self.cost_control();
            cost.measure_again(&throttled, &mut parts)?;
            self.cost.overhead.begin_again();
        }
        if probe::begin_recording() {
            self.recorder.begin_recording();
            self.probe_class.set_on(self.jni, true);
            self.is_open = true;
            self.since_ns = clock::unix_ns();
        }
        Ok(())
    }

    /// Ends recording, if it is on, and writes everything up to now.
    ///
    /// # Errors
    /// One line: the write failed. Recording is off all the same.
    fn stop_and_flush(&mut self) -> Result<(), String> {
        let was_on = self.stop();
        // A repeated stop does not postpone it.
        let at = Instant::now() + AFTER_STOP;
        self.guard_out = Some(self.guard_out.map_or(at, |before| before.min(at)));
        if !was_on {
            return Ok(());
        }
        let told =
            |error| format!("recording is off; what was recorded is not on the disk yet: {error}");
        self.recorder.flush().map_err(told)
    }

    /// Ends recording; `false` if it was off. Unfinished calls wait with the recorded calls.
    fn stop(&mut self) -> bool {
        if !self.is_open {
            return false;
        }
        self.is_open = false;
        self.guard_out = Some(Instant::now() + LONG_PAUSE);
        virtual_loops::remember(|_| true);
        // Close the guard first, so that no thread goes on calling probes for nothing.
        self.probe_class.set_on(self.jni, false);
        probe::end_recording();
        // Each start and each stop adds one to the number; the frames have the odd one before.
        let recording = probe::recording().wrapping_sub(1);
        self.since_ns = clock::unix_ns();
        self.recorder.end_recording(recording, clock::ticks());
        true
    }

    /// Repeats the self-test of compiled-out probes while its result is not known.
    fn go_on_with_self_test(&mut self) {
        if !self.attempts.is_due() {
            return;
        }
        if let Err(error) = self.probe_class.test_compiled_out(self.jni, &self.pretend, true) {
            message!("self-test: {error}");
        }
        // The guard could not be removed before.
        if compiled_out::can_renew() && !self.is_open {
            self.guard_out.get_or_insert_with(|| Instant::now() + AFTER_STOP);
        }
    }

    /// Removes the guard from the probe class if recording has been off for long enough: in a program whose methods
    /// are tiny, a closed guard costs as much as the program itself.
    fn take_guard_out(&mut self) {
        if self.guard_out.is_some_and(|at| Instant::now() >= at) {
            self.take_guard_out_now();
        }
    }

    /// Removes the guard from the probe class.
    fn take_guard_out_now(&mut self) {
        self.guard_out = None;
        if let Err(error) = self.probe_class.set_off(self.jni, true) {
            message!("{error}; probes that are off are slower than they could be");
        }
    }

    /// Stops probes after an internal error, without touching the data.
    pub(crate) fn give_up(&self) {
        // The JVM takes no calls while an exception of any kind is pending.
        self.jni.exception_clear();
        self.probe_class.set_on(self.jni, false);
        probe::give_up();
        let _ = self.probe_class.set_off(self.jni, true);
        message!("internal error; profiling is off, the service goes on");
    }

    pub(crate) fn status(&mut self) -> Status {
        let sums = self.recorder.sums();
        let (threshold_ns, own) = self.recorder.thresholds();
        let mut hints = self.why_empty();
        if self.changes.counts().has_unchecked_threads {
            hints.push(UNCHECKED_THREADS.to_owned());
        }
        Status {
            hints,
            is_recording: probe::is_recording(),
            threshold_ns,
            own_thresholds: own.into_iter().map(|own| (own.pattern, own.ns)).collect(),
            raised_to_ns: self.recorder.raised_to_ns(),
            since_ns: self.since_ns,
            classes: self.class_counts.classes(),
            methods: self.class_counts.methods(),
            calls: sums.calls,
            recorded_calls: sums.records,
            recorded_calls_dropped: sums.recorded_calls_dropped,
            lost_calls: sums.lost_calls,
            threads_not_measured: lost_calls::threads(),
            memory: memory::used_and_max(),
            unseen_ends: sums.unseen_ends,
            mute_rules: self.muting.rules().to_vec(),
            muted_methods: self.muting.count(),
            muted_calls: mute::dropped_calls(Cause::User),
            throttled_calls: mute::dropped_calls(Cause::Agent),
            overhead: self.cost.overhead.budget(),
            overhead_share: if self.is_open { self.cost.overhead.share() } else { 0.0 },
            throttled_methods: self.cost.overhead.throttled().len() as u64,
            skipped_methods: self.class_counts.skipped(),
            leaves: self.class_counts.leaves(),
            io_errors: self.recorder.log().io_errors,
            logs: self.recorder.log().folder().path().display().to_string(),
            bytes_this_hour: self.recorder.budget().spent(),
            hour_budget: self.recorder.budget().hour_bytes(),
            recorded_calls_over_budget: sums.recorded_calls_over_budget,
            deleted_hours: self.recorder.log().deleted_hours(),
            retransformed_classes: self.changes.counts().changed,
            not_retransformed: self.changes.counts().refused + self.changes.counts().skipped,
            not_seen_loaded: 0,
            postponed: self.changes.postponed(),
            caught_loops: self.changes.counts().caught,
            pauses: pauses::figures(),
            stack_looks: pauses::looks(),
            clock: clock::source(),
            clock_jumps: self.recorder.clock_jumps(),
            self_tests: self_test::Results::now(),
        }
    }
}

/// The hint for a pattern that names no instrumented method.
fn names_nothing(pattern: &Pattern, named: usize) -> Option<String> {
    (named == 0).then(|| {
        format!("{pattern} names no method that is measured; it holds for classes loaded later")
    })
}
