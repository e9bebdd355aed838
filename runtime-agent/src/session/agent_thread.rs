//! The agent thread, from the beginning of a run to its end.
//!
//! ```text
//! prepare  define and bind the probe class, make the run's folder, take the control port
//! begin    open the load hook, retransform loaded classes, begin recording
//! run      the engine: drain, write, answer
//! detach   end recording, close the load hook, give classes their own bytes back,
//!          close files and port, give memory back
//! restore  for a minute, classes that had long-lived loops
//! ```
//! `prepare` may hang on a disk. The JVM's start does not wait for it: the waiting thread and this thread both claim
//! the run, and the first to claim it decides whether it begins.
//!
//! After a panic of this thread, probes are off and only a detach is carried out. A thread of the service may be in
//! a probe at any time, so only the thread itself unmaps its data; see `probe::thread`.
#![allow(unsafe_code)]

use std::ffi::{CString, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, SyncSender};
use std::sync::{Arc, OnceLock};
use std::thread::sleep;
use std::time::{Duration, Instant};

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::{jni, jvmti};
use log_format::units;

use crate::control::{Control, Serving};
use crate::drain::recorder::Recorder;
use crate::drain::thread_reader::JavaThreads;
use crate::instrument::class_changes::Postponed;
use crate::instrument::class_hook::{ClassCounts, ClassHook};
use crate::instrument::class_log::ClassLog;
use crate::instrument::include_hints::WhyEmpty;
use crate::instrument::load_hook::{self, LoadHook};
use crate::instrument::methods::Methods;
use crate::instrument::restore::Restorer;
use crate::jvm::java_threads;
use crate::jvm::loaders;
use crate::jvm::loaders::Loaders;
use crate::jvm::pauses;
use crate::jvm::probe_class::ProbeClass;
use crate::jvm::virtual_threads;
use crate::log::folder::LogFolder;
use crate::log::retention::Limits;
use crate::log::run_log::RunLog;
use crate::message::message;
use crate::options::retransform::Retransform;
use crate::options::{Fault, Options, ProbeChoice, Trick};
use crate::probe;
use crate::probe::thread::{self, ProbeThread, ThreadName};
use crate::probe::{mounts, mute};
use crate::request::{
    Answer, Asked, Found, Handle, Reply, Request, Requests, Status, answer_after_panic,
};
use crate::schedule::Schedule;
use crate::self_test;
use crate::session::active::{self, Active};
use crate::session::engine::{Engine, EngineParts};
use crate::session::phase;
use crate::session::presence;
use crate::session::run_info;
use crate::sys::memory;

/// How far the agent thread has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It runs, and other processes can see it.
    Runs,
    /// Everything that can hang on a disk is done.
    Prepared,
    /// Classes are instrumented, and recording has begun if it was asked for.
    Begun,
}

/// How the agent came into the JVM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// With `-agentpath`: the JVM's start waits.
    AtStart,
    /// By attach: there is time to look for long-lived loops.
    Attached,
}

/// Who can claim a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claimant {
    /// The agent thread, when it is prepared or has failed.
    Agent,
    /// The thread that waits for it, when it has waited for too long.
    Waiter,
}

/// Decides once whether a run begins, and which thread reports why not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claim(Arc<OnceLock<Claimant>>);

impl Claim {
    /// `true` for the first claimant, each time that it asks.
    pub(crate) fn take(&self, who: Claimant) -> bool {
        *self.0.get_or_init(|| who) == who
    }
}

const OBJECT_FREE: [jvmti::jvmtiEvent; 1] = [jvmti::JVMTI_EVENT_OBJECT_FREE];
/// How long to wait for an earlier run's thread to stop restoring classes: it may be reading stacks.
const TAKE_OVER: Duration = Duration::from_secs(12);
/// How long an attach waits until it is certain which loops are long-lived.
const SETTLING: Duration = Duration::from_secs(9);
const TICK: Duration = Duration::from_millis(50);

/// What the agent thread gets when it starts.
enum ThreadStart {
    Run {
        options: Box<Options>,
        arrival: Arrival,
        stage: Sender<Stage>,
        claim: Claim,
    },
    /// No run: restore classes of an earlier one.
    Restore,
}

/// Lets the thread that started the agent thread wait for it.
pub(crate) struct Started {
    pub stages: Receiver<Stage>,
    pub claim: Claim,
}

