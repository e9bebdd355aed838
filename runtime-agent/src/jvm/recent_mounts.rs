//! Notes virtual threads that were mounted recently. A few looks may all miss one that works for a millisecond and
//! parks for a second; but HotSpot reports when it is mounted. Threads are noted only while somebody listens, and only
//! as long as they live.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

use jvmti_bindings::env::JniEnv;
use jvmti_bindings::prelude::jni;

use log_format::ids::JavaThreadId;

use crate::sys::memory::sharded::Sharded;

static IS_LISTENING: AtomicBool = AtomicBool::new(false);

/// Weak global references, by `Thread.getId()`.
static NOTED: Sharded<Noted> = Sharded::new();

/// Most threads to note: the stack of each is read, which may stop all threads for a moment.
const MOST: usize = 1_000;

#[derive(Clone, Copy)]
struct Noted(jni::jweak);

// SAFETY: a weak global reference may be used on any thread.
unsafe impl Send for Noted {}
// SAFETY: as above.
unsafe impl Sync for Noted {}

/// Notes threads from now on.
pub(crate) fn listen() {
    IS_LISTENING.store(true, Ordering::Relaxed);
}

/// Notes that a virtual thread was mounted.
///
/// # Safety
/// `jni` is the calling thread's environment, and `thread` a live reference of it.
pub(super) unsafe fn note(jni: *mut jni::JNIEnv, thread: jni::jthread, number: JavaThreadId) {
    if !IS_LISTENING.load(Ordering::Relaxed) || NOTED.contains(number.get()) || NOTED.len() >= MOST
    {
        return;
    }
    // SAFETY: the caller guarantees it.
    unsafe {
        let jni = JniEnv::from_raw(jni);
        let weak = jni.new_weak_global_ref(thread);
        if weak.is_null() {
            // No memory; the exception must not reach the service.
            jni.exception_clear();
        } else if let Err(Noted(weak)) = NOTED.insert(number.get(), Noted(weak)) {
            jni.delete_weak_global_ref(weak);
        }
    }
}

/// Forgets a virtual thread that has ended.
pub(crate) fn ended(jni: &JniEnv, number: JavaThreadId) {
    if let Some(Noted(weak)) = NOTED.remove(number.get()) {
        // SAFETY: made by `note`, and nobody else has it.
        unsafe { jni.delete_weak_global_ref(weak) };
    }
}

/// Stops noting threads. Returns the noted ones; the caller must delete the references.
pub(crate) fn take() -> Vec<(JavaThreadId, jni::jweak)> {
    IS_LISTENING.store(false, Ordering::Relaxed);
    let noted = NOTED.take_all().into_iter();
    noted.map(|(number, Noted(weak))| (JavaThreadId::new(number), weak)).collect()
}
