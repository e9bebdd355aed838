//! The JVM's calls to the agent.
//!
//! ```text
//! Agent_OnLoad    read the options, ask for capabilities and events
//! VMInit          start the agent thread, wait until it has begun
//! Agent_OnAttach  both at once, without waiting; or detach, if the options say so
//! VMDeath         end recording, write everything
//! ```
//! `agent_thread` shows what the agent thread does in between. The load hook opens in VMInit and not before: an
//! earlier hook would cost the JVM its archives of preloaded classes.
//!
//! Every wait has a limit. A JVM never waits for a disk or a network for longer than that, and starts in any case.
#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::{
    Agent, AgentLoadContext, CallbackContext, ClassFileLoadHookEvent, ObjectFreeEvent, ThreadEvent,
    jni, jvmti,
};

use crate::instrument::first_pause;
use crate::instrument::load_hook;
use crate::instrument::methods::Methods;
use crate::instrument::virtual_loops;
use crate::jvm::java_threads;
use crate::jvm::loaders;
use crate::jvm::mounted_lately;
use crate::jvm::virtual_threads;
use crate::message::message;
use crate::options::{BadOptions, Fault, Options};
use crate::probe;
use crate::probe::mounts;
use crate::probe::thread;
use crate::request::{Reply, Request};
use crate::session::active;
use crate::session::agent_thread::{self, Arrival, Claimant, Stage, Started};
use crate::session::phase;
use crate::session::presence;
use crate::session::run_info;
use crate::sys::native_thread::{self, Priority, within};

/// How long the JVM's start waits for files of options and for the log folder.
const FILES: Duration = Duration::from_secs(2);
/// How long it then waits for loaded classes to be instrumented.
const INSTRUMENTED: Duration = Duration::from_secs(10);

/// The agent of this process.
#[derive(Default)]
pub struct TProfiler {
    /// Set in OnLoad, taken in VMInit; without it the agent stays off.
    options: Mutex<Option<Options>>,
}

impl Agent for TProfiler {
    fn on_load(&self, context: AgentLoadContext<'_>) -> jni::jint {
        say_panics_in_one_line();
        let text = context.options_lossy().unwrap_or_default().into_owned();
        let loaded = catch_unwind(AssertUnwindSafe(|| self.load(&context, &text)));
        let bad = match loaded {
            Ok(Ok(())) => return jni::JNI_OK,
            Ok(Err(bad)) => bad,
            Err(_) => {
                let message = "internal error".to_owned();
                BadOptions { message, strict: Options::asks_for_strict(&text) }
            }
        };
        let BadOptions { message, strict } = bad;
        if strict {
            message!("{message}; the JVM does not start, because of the option strict");
            return jni::JNI_ERR;
        }
        message!("{message}; profiling is off");
        jni::JNI_OK
    }

    fn on_attach(&self, context: AgentLoadContext<'_>) -> jni::jint {
        say_panics_in_one_line();
        let options = context.options_lossy().unwrap_or_default();
        let done =
            if options == presence::DETACH { detach(&context) } else { attach(&context, &options) };
        match done {
            Ok(()) => presence::OK,
            // The return code tells the client.
            Err((presence::NOT_ATTACHED, _)) => presence::NOT_ATTACHED,
            Err((code, error)) => {
                message!("{error}");
                code
            }
        }
    }

    fn vm_init(&self, context: CallbackContext<'_>, _event: ThreadEvent) {
        let options = self.options.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (Some(options), Some(jni)) = (options, context.jni()) else { return };
        match begin(options, Arrival::AtStart, context.jvmti(), jni) {
            Ok(started) => wait_until_begun(&started),
            Err(error) => message!("{error}; profiling is off"),
        }
    }

    fn vm_death(&self, _context: CallbackContext<'_>) {
        phase::set_ending();
        if let Some(running) = active::get()
            && let Err(error) = running.engine.ask(Request::Finish)
            // A detach may have come first, and written everything.
            && active::get().is_some()
        {
            message!("{error}; the last records may not be on disk");
        }
    }

    fn thread_end(&self, context: CallbackContext<'_>, event: ThreadEvent) {
        thread::end_current(|thread| {
            if let Some(jni) = context.jni() {
                let (jvmti, ending) = (context.jvmti(), event.thread());
                // SAFETY: the thread that ends is the calling one, and the reference is the event's.
                unsafe { java_threads::note_last_name(jvmti, jni, ending, thread) };
            }
        });
    }

