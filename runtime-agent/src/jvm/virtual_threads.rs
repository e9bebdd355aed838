//! The JVM's events for mounted and unmounted virtual threads (JDK 21 and newer).
//!
//! JVMTI has no such events; HotSpot has them as extensions. If they are missing, calls in virtual threads are not
//! recorded, and a message says so; see `probe::mount_events`.
#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::{jni, jvmti};

use log_format::ids::JavaThreadId;

use crate::error::JvmError;
use crate::jvm::{java_threads, recent_mounts};
use crate::options::{Pretend, Trick};
use crate::probe;
use crate::probe::mounts::{self, Events};
use crate::stderr::message;

/// A callback of HotSpot: it has these parameters, though its declared type is variadic.
type Callback = unsafe extern "C" fn(*mut jvmti::jvmtiEnv, *mut jni::JNIEnv, jni::jthread);

const EVENTS: [(&str, Callback); 2] = [
    ("com.sun.hotspot.events.VirtualThreadMount", mounted),
    ("com.sun.hotspot.events.VirtualThreadUnmount", unmounted),
];

/// Whether a run is active and wants the events.
static ARE_WANTED: AtomicBool = AtomicBool::new(false);

/// Test only: whether events are ignored.
static ARE_IGNORED: AtomicBool = AtomicBool::new(false);

/// Enables the events, if the JVM has virtual threads that are mounted. `came_late` if some may already run.
pub(crate) fn listen(jvmti: &Jvmti, came_late: bool, pretend: &Pretend) {
    if !jvmti.get_capabilities().is_ok_and(|all| all.can_support_virtual_threads()) {
        return mounts::begin(Events::NotNeeded, came_late);
    }
    ARE_IGNORED.store(pretend.fails(Trick::MountEvents), Ordering::Relaxed);
    mounts::begin(Events::Unknown, came_late);
    ARE_WANTED.store(true, Ordering::SeqCst);
    for (id, callback) in EVENTS {
        let listened = match pretend.fails(Trick::MountExtension) {
            true => Err(JvmError::Missing("debug=fails:mount-extension")),
            false => listen_to(jvmti, id, callback),
        };
        if let Err(error) = listened {
            message!("{NOT_MEASURED}: no {id} ({error})");
            // One without the other is useless.
            stop_listening(jvmti);
            mounts::begin(Events::Missing, came_late);
            return;
        }
    }
    if let Err(error) = jvmti.enable_events_global(&[jvmti::JVMTI_EVENT_VIRTUAL_THREAD_END]) {
        message!("memory of virtual threads that end may be kept: {error:?}");
    }
}

const NOT_MEASURED: &str = "calls in virtual threads are not measured, and are counted as lost";

/// Says once if enabled events do not arrive. Agent thread only.
pub(crate) fn tell_if_missing(was_reported: &mut bool) {
    if !*was_reported && mounts::events() == Events::Missing {
        *was_reported = true;
        message!("{NOT_MEASURED}: the JVM does not say when they run");
    }
}

/// Whether the events are enabled.
pub(crate) fn is_listening() -> bool {
    ARE_WANTED.load(Ordering::Relaxed)
}

/// Disables the events for mounts, if they exist.
pub(crate) fn stop_listening(jvmti: &Jvmti) {
    for (id, _) in EVENTS {
        // A JVM without the event sends none.
        if let Ok(index) = index_of(jvmti, id)
            && let Err(error) = notify(jvmti, index, false)
        {
            message!("{id} is still listened to ({error})");
        }
    }
    ARE_WANTED.store(false, Ordering::Relaxed);
}

/// Disables the events for ends of virtual threads, unless a run is active or calls of such threads are remembered, by
/// which loops are found.
pub(crate) fn stop_listening_to_ends(jvmti: &Jvmti, are_remembered: impl FnOnce() -> bool) {
    if !ARE_WANTED.load(Ordering::Relaxed) && !are_remembered() {
        // Older JVMs do not have it either.
        let _ = jvmti.disable_events_global(&[jvmti::JVMTI_EVENT_VIRTUAL_THREAD_END]);
        // A run may have begun meanwhile.
        if ARE_WANTED.load(Ordering::SeqCst) {
            let _ = jvmti.enable_events_global(&[jvmti::JVMTI_EVENT_VIRTUAL_THREAD_END]);
        }
    }
}

fn index_of(jvmti: &Jvmti, id: &str) -> Result<jni::jint, JvmError> {
    let events = jvmti.get_extension_events()?;
    let event = events.iter().find(|event| event.id.as_deref() == Some(id));
    Ok(event.ok_or(JvmError::Missing("the JVM has none"))?.extension_event_index)
}

fn listen_to(jvmti: &Jvmti, id: &str, callback: Callback) -> Result<(), JvmError> {
    let index = index_of(jvmti, id)?;
    // SAFETY: HotSpot calls it with the environments and the thread; on all supported platforms a function is called
    // the same way whether its type is variadic or not.
    let callback = unsafe { std::mem::transmute::<Callback, jvmti::jvmtiExtensionEvent>(callback) };
    jvmti.set_extension_event_callback(index, Some(callback))?;
    notify(jvmti, index, true)
}

/// Enables or disables an event.
fn notify(jvmti: &Jvmti, index: jni::jint, is_wanted: bool) -> Result<(), JvmError> {
    let mode = if is_wanted { jvmti::JVMTI_ENABLE } else { jvmti::JVMTI_DISABLE };
    // SAFETY: the table belongs to the environment; a null thread means all threads.
    let error = unsafe {
        let table = &*(*jvmti.raw()).functions;
        let set = table.SetEventNotificationMode;
        let set = set.ok_or(JvmError::Missing("no SetEventNotificationMode"))?;
        set(jvmti.raw(), mode, index.cast_unsigned(), std::ptr::null_mut())
    };
    if error == jvmti::jvmtiError::NONE { Ok(()) } else { Err(error.into()) }
}

/// The number of a virtual thread.
///
/// # Safety
/// `jni` and `thread` come from a callback.
unsafe fn number(jni: *mut jni::JNIEnv, thread: jni::jthread) -> Option<JavaThreadId> {
    // SAFETY: the caller guarantees it.
    unsafe { java_threads::number(&JniEnv::from_raw(jni), thread) }
}

/// Runs the body of a callback; a panic must not reach the JVM.
fn guarded(work: impl FnOnce()) {
    if ARE_IGNORED.load(Ordering::Relaxed) {
        return;
    }
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        probe::give_up();
    }
}

unsafe extern "C" fn mounted(_: *mut jvmti::jvmtiEnv, jni: *mut jni::JNIEnv, thread: jni::jthread) {
    guarded(|| {
        // SAFETY: the arguments are the callback's.
        if let Some(number) = unsafe { number(jni, thread) } {
            mounts::mount(number);
            // SAFETY: as above.
            unsafe { recent_mounts::note(jni, thread, number) };
        }
    });
}

unsafe extern "C" fn unmounted(
    _: *mut jvmti::jvmtiEnv,
    jni: *mut jni::JNIEnv,
    thread: jni::jthread,
) {
    guarded(|| {
        // SAFETY: the arguments are the callback's.
        if let Some(number) = unsafe { number(jni, thread) } {
            mounts::unmount(number);
        }
    });
}
