//! Names of Java threads.
//!
//! A probe keeps only a weak reference to its thread. The agent thread asks for the name when a recorded call needs it,
//! or the thread itself when it ends. The service's threads allocate nothing here without checking whether there is
//! memory.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::mutf8;
use jvmti_bindings::prelude::{jni, jvmti};

use log_format::ids::JavaThreadId;

use crate::probe;
use crate::probe::modified_utf8::cut;
use crate::probe::mounts;
use crate::probe::thread::{MAX_NAME, OwnThread, ProbeThread, ThreadName};
use crate::sys::memory::Account;
use crate::sys::memory::sharded::Sharded;

/// The agent's JVMTI environment. It lives as long as the JVM.
static JVMTI: AtomicPtr<jvmti::jvmtiEnv> = AtomicPtr::new(ptr::null_mut());

pub(crate) fn set_jvmti(env: *mut jvmti::jvmtiEnv) {
    JVMTI.store(env, Ordering::Release);
    probe::ask_names_by(note_virtual_name);
}

pub(crate) fn get_jvmti() -> Option<Jvmti> {
    let env = JVMTI.load(Ordering::Acquire);
    // SAFETY: the environment that `Agent_OnLoad` got, which is never disposed of.
    (!env.is_null()).then(|| unsafe { Jvmti::from_raw(env) })
}

/// Keeps a weak reference to the calling Java thread in its data.
pub(crate) fn remember(env: *mut jni::JNIEnv, own: OwnThread<'_>) {
    if env.is_null() {
        return;
    }
    // SAFETY: `env` is the environment of this thread, which the JVM passed to a native method.
    let jni = unsafe { JniEnv::from_raw(env) };
    // It would be the virtual thread. A carrier notes its name when it ends.
    if !own.runs().is_none() || !own.java_thread().is_null() {
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
        // The agent may have been attached while the thread ran a virtual one, and have seen no event for it. A JVM
        // without virtual threads does not have this function.
        let is_virtual = jni.is_virtual_thread(current).unwrap_or(false);
        let class = if mounts::are_virtual_threads_here(is_virtual) {
            class_of(&jni, current)
        } else {
            ThreadClass::Other
        };
        if is_virtual && class != ThreadClass::Bound {
            if let Some(number) = number(&jni, current) {
                mounts::is_mounted(own, number);
            }
        } else {
            if class == ThreadClass::Carrier {
                own.set_carrier();
            }
            own.set_java_id(number(&jni, current).unwrap_or_default());
            let weak = jni.new_weak_global_ref(current);
            if weak.is_null() {
                // No memory; the exception must not reach the service.
                jni.exception_clear();
            }
            own.set_java_thread(weak);
        }
        jni.delete_local_ref(current);
    }
}

/// Calls `with` with the name of a Java thread, in modified UTF-8, or its beginning. `None` if the JVM does not give
/// it.
///
/// # Safety
/// `java_thread` is a live reference of this thread to a java.lang.Thread.
unsafe fn with_name<R>(
    jvmti: &Jvmti,
    jni: Option<&JniEnv>,
    java_thread: jni::jthread,
    with: impl FnOnce(&[u8]) -> R,
) -> Option<R> {
    let mut info = jvmti::jvmtiThreadInfo::default();
    // SAFETY: the caller guarantees the reference. The JVM fills `info` with its own NUL-terminated name, which is
    // returned to it, and with references for the caller.
    unsafe {
        let table = &*(*jvmti.raw()).functions;
        let (get, deallocate) = (table.GetThreadInfo?, table.Deallocate?);
        if get(jvmti.raw(), java_thread, &raw mut info) != jvmti::jvmtiError::NONE {
            return None;
        }
        for reference in [info.thread_group, info.context_class_loader] {
            if let Some(jni) = jni
                && !reference.is_null()
            {
                jni.delete_local_ref(reference);
            }
        }
        if info.name.is_null() {
            return Some(with(&[]));
        }
        let result = with(cut(CStr::from_ptr(info.name).to_bytes(), MAX_NAME));
        deallocate(jvmti.raw(), info.name.cast());
        Some(result)
    }
}

/// The kinds of thread classes that matter here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ThreadClass {
    /// A virtual thread that is never mounted: it has its own platform thread, as in a JVM without continuations.
    Bound,
    /// A thread that only runs virtual threads.
    Carrier,
    Other,
}

