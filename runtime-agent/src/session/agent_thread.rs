//! The agent thread, from the beginning of a run to its end.
//!
//! ```text
//! prepare  define and bind the probe class, make the run's folder, take the control port
//! begin    open the load hook, retransform loaded classes, begin recording
//! run      the agent loop: drain, write, answer
//! detach   end recording, close the load hook, restore classes,
//!          close files and port, give memory back
//! restore  for a minute, classes that had long-lived loops
//! ```
//! `run` has `prepare`, `begin` and `detach`.
//!
//! `prepare` may hang on a disk. The JVM's start does not wait for it: the waiting thread and this thread both claim
//! the run, and the first to claim it decides whether it begins.
//!
//! After a panic of this thread, probes are off and only a detach is carried out. A thread of the service may be in
//! a probe at any time, so only the thread itself unmaps its data; see `probe::thread`.
#![allow(unsafe_code)]

use std::ffi::{CString, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, SyncSender};

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::{jni, jvmti};

use crate::attach_protocol;
use crate::error::{Error, JvmError};
use crate::instrument::load_hook;
use crate::instrument::methods::Methods;
use crate::instrument::postponed::Postponed;
use crate::instrument::restore::Restorer;
use crate::instrument::virtual_loops;
use crate::jvm::java_threads;
use crate::jvm::virtual_threads;
use crate::options::{Fault, Options};
use crate::phase;
use crate::probe;
use crate::request::{Answer, Found, Reply, Status, answer_after_panic};
use crate::sampling::sampler;
use crate::session::active;
use crate::session::claim::{Arrival, Claim, Claimant, Stage, Started};
use crate::session::run::{Profile, stop_events};
use crate::stderr::message;

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

/// Starts the thread for a run. The caller is a plain `java.lang.Thread`, that of VMInit or of Agent_OnAttach.
///
/// # Errors
/// The JVM refuses.
pub(crate) fn start(
    jvmti: &Jvmti,
    jni: &JniEnv,
    options: Options,
    arrival: Arrival,
) -> Result<Started, JvmError> {
    let (stage, stages) = std::sync::mpsc::channel();
    let claim = Claim::default();
    let options = Box::new(options);
    spawn(jvmti, jni, ThreadStart::Run { options, arrival, stage, claim: claim.clone() })?;
    Ok(Started { stages, claim })
}

/// Starts the thread to restore classes of an earlier run.
///
/// # Errors
/// The JVM refuses.
pub(crate) fn start_restoring(jvmti: &Jvmti, jni: &JniEnv) -> Result<(), JvmError> {
    spawn(jvmti, jni, ThreadStart::Restore)
}

fn spawn(jvmti: &Jvmti, jni: &JniEnv, start: ThreadStart) -> Result<(), JvmError> {
    let refused = || {
        jni.exception_clear();
        JvmError::Refused("a thread".to_owned())
    };
    let group = jvmti.get_top_thread_groups().ok().and_then(|groups| groups.first().copied());
    let current = jvmti.get_current_thread().map_err(JvmError::NoCurrentThread)?;
    // The attach listener's thread lives for as long as the JVM.
    let _frame = jni.push_local_frame(16);
    // SAFETY: all references are of this thread and live; the constructor's parameters are these.
    unsafe {
        // Looking the class up by name would ask the application's class loader.
        let class = jni.get_object_class(current);
        java_threads::find_number(jni, class);
        // Thread(ThreadGroup, Runnable, String, long stackSize, boolean inheritThreadLocals): a program's thread may
        // have values that must not be kept.
        const PARAMETERS: &str =
            "(Ljava/lang/ThreadGroup;Ljava/lang/Runnable;Ljava/lang/String;JZ)V";
        let constructor = jni.get_method_id(class, "<init>", PARAMETERS).ok_or_else(refused)?;
        let name = jni.new_string_utf("tprofiler").ok_or_else(refused)?;
        let arguments = [
            jni::jvalue { l: group.unwrap_or(std::ptr::null_mut()) },
            jni::jvalue { l: std::ptr::null_mut() },
            jni::jvalue { l: name },
            jni::jvalue { j: 0 },
            jni::jvalue { z: jni::JNI_FALSE },
        ];
        let thread = jni.new_object(class, constructor, &arguments);
        if jni.exception_check() {
            return Err(refused());
        }
        let thread = thread.ok_or_else(refused)?;
        forget_callers(jni, class, thread);
        let start = Box::into_raw(Box::new(start));
        // The JVM makes it a daemon and hides it from thread lists.
        jvmti
            .run_agent_thread(thread, run, start.cast(), jvmti::JVMTI_THREAD_NORM_PRIORITY)
            .map_err(|e| {
                // No thread takes ownership of it.
                drop(Box::from_raw(start));
                JvmError::NoAgentThread(e)
            })
    }
}

