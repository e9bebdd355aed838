//! The JVM's calls to the agent.
//!
//! ```text
//! Agent_OnLoad    read the options, ask for capabilities and events
//! VMInit          start the agent thread, wait until it has begun
//! Agent_OnAttach  both at once, without waiting; or detach, if the options say so;
//!                 called by `java_agent`, both at once, waiting
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
use std::thread::sleep;
use std::time::{Duration, Instant};

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::{
    Agent, AgentLoadContext, CallbackContext, ClassEvent, ClassFileLoadHookEvent, MonitorEvent,
    ObjectAllocationEvent, ObjectFreeEvent, ThreadEvent, jni, jvmti,
};

use crate::allocations;
use crate::attach_protocol;
use crate::error::{Error, JvmError};
use crate::hotspot::{method_names, thread_list};
use crate::instrument::first_pause;
use crate::instrument::load_hook;
use crate::instrument::methods::Methods;
use crate::instrument::statement_probes;
use crate::instrument::virtual_loops;
use crate::jvm::class_names;
use crate::jvm::java_threads;
use crate::jvm::loaders;
use crate::jvm::native_binding::Binder;
use crate::jvm::recent_mounts;
use crate::jvm::virtual_threads;
use crate::locks;
use crate::options::{BadOptions, Fault, Options};
use crate::phase;
use crate::probe;
use crate::probe::mounts;
use crate::probe::thread::{self, OwnThread};
use crate::request::{Reply, Request};
use crate::sampling::{debug_info, threads};
use crate::session::active;
use crate::session::agent_thread;
use crate::session::claim::{Arrival, Claimant, Stage, Started};
use crate::session::java_call::JavaCall;
use crate::session::run_info;
use crate::statements;
use crate::stderr::message;
use crate::sys::native_thread::{self, Priority, within};

