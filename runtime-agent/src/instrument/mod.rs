//! Classes on their way into the JVM get probes; those that are loaded get them by retransformation, and lose them
//! by it.
//!
//! ```text
//! mod            the load hook, and which classes it is for
//! class_changes  loaded classes that are to pass the hook again, and when each may
//! activations    loops that run, by looks at stacks
//! ages           how long they have been running
//! virtual_loops  calls of virtual threads, by shadow stacks
//! stack_reader   stacks, with short pauses
//! batches        retransformation with short pauses
//! batch_size     how much fits into a short pause
//! first_pause    whether the first retransformation can be borne
//! vm_thread      how long the thread that does all that had to wait
//! restore        classes get their own bytes back
//! stale_classes  classes that did not get them, at the next attach
//! ```
#![allow(unsafe_code)]

mod activations;
mod ages;
mod batch_size;
mod batches;
pub(crate) mod class_changes;
pub(crate) mod class_hook;
pub(crate) mod class_log;
pub(crate) mod filters;
pub(crate) mod first_pause;
pub(crate) mod include_hints;
pub(crate) mod loaded_class;
pub(crate) mod methods;
pub(crate) mod muting;
pub(crate) mod restore;
mod stack_reader;
pub(crate) mod stale_classes;
pub(crate) mod virtual_loops;
mod vm_thread;

use std::cell::Cell;
use std::time::Instant;

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::{ClassFileLoadHookEvent, jni, jvmti};

use crate::message::message;
use crate::session::active::Running;

/// Whether loaded classes are retransformed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retransform {
    /// Yes, but for those in which a loop runs.
    #[default]
    On,
    /// No class is touched after it was loaded.
    Off,
    /// Yes, also those in which a loop runs.
    EvenRunning,
}

const HOOK: [jvmti::jvmtiEvent; 1] = [jvmti::JVMTI_EVENT_CLASS_FILE_LOAD_HOOK];

/// Opens the load hook.
pub(crate) fn open_hook(jvmti: &Jvmti) {
    if let Err(error) = jvmti.enable_events_global(&HOOK) {
        message!("no load hook ({error:?}); no class is instrumented");
    }
}

/// Closes the load hook. Nobody is in it any more when this returns.
pub(crate) fn close_hook(running: &Running, jvmti: &Jvmti) {
    running.close_gate();
    if let Err(error) = jvmti.disable_events_global(&HOOK) {
        message!("the load hook stays open ({error:?}); it changes nothing any more");
    }
}

/// The version of Java: 8, 11, 17.
fn java_major(jvmti: &Jvmti) -> jni::jint {
    jvmti.get_version_number().map_or(0, |version| version >> 16 & 0xfff)
}

/// The internal name of a loaded class; `None` for arrays and primitive types.
pub(crate) fn internal_name(jvmti: &Jvmti, class: jni::jclass) -> Option<String> {
    // SAFETY: a live reference of the calling thread.
    let (signature, _) = unsafe { jvmti.get_class_signature(class) }.ok()?;
    Some(signature.strip_prefix('L')?.strip_suffix(';')?.to_owned())
}

thread_local! {
    /// This thread is in the hook: what it loads meanwhile is ours.
    static IN_HOOK: Cell<bool> = const { Cell::new(false) };
    static PASSED: Cell<Passed> = const { Cell::new(Passed { classes: 0, last: None }) };
}

/// The loaded classes of the calling thread's retransformations that have passed the hook since this was asked last.
#[derive(Clone, Copy, Debug, Default)]
struct Passed {
    classes: usize,
    /// When the last one did. The JVM stops its threads after that, not before.
    last: Option<Instant>,
}

fn take_passed() -> Passed {
    PASSED.take()
}

/// The bytes of a class with probes, or `None` if it stays as it is.
pub(crate) fn rewrite(
    running: &Running,
    jvmti: &Jvmti,
    jni: &JniEnv,
    event: &ClassFileLoadHookEvent<'_>,
) -> Option<Vec<u8>> {
    if IN_HOOK.replace(true) {
        return None;
    }
    let _left_at_the_end = LeaveHook { is_loaded: !event.class_being_redefined().is_null() };
    let _gate = running.enter_gate()?;
    rewrite_class(running, jvmti, jni, event)
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