/// Has a new thread not keep the classes on the stack of its creator, for a security manager: they may be a web
/// application's. Newer JDKs do not keep them.
///
/// # Safety
/// `class` is a live reference to `java.lang.Thread`, and `thread` one to such a thread.
unsafe fn forget_callers(jni: &JniEnv, class: jni::jclass, thread: jni::jobject) {
    const FIELD: &str = "inheritedAccessControlContext";
    // SAFETY: the caller guarantees the references, and null is good for any object.
    unsafe {
        match jni.get_field_id(class, FIELD, "Ljava/security/AccessControlContext;") {
            Some(field) => jni.set_object_field(thread, field, std::ptr::null_mut()),
            None => jni.exception_clear(),
        }
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
            show(attach_protocol::BEGINNING);
            // The waiting thread may have given up.
            let _ = stage.send(Stage::Runs);
            run_agent(*options, arrival, stage, &claim, jvmti, jni);
        }
        ThreadStart::Restore => {
            show(attach_protocol::ENDING);
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
    let retransform = options.probes.retransform;
    phase::set_last_retransform(retransform);
    let fault = options.tests.fault;
    let begun = catch_unwind(AssertUnwindSafe(|| {
        Profile::begin(options, arrival, &stage, claim, jvmti, jni)
    }));
    let error = match begun {
        Ok(Ok(profile)) => {
            show(attach_protocol::ATTACHED);
            let _ = stage.send(Stage::Begun);
            drop(stage);
            // At the JVM's start, nobody waits for an answer.
            if arrival == Arrival::Attached && profile.control.is_none() {
                tell_postponed("classes postponed", &profile.agent.classes().postponed());
            }
            return run_profile(profile, fault, jvmti, jni);
        }
        Ok(Err(error)) => error,
        Err(_) => {
            probe::give_up();
            Error::State("internal error")
        }
    };
    // A waiting thread that claimed the run has already reported the failure.
    if claim.take(Claimant::Agent) {
        message!("{error}; profiling is off");
    }
    // The JVM's start does not wait until classes are restored.
    drop(stage);
    virtual_threads::stop_listening(jvmti);
    virtual_threads::stop_listening_to_ends(jvmti, virtual_loops::are_any_remembered);
    sampler::stop_all(jvmti);
    show(attach_protocol::ENDING);
    // Some classes may have been instrumented before a panic.
    match active::get() {
        Some(active) => {
            let restored = catch_unwind(AssertUnwindSafe(|| {
                load_hook::close_hook(&active.load_hook, jvmti);
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
        profile.agent.run(&profile.requests, fault)
    }));
    let answer = match ran {
        Ok(Some(answer)) => answer,
        // The JVM ends. Clients see that from the thread's name, before the token is gone.
        Ok(None) => return show(attach_protocol::ENDING),
        Err(_) => {
            profile.agent.give_up();
            match answer_after_panic(&profile.requests) {
                Some(answer) => return detach_after_panic(profile, &answer, jvmti, jni),
                None => return,
            }
        }
    };
    match catch_unwind(AssertUnwindSafe(|| profile.detach(fault, jvmti, jni))) {
        Ok((status, restorer)) => {
            end_run();
            profile.answer_detach(&answer, &status);
            drop(profile);
            finish_restoring(restorer);
        }
        Err(_) => {
            profile.agent.give_up();
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
    let Profile { agent, active, control, retransform, .. } = profile;
    let restored = catch_unwind(AssertUnwindSafe(|| {
        load_hook::close_hook(&active.load_hook, jvmti);
        Methods::all().assume_probes();
        let mut restorer = Restorer::new(jvmti, jni, retransform);
        restorer.begin();
        stop_events(jvmti);
        restorer
    }));
    if let Some(control) = control {
        control.close();
    }
    end_run();
    match restored {
        Ok(restorer) => {
            let status = Status { loaded_classes: restorer.figures(), ..Status::default() };
            let _ = answer.send(Ok(Reply { status, found: Found::Nothing }));
            finish_restoring(restorer);
        }
        Err(_) => {
            let _ = answer.send(Err(Error::State("internal error; classes keep their probes")));
            phase::end_restoring();
        }
    }
    // Its fields may be in a bad state, so they are not dropped.
    std::mem::forget(agent);
}

/// Ends the run: from now on another may begin, and this thread only restores classes.
fn end_run() {
    show(attach_protocol::ENDING);
    active::end_and_restore();
}

/// Sets the calling thread's name in the kernel.
fn show(name: &str) {
    if let Ok(name) = CString::new(name) {
        let _ = rustix::thread::set_name(&name);
    }
}