/// # Safety
/// `thread` is a live reference of this thread to a java.lang.Thread.
unsafe fn class_of(jni: &JniEnv, thread: jni::jthread) -> ThreadClass {
    let Some(jvmti) = get_jvmti() else { return ThreadClass::Other };
    let mut signature = ptr::null_mut();
    // SAFETY: the caller guarantees the thread; the class is a live reference of this thread until it is deleted. The
    // JVM's text is NUL-terminated and is returned to it.
    unsafe {
        let class = jni.get_object_class(thread);
        let table = &*(*jvmti.raw()).functions;
        let error = table
            .GetClassSignature
            .map(|get| get(jvmti.raw(), class, &raw mut signature, ptr::null_mut()));
        jni.delete_local_ref(class);
        if error != Some(jvmti::jvmtiError::NONE) || signature.is_null() {
            return ThreadClass::Other;
        }
        let found = match CStr::from_ptr(signature).to_bytes() {
            b"Ljava/lang/ThreadBuilders$BoundVirtualThread;" => ThreadClass::Bound,
            b"Ljdk/internal/misc/CarrierThread;" => ThreadClass::Carrier,
            _ => ThreadClass::Other,
        };
        if let Some(deallocate) = table.Deallocate {
            deallocate(jvmti.raw(), signature.cast());
        }
        found
    }
}

/// Whether a thread only runs virtual threads.
///
/// # Safety
/// `thread` is a live reference of this thread to a java.lang.Thread.
pub(crate) unsafe fn is_carrier(jni: &JniEnv, thread: jni::jthread) -> bool {
    // SAFETY: the caller guarantees it.
    unsafe { class_of(jni, thread) == ThreadClass::Carrier }
}

/// The name and number of a Java thread.
///
/// # Safety
/// `java_thread` is a live reference of this thread to a java.lang.Thread.
pub(crate) unsafe fn name(jvmti: &Jvmti, jni: &JniEnv, java_thread: jni::jthread) -> ThreadName {
    // SAFETY: the caller guarantees it.
    let (java_id, name) = unsafe {
        (number(jni, java_thread), with_name(jvmti, Some(jni), java_thread, mutf8::decode_lossy))
    };
    ThreadName { name: name.unwrap_or_default(), java_id: java_id.unwrap_or_default() }
}

/// Notes the name of the calling thread, which is ending, in its data.
///
/// # Safety
/// `java_thread` is a live reference to the calling thread.
pub(crate) unsafe fn note_last_name(
    jvmti: &Jvmti,
    jni: &JniEnv,
    java_thread: jni::jthread,
    own: OwnThread<'_>,
) {
    // SAFETY: the caller guarantees it.
    unsafe {
        own.set_java_id(number(jni, java_thread).unwrap_or_default());
        with_name(jvmti, Some(jni), java_thread, |name| own.set_last_name(name));
    }
}

/// The field of java.lang.Thread with its number.
static TID: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The class `java.lang.Thread`, from a thread of any class.
///
/// # Safety
/// `thread` is a live reference of this thread.
pub(crate) unsafe fn thread_class(jni: &JniEnv, thread: jni::jthread) -> jni::jclass {
    // SAFETY: the caller guarantees the reference; superclasses are live references then.
    unsafe {
        let mut class = jni.get_object_class(thread);
        // Object has no superclass.
        while let Some(above) = jni.get_superclass(class)
            && jni.get_superclass(above).is_some()
        {
            class = above;
        }
        class
    }
}

/// A class of the boot loader, by its name with dots. JNI's FindClass would ask the system loader, which may be the
/// application's own.
///
/// # Safety
/// `any` is a live reference of this thread to some class.
pub(crate) unsafe fn boot_class(jni: &JniEnv, any: jni::jclass, name: &str) -> Option<jni::jclass> {
    const FOR_NAME: &str = "(Ljava/lang/String;ZLjava/lang/ClassLoader;)Ljava/lang/Class;";
    // SAFETY: the caller guarantees the class; the others are live references of this thread.
    let found = unsafe {
        let class = jni.get_object_class(any);
        let name = jni.new_string_utf(name)?;
        let for_name = jni.get_static_method_id(class, "forName", FOR_NAME)?;
        let arguments =
            [jni::jvalue { l: name }, jni::jvalue { z: 0 }, jni::jvalue { l: ptr::null_mut() }];
        jni.call_static_object_method(class, for_name, &arguments)
    };
    if jni.exception_check() {
        jni.exception_clear();
        return None;
    }
    Some(found).filter(|class| !class.is_null())
}

/// Finds the field. It has existed since Java 1.4; without it, threads have no number.
///
/// # Safety
/// `class` is a live reference of this thread to java.lang.Thread.
pub(crate) unsafe fn find_number(jni: &JniEnv, class: jni::jclass) {
    // SAFETY: the caller guarantees it.
    match unsafe { jni.get_field_id(class, "tid", "J") } {
        Some(field) => TID.store(field.cast(), Ordering::Release),
        None => jni.exception_clear(),
    }
}

/// `Thread.getId()`, from its field: a subclass may override the method.
///
/// # Safety
/// See [`name`].
pub(crate) unsafe fn number(jni: &JniEnv, java_thread: jni::jthread) -> Option<JavaThreadId> {
    let field = TID.load(Ordering::Acquire);
    // SAFETY: the caller guarantees the thread; the field is one of java.lang.Thread.
    let number = || unsafe { jni.get_long_field(java_thread, field.cast()) }.cast_unsigned();
    (!field.is_null()).then(|| JavaThreadId::new(number()))
}

