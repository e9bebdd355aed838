//! Parks: the probes in `java.util.concurrent.locks.LockSupport`, which all locks, queues and futures of
//! `java.util.concurrent` wait with, in platform and virtual threads.
#![allow(unsafe_code, non_snake_case)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::OnceLock;

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::jni;
use log_format::rows::LockKind;

use super::in_progress::Key;
use super::waits::EndedWait;
use super::{kinds, waits};
use crate::hotspot::thread_list;
use crate::jvm::class_names::{self, ClassNumber};
use crate::jvm::java_threads::{self, boot_class};
use crate::probe;
use crate::probe::mounts;
use crate::sys::clock;

/// What the JDK's classes say of parks. The references are never deleted.
struct Members {
    /// `Thread.parkBlocker`
    blocker: jni::jfieldID,
    /// The class `AbstractOwnableSynchronizer`, and its field `exclusiveOwnerThread`: locks, semaphores and latches.
    ownable: jni::jclass,
    owner: jni::jfieldID,
    /// Numbers of classes: one that is ownable and no lock, one that is a lock and not ownable, and none.
    latch: ClassNumber,
    stamped: ClassNumber,
    none: ClassNumber,
}

// SAFETY: global references and field ids are valid on every thread.
unsafe impl Send for Members {}
// SAFETY: as above.
unsafe impl Sync for Members {}

static MEMBERS: OnceLock<Members> = OnceLock::new();

/// Finds what the probes need. The agent thread calls this before waits are counted.
pub(super) fn prepare(jvmti: &Jvmti, jni: &JniEnv) {
    if MEMBERS.get().is_some() {
        return;
    }
    let _frame = jni.push_local_frame(16);
    match find(jvmti, jni) {
        Some(members) => drop(MEMBERS.set(members)),
        // Parks are not counted then.
        None => jni.exception_clear(),
    }
}

fn find(jvmti: &Jvmti, jni: &JniEnv) -> Option<Members> {
    const OWNABLE: &str = "java.util.concurrent.locks.AbstractOwnableSynchronizer";
    let number = |name: &str| class_names::number_of(name.to_owned());
    let thread = jvmti.get_current_thread().ok()?;
    // SAFETY: live references of this thread; the global one is never deleted.
    unsafe {
        let class = java_threads::thread_class(jni, thread);
        let ownable = boot_class(jni, class, OWNABLE)?;
        Some(Members {
            blocker: jni.get_field_id(class, "parkBlocker", "Ljava/lang/Object;")?,
            owner: jni.get_field_id(ownable, "exclusiveOwnerThread", "Ljava/lang/Thread;")?,
            ownable: Some(jni.new_global_ref(ownable)).filter(|global| !global.is_null())?,
            latch: number("java.util.concurrent.CountDownLatch$Sync"),
            stamped: number("java.util.concurrent.locks.StampedLock"),
            none: number("[no blocker]"),
        })
    }
}

/// `public static native void Parking(Object)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_java_lang_invoke__00024TProfiler_Parking(
    env: *mut jni::JNIEnv,
    _class: jni::jclass,
    blocker: jni::jobject,
) {
    // SAFETY: the JVM passes the thread's environment and a live reference, or null.
    guarded(|| unsafe { parking(&JniEnv::from_raw(env), blocker) });
}

/// `public static native void Parked()`
#[unsafe(no_mangle)]
pub extern "system" fn Java_java_lang_invoke__00024TProfiler_Parked(
    env: *mut jni::JNIEnv,
    _class: jni::jclass,
) {
    // SAFETY: the JVM passes the thread's environment.
    guarded(|| parked(&unsafe { JniEnv::from_raw(env) }));
}

/// A panic must not reach the JVM.
fn guarded(work: impl FnOnce()) {
    if waits::is_on() && catch_unwind(AssertUnwindSafe(work)).is_err() {
        probe::give_up();
    }
}