    fn virtual_thread_end(&self, context: CallbackContext<'_>, event: ThreadEvent) {
        // SAFETY: the reference is the event's.
        let number =
            context.jni().and_then(|jni| unsafe { java_threads::number(jni, event.thread()) });
        if let (Some(jni), Some(number)) = (context.jni(), number) {
            mounts::end(number);
            mounted_lately::ended(jni, number);
            virtual_loops::ended(number);
            virtual_threads::stop_listening_to_ends(context.jvmti());
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
        if let (Some(running), Some(jni)) = (active::get(), context.jni())
            && let Some(bytes) =
                load_hook::rewrite(&running.load_hook, context.jvmti(), jni, &event)
        {
            // A class that the JVM does not take back stays as it is.
            let _ = event.set_transformed_class(&context, &bytes);
        }
    }

    fn callback_panicked(&self, event: &'static str) {
        probe::give_up();
        message!("internal error in {event}; profiling is off, the service goes on");
    }
}

impl TProfiler {
    /// Reads the options and asks the JVM for what is needed.
    ///
    /// # Errors
    /// What is wrong, and whether the JVM must not start because of it.
    fn load(&self, context: &AgentLoadContext<'_>, text: &str) -> Result<(), BadOptions> {
        let mut given = self.options.lock().unwrap_or_else(PoisonError::into_inner);
        if given.is_some() {
            message!("the agent was given twice; what was given first counts");
            return Ok(());
        }
        let options = read_options(text, Options::read)?;
        options.fault.panic_if(Fault::Load);
        prepare(context).map_err(|message| BadOptions { message, strict: options.strict })?;
        first_pause::set_over();
        options.tell_warnings();
        *given = Some(options);
        Ok(())
    }
}

/// Prints panics of the agent's threads like the agent's other messages.
fn say_panics_in_one_line() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|panic| {
            message!("internal error: {}", panic.to_string().replace('\n', " "));
        }));
    });
}

/// Reads options and checks the log folder; either may hang on a network.
fn read_options(
    text: &str,
    read: fn(&str) -> Result<Options, BadOptions>,
) -> Result<Options, BadOptions> {
    let owned = text.to_owned();
    let read = move || {
        let options = read(&owned)?;
        let checked = run_info::check_writable(&options.logs, options.log_group.as_deref());
        checked.map_err(|message| BadOptions { message, strict: options.strict })?;
        Ok(options)
    };
    within(FILES, read).unwrap_or_else(|| {
        let seconds = FILES.as_secs();
        let message =
            format!("config, token_file or logs: the disk gives no answer within {seconds} s");
        Err(BadOptions { message, strict: Options::asks_for_strict(text) })
    })
}

/// Waits until the application's first call will be counted, or until that takes too long.
fn wait_until_begun(Started { stages, claim }: &Started) {
    let mut deadline = Instant::now() + FILES;
    let mut is_prepared = false;
    loop {
        match stages.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Stage::Runs) => {}
            Ok(Stage::Prepared) => {
                (is_prepared, deadline) = (true, Instant::now() + INSTRUMENTED);
            }
            // The agent thread reports its own errors.
            Ok(Stage::Begun) | Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) if claim.take(Claimant::Waiter) => {
                return tell_late(FILES);
            }
            // The agent thread has become prepared just now.
            Err(RecvTimeoutError::Timeout) if !is_prepared => {
                (is_prepared, deadline) = (true, Instant::now() + INSTRUMENTED);
            }
            Err(RecvTimeoutError::Timeout) => {
                return message!(
                    "classes are still being instrumented; calls until then are not counted"
                );
            }
        }
    }
}

fn tell_late(limit: Duration) {
    let seconds = limit.as_secs();
    message!(
        "the agent is not ready within {seconds} s, the log folder may hang; profiling is off"
    );
}

/// What `Agent_OnAttach` returns, and why.
type Refusal = (jni::jint, String);

