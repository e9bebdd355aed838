//! A run: prepares it, begins it, and ends it at a detach.
//!
//! Everything here runs on the agent thread. `agent_thread` catches its panics.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender};
use std::thread::sleep;
use std::time::{Duration, Instant};

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::jvmti;
use log_format::error::BadValue;
use log_format::units;

use crate::control::{Control, Serving};
use crate::drain::recorder::Recorder;
use crate::drain::thread_reader::JavaThreads;
use crate::error::Error;
use crate::exceptions;
use crate::hotspot::allocated_bytes;
use crate::instrument::class_hook::{ClassCounts, ClassHook};
use crate::instrument::class_log::ClassLog;
use crate::instrument::include_hints::WhyEmpty;
use crate::instrument::load_hook::{self, LoadHook};
use crate::instrument::methods::Methods;
use crate::instrument::restore::Restorer;
use crate::instrument::virtual_loops;
use crate::jvm::java_threads;
use crate::jvm::loaders;
use crate::jvm::loaders::Loaders;
use crate::jvm::pauses;
use crate::jvm::probe_class::ProbeClass;
use crate::jvm::virtual_threads;
use crate::log::folder::LogFolder;
use crate::log::retention::Limits;
use crate::log::run_log::RunLog;
use crate::options::retransform::Retransform;
use crate::options::{Fault, Options, ProbeChoice, Trick};
use crate::phase;
use crate::probe;
use crate::probe::thread::{self, ProbeThread, ThreadName, ThreadReader};
use crate::probe::{mounts, mute};
use crate::request::{Answer, Asked, ENDED, Found, Handle, Reply, Request, Requests, Status};
use crate::sampling::engine_choice::Chosen;
use crate::schedule::Schedule;
use crate::self_test;
use crate::session::active::{self, Active};
use crate::session::agent_loop::{AgentLoop, AgentLoopParts};
use crate::session::claim::{Arrival, Claim, Claimant, Stage};
use crate::session::run_info;
use crate::stderr::message;
use crate::sys::memory;

const OBJECT_FREE: [jvmti::jvmtiEvent; 1] = [jvmti::JVMTI_EVENT_OBJECT_FREE];
/// How long to wait for an earlier run's thread to stop restoring classes: it may be reading stacks.
const TAKE_OVER: Duration = Duration::from_secs(12);
/// How long an attach waits until it is certain which loops are long-lived.
const SETTLING: Duration = Duration::from_secs(9);
const TICK: Duration = Duration::from_millis(50);

/// What a run needs from the disk and the network, which may hang.
struct Prepared {
    probe_class: ProbeClass,
    log: RunLog,
    control: Option<Control>,
    class_log: Option<ClassLog>,
    /// What interrupts threads for samples.
    engine: Option<Chosen>,
}

impl Prepared {
    /// # Errors
    /// What went wrong.
    fn new(
        options: &Options,
        arrival: Arrival,
        claim: &Claim,
        jvmti: &Jvmti,
        jni: &JniEnv,
    ) -> Result<Self, Error> {
        if !phase::take_over(TAKE_OVER) {
            let reason = "classes of the last run are still being restored; try again";
            return Err(Error::State(reason));
        }
        options.tests.fault.panic_if(Fault::Begin);
        pauses::forget();
        exceptions::configure(options.exceptions, options.sampling.cpu.is_some());
        let is_fast = self_test::begin(jvmti, options.probes.form, &options.tests.pretend);
        probe::init(
            options.probes.clock,
            options.probes.form != ProbeChoice::Plain,
            options.tests.pretend.fails(Trick::ThreadWord),
        );
        let probe_class = ProbeClass::get(jni, is_fast, &options.tests.pretend)?;
        allocated_bytes::find(
            jvmti,
            jni,
            options.probes.form != ProbeChoice::Plain,
            &options.tests.pretend,
        );
        let limits = Limits { max_bytes: options.log.run_bytes, keep: options.log.keep };
        let sampling = options.sampling;
        let engine = sampling.cpu.map(|cpu| Chosen::of(sampling.engine, units::as_ns(cpu)));
        let run = run_info::describe(jvmti, options, arrival, engine.as_ref());
        let logs = LogFolder::open(&options.log.folder, options.log.group.as_deref())?;
        let mut log = RunLog::create(logs, &run, options.log.compress, limits)?;
        let control = Control::bind(options, log.folder());
        let bound = control.as_ref().and_then(|control| control.as_ref().ok());
        log.set_port(bound.map(Control::port))?;
        let class_log = options.log.debug_classes.then(|| ClassLog::create(log.folder())).flatten();
        options.tests.fault.hang(arrival == Arrival::Attached);
        if !claim.take(Claimant::Agent) {
            // The token's file goes first, then the folder.
            drop((control, class_log));
            log.discard();
            return Err(Error::State("too late"));
        }
        let control = control.and_then(|control| Control::tell(control, options.control.port));
        Ok(Self { probe_class, log, control, class_log, engine })
    }
}

/// A run that has begun.
pub(super) struct Profile<'j> {
    pub agent: AgentLoop<'j>,
    pub requests: Requests,
    pub active: Arc<Active>,
    pub control: Option<Serving>,
    pub retransform: Retransform,
}