/// # Safety
/// `given` is a live reference of this thread, or null.
unsafe fn parking(jni: &JniEnv, given: jni::jobject) {
    if !waits::counts(jni) {
        return;
    }
    let (Some(members), Some(jvmti)) = (MEMBERS.get(), java_threads::get_jvmti()) else { return };
    let began = clock::ticks();
    let current = Current::new(&jvmti, jni, given.is_null());
    // SAFETY: the caller guarantees the reference; others are live references of this thread.
    unsafe {
        // Conditions note it before they park.
        let noted = if given.is_null() { current.blocker(members) } else { ptr::null_mut() };
        let blocker = if given.is_null() { noted } else { given };
        let class = members.number(&jvmti, jni, blocker);
        waits::begin_wait(
            jni,
            current.key(),
            began,
            thread_list::java_thread_of(jni),
            class,
            blocker,
        );
        jni.delete_local_ref(noted);
    }
    waits::add_cost(began);
}

fn parked(jni: &JniEnv) {
    let Some(jvmti) = java_threads::get_jvmti() else { return };
    let now = clock::ticks();
    let key = Current::new(&jvmti, jni, false).key();
    let ended = waits::end_wait(jni, key, now, thread_list::java_thread_of(jni));
    waits::add_cost(now);
    ended.iter().for_each(EndedWait::keep);
}

/// The calling thread.
struct Current<'j> {
    jni: &'j JniEnv,
    /// Null if it is not needed: without virtual threads.
    thread: jni::jthread,
}

impl<'j> Current<'j> {
    fn new(jvmti: &Jvmti, jni: &'j JniEnv, is_needed: bool) -> Self {
        let is_needed = is_needed || mounts::are_virtual_threads_here(false);
        let thread = is_needed.then(|| jvmti.get_current_thread().ok()).flatten();
        Self { jni, thread: thread.unwrap_or(ptr::null_mut()) }
    }

    fn key(&self) -> Key {
        if self.thread.is_null() {
            return Key::of_platform(self.jni);
        }
        // SAFETY: a live reference of this thread.
        unsafe { waits::key(self.jni, self.thread) }
    }

    /// What it has noted that it waits for: a new reference, or null.
    fn blocker(&self, members: &Members) -> jni::jobject {
        if self.thread.is_null() {
            return ptr::null_mut();
        }
        // SAFETY: a live reference of this thread; the field is one of java.lang.Thread.
        unsafe { self.jni.get_object_field(self.thread, members.blocker) }
    }
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        // SAFETY: this thread's own reference, or null.
        unsafe { self.jni.delete_local_ref(self.thread) };
    }
}

impl Members {
    /// # Safety
    /// `object` is a live reference of this thread, or null.
    unsafe fn is_ownable(&self, jni: &JniEnv, object: jni::jobject) -> bool {
        // SAFETY: the caller guarantees it. Null is an instance of everything.
        !object.is_null() && unsafe { jni.is_instance_of(object, self.ownable) }
    }

    /// The number of the class of what a thread parks for.
    ///
    /// # Safety
    /// `blocker` is a live reference of this thread, or null.
    unsafe fn number(&self, jvmti: &Jvmti, jni: &JniEnv, blocker: jni::jobject) -> ClassNumber {
        if blocker.is_null() {
            return kinds::with_kind(self.none, LockKind::Park);
        }
        // SAFETY: the caller guarantees it.
        let (number, is_ownable) =
            unsafe { (class_names::number(jvmti, jni, blocker), self.is_ownable(jni, blocker)) };
        let is_lock = is_ownable && number != self.latch || number == self.stamped;
        kinds::with_kind(number, if is_lock { LockKind::Lock } else { LockKind::Park })
    }
}

/// What a thread waits for: a new local reference, or null.
///
/// # Safety
/// `thread` is a live reference of this thread to a java.lang.Thread.
pub(crate) unsafe fn blocker_of(jni: &JniEnv, thread: jni::jthread) -> jni::jobject {
    // SAFETY: the caller guarantees it; the field is one of java.lang.Thread.
    MEMBERS
        .get()
        .map_or(ptr::null_mut(), |found| unsafe { jni.get_object_field(thread, found.blocker) })
}

/// The thread that has a lock of `java.util.concurrent`: a new local reference, or null.
///
/// # Safety
/// `lock` is a live reference of this thread, or null.
pub(crate) unsafe fn owner_of(jni: &JniEnv, lock: jni::jobject) -> jni::jthread {
    // SAFETY: the caller guarantees it; the field is one of the class.
    MEMBERS
        .get()
        .filter(|found| unsafe { found.is_ownable(jni, lock) })
        .map_or(ptr::null_mut(), |found| unsafe { jni.get_object_field(lock, found.owner) })
}