/// How long the JVM's start waits for files of options and for the log folder.
const FILES: Duration = Duration::from_secs(2);
/// How long it then waits for loaded classes to be instrumented.
const INSTRUMENTED: Duration = Duration::from_secs(10);
/// How often a waiting thread looks for other work.
const MEANWHILE: Duration = Duration::from_millis(2);

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
                let error = Error::State("internal error");
                BadOptions { error, strict: Options::asks_for_strict(&text) }
            }
        };
        if bad.strict {
            message!("{bad}; the JVM does not start, because of the option strict");
            return jni::JNI_ERR;
        }
        message!("{bad}; profiling is off");
        jni::JNI_OK
    }

    fn on_attach(&self, context: AgentLoadContext<'_>) -> jni::jint {
        say_panics_in_one_line();
        let options = context.options_lossy().unwrap_or_default();
        // An agent of the command line has the JVM, from before it begins.
        let is_given = self.options.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if let Some(call) = JavaCall::of(context.reserved()) {
            return start_for(call, &context, &options, is_given);
        }
        let done = if options == attach_protocol::DETACH {
            detach(&context)
        } else {
            attach(&context, &options, is_given)
        };
        match done {
            Ok(()) => attach_protocol::OK,
            // The return code tells the client.
            Err((attach_protocol::NOT_ATTACHED, _)) => attach_protocol::NOT_ATTACHED,
            Err((code, error)) => {
                message!("{error}");
                code
            }
        }
    }

    fn vm_init(&self, context: CallbackContext<'_>, _event: ThreadEvent) {
        let mut given = self.options.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(options), Some(jni)) = (given.take(), context.jni()) else { return };
        let begun = begin(options, Arrival::AtStart, context.jvmti(), jni);
        // From here on, an attach sees the run.
        drop(given);
        match begun {
            Ok(started) => {
                wait_until_begun(&started, FILES, None);
            }
            Err(error) => message!("{error}; profiling is off"),
        }
    }

    fn vm_death(&self, _context: CallbackContext<'_>) {
        phase::set_ending();
        if let Some(running) = active::get()
            && let Err(error) = running.agent.ask(Request::Finish)
            // A detach may have come first, and written everything.
            && active::get().is_some()
        {
            message!("{error}; the last records may not be on disk");
        }
    }

    fn thread_start(&self, context: CallbackContext<'_>, event: ThreadEvent) {
        if let Some(jni) = context.jni() {
            // SAFETY: the thread that starts is the calling one, and the reference is the event's.
            unsafe { threads::started(context.jvmti(), jni, event.thread()) };
        }
    }

    fn class_prepare(&self, context: CallbackContext<'_>, event: ClassEvent) {
        if let Some(jni) = context.jni() {
            // SAFETY: the reference is the event's.
            unsafe {
                method_names::prepared(context.jvmti(), jni, event.class());
                statement_probes::prepared(context.jvmti(), jni, event.class());
            }
        }
    }

    fn thread_end(&self, context: CallbackContext<'_>, event: ThreadEvent) {
        threads::ended();
        if let Some(jni) = context.jni() {
            statements::thread_ended(jni);
        }
        let note_name = |own: OwnThread<'_>| {
            if let Some(jni) = context.jni() {
                // With -Xcheck:jni, the JVM would complain that native code detaches without having asked.
                let _ = jni.exception_check();
                let (jvmti, ending) = (context.jvmti(), event.thread());
                // SAFETY: the thread that ends is the calling one, and the reference is the event's.
                unsafe { java_threads::note_last_name(jvmti, jni, ending, own) };
            }
        };
        // SAFETY: closures of `with_current` run no Java code, so this event is in none.
        unsafe { thread::end_current(note_name) };
    }

    fn virtual_thread_end(&self, context: CallbackContext<'_>, event: ThreadEvent) {
        // SAFETY: the reference is the event's.
        let number =
            context.jni().and_then(|jni| unsafe { java_threads::number(jni, event.thread()) });
        if let (Some(jni), Some(number)) = (context.jni(), number) {
            mounts::end(number);
            recent_mounts::ended(jni, number);
            virtual_loops::ended(number);
            virtual_threads::stop_listening_to_ends(
                context.jvmti(),
                virtual_loops::are_any_remembered,
            );
        }
    }

    fn monitor_contended_enter(&self, context: CallbackContext<'_>, event: MonitorEvent) {
        if let Some(jni) = context.jni() {
            let java_thread = thread_list::java_thread_of(jni);
            // SAFETY: the references are the event's.
            unsafe {
                locks::enter(context.jvmti(), jni, java_thread, event.thread(), event.object());
            }
        }
    }

    fn monitor_contended_entered(&self, context: CallbackContext<'_>, event: MonitorEvent) {
        if let Some(jni) = context.jni() {
            let java_thread = thread_list::java_thread_of(jni);
            // SAFETY: the reference is the event's.
            unsafe { locks::entered(jni, java_thread, event.thread()) };
        }
    }

    fn sampled_object_alloc(&self, context: CallbackContext<'_>, event: ObjectAllocationEvent) {
        if let (Some(jni), Ok(size)) = (context.jni(), u64::try_from(event.size())) {
            let java_thread = thread_list::java_thread_of(jni);
            let (thread, class) = (event.thread(), event.class());
            // SAFETY: the references are the event's.
            unsafe { allocations::sampled(context.jvmti(), jni, java_thread, thread, class, size) };
        }
    }

    fn object_free(&self, _context: CallbackContext<'_>, event: ObjectFreeEvent) {
        if !class_names::is_class_tag(event.tag()) {
            loaders::object_freed(event.tag());
        }
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
        options.tests.fault.panic_if(Fault::Load);
        let prepared = prepare(context);
        prepared.map_err(|e| BadOptions { error: e.into(), strict: options.strict })?;
        first_pause::set_over();
        options.tell_warnings();
        if options.sampling.cpu.is_some() {
            debug_info::want_from_the_start();
        }
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
        let checked = run_info::check_writable(&options.log);
        checked.map_err(|error| BadOptions { error, strict: options.strict })?;
        Ok(options)
    };
    within(FILES, read).unwrap_or_else(|| {
        let error = Error::DiskHangs(FILES.as_secs());
        Err(BadOptions { error, strict: Options::asks_for_strict(text) })
    })
}

