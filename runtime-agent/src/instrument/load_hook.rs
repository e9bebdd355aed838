//! The load hook: instruments classes while the JVM loads them, if the gate is open.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::Instant;

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::{ClassFileLoadHookEvent, jni, jvmti};

use crate::instrument::class_hook::ClassHook;
use crate::instrument::{park_probes, statement_probes};
use crate::jvm::loaders::Loaders;
use crate::stderr::message;

/// What the load hook needs while a run is active.
pub(crate) struct LoadHook {
    pub classes: ClassHook,
    pub loaders: &'static Loaders,
    /// Whether classes are instrumented. The load hook holds it while it instruments one.
    gate: RwLock<bool>,
}

impl LoadHook {
    pub(crate) fn new(classes: ClassHook, loaders: &'static Loaders) -> Self {
        Self { classes, loaders, gate: RwLock::new(true) }
    }

    /// The right to instrument a class, for as long as it is held; `None` once the gate is closed.
    fn enter_gate(&self) -> Option<RwLockReadGuard<'_, bool>> {
        Some(self.gate.read().unwrap_or_else(PoisonError::into_inner)).filter(|is_open| **is_open)
    }

    /// Closes the gate. No thread is instrumenting a class any more when this returns.
    fn close_gate(&self) {
        *self.gate.write().unwrap_or_else(PoisonError::into_inner) = false;
    }
}

const HOOK: [jvmti::jvmtiEvent; 1] = [jvmti::JVMTI_EVENT_CLASS_FILE_LOAD_HOOK];

/// Opens the load hook.
pub(crate) fn open_hook(jvmti: &Jvmti) {
    if let Err(error) = jvmti.enable_events_global(&HOOK) {
        message!("no load hook ({error:?}); no class is instrumented");
    }
}

/// Closes the load hook. No thread is instrumenting a class any more when this returns.
pub(crate) fn close_hook(load_hook: &LoadHook, jvmti: &Jvmti) {
    load_hook.close_gate();
    if let Err(error) = jvmti.disable_events_global(&HOOK) {
        message!("the load hook stays open ({error:?}); it changes nothing any more");
    }
}

thread_local! {
    /// This thread is in the hook: classes that it loads meanwhile are the agent's.
    static IN_HOOK: Cell<bool> = const { Cell::new(false) };
    static PASSED: Cell<Passed> = const { Cell::new(Passed { classes: 0, last: None }) };
}

/// Loaded classes that the calling thread retransformed and that passed the hook since the last [`take_passed`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Passed {
    pub classes: usize,
    /// When the last one did. The JVM stops its threads after that, not before.
    pub last: Option<Instant>,
}

pub(super) fn take_passed() -> Passed {
    PASSED.take()
}

/// The bytes of a class with probes, or `None` if it stays as it is.
pub(crate) fn rewrite(
    load_hook: &LoadHook,
    jvmti: &Jvmti,
    jni: &JniEnv,
    event: &ClassFileLoadHookEvent<'_>,
) -> Option<Vec<u8>> {
    if IN_HOOK.replace(true) {
        return None;
    }
    let _left_at_the_end = LeaveHook { is_loaded: !event.class_being_redefined().is_null() };
    let _gate = load_hook.enter_gate()?;
    rewrite_class(load_hook, jvmti, jni, event)
}

/// Leaves the hook when dropped, after a panic too.
struct LeaveHook {
    is_loaded: bool,
}

impl Drop for LeaveHook {
    fn drop(&mut self) {
        IN_HOOK.set(false);
        if self.is_loaded {
            let Passed { classes, .. } = PASSED.get();
            PASSED.set(Passed { classes: classes + 1, last: Some(Instant::now()) });
        }
    }
}

fn rewrite_class(
    load_hook: &LoadHook,
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
    let with_probes = rewrite_calls(load_hook, (jvmti, jni), event, &name);
    if event.loader().is_null() || !statement_probes::may_have_methods(bytes) {
        return with_probes;
    }
    let before = with_probes.as_deref().unwrap_or(bytes);
    let with_all = rewrite_statements(load_hook, (jvmti, jni), event.loader(), &name, before);
    with_all.or(with_probes)
}

/// Inserts the probes of JDBC drivers, which the filters do not select, into a class of the application.
fn rewrite_statements(
    load_hook: &LoadHook,
    (jvmti, jni): (&Jvmti, &JniEnv),
    loader: jni::jobject,
    name: &str,
    bytes: &[u8],
) -> Option<Vec<u8>> {
    // SAFETY: the event's reference is good until the hook returns.
    let known = unsafe { load_hook.loaders.get(jvmti, jni, loader) };
    // SAFETY: as above.
    let is_application =
        unsafe { load_hook.loaders.is_application_class(jvmti, jni, loader, known.id, name) };
    if !is_application || load_hook.classes.excludes_loader(&known) {
        return None;
    }
    let mut skipped = |method, reason| load_hook.classes.count_skipped(method, reason);
    statement_probes::rewrite(jni, (known.id, name.to_owned()), bytes, &mut skipped)
}

/// Inserts the probes of calls into the methods that the filters select.
fn rewrite_calls(
    load_hook: &LoadHook,
    (jvmti, jni): (&Jvmti, &JniEnv),
    event: &ClassFileLoadHookEvent<'_>,
    name: &str,
) -> Option<Vec<u8>> {
    let (bytes, loader) = (event.class_data(), event.loader());
    let selected = load_hook.classes.selects(name);
    let is_included = selected.as_ref().is_some_and(|selected| selected.is_included);
    if name == park_probes::CLASS && loader.is_null() && !is_included {
        return park_probes::rewrite(bytes);
    }
    let selected = selected?;
    // SAFETY: the event's reference is good until the hook returns.
    let known = unsafe { load_hook.loaders.get(jvmti, jni, loader) };
    // SAFETY: as above.
    let is_application =
        || unsafe { load_hook.loaders.is_application_class(jvmti, jni, loader, known.id, name) };
    if !is_included && !is_application() {
        load_hook.classes.leave_out_jdk(name);
        return None;
    }
    load_hook.classes.rewrite(known, name, selected, bytes)
}