impl<'j> Profile<'j> {
    /// # Errors
    /// What went wrong.
    pub(super) fn begin(
        options: Options,
        arrival: Arrival,
        stage: &Sender<Stage>,
        claim: &Claim,
        jvmti: &'j Jvmti,
        jni: &'j JniEnv,
    ) -> Result<Self, Error> {
        let Prepared { probe_class, log, control, class_log, engine } =
            Prepared::new(&options, arrival, claim, jvmti, jni)?;
        virtual_threads::listen(jvmti, arrival != Arrival::AtStart, &options.tests.pretend);
        // The waiting thread may have given up.
        let _ = stage.send(Stage::Prepared);
        options.tests.fault.be_slow();
        let methods = begin_attachment(&options)?;
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
        let schedule = Schedule::new(options.recording.plan);
        let (handle, requests) = Handle::new();
        let active = Arc::new(Active {
            load_hook: LoadHook::new(hook, Loaders::all()),
            agent: handle.clone(),
        });
        active::set(active.clone());
        // Without these events, ids of unloaded classes are not reused.
        let _ = jvmti.enable_events_global(&OBJECT_FREE);
        loaders::find_gone(jvmti, jni);
        recorder.forget_loaders();
        let starts = options.recording.start && schedule.wanted();
        // Done before classes are instrumented: later it would discard their compiled code.
        if let Err(error) = probe_class.set_off(jni, !starts) {
            message!("{error}; probes that are off keep their guard, which costs time");
        }
        let mut agent = AgentLoop::new(AgentLoopParts {
            jvmti,
            jni,
            active: active.clone(),
            probe_class,
            recorder,
            class_counts,
            why_empty,
            schedule,
            tests: options.tests,
            overhead: options.limits.overhead,
            retransform: options.probes.retransform,
            sampling: options.sampling,
            engine,
        });
        agent.instrument_loaded_classes()?;
        settle(&mut agent, arrival);
        if starts && let Err(error) = agent.start() {
            message!("{error}; profiling is off");
        }
        // Clients that connected meanwhile are answered from here on.
        let control = control.and_then(|control| control.serve(handle));
        let retransform = options.probes.retransform;
        Ok(Self { agent, requests, active, control, retransform })
    }

    /// Answers a detach that is done.
    pub(super) fn answer_detach(&self, answer: &SyncSender<Answer>, status: &Status) {
        // The client may have gone.
        let _ = answer.send(Ok(Reply { status: status.clone(), found: Found::Nothing }));
        // Other clients may have asked for a detach meanwhile.
        while let Ok(Asked { request, answer, .. }) = self.requests.try_recv() {
            let is_done = request == Request::Detach;
            let reply = is_done.then(|| Reply { status: status.clone(), found: Found::Nothing });
            let _ = answer.send(reply.ok_or(ENDED));
        }
    }

    /// Restores the JVM to its state before the agent, as far as possible. Recording has ended.
    pub(super) fn detach(
        &mut self,
        fault: Fault,
        jvmti: &'j Jvmti,
        jni: &'j JniEnv,
    ) -> (Status, Restorer<'j>) {
        load_hook::close_hook(&self.active.load_hook, jvmti);
        fault.panic_if(Fault::Detach);
        self.agent.leave_classes();
        let mut restorer = Restorer::new(jvmti, jni, self.retransform);
        restorer.begin();
        stop_events(jvmti);
        if let Some(control) = self.control.take() {
            control.close();
        }
        let mut status = self.agent.status();
        status.loaded_classes = restorer.figures();
        self.agent.close();
        for thread in thread::retire_all() {
            java_threads::forget(jni, &thread);
            if let Some(reader) = ThreadReader::of(thread) {
                reader.give_back();
            }
        }
        mounts::forget_all();
        java_threads::forget_virtual_names();
        (status, restorer)
    }
}

/// Forgets everything of an earlier attachment but method ids.
///
/// # Errors
/// There are too many thresholds.
fn begin_attachment(options: &Options) -> Result<Arc<Methods>, BadValue> {
    let methods = Methods::all();
    let own =
        options.recording.thresholds.iter().map(|(of, least)| (of.clone(), units::as_ns(*least)));
    // Without samples, nobody takes the stacks.
    let has_samples = options.sampling.cpu.is_some();
    let traces = if has_samples { &*options.recording.traces } else { &[] };
    methods.begin_attachment(&own.collect::<Vec<_>>(), traces)?;
    mute::forget();
    memory::begin(options.limits.memory.unwrap_or_else(memory::limit::default_bytes));
    Ok(methods)
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
        units::as_ns(options.recording.threshold),
        // The hour being written is never deleted, so it must fit the run's limit too.
        [options.log.hour_bytes, options.log.run_bytes].into_iter().flatten().min(),
        Box::new(java),
    )
}

/// Stops all events but those of the load hook.
pub(super) fn stop_events(jvmti: &Jvmti) {
    let _ = jvmti.disable_events_global(&OBJECT_FREE);
    virtual_threads::stop_listening(jvmti);
    virtual_threads::stop_listening_to_ends(jvmti, virtual_loops::are_any_remembered);
}

/// Retransforms the loaded classes in which no loop runs. Others wait.
fn settle(agent: &mut AgentLoop<'_>, arrival: Arrival) {
    // The JVM's start and a program do not wait: classes with loops are retransformed later.
    let settled =
        Instant::now() + if arrival == Arrival::Attached { SETTLING } else { Duration::ZERO };
    while !phase::is_ending()
        && (agent.classes().has_unsent()
            || agent.classes().is_settling() && Instant::now() < settled)
    {
        sleep(TICK);
        agent.change_classes();
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