/// Starts the thread for a run. The caller is a plain `java.lang.Thread`, that of VMInit or of Agent_OnAttach.
///
/// # Errors
/// One line: the JVM refuses.
pub(crate) fn start(
    jvmti: &Jvmti,
    jni: &JniEnv,
    options: Options,
    arrival: Arrival,
) -> Result<Started, String> {
    let (stage, stages) = std::sync::mpsc::channel();
    let claim = Claim::default();
    let options = Box::new(options);
    spawn(jvmti, jni, ThreadStart::Run { options, arrival, stage, claim: claim.clone() })?;
    Ok(Started { stages, claim })
}

/// Starts the thread to restore classes of an earlier run.
///
/// # Errors
/// One line: the JVM refuses.
pub(crate) fn start_restoring(jvmti: &Jvmti, jni: &JniEnv) -> Result<(), String> {
    spawn(jvmti, jni, ThreadStart::Restore)
}

fn spawn(jvmti: &Jvmti, jni: &JniEnv, start: ThreadStart) -> Result<(), String> {
    let refused = || {
        jni.exception_clear();
        "the JVM refuses a thread".to_owned()
    };
    let group = jvmti.get_top_thread_groups().ok().and_then(|groups| groups.first().copied());
    let current = jvmti.get_current_thread().map_err(|e| format!("no current thread ({e:?})"))?;
    // The attach listener's thread lives for as long as the JVM.
    let _frame = jni.push_local_frame(16);
    // SAFETY: all references are of this thread and live; the constructor's parameters are these.
    unsafe {
        // Looking the class up by name would ask the application's class loader.
        let class = jni.get_object_class(current);
        java_threads::find_number(jni, class);
        let constructor = jni
            .get_method_id(class, "<init>", "(Ljava/lang/ThreadGroup;Ljava/lang/String;)V")
            .ok_or_else(refused)?;
        let name = jni.new_string_utf("tprofiler").ok_or_else(refused)?;
        let arguments =
            [jni::jvalue { l: group.unwrap_or(std::ptr::null_mut()) }, jni::jvalue { l: name }];
        let thread = jni.new_object(class, constructor, &arguments);
        if jni.exception_check() {
            return Err(refused());
        }
        let thread = thread.ok_or_else(refused)?;
        let start = Box::into_raw(Box::new(start));
        // The JVM makes it a daemon and hides it from thread lists.
        jvmti
            .run_agent_thread(thread, run, start.cast(), jvmti::JVMTI_THREAD_NORM_PRIORITY)
            .map_err(|e| {
                // No thread takes ownership of it.
                drop(Box::from_raw(start));
                format!("the JVM refuses a thread ({e:?})")
            })
    }
}

/// The thread's function.
unsafe extern "system" fn run(
    jvmti: *mut jvmti::jvmtiEnv,
    jni: *mut jni::JNIEnv,
    start: *mut c_void,
) {
    // SAFETY: `spawn` made the box for this thread alone.
    let start = unsafe { Box::from_raw(start.cast::<ThreadStart>()) };
    // SAFETY: the JVM hands this thread its environments, and they live as long as the thread.
    let (jvmti, jni) = unsafe { (Jvmti::from_raw(jvmti), JniEnv::from_raw(jni)) };
    // The panic hook has already reported a panic.
    let _ = catch_unwind(AssertUnwindSafe(|| begin_at(*start, &jvmti, &jni)));
}

fn begin_at(start: ThreadStart, jvmti: &Jvmti, jni: &JniEnv) {
    match start {
        ThreadStart::Run { options, arrival, stage, claim } => {
            show(presence::BEGINNING);
            // The waiting thread may have given up.
            let _ = stage.send(Stage::Runs);
            run_agent(*options, arrival, stage, &claim, jvmti, jni);
        }
        ThreadStart::Restore => {
            show(presence::ENDING);
            let restored = catch_unwind(AssertUnwindSafe(|| {
                let mut restorer = Restorer::new(jvmti, jni, phase::last_retransform());
                restorer.begin();
                restorer.finish(|| !phase::is_active());
            }));
            if restored.is_err() {
                message!(
                    "internal error; classes of the last run keep their probes, which do nothing"
                );
            }
            phase::end_restoring();
        }
    }
}

