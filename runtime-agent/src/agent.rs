//! The life of the agent in a JVM.
//!
//! ```text
//! Agent_OnLoad   read the options, ask for capabilities and events
//! VMInit         define and bind the probe class, make the run's folder, start the engine's
//!                thread, open the load hook, retransform what was loaded before, begin recording
//! VMDeath        end recording, write everything
//! ```
//! The load hook is opened in VMInit and not before: a hook in an earlier phase costs the JVM its
//! archives of preloaded classes.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::{
    Agent, AgentLoadContext, CallbackContext, ClassFileLoadHookEvent, ThreadEvent, jni, jvmti,
};
use log_format::units;

use crate::class_hook::{ClassCounts, ClassHook};
use crate::class_log::ClassLog;
use crate::control::Control;
use crate::engine::{Engine, Handle, Request, Requests};
use crate::java_threads;
use crate::loaders::Loaders;
use crate::message::message;
use crate::methods::Methods;
use crate::options::Options;
use crate::probe::mounts;
use crate::probe::thread::{self, ProbeThread, ThreadName};
use crate::probe_class::ProbeClass;
use crate::recorder::{JavaThreads, Recorder};
use crate::retention::Limits;
use crate::run_log::RunLog;
use crate::schedule::Schedule;
use crate::why_empty::WhyEmpty;
use crate::{clock, probe, run_info, virtual_threads};

/// The agent of this process.
#[derive(Default)]
pub struct TProfiler {
    /// Set in OnLoad; without it the agent stays off.
    options: OnceLock<Options>,
    /// Set in VMInit.
    running: OnceLock<Running>,
}

/// What callbacks need once the agent runs.
struct Running {
    hook: ClassHook,
    loaders: Loaders,
    engine: Handle,
}

/// What the engine's thread is handed when it starts.
struct EngineStart {
    probe_class: ProbeClass,
    log: RunLog,
    methods: Arc<Methods>,
    class_counts: Arc<ClassCounts>,
    threshold_ns: u64,
    hour_bytes: Option<u64>,
    requests: Requests,
    why_empty: Arc<WhyEmpty>,
    schedule: Schedule,
}

