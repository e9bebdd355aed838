//! The JVM's calls to the agent.
//!
//! ```text
//! Agent_OnLoad    read the options, ask for capabilities and events
//! VMInit          start the agent's thread, wait until it has begun
//! Agent_OnAttach  the same two at once, without waiting; or, if asked to, detach
//! VMDeath         end recording, write everything
//! ```
//! What the agent's thread does in between, `agent_thread` tells. The load hook is opened in VMInit
//! and not before: a hook in an earlier phase costs the JVM its archives of preloaded classes.
#![allow(unsafe_code)]

use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::{
    Agent, AgentLoadContext, CallbackContext, ClassFileLoadHookEvent, ObjectFreeEvent, ThreadEvent,
    jni, jvmti,
};

use crate::agent_thread::{self, Stage};
use crate::engine::Request;
use crate::loaders;
use crate::message::message;
use crate::options::Options;
use crate::probe::mounts;
use crate::probe::thread;
use crate::{instrument, java_threads, presence, probe, run_info, running, virtual_threads};

/// The agent of this process.
#[derive(Default)]
pub struct TProfiler {
    /// Set in OnLoad, taken in VMInit; without it the agent stays off.
    options: Mutex<Option<Options>>,
}

impl Agent for TProfiler {
    fn on_load(&self, context: AgentLoadContext<'_>) -> jni::jint {
        let mut given = self.options.lock().unwrap_or_else(PoisonError::into_inner);
        if given.is_some() {
            message!("the agent was given twice; what was given first counts");
            return jni::JNI_OK;
        }
        let options = context.options_lossy().unwrap_or_default();
        let (error, strict) = match Options::read(&options) {
            Ok(options) => match prepare(&context, &options.logs).map_err(|(_, error)| error) {
                Ok(()) => {
                    options.tell_warnings();
                    *given = Some(options);
                    return jni::JNI_OK;
                }
                Err(error) => (error, options.strict),
            },
            Err(bad) => (bad.message, bad.strict),
        };
        if strict {
            message!("{error}; the JVM does not start, because of the option strict");
            return jni::JNI_ERR;
        }
        message!("{error}; profiling is off");
        jni::JNI_OK
    }

    fn on_attach(&self, context: AgentLoadContext<'_>) -> jni::jint {
        let options = context.options_lossy().unwrap_or_default();
        let done = if options == presence::DETACH { detach() } else { attach(&context, &options) };
        match done {
            Ok(()) => presence::OK,
            Err((code, error)) => {
                message!("{error}");
                code
            }
        }
    }

    fn vm_init(&self, context: CallbackContext<'_>, _event: ThreadEvent) {
        let options = self.options.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (Some(options), Some(jni)) = (options, context.jni()) else { return };
        match begin(options, context.jvmti(), jni) {
            // What it meets it says itself. The application waits, so that its first call counts.
            Ok(stages) => while stages.recv().is_ok_and(|stage| stage != Stage::Begun) {},
            Err(error) => message!("{error}; profiling is off"),
        }
    }

    fn vm_death(&self, _context: CallbackContext<'_>) {
        if let Some(running) = running::get()
            && let Err(error) = running.engine.ask(Request::Finish)
            // It may have been detached meanwhile, with everything written.
            && running::get().is_some()
        {
            message!("{error}; the last records may not be on disk");
        }
    }

    fn thread_end(&self, context: CallbackContext<'_>, event: ThreadEvent) {
        thread::end_current(|| {
            // SAFETY: the thread that ends is the calling one, and the reference is the event's.
            unsafe { java_threads::name(context.jvmti(), context.jni()?, event.thread()) }
        });
    }

    fn virtual_thread_end(&self, context: CallbackContext<'_>, event: ThreadEvent) {
        // SAFETY: the reference is the event's.
        let number =
            context.jni().and_then(|jni| unsafe { java_threads::number(jni, event.thread()) });
        if let Some(number) = number {
            mounts::end(number);
        }
    }

    fn object_free(&self, _context: CallbackContext<'_>, event: ObjectFreeEvent) {
        loaders::object_freed(event.tag());
    }

    fn class_file_load_hook<'callback>(
        &self,
        context: CallbackContext<'callback>,
        mut event: ClassFileLoadHookEvent<'callback>,
    ) {
        if let (Some(running), Some(jni)) = (running::get(), context.jni())
            && let Some(bytes) = instrument::rewrite(&running, context.jvmti(), jni, &event)
        {
            // A class that cannot be handed over stays as it is.
            let _ = event.set_transformed_class(&context, &bytes);
        }
    }

    fn callback_panicked(&self, event: &'static str) {
        probe::give_up();
        message!("internal error in {event}; profiling is off, the service goes on");
    }
}