/// Carries out a run, from its beginning to its end.
fn run_agent(
    options: Options,
    arrival: Arrival,
    stage: Sender<Stage>,
    claim: &Claim,
    jvmti: &Jvmti,
    jni: &JniEnv,
) {
    let retransform = options.retransform;
    phase::set_last_retransform(retransform);
    let fault = options.fault;
    let begun = catch_unwind(AssertUnwindSafe(|| {
        Profile::begin(options, arrival, &stage, claim, jvmti, jni)
    }));
    let error = match begun {
        Ok(Ok(profile)) => {
            show(presence::ATTACHED);
            let _ = stage.send(Stage::Begun);
            drop(stage);
            // At the JVM's start, nobody waits for an answer.
            if arrival == Arrival::Attached && profile.control.is_none() {
                tell_postponed("classes postponed", &profile.engine.postponed());
            }
            return run_profile(profile, fault, jvmti, jni);
        }
        Ok(Err(error)) => error,
        Err(_) => {
            probe::give_up();
            "internal error".to_owned()
        }
    };
    // A waiting thread that claimed the run has already reported the failure.
    if claim.take(Claimant::Agent) {
        message!("{error}; profiling is off");
    }
    // The JVM's start does not wait until classes are restored.
    drop(stage);
    virtual_threads::stop_listening(jvmti);
    show(presence::ENDING);
    // Some classes may have been instrumented before a panic.
    match active::get() {
        Some(running) => {
            let restored = catch_unwind(AssertUnwindSafe(|| {
                load_hook::close_hook(&running.load_hook, jvmti);
                let mut restorer = Restorer::new(jvmti, jni, retransform);
                restorer.begin();
                restorer
            }));
            active::end_and_restore();
            match restored {
                Ok(restorer) => finish_restoring(restorer),
                Err(_) => {
                    message!("internal error; classes keep their probes, which do nothing");
                    phase::end_restoring();
                }
            }
        }
        None => active::end(),
    }
}

/// Prints how many classes are postponed, and the first, where no answer lists them.
pub(crate) fn tell_postponed(what: &str, postponed: &[Postponed]) {
    if let Some(first) = postponed.first() {
        message!("{what}: {}, the first is {first}", postponed.len());
    }
}

/// Carries out a run that has begun, to its end.
fn run_profile<'j>(mut profile: Profile<'j>, fault: Fault, jvmti: &'j Jvmti, jni: &'j JniEnv) {
    let ran = catch_unwind(AssertUnwindSafe(|| {
        fault.panic_if(Fault::Run);
        profile.engine.run(&profile.requests, fault)
    }));
    let answer = match ran {
        Ok(Some(answer)) => answer,
        // The JVM ends.
        Ok(None) => return,
        Err(_) => {
            profile.engine.give_up();
            match answer_after_panic(&profile.requests) {
                Some(answer) => return detach_after_panic(profile, &answer, jvmti, jni),
                None => return,
            }
        }
    };
    match catch_unwind(AssertUnwindSafe(|| profile.detach(fault, jvmti, jni))) {
        Ok((status, restorer)) => {
            profile.answer_detach(&answer, &status);
            drop(profile);
            finish_restoring(restorer);
        }
        Err(_) => {
            profile.engine.give_up();
            detach_after_panic(profile, &answer, jvmti, jni);
        }
    }
}

/// Restores classes that had long-lived loops, until the next attach takes that over.
fn finish_restoring(mut restorer: Restorer<'_>) {
    let restored = catch_unwind(AssertUnwindSafe(|| restorer.finish(|| !phase::is_active())));
    if restored.is_err() {
        message!("internal error; some classes keep their probes, which do nothing");
    }
    phase::end_restoring();
}

/// Detaches after a panic: restores classes and answers. Uses nothing that the panic may have left in a bad state.
fn detach_after_panic(
    profile: Profile<'_>,
    answer: &SyncSender<Answer>,
    jvmti: &Jvmti,
    jni: &JniEnv,
) {
    let Profile { engine, running, control, retransform, .. } = profile;
    let restored = catch_unwind(AssertUnwindSafe(|| {
        load_hook::close_hook(&running.load_hook, jvmti);
        let mut restorer = Restorer::new(jvmti, jni, retransform);
        restorer.begin();
        let _ = jvmti.disable_events_global(&OBJECT_FREE);
        virtual_threads::stop_listening(jvmti);
        restorer
    }));
    if let Some(control) = control {
        control.close();
    }
    show(presence::ENDING);
    active::end_and_restore();
    match restored {
        Ok(restorer) => {
            let mut status = Status::default();
            restorer.add_to(&mut status);
            let _ = answer.send(Ok(Reply { status, found: Found::Nothing }));
            finish_restoring(restorer);
        }
        Err(_) => {
            let _ = answer.send(Err("internal error; classes keep their probes".to_owned()));
            phase::end_restoring();
        }
    }
    // Its fields may be in a bad state, so they are not dropped.
    std::mem::forget(engine);
}