/// Waits until the application's first call will be counted, or until that takes too long: longer than `files`, or than
/// it takes to instrument classes. Calls `meanwhile`, if any, every few milliseconds. `false` if the agent stays off.
fn wait_until_begun(
    Started { stages, claim }: &Started,
    files: Duration,
    meanwhile: Option<&dyn Fn()>,
) -> bool {
    let mut deadline = Instant::now() + files;
    let mut is_prepared = false;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match stages.recv_timeout(meanwhile.map_or(left, |_| left.min(MEANWHILE))) {
            Ok(Stage::Runs) => {}
            Ok(Stage::Prepared) => {
                (is_prepared, deadline) = (true, Instant::now() + INSTRUMENTED);
            }
            Ok(Stage::Begun) => return true,
            // The agent thread reports its own errors.
            Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {
                if let Some(meanwhile) = meanwhile {
                    meanwhile();
                }
            }
            Err(RecvTimeoutError::Timeout) if claim.take(Claimant::Waiter) => {
                tell_late(files);
                return false;
            }
            // The agent thread has become prepared just now.
            Err(RecvTimeoutError::Timeout) if !is_prepared => {
                (is_prepared, deadline) = (true, Instant::now() + INSTRUMENTED);
            }
            Err(RecvTimeoutError::Timeout) => {
                message!("classes are still being instrumented; calls until then are not counted");
                return true;
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
type Refusal = (jni::jint, Error);

/// Asks the JVM for the capabilities and events that the agent needs. The environment and its capabilities are kept
/// as long as the JVM lives.
///
/// # Errors
/// The JVM refuses one.
fn prepare(context: &AgentLoadContext<'_>) -> Result<(), JvmError> {
    if java_threads::get_jvmti().is_some() {
        return Ok(());
    }
    let jvmti = started_jvmti(context)?;
    let mut capabilities = jvmti::jvmtiCapabilities::default();
    capabilities.set_can_generate_all_class_hook_events(true);
    capabilities.set_can_retransform_classes(true);
    capabilities.set_can_retransform_any_class(true);
    capabilities.set_can_tag_objects(true);
    capabilities.set_can_generate_object_free_events(true);
    capabilities.set_can_get_bytecodes(true);
    let all = jvmti.get_potential_capabilities().unwrap_or_default();
    capabilities.set_can_generate_monitor_events(all.can_generate_monitor_events());
    capabilities.set_can_get_current_contended_monitor(all.can_get_current_contended_monitor());
    capabilities.set_can_get_monitor_info(all.can_get_monitor_info());
    capabilities.set_can_get_source_file_name(all.can_get_source_file_name());
    // From JDK 21 on.
    capabilities.set_can_support_virtual_threads(all.can_support_virtual_threads());
    jvmti.add_capabilities(&capabilities)?;
    jvmti.set_default_agent_callbacks()?;
    jvmti.enable_events_global(&[
        jvmti::JVMTI_EVENT_VM_INIT,
        jvmti::JVMTI_EVENT_VM_DEATH,
        jvmti::JVMTI_EVENT_THREAD_END,
    ])?;
    java_threads::set_jvmti(jvmti.raw());
    Ok(())
}

/// How long an agent that is attached to a JVM in its start waits.
const STARTED: Duration = Duration::from_secs(5);

/// The JVM's JVMTI. Between the parts of its start, it gives an attached agent none.
fn started_jvmti(context: &AgentLoadContext<'_>) -> Result<Jvmti, JvmError> {
    let deadline = Instant::now() + STARTED;
    loop {
        match context.vm().jvmti() {
            Err(jni::JNI_EDETACHED) if Instant::now() < deadline => sleep(MEANWHILE),
            found => return found.map_err(JvmError::NotReady),
        }
    }
}

/// Starts the agent thread.
fn begin(
    options: Options,
    arrival: Arrival,
    jvmti: &Jvmti,
    jni: &JniEnv,
) -> Result<Started, Error> {
    if !phase::begin() {
        return Err(Error::State("agent already active in this JVM"));
    }
    Ok(agent_thread::start(jvmti, jni, options, arrival).inspect_err(|_| active::end())?)
}

/// How long it may take until the agent thread runs.
const THREAD_START: Duration = Duration::from_secs(10);
/// How long an attached agent may wait for the log folder, and for an earlier run's thread to stop.
const PREPARED: Duration = Duration::from_secs(30);

/// Begins a run in a running JVM. Natives can be bound only after this has returned to the JVM, so the agent thread
/// does the rest.
fn attach(context: &AgentLoadContext<'_>, options: &str, is_given: bool) -> Result<(), Refusal> {
    can_attach(is_given)?;
    let options = read_options(options, Options::read_attached)
        .map_err(|bad| (attach_protocol::WRONG_OPTIONS, bad.error))?;
    let (started, _) = begin_attached(context, options, Arrival::Attached)?;
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

/// Whether a run can begin in a running JVM; `is_given` if that of the command line is about to begin.
fn can_attach(is_given: bool) -> Result<(), Refusal> {
    if probe::gave_up() {
        let error = "profiling is off for good in this JVM, after an internal error";
        return Err((attach_protocol::REFUSED, Error::State(error)));
    }
    if is_given || phase::is_active() {
        let error = "agent already active in this JVM; nothing was attached";
        return Err((attach_protocol::ATTACHED_ALREADY, Error::State(error)));
    }
    Ok(())
}

/// Begins a run in a running JVM, and waits until the agent thread runs.
fn begin_attached(
    context: &AgentLoadContext<'_>,
    options: Options,
    arrival: Arrival,
) -> Result<(Started, JniEnv), Refusal> {
    let refused = |error: Error| (attach_protocol::REFUSED, error);
    prepare(context).map_err(|error| refused(error.into()))?;
    options.tell_warnings();
    let (jvmti, jni) = environments(context)?;
    let started = begin(options, arrival, &jvmti, &jni).map_err(refused)?;
    if started.stages.recv_timeout(THREAD_START).is_err() {
        started.claim.take(Claimant::Waiter);
        return Err(refused(Error::State("the agent thread does not run")));
    }
    Ok((started, jni))
}

/// Begins a run for a Java program, and waits until recording is on.
fn start_for(
    call: JavaCall,
    context: &AgentLoadContext<'_>,
    options: &str,
    is_given: bool,
) -> jni::jint {
    if let Err((code, error)) = can_attach(is_given) {
        message!("{error}");
        return code;
    }
    let refuse = |(code, error): Refusal| {
        message!("{error}; profiling is off");
        code
    };
    let options = match read_options(options, Options::read) {
        Ok(options) => options,
        Err(bad) if bad.strict && call == JavaCall::Premain => {
            message!("{bad}; the JVM does not start, because of the option strict");
            return attach_protocol::STRICT;
        }
        Err(bad) => return refuse((attach_protocol::WRONG_OPTIONS, bad.error)),
    };
    if options.sampling.cpu.is_some() {
        debug_info::want_from_the_start();
    }
    // A thread of an earlier run may still be restoring classes.
    let limit = if call == JavaCall::Premain { FILES } else { PREPARED };
    let binder = Binder::new();
    match begin_attached(context, options, Arrival::Called) {
        Ok((started, jni)) => {
            match wait_until_begun(&started, limit, Some(&|| binder.bind(&jni))) {
                true => attach_protocol::OK,
                false => attach_protocol::REFUSED,
            }
        }
        Err(refusal) => refuse(refusal),
    }
}

/// The agent's JVMTI environment and the calling thread's JNI environment.
fn environments(context: &AgentLoadContext<'_>) -> Result<(Jvmti, JniEnv), Refusal> {
    let missing = |what| (attach_protocol::REFUSED, JvmError::Missing(what).into());
    let jvmti = java_threads::get_jvmti().ok_or_else(|| missing("no JVMTI"))?;
    let vm = context.vm().raw();
    let mut env = std::ptr::null_mut();
    // SAFETY: the JVM handed over its own table. It writes the environment of this thread, which is a thread
    // of the JVM, to the variable.
    let jni = unsafe {
        let found = ((**vm).GetEnv)(vm, &raw mut env, jni::JNI_VERSION_1_6);
        (found == jni::JNI_OK && !env.is_null()).then(|| JniEnv::from_raw(env.cast()))
    };
    Ok((jvmti, jni.ok_or_else(|| missing("no JNI"))?))
}

/// How long a detach keeps the JVM's thread for such requests.
const ANSWERED: Duration = Duration::from_secs(1);

/// Ends the run, or goes on to restore classes of the last one.
fn detach(context: &AgentLoadContext<'_>) -> Result<(), Refusal> {
    if let Some(running) = active::get() {
        let tell = |reply: Reply| {
            let postponed = &reply.status.loaded_classes.postponed;
            agent_thread::tell_postponed("classes left running", postponed);
        };
        // The JVM answers no other tool meanwhile. What takes longer goes on, and the client waits for its end.
        let done = within(ANSWERED, move || running.agent.ask(Request::Detach).map(tell));
        return done.unwrap_or(Ok(())).map_err(|error| (attach_protocol::NOT_DETACHED, error));
    }
    let nothing = (attach_protocol::NOT_ATTACHED, Error::State("there is nothing to detach"));
    if phase::is_restoring() {
        return Ok(());
    }
    if phase::is_active() || !Methods::all().have_probes() {
        return Err(nothing);
    }
    let (jvmti, jni) = environments(context)?;
    if !phase::begin_restoring() {
        return Err(nothing);
    }
    agent_thread::start_restoring(&jvmti, &jni).map_err(|error| {
        phase::end_restoring();
        (attach_protocol::REFUSED, error.into())
    })
}