/// Asks the JVM for the capabilities and events that the agent needs. The environment and its capabilities are kept
/// as long as the JVM lives.
///
/// # Errors
/// One line: what the JVM refuses.
fn prepare(context: &AgentLoadContext<'_>) -> Result<(), String> {
    if java_threads::get_jvmti().is_some() {
        return Ok(());
    }
    let of = |e: jvmti::jvmtiError| format!("JVMTI error {e:?}");
    // Before the JVM runs anything, it gives an attached agent no JVMTI.
    let none = |e| format!("the JVM is not ready: no JVMTI (error {e})");
    let jvmti = context.vm().jvmti().map_err(none)?;
    let mut capabilities = jvmti::jvmtiCapabilities::default();
    capabilities.set_can_generate_all_class_hook_events(true);
    capabilities.set_can_retransform_classes(true);
    capabilities.set_can_retransform_any_class(true);
    capabilities.set_can_tag_objects(true);
    capabilities.set_can_generate_object_free_events(true);
    capabilities.set_can_get_bytecodes(true);
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

/// Starts the agent thread.
fn begin(
    options: Options,
    arrival: Arrival,
    jvmti: &Jvmti,
    jni: &JniEnv,
) -> Result<Started, String> {
    if !phase::begin() {
        return Err("agent already active in this JVM".to_owned());
    }
    agent_thread::start(jvmti, jni, options, arrival).inspect_err(|_| active::end())
}

/// How long it may take until the agent thread runs.
const THREAD_START: Duration = Duration::from_secs(10);
/// How long an attached agent may wait for the log folder, and for an earlier run's thread to stop.
const PREPARED: Duration = Duration::from_secs(30);

/// Begins a run in a running JVM. Natives can be bound only after this has returned to the JVM, so the agent thread
/// does the rest.
fn attach(context: &AgentLoadContext<'_>, options: &str) -> Result<(), Refusal> {
    let refused = |error: String| (presence::REFUSED, error);
    if probe::gave_up() {
        let error = "profiling is off for good in this JVM, after an internal error";
        return Err(refused(error.to_owned()));
    }
    if phase::is_active() {
        let error = "agent already active in this JVM; nothing was attached".to_owned();
        return Err((presence::ATTACHED_ALREADY, error));
    }
    let options = read_options(options, Options::read_attached)
        .map_err(|bad| (presence::WRONG_OPTIONS, bad.message))?;
    prepare(context).map_err(refused)?;
    options.tell_warnings();
    let (jvmti, jni) = environments(context)?;
    let started = begin(options, Arrival::Attached, &jvmti, &jni).map_err(refused)?;
    if started.stages.recv_timeout(THREAD_START).is_err() {
        started.claim.take(Claimant::Waiter);
        return Err(refused("the agent thread does not run".to_owned()));
    }
    let wait = move || {
        let prepared = started.stages.recv_timeout(PREPARED);
        if prepared == Err(RecvTimeoutError::Timeout) && started.claim.take(Claimant::Waiter) {
            tell_late(PREPARED);
        }
    };
    // If this thread cannot start, nothing reports that the log folder hangs.
    let _ = native_thread::spawn("tprofiler-wait", Priority::Normal, wait);
    Ok(())
}

/// The agent's JVMTI environment and the calling thread's JNI environment.
fn environments(context: &AgentLoadContext<'_>) -> Result<(Jvmti, JniEnv), Refusal> {
    let refused = |error: &str| (presence::REFUSED, error.to_owned());
    let jvmti = java_threads::get_jvmti().ok_or_else(|| refused("no JVMTI"))?;
    let vm = context.vm().raw();
    let mut env = std::ptr::null_mut();
    // SAFETY: the JVM handed over its own table. It writes the environment of this thread, which is a thread
    // of the JVM, to the variable.
    let jni = unsafe {
        let found = ((**vm).GetEnv)(vm, &raw mut env, jni::JNI_VERSION_1_6);
        (found == jni::JNI_OK && !env.is_null()).then(|| JniEnv::from_raw(env.cast()))
    };
    Ok((jvmti, jni.ok_or_else(|| refused("no JNI"))?))
}

/// Ends the run, or goes on to restore classes of the last one.
fn detach(context: &AgentLoadContext<'_>) -> Result<(), Refusal> {
    if let Some(running) = active::get() {
        let done = running.engine.ask(Request::Detach);
        let tell = |reply: Reply| {
            agent_thread::tell_postponed("classes left running", &reply.status.postponed);
        };
        return done.map(tell).map_err(|error| (presence::NOT_DETACHED, error));
    }
    let nothing = (presence::NOT_ATTACHED, "there is nothing to detach".to_owned());
    if phase::is_restoring() {
        return Ok(());
    }
    if phase::is_active() || Methods::all().with_probes().is_empty() {
        return Err(nothing);
    }
    let (jvmti, jni) = environments(context)?;
    if !phase::begin_restoring() {
        return Err(nothing);
    }
    agent_thread::start_restoring(&jvmti, &jni).map_err(|error| {
        phase::end_restoring();
        (presence::REFUSED, error)
    })
}