/// Sets the calling thread's name in the kernel.
fn show(name: &str) {
    if let Ok(name) = CString::new(name) {
        // SAFETY: the name ends with its NUL, and belongs to the calling thread.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    }
}

/// What a run needs from the disk and the network, which may hang.
struct Prepared {
    probe_class: ProbeClass,
    log: RunLog,
    control: Option<Control>,
    class_log: Option<ClassLog>,
}

impl Prepared {
    /// # Errors
    /// One line: what went wrong.
    fn new(
        options: &Options,
        arrival: Arrival,
        claim: &Claim,
        jvmti: &Jvmti,
        jni: &JniEnv,
    ) -> Result<Self, String> {
        if !phase::take_over(TAKE_OVER) {
            return Err("classes of the last run are still being restored; try again".to_owned());
        }
        options.fault.panic_if(Fault::Begin);
        pauses::forget();
        let is_fast = self_test::begin(jvmti, options);
        probe::init(
            options.clock,
            options.probe != ProbeChoice::Plain,
            options.pretend.fails(Trick::ThreadWord),
        );
        let probe_class = ProbeClass::get(jni, is_fast, &options.pretend)?;
        let limits = Limits { max_bytes: options.run_bytes, keep: options.keep };
        let run = run_info::describe(jvmti, options);
        let logs = LogFolder::open(&options.logs, options.log_group.as_deref())?;
        let mut log = RunLog::create(logs, &run, options.compress, limits)?;
        let control = Control::bind(options, log.folder());
        let bound = control.as_ref().and_then(|control| control.as_ref().ok());
        log.set_port(bound.map(Control::port))?;
        let class_log = options.debug_classes.then(|| ClassLog::create(log.folder())).flatten();
        options.fault.hang(arrival == Arrival::Attached);
        if !claim.take(Claimant::Agent) {
            // The token's file goes first, then the folder.
            drop((control, class_log));
            log.discard();
            return Err("too late".to_owned());
        }
        let control = control.and_then(|control| Control::tell(control, options));
        Ok(Self { probe_class, log, control, class_log })
    }
}

/// A run that has begun.
struct Profile<'j> {
    engine: Engine<'j>,
    requests: Requests,
    running: Arc<Active>,
    control: Option<Serving>,
    retransform: Retransform,
}

impl<'j> Profile<'j> {
    /// # Errors
    /// One line: what went wrong.
    fn begin(
        options: Options,
        arrival: Arrival,
        stage: &Sender<Stage>,
        claim: &Claim,
        jvmti: &'j Jvmti,
        jni: &'j JniEnv,
    ) -> Result<Self, String> {
        let Prepared { probe_class, log, control, class_log } =
            Prepared::new(&options, arrival, claim, jvmti, jni)?;
        virtual_threads::listen(jvmti, arrival == Arrival::Attached, &options.pretend);
        // The waiting thread may have given up.
        let _ = stage.send(Stage::Prepared);
        options.fault.be_slow();
        // Method ids last across attachments; everything else from an earlier one is forgotten.
        let methods = Methods::all();
        let own = options.thresholds.iter().map(|(of, least)| (of.clone(), units::as_ns(*least)));
        methods.begin_attachment(&own.collect::<Vec<_>>())?;
        mute::forget();
        memory::begin(options.max_memory.unwrap_or_else(memory::limit::default_bytes));
        let class_counts = Arc::new(ClassCounts::default());
        let recorder = recorder(log, &options, class_counts.clone(), jvmti, jni);
        let why_empty = Arc::new(WhyEmpty::new(&options.filters));
        let hook = ClassHook::new(
            options.filters,
            methods.clone(),
            class_counts.clone(),
            why_empty.clone(),
            class_log,
        );
        let schedule = Schedule::new(options.plan);
        let (handle, requests) = Handle::new();
        let running = Arc::new(Active {
            load_hook: LoadHook::new(hook, Loaders::all()),
            engine: handle.clone(),
        });
        active::set(running.clone());
        // Without these events, ids of unloaded classes are not reused.
        let _ = jvmti.enable_events_global(&OBJECT_FREE);
        loaders::find_gone(jvmti, jni);
        recorder.forget_loaders();
        let starts = options.start && schedule.wanted();
        // Done before classes are instrumented: later it would discard their compiled code.
        if let Err(error) = probe_class.set_off(jni, !starts) {
            message!("{error}; probes that are off are slower than they could be");
        }
        let mut engine = Engine::new(EngineParts {
            jvmti,
            jni,
            running: running.clone(),
            probe_class,
            recorder,
            class_counts,
            why_empty,
            schedule,
            pretend: options.pretend,
            overhead: options.overhead,
            retransform: options.retransform,
        });
        engine.instrument_loaded_classes()?;
        settle(&mut engine, arrival);
        if starts && let Err(error) = engine.start() {
            message!("{error}; profiling is off");
        }
        // Clients that connected meanwhile are answered from here on.
        let control = control.and_then(|control| control.serve(handle));
        let retransform = options.retransform;
        Ok(Self { engine, requests, running, control, retransform })
    }

