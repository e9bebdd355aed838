//! The agent's own thread, from the beginning of a profile to its end.
//!
//! ```text
//! begin    define and bind the probe class, make the run's folder, take the control port,
//!          open the load hook, retransform what was loaded before, begin recording
//! run      the engine: drain, write, answer
//! detach   end recording, close the load hook, give classes their own bytes back,
//!          close files and port, give memory back
//! ```
//! A thread may be in a probe at any time, so what belongs to a thread is unmapped by itself alone;
//! see `probe::thread`.
#![allow(unsafe_code)]

use std::ffi::{CString, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::{jni, jvmti};
use log_format::units;

use crate::class_hook::{ClassCounts, ClassHook};
use crate::class_log::ClassLog;
use crate::control::{Control, Serving};
use crate::cost_control::CostControl;
use crate::engine::{Engine, Found, Handle, Reply, Request, Requests, Status};
use crate::instrument;
use crate::known_thread::JavaThreads;
use crate::loaders::Loaders;
use crate::message::message;
use crate::methods::Methods;
use crate::muting::Muting;
use crate::options::Options;
use crate::probe::thread::{self, ProbeThread, ThreadName};
use crate::probe::{mounts, mute};
use crate::probe_class::ProbeClass;
use crate::recorder::Recorder;
use crate::retention::Limits;
use crate::run_log::RunLog;
use crate::running::{self, Retransformed, Running};
use crate::schedule::Schedule;
use crate::why_empty::WhyEmpty;
use crate::{clock, java_threads, presence, probe, run_info, virtual_threads};

/// How far the thread has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It runs, and can be seen from outside.
    Runs,
    /// Classes have probes, and recording has begun, if it is to.
    Begun,
}

const OBJECT_FREE: [jvmti::jvmtiEvent; 1] = [jvmti::JVMTI_EVENT_OBJECT_FREE];

/// What the thread is handed when it starts.
struct ThreadStart {
    options: Options,
    stage: Sender<Stage>,
}

/// Where it finds that.
static THREAD_START: Mutex<Option<ThreadStart>> = Mutex::new(None);

/// Starts the thread. The caller is a plain `java.lang.Thread`, that of VMInit or of Agent_OnAttach.
///
/// # Errors
/// One line: the JVM refuses.
pub(crate) fn start(
    jvmti: &Jvmti,
    jni: &JniEnv,
    options: Options,
    stage: Sender<Stage>,
) -> Result<(), String> {
    let start = ThreadStart { options, stage };
    *THREAD_START.lock().unwrap_or_else(PoisonError::into_inner) = Some(start);
    let refused = || {
        jni.exception_clear();
        "the JVM refuses a thread".to_owned()
    };
    let group = jvmti.get_top_thread_groups().ok().and_then(|groups| groups.first().copied());
    let current = jvmti.get_current_thread().map_err(|e| format!("no current thread ({e:?})"))?;
    // SAFETY: all references are of this thread and live; the constructor's parameters are these.
    unsafe {
        // To look the class up by name would ask the application's class loader.
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
        // The JVM makes it a daemon, and leaves it out when threads are listed.
        jvmti
            .run_agent_thread(thread, run, std::ptr::null(), jvmti::JVMTI_THREAD_NORM_PRIORITY)
            .map_err(|e| format!("the JVM refuses a thread ({e:?})"))
    }
}

/// The thread's function.
unsafe extern "system" fn run(jvmti: *mut jvmti::jvmtiEnv, jni: *mut jni::JNIEnv, _: *mut c_void) {
    let start = THREAD_START.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(start) = start else { return };
    // SAFETY: the JVM hands this thread its environments, and they live as long as the thread.
    let (jvmti, jni) = unsafe { (Jvmti::from_raw(jvmti), JniEnv::from_raw(jni)) };
    // Whoever waits may have gone.
    show(presence::BEGINNING);
    let _ = start.stage.send(Stage::Runs);
    let begun = catch_unwind(AssertUnwindSafe(|| begin(start.options, &jvmti, &jni)));
    let error = match begun {
        Ok(Ok(mut profile)) => {
            show(presence::ATTACHED);
            let _ = start.stage.send(Stage::Begun);
            drop(start.stage);
            if catch_unwind(AssertUnwindSafe(|| profile.run(&jvmti, &jni))).is_err() {
                profile.engine.give_up();
            }
            return;
        }
        Ok(Err(error)) => error,
        Err(_) => "internal error".to_owned(),
    };
    message!("{error}; profiling is off");
    virtual_threads::stop_listening(&jvmti);
    show(presence::ENDING);
    running::end();
}

/// Gives the calling thread a name in the kernel.
fn show(name: &str) {
    if let Ok(name) = CString::new(name) {
        // SAFETY: the name ends with its NUL, and belongs to the calling thread.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    }
}

/// A profile that is under way.
struct Profile<'j> {
    engine: Engine<'j>,
    requests: Requests,
    running: Arc<Running>,
    control: Option<Serving>,
}