/// What `Agent_OnAttach` returns, and why.
type Refusal = (jni::jint, String);

/// Checks the log folder and asks the JVM for what is needed. The environment that it gives, and what
/// that can do, are kept as long as the JVM lives.
fn prepare(context: &AgentLoadContext<'_>, logs: &Path) -> Result<(), Refusal> {
    run_info::check_writable(logs).map_err(|error| (presence::WRONG_OPTIONS, error))?;
    if java_threads::get_jvmti().is_some() {
        return Ok(());
    }
    let of = |e: jvmti::jvmtiError| (presence::REFUSED, format!("JVMTI error {e:?}"));
    // A JVM that has not come as far as to run anything has none for who comes by attach.
    let none = |e| (presence::REFUSED, format!("the JVM is not ready: no JVMTI (error {e})"));
    let jvmti = context.vm().jvmti().map_err(none)?;
    let mut capabilities = jvmti::jvmtiCapabilities::default();
    capabilities.set_can_generate_all_class_hook_events(true);
    capabilities.set_can_retransform_classes(true);
    capabilities.set_can_retransform_any_class(true);
    capabilities.set_can_tag_objects(true);
    capabilities.set_can_generate_object_free_events(true);
    let all = jvmti.get_potential_capabilities().unwrap_or_default();
    // From JDK 21 on.
    capabilities.set_can_support_virtual_threads(all.can_support_virtual_threads());
    jvmti.add_capabilities(&capabilities).map_err(of)?;
    jvmti.set_default_agent_callbacks().map_err(of)?;
    jvmti
        .enable_events_global(&[
            jvmti::JVMTI_EVENT_VM_INIT,
            jvmti::JVMTI_EVENT_VM_DEATH,
            jvmti::JVMTI_EVENT_THREAD_END,
        ])
        .map_err(of)?;
    java_threads::set_jvmti(jvmti.raw());
    Ok(())
}

/// Starts the agent's thread, and returns what it says of itself.
fn begin(options: Options, jvmti: &Jvmti, jni: &JniEnv) -> Result<Receiver<Stage>, String> {
    if !running::take() {
        return Err("the agent is at work here already".to_owned());
    }
    if jvmti.get_capabilities().is_ok_and(|all| all.can_support_virtual_threads()) {
        virtual_threads::listen(jvmti);
    }
    let (stage, stages) = mpsc::channel();
    agent_thread::start(jvmti, jni, options, stage).inspect_err(|_| running::end())?;
    Ok(stages)
}

/// How long it may take until the agent's thread runs.
const THREAD_START: Duration = Duration::from_secs(10);

/// Begins a profile in a JVM that runs. Natives can be bound only when this has returned to the JVM,
/// so that the agent's thread does the rest.
fn attach(context: &AgentLoadContext<'_>, options: &str) -> Result<(), Refusal> {
    let options =
        Options::read_attached(options).map_err(|bad| (presence::WRONG_OPTIONS, bad.message))?;
    if probe::gave_up() {
        let error = "profiling is off for good in this JVM, after an internal error".to_owned();
        return Err((presence::REFUSED, error));
    }
    if running::is_taken() {
        let error = "the agent is at work here already; nothing was attached".to_owned();
        return Err((presence::ATTACHED_ALREADY, error));
    }
    prepare(context, &options.logs)?;
    options.tell_warnings();
    let refused = |error: &str| (presence::REFUSED, error.to_owned());
    let jvmti = java_threads::get_jvmti().ok_or_else(|| refused("no JVMTI"))?;
    let jni = jni_of(context).ok_or_else(|| refused("no JNI"))?;
    let stages = begin(options, &jvmti, &jni).map_err(|error| refused(&error))?;
    match stages.recv_timeout(THREAD_START) {
        Ok(_) => Ok(()),
        Err(_) => Err(refused("the agent's thread does not run")),
    }
}

/// The calling thread's JNI environment.
fn jni_of(context: &AgentLoadContext<'_>) -> Option<JniEnv> {
    let vm = context.vm().raw();
    let mut env = std::ptr::null_mut();
    // SAFETY: the JVM handed its own table, and writes the environment of this thread, which is one
    // of the JVM's, to the variable.
    unsafe {
        let found = ((**vm).GetEnv)(vm, &raw mut env, jni::JNI_VERSION_1_6);
        (found == jni::JNI_OK && !env.is_null()).then(|| JniEnv::from_raw(env.cast()))
    }
}

fn detach() -> Result<(), Refusal> {
    let running = running::get()
        .ok_or_else(|| (presence::NOT_ATTACHED, "there is nothing to detach".to_owned()))?;
    running.engine.ask(Request::Detach).map_err(|error| (presence::NOT_DETACHED, error))?;
    Ok(())
}