/// The number of a virtual thread; `None` for other threads.
///
/// # Safety
/// See [`name`].
pub(crate) unsafe fn virtual_number(
    jni: &JniEnv,
    java_thread: jni::jthread,
) -> Option<JavaThreadId> {
    // SAFETY: the caller guarantees the thread. A JVM without virtual threads does not have the function.
    let is_virtual = mounts::are_virtual_threads_here(false)
        && unsafe { jni.is_virtual_thread(java_thread) }.unwrap_or(false);
    // SAFETY: as above.
    let number = if is_virtual { unsafe { number(jni, java_thread) } } else { None };
    number.filter(|number| *number != JavaThreadId::NONE)
}

/// The number of the virtual thread that the calling thread runs.
pub(crate) fn current_virtual(jni: &JniEnv) -> Option<JavaThreadId> {
    if let Some(number) = mounts::current_virtual_thread() {
        return Some(number).filter(|number| !number.is_none());
    }
    let thread = get_jvmti()?.get_current_thread().ok()?;
    // SAFETY: a live reference of this thread, until it is deleted.
    unsafe {
        let number = virtual_number(jni, thread);
        jni.delete_local_ref(thread);
        number
    }
}

/// The current name of a thread that the probe knows; `None` if the thread is gone.
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
        Some(name)
    }
}

/// Names of virtual threads with a recorded call, by number, until the agent thread takes them.
static VIRTUAL_NAMES: Sharded<NotedName> = Sharded::new();
/// The memory of the names.
static NAMES: Account = Account::new();
/// Bytes kept of such a name.
const MAX_NOTED_NAME: usize = 256;

/// A name that a thread of the service notes, in modified UTF-8.
struct NotedName(Vec<u8>);

impl NotedName {
    /// Copies a name; `None` if there is no memory.
    fn new(name: &[u8]) -> Option<Self> {
        let name = cut(name, MAX_NOTED_NAME);
        if !NAMES.take(name.len()) {
            return None;
        }
        let mut bytes = Vec::new();
        if bytes.try_reserve_exact(name.len()).is_err() {
            NAMES.give(name.len());
            return None;
        }
        bytes.extend_from_slice(name);
        Some(Self(bytes))
    }
}

impl Drop for NotedName {
    fn drop(&mut self) {
        NAMES.give(self.0.len());
    }
}

/// Notes the name of the virtual thread that the calling thread runs. JVMTI's references are freed when the native
/// method returns. Without memory, the thread has no name in the log.
pub(crate) fn note_virtual_name(number: JavaThreadId) {
    if VIRTUAL_NAMES.contains(number.get()) {
        return;
    }
    let Some(jvmti) = get_jvmti() else { return };
    let Ok(current) = jvmti.get_current_thread() else { return };
    // SAFETY: a live reference of this thread.
    let name = unsafe { with_name(&jvmti, None, current, NotedName::new) };
    if let Some(name) = name.flatten() {
        drop(VIRTUAL_NAMES.insert(number.get(), name));
    }
}

/// The name and number of a thread, as a thread of the service may note them.
pub(crate) struct NotedThread {
    name: NotedName,
    java_id: JavaThreadId,
}

impl NotedThread {
    /// `None` if there is no memory.
    ///
    /// # Safety
    /// `java_thread` is a live reference of this thread to a java.lang.Thread.
    pub(crate) unsafe fn new(
        jvmti: &Jvmti,
        jni: &JniEnv,
        java_thread: jni::jthread,
    ) -> Option<Self> {
        // SAFETY: the caller guarantees it.
        unsafe {
            let java_id = number(jni, java_thread).unwrap_or_default();
            let name = with_name(jvmti, Some(jni), java_thread, NotedName::new)??;
            Some(Self { name, java_id })
        }
    }

    pub(crate) fn decoded(&self) -> ThreadName {
        ThreadName { name: mutf8::decode_lossy(&self.name.0), java_id: self.java_id }
    }
}

/// Takes the noted name of a virtual thread.
pub(crate) fn take_virtual_name(number: JavaThreadId) -> Option<String> {
    VIRTUAL_NAMES.remove(number.get()).map(|name| mutf8::decode_lossy(&name.0))
}

/// Forgets names that nobody has taken.
pub(crate) fn forget_virtual_names() {
    VIRTUAL_NAMES.clear();
}

/// Deletes the weak reference of a thread that is no longer needed.
pub(crate) fn forget(jni: &JniEnv, thread: &ProbeThread) {
    let weak = thread.take_java_thread();
    if !weak.is_null() {
        // SAFETY: made by `remember`, and not reachable any more.
        unsafe { jni.delete_weak_global_ref(weak.cast()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_between_characters() {
        assert_eq!(cut(b"pool-1", 10), b"pool-1");
        assert_eq!(cut(b"pool-1", 4), b"pool");
        let text = "aü€".as_bytes();
        let cuts: Vec<usize> = (0..=7).map(|most| cut(text, most).len()).collect();
        assert_eq!(cuts, [0, 1, 1, 3, 3, 3, 6, 6]);
        assert_eq!(cut(b"", 4), b"");
    }
}