    /// Answers a detach that is done.
    fn answer_detach(&self, answer: &SyncSender<Answer>, status: &Status) {
        // The client may have gone.
        let _ = answer.send(Ok(Reply { status: status.clone(), found: Found::Nothing }));
        // Other clients may have asked for a detach meanwhile.
        while let Ok(Asked { request, answer, .. }) = self.requests.try_recv() {
            let is_done = request == Request::Detach;
            let reply = is_done.then(|| Reply { status: status.clone(), found: Found::Nothing });
            let _ = answer.send(reply.ok_or_else(|| "the profiler has ended".to_owned()));
        }
    }

    /// Restores the JVM to its state before the agent, as far as possible. Recording has ended.
    fn detach(
        &mut self,
        fault: Fault,
        jvmti: &'j Jvmti,
        jni: &'j JniEnv,
    ) -> (Status, Restorer<'j>) {
        load_hook::close_hook(&self.running.load_hook, jvmti);
        fault.panic_if(Fault::Detach);
        self.engine.leave_classes();
        let mut restorer = Restorer::new(jvmti, jni, self.retransform);
        restorer.begin();
        let _ = jvmti.disable_events_global(&OBJECT_FREE);
        virtual_threads::stop_listening(jvmti);
        if let Some(control) = self.control.take() {
            control.close();
        }
        let mut status = self.engine.status();
        restorer.add_to(&mut status);
        self.engine.close();
        for thread in thread::retire_all() {
            java_threads::forget(jni, &thread);
            thread.give_back();
        }
        mounts::forget_all();
        java_threads::forget_virtual_names();
        show(presence::ENDING);
        active::end_and_restore();
        (status, restorer)
    }
}

fn recorder(
    log: RunLog,
    options: &Options,
    class_counts: Arc<ClassCounts>,
    jvmti: &Jvmti,
    jni: &JniEnv,
) -> Recorder {
    // SAFETY: for the recorder, which never leaves this thread.
    let java = unsafe {
        JavaNames { jvmti: Jvmti::from_raw(jvmti.raw()), jni: JniEnv::from_raw(jni.raw()) }
    };
    Recorder::new(
        log,
        Methods::all(),
        class_counts,
        units::as_ns(options.threshold),
        // The hour being written is never deleted, so it must fit the run's limit too.
        [options.hour_bytes, options.run_bytes].into_iter().flatten().min(),
        Box::new(java),
    )
}

/// Retransforms the loaded classes in which no loop runs. Others wait.
fn settle(engine: &mut Engine<'_>, arrival: Arrival) {
    // The JVM's start does not wait: classes with loops are retransformed later.
    let settled =
        Instant::now() + if arrival == Arrival::Attached { SETTLING } else { Duration::ZERO };
    while !phase::is_ending()
        && (engine.has_unsent() || engine.is_settling() && Instant::now() < settled)
    {
        sleep(TICK);
        engine.change_classes();
    }
}

/// Gives the recorder the threads' names, from the JVM.
struct JavaNames {
    jvmti: Jvmti,
    jni: JniEnv,
}

impl JavaThreads for JavaNames {
    fn name(&self, thread: &ProbeThread) -> Option<ThreadName> {
        java_threads::ask_name(&self.jvmti, &self.jni, thread)
    }

    fn forget(&self, thread: &ProbeThread) {
        java_threads::forget(&self.jni, thread);
    }
}