fn begin<'j>(options: Options, jvmti: &'j Jvmti, jni: &'j JniEnv) -> Result<Profile<'j>, String> {
    probe::init();
    let probe_class = ProbeClass::get(jni)?;
    let limits = Limits { max_bytes: options.run_bytes, keep: options.keep };
    let run = run_info::describe(jvmti, &options);
    let mut log = RunLog::create(&options.logs, &run, options.compress, limits)?;
    let (handle, requests) = Handle::new();
    let control = Control::bind(&options);
    log.set_port(control.as_ref().map(Control::port))?;
    let methods = Arc::new(Methods::default());
    let class_counts = Arc::new(ClassCounts::default());
    // SAFETY: for the recorder, which never leaves this thread.
    let java = unsafe {
        JavaNames { jvmti: Jvmti::from_raw(jvmti.raw()), jni: JniEnv::from_raw(jni.raw()) }
    };
    let class_log = options.debug_classes.then(|| ClassLog::create(log.folder())).flatten();
    // An earlier profile of this JVM had others, and the same numbers of methods.
    probe::forget_thresholds();
    mute::forget();
    for (pattern, threshold) in &options.thresholds {
        methods.set_threshold(pattern.clone(), units::as_ns(*threshold))?;
    }
    let recorder = Recorder::new(
        log,
        methods.clone(),
        class_counts.clone(),
        units::as_ns(options.threshold),
        // The hour that is written to is never deleted.
        [options.hour_bytes, options.run_bytes].into_iter().flatten().min(),
        Box::new(java),
    );
    let why_empty = Arc::new(WhyEmpty::new(&options.filters));
    let hook = ClassHook::new(
        options.filters,
        methods.clone(),
        class_counts.clone(),
        why_empty.clone(),
        class_log,
    );
    let schedule = Schedule::new(options.plan);
    let running = Arc::new(Running::new(hook, Loaders::all(), handle.clone()));
    running::set(running.clone());
    // Without it, ids of classes that were unloaded are not used again.
    let _ = jvmti.enable_events_global(&OBJECT_FREE);
    // Before there are classes with probes, whose compiled code would be thrown away.
    if let Err(error) = probe_class.set_off(jni, !(options.start && schedule.wanted())) {
        message!("{error}; probes that are off are slower than they could be");
    }
    instrument::instrument(&running, jvmti, jni);
    let mut engine = Engine {
        jvmti,
        jni,
        running: running.clone(),
        probe_class,
        recorder,
        muting: Muting::new(methods.clone()),
        withdraw: None,
        guard_out: None,
        cost: CostControl::new(options.overhead),
        methods,
        class_counts,
        retransformed: running.retransformed.clone(),
        since_ns: clock::unix_ns(),
        is_open: false,
        schedule: Schedule::new(options.plan),
        why_empty,
    };
    if options.start
        && schedule.wanted()
        && let Err(error) = engine.start()
    {
        message!("{error}; profiling is off");
    }
    // Whoever connected meanwhile is answered when there is something to say.
    let control = control.and_then(|control| control.serve(handle));
    Ok(Profile { engine, requests, running, control })
}

impl Profile<'_> {
    /// Works until the JVM ends or the agent is to be detached.
    fn run(&mut self, jvmti: &Jvmti, jni: &JniEnv) {
        if let Some(answer) = self.engine.run(&self.requests) {
            let status = self.detach(jvmti, jni);
            // Whoever asked may have gone.
            let _ = answer.send(Ok(Reply { status: status.clone(), found: Found::Nothing }));
            // Somebody else may have asked for the same meanwhile.
            while let Ok((request, answer)) = self.requests.try_recv() {
                let is_done = request == Request::Detach;
                let reply =
                    is_done.then(|| Reply { status: status.clone(), found: Found::Nothing });
                let _ = answer.send(reply.ok_or_else(|| "the profiler has ended".to_owned()));
            }
        }
    }

    /// Leaves the JVM as it was, as far as that can be. Recording has ended.
    fn detach(&mut self, jvmti: &Jvmti, jni: &JniEnv) -> Status {
        let restored = Arc::new(Retransformed::default());
        instrument::restore(&self.running, jvmti, jni, &restored);
        let _ = jvmti.disable_events_global(&OBJECT_FREE);
        virtual_threads::stop_listening(jvmti);
        if let Some(control) = self.control.take() {
            control.close();
        }
        self.engine.retransformed = restored;
        let status = self.engine.status();
        self.engine.recorder.close();
        self.engine.forget_muted();
        for thread in thread::retire_all() {
            java_threads::forget(jni, &thread);
            thread.give_back();
        }
        mounts::forget_all();
        java_threads::forget_virtual_names();
        show(presence::ENDING);
        running::end();
        status
    }
}

/// Answers the recorder from the JVM.
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
