//! Names of Java threads.
//!
//! A probe only keeps a weak reference to its thread; the name is asked when a record needs it, by
//! the drain thread, or when the thread ends, by the thread itself.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use dashmap::DashMap;
use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::{jni, jvmti};

use crate::probe::mounts;
use crate::probe::thread::{ProbeThread, ThreadName};

/// The agent's JVMTI environment. It lives as long as the JVM.
static JVMTI: AtomicPtr<jvmti::jvmtiEnv> = AtomicPtr::new(ptr::null_mut());

pub(crate) fn set_jvmti(env: *mut jvmti::jvmtiEnv) {
    JVMTI.store(env, Ordering::Release);
}

pub(crate) fn get_jvmti() -> Option<Jvmti> {
    let env = JVMTI.load(Ordering::Acquire);
    // SAFETY: the environment that `Agent_OnLoad` got, which is never disposed of.
    (!env.is_null()).then(|| unsafe { Jvmti::from_raw(env) })
}

/// Keeps a weak reference to the calling Java thread in `thread`.
pub(crate) fn remember(env: *mut jni::JNIEnv, thread: &ProbeThread) {
    if env.is_null() {
        return;
    }
    // SAFETY: `env` is the environment of this thread, handed to a native method by the JVM.
    let jni = unsafe { JniEnv::from_raw(env) };
    // It would be the virtual thread. Carriers say their names when they end.
    if thread.runs() != 0 || !thread.java_thread().is_null() {
        return;
    }
    let Some(current) = get_jvmti().and_then(|jvmti| jvmti.get_current_thread().ok()) else {
        return;
    };
    if current.is_null() {
        return;
    }
    // SAFETY: `current` is a live reference of this thread, used until it is deleted.
    unsafe {
        // The agent was attached while the thread ran a virtual one, and has seen no event of it. A
        // JVM that has no virtual threads does not know the question.
        if jni.is_virtual_thread(current).unwrap_or(false) {
            if let Some(number) = number(&jni, current) {
                mounts::is_mounted(thread, number);
            }
        } else {
            thread.set_java_thread(jni.new_weak_global_ref(current));
        }
        jni.delete_local_ref(current);
    }
}

/// The name of a Java thread and its number.
///
/// # Safety
/// `java_thread` is a live reference of this thread to a java.lang.Thread.
pub(crate) unsafe fn name(
    jvmti: &Jvmti,
    jni: &JniEnv,
    java_thread: jni::jthread,
) -> Option<ThreadName> {
    // SAFETY: the caller's promise.
    let java_id = unsafe { number(jni, java_thread) }.unwrap_or(0);
    // SAFETY: the caller's promise. A name that is no Unicode text is left out.
    let Ok(info) = (unsafe { jvmti.get_thread_info(java_thread) }) else {
        return Some(ThreadName { name: String::new(), java_id });
    };
    for reference in [info.thread_group, info.context_class_loader] {
        if !reference.is_null() {
            // SAFETY: local references that JVMTI made for the caller.
            unsafe { jni.delete_local_ref(reference) };
        }
    }
    Some(ThreadName { name: info.name.unwrap_or_default(), java_id })
}

/// The field of java.lang.Thread that has its number.
static TID: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Finds the field. It has been there since Java 1.4; if it goes, threads have no number.
///
/// # Safety
/// `class` is a live reference of this thread to java.lang.Thread.
pub(crate) unsafe fn find_number(jni: &JniEnv, class: jni::jclass) {
    // SAFETY: the caller's promise.
    match unsafe { jni.get_field_id(class, "tid", "J") } {
        Some(field) => TID.store(field.cast(), Ordering::Release),
        None => jni.exception_clear(),
    }
}

/// `Thread.getId()`, from its field: a subclass may override the method.
///
/// # Safety
/// As of [`name`].
pub(crate) unsafe fn number(jni: &JniEnv, java_thread: jni::jthread) -> Option<u64> {
    let field = TID.load(Ordering::Acquire);
    // SAFETY: the caller's promise; the field is one of java.lang.Thread.
    (!field.is_null())
        .then(|| unsafe { jni.get_long_field(java_thread, field.cast()) }.cast_unsigned())
}

/// What a thread that the probe knows is called now; `None` if it is gone.
pub(crate) fn ask_name(jvmti: &Jvmti, jni: &JniEnv, thread: &ProbeThread) -> Option<ThreadName> {
    let weak: *mut c_void = thread.java_thread();
    if weak.is_null() {
        return None;
    }
    // SAFETY: the weak reference is valid until `forget`; a cleared one gives null.
    unsafe {
        let java_thread = jni.new_local_ref(weak.cast());
        if java_thread.is_null() {
            return None;
        }
        let name = name(jvmti, jni, java_thread);
        jni.delete_local_ref(java_thread);
        name
    }
}

/// Names of virtual threads that have a record, by number, until the drain thread takes them.
static VIRTUAL_NAMES: LazyLock<DashMap<u64, String>> = LazyLock::new(DashMap::new);

/// Notes the name of the virtual thread that the calling thread runs. JVMTI's references go when the
/// native method returns.
pub(crate) fn note_virtual_name(number: u64) {
    if VIRTUAL_NAMES.contains_key(&number) {
        return;
    }
    let Some(jvmti) = get_jvmti() else { return };
    let Ok(current) = jvmti.get_current_thread() else { return };
    // SAFETY: a live reference of this thread.
    if let Ok(info) = unsafe { jvmti.get_thread_info(current) } {
        VIRTUAL_NAMES.insert(number, info.name.unwrap_or_default());
    }
}

/// The name that was noted of a virtual thread.
pub(crate) fn take_virtual_name(number: u64) -> Option<String> {
    VIRTUAL_NAMES.remove(&number).map(|(_, name)| name)
}

/// Forgets names that nobody has taken.
pub(crate) fn forget_virtual_names() {
    VIRTUAL_NAMES.clear();
    VIRTUAL_NAMES.shrink_to_fit();
}

/// Gives the weak reference of a thread that is done with back to the JVM.
pub(crate) fn forget(jni: &JniEnv, thread: &ProbeThread) {
    let weak = thread.take_java_thread();
    if !weak.is_null() {
        // SAFETY: made by `remember`, and not reachable any more.
        unsafe { jni.delete_weak_global_ref(weak.cast()) };
    }
}