impl Agent for TProfiler {
    fn on_load(&self, context: AgentLoadContext<'_>) -> jni::jint {
        if self.options.get().is_some() {
            message!("the agent was given twice; what was given first counts");
            return jni::JNI_OK;
        }
        let options = context.options_lossy().unwrap_or_default();
        let (error, strict) = match Options::read(&options) {
            Ok(options) => match prepare(&context, &options) {
                Ok(()) => {
                    for warning in &options.warnings {
                        message!("{warning}");
                    }
                    let _ = self.options.set(options);
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

    fn on_attach(&self, _context: AgentLoadContext<'_>) -> jni::jint {
        message!("this agent is loaded at the JVM's start, with -agentpath; it cannot be attached");
        jni::JNI_ERR
    }

    fn vm_init(&self, context: CallbackContext<'_>, _event: ThreadEvent) {
        let (Some(options), Some(jni)) = (self.options.get(), context.jni()) else { return };
        match start(options, &context, jni) {
            Ok((running, control)) => {
                let running = self.running.get_or_init(|| running);
                instrument(running, &context, jni);
                if options.start
                    && Schedule::new(options.plan).wanted()
                    && let Err(error) = running.engine.ask(Request::Start)
                {
                    message!("{error}; profiling is off");
                }
                // Whoever connected meanwhile is answered when there is something to say.
                if let Some(control) = control {
                    control.serve(running.engine.clone());
                }
            }
            Err(error) => message!("{error}; profiling is off"),
        }
    }

    fn vm_death(&self, _context: CallbackContext<'_>) {
        if let Some(running) = self.running.get()
            && let Err(error) = running.engine.ask(Request::Finish)
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

    fn class_file_load_hook<'callback>(
        &self,
        context: CallbackContext<'callback>,
        mut event: ClassFileLoadHookEvent<'callback>,
    ) {
        if let (Some(running), Some(jni)) = (self.running.get(), context.jni())
            && let Some(bytes) = rewrite(running, context.jvmti(), jni, &event)
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

/// Checks the log folder and asks the JVM for what is needed.
fn prepare(context: &AgentLoadContext<'_>, options: &Options) -> Result<(), String> {
    run_info::check_writable(&options.logs)?;
    let of = |e: jvmti::jvmtiError| format!("JVMTI error {e:?}");
    let jvmti = context.vm().jvmti().map_err(|e| format!("no JVMTI (error {e})"))?;
    let mut capabilities = jvmti::jvmtiCapabilities::default();
    capabilities.set_can_generate_all_class_hook_events(true);
    capabilities.set_can_retransform_classes(true);
    capabilities.set_can_retransform_any_class(true);
    capabilities.set_can_tag_objects(true);
    // From JDK 21 on.
    let has_virtual_threads =
        jvmti.get_potential_capabilities().is_ok_and(|all| all.can_support_virtual_threads());
    capabilities.set_can_support_virtual_threads(has_virtual_threads);
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
    if has_virtual_threads {
        virtual_threads::listen(&jvmti);
    }
    Ok(())
}

/// Brings up everything but the load hook, and takes the control port.
fn start(
    options: &Options,
    context: &CallbackContext<'_>,
    jni: &JniEnv,
) -> Result<(Running, Option<Control>), String> {
    let jvmti = context.jvmti();
    clock::init();
    let probe_class = ProbeClass::define(jni)?;
    let limits = Limits { max_bytes: options.run_bytes, keep: options.keep };
    let run = run_info::describe(jvmti, options);
    let mut log = RunLog::create(&options.logs, &run, options.compress, limits)?;
    let (engine, requests) = Handle::new();
    let control = options.port.and_then(Control::bind);
    log.set_port(control.as_ref().map(Control::port))?;
    let methods = Arc::new(Methods::default());
    let class_counts = Arc::new(ClassCounts::default());
    let why_empty = Arc::new(WhyEmpty::new(&options.filters));
    let class_log = options.debug_classes.then(|| ClassLog::create(log.folder())).flatten();
    let threshold_ns = units::as_ns(options.threshold);
    for (pattern, threshold) in &options.thresholds {
        methods.set_threshold(pattern.clone(), units::as_ns(*threshold))?;
    }
    start_engine_thread(
        jvmti,
        jni,
        EngineStart {
            probe_class,
            log,
            methods: methods.clone(),
            class_counts: class_counts.clone(),
            threshold_ns,
            // The hour that is written to is never deleted.
            hour_bytes: [options.hour_bytes, options.run_bytes].into_iter().flatten().min(),
            requests,
            why_empty: why_empty.clone(),
            schedule: Schedule::new(options.plan),
        },
    )?;
    let hook = ClassHook::new(options.filters.clone(), methods, class_counts, why_empty, class_log);
    Ok((Running { hook, loaders: Loaders::new(), engine }, control))
}

/// Where the engine's thread finds what it is to work with.
static ENGINE_START: Mutex<Option<EngineStart>> = Mutex::new(None);

fn start_engine_thread(jvmti: &Jvmti, jni: &JniEnv, start: EngineStart) -> Result<(), String> {
    *ENGINE_START.lock().unwrap_or_else(PoisonError::into_inner) = Some(start);
    let refused = || {
        jni.exception_clear();
        "the JVM refuses a thread".to_owned()
    };
    let group = jvmti.get_top_thread_groups().ok().and_then(|groups| groups.first().copied());
    let current = jvmti.get_current_thread().map_err(|e| format!("no current thread ({e:?})"))?;
    // SAFETY: all references are of this thread and live; the constructor's parameters are these.
    unsafe {
        // The thread of VMInit is a plain one. To look the class up by name would ask the
        // application's class loader.
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
            .run_agent_thread(
                thread,
                run_engine,
                std::ptr::null(),
                jvmti::JVMTI_THREAD_NORM_PRIORITY,
            )
            .map_err(|e| format!("the JVM refuses a thread ({e:?})"))
    }
}

/// The engine's thread.
unsafe extern "system" fn run_engine(
    jvmti: *mut jvmti::jvmtiEnv,
    jni: *mut jni::JNIEnv,
    _: *mut c_void,
) {
    let start = ENGINE_START.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(start) = start else { return };
    // SAFETY: the JVM hands this thread its environments, and they live as long as the thread.
    let (jvmti, jni) = unsafe { (Jvmti::from_raw(jvmti), JniEnv::from_raw(jni)) };
    // SAFETY: as above, for the recorder, which never leaves this thread.
    let java = unsafe {
        JavaNames { jvmti: Jvmti::from_raw(jvmti.raw()), jni: JniEnv::from_raw(jni.raw()) }
    };
    let recorder = Recorder::new(
        start.log,
        start.methods,
        start.class_counts.clone(),
        start.threshold_ns,
        start.hour_bytes,
        Box::new(java),
    );
    let mut engine = Engine {
        jni: &jni,
        probe_class: start.probe_class,
        recorder,
        class_counts: start.class_counts,
        since_ns: clock::unix_ns(),
        is_open: false,
        schedule: start.schedule,
        why_empty: start.why_empty,
    };
    if catch_unwind(AssertUnwindSafe(|| engine.run(&start.requests))).is_err() {
        engine.give_up();
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

/// As many as HotSpot allows to be asked for.
const MANY_REFERENCES: jni::jint = 65_536;

/// Opens the load hook and sends the classes that were loaded before through it.
fn instrument(running: &Running, context: &CallbackContext<'_>, jni: &JniEnv) {
    let jvmti = context.jvmti();
    let hook = [jvmti::JVMTI_EVENT_CLASS_FILE_LOAD_HOOK];
    if let Err(error) = jvmti.enable_events_global(&hook) {
        message!("no load hook ({error:?}); no class gets probes");
        return;
    }
    // Thousands of local references at once.
    let _frame = jni.push_local_frame(MANY_REFERENCES);
    let Ok(classes) = jvmti.get_loaded_classes() else { return };
    for class in classes {
        // SAFETY: a live reference of this thread until it is deleted; arrays and primitive types
        // have signatures that no pattern matches.
        unsafe {
            if is_selected(running, jvmti, jni, class)
                && jvmti.is_modifiable_class(class).unwrap_or(false)
                && let Err(error) = jvmti.retransform_classes(&[class])
            {
                let name = jvmti.get_class_signature(class).map_or_else(|_| String::new(), |s| s.0);
                message!("{name} was loaded before and stays without probes ({error:?})");
            }
            jni.delete_local_ref(class);
        }
    }
}

/// Whether a loaded class is to be sent through the hook.
///
/// # Safety
/// `class` is a live reference of this thread.
unsafe fn is_selected(running: &Running, jvmti: &Jvmti, jni: &JniEnv, class: jni::jclass) -> bool {
    // SAFETY: the caller's promise.
    let Ok((signature, _)) = (unsafe { jvmti.get_class_signature(class) }) else { return false };
    let Some(name) = signature.strip_prefix('L').and_then(|s| s.strip_suffix(';')) else {
        return false;
    };
    let Some(selection) = running.hook.selects(name) else { return false };
    // SAFETY: the caller's promise; the loader is given back.
    unsafe {
        let Ok(loader) = jvmti.get_class_loader(class) else { return false };
        let known = running.loaders.get(jvmti, jni, loader);
        let selected = selection.is_included
            || running.loaders.is_application_class(jvmti, jni, loader, known.number, name);
        if !loader.is_null() {
            jni.delete_local_ref(loader);
        }
        if !selected {
            running.hook.leave_out_jdk(name);
        }
        selected
    }
}

thread_local! {
    /// This thread is in the hook: what it loads meanwhile is ours.
    static IN_HOOK: Cell<bool> = const { Cell::new(false) };
}

/// The bytes of a class with probes, or `None` if it stays as it is.
fn rewrite(
    running: &Running,
    jvmti: &Jvmti,
    jni: &JniEnv,
    event: &ClassFileLoadHookEvent<'_>,
) -> Option<Vec<u8>> {
    if IN_HOOK.replace(true) {
        return None;
    }
    let _left_at_the_end = LeaveHook;
    rewrite_class(running, jvmti, jni, event)
}

/// Leaves the hook when dropped, after a panic too.
struct LeaveHook;

impl Drop for LeaveHook {
    fn drop(&mut self) {
        IN_HOOK.set(false);
    }
}

fn rewrite_class(
    running: &Running,
    jvmti: &Jvmti,
    jni: &JniEnv,
    event: &ClassFileLoadHookEvent<'_>,
) -> Option<Vec<u8>> {
    let bytes = event.class_data();
    let name = match event.name_str() {
        Ok(Some(name)) => name,
        // A loader may define a class without saying its name.
        _ => rewriter::class_name(bytes).ok()?.to_str(),
    };
    let selected = running.hook.selects(&name)?;
    let loader = event.loader();
    // SAFETY: the event's reference is good until the hook returns.
    let known = unsafe { running.loaders.get(jvmti, jni, loader) };
    // SAFETY: as above.
    let is_application =
        || unsafe { running.loaders.is_application_class(jvmti, jni, loader, known.number, &name) };
    if !selected.is_included && !is_application() {
        running.hook.leave_out_jdk(&name);
        return None;
    }
    running.hook.rewrite(known, &name, selected, bytes)
}
