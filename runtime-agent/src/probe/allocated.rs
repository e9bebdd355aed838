//! What a thread has allocated, from the counter in HotSpot's structure of the thread: what
//! `ThreadMXBean.getThreadAllocatedBytes` reads, without a call. `sampling::allocated_bytes` says where it is.
//!
//! It is read when the outermost call of a thread begins, and again when that call is recorded. Other calls would each
//! need a place in their frame and a nanosecond.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicUsize, Ordering};

use jvmti_bindings::prelude::jni;

/// Where the counter is, as distances from the thread's JNI environment; the first is 0 while nobody knows.
static COUNTED: AtomicUsize = AtomicUsize::new(0);
static BUFFER_START: AtomicUsize = AtomicUsize::new(0);
static BUFFER_TOP: AtomicUsize = AtomicUsize::new(0);

/// Not known.
pub(super) const UNKNOWN: u64 = u64::MAX;

/// Where the counter is: bytes of full buffers and of objects outside of them, and the buffer in use. Distances from
/// the thread's JNI environment, which wrap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    pub counted: usize,
    pub buffer_start: usize,
    pub buffer_top: usize,
}

/// The JVM, which knows each thread's environment.
static VM: AtomicPtr<jni::JavaVM> = AtomicPtr::new(ptr::null_mut());

/// From now on the counter is read there.
///
/// # Safety
/// Each Java thread of this JVM has these words there.
pub(crate) unsafe fn set(vm: *mut jni::JavaVM, places: Places) {
    VM.store(vm, Ordering::Relaxed);
    BUFFER_START.store(places.buffer_start, Ordering::Relaxed);
    BUFFER_TOP.store(places.buffer_top, Ordering::Relaxed);
    COUNTED.store(places.counted, Ordering::Release);
}

/// Nobody reads the counter any more.
pub(crate) fn forget() {
    COUNTED.store(0, Ordering::Relaxed);
}

/// Whether the counter can be read.
pub(crate) fn is_known() -> bool {
    COUNTED.load(Ordering::Relaxed) != 0
}

/// The bytes that the calling thread has allocated; `None` if nobody knows.
pub(crate) fn now() -> Option<u64> {
    let vm = VM.load(Ordering::Relaxed);
    if !is_known() || vm.is_null() {
        return None;
    }
    let mut environment = ptr::null_mut();
    // SAFETY: the JVM's own table. It writes the environment of this thread, if it is one of the JVM's.
    let found = unsafe { ((**vm).GetEnv)(vm, &raw mut environment, jni::JNI_VERSION_1_6) };
    (found == jni::JNI_OK && !environment.is_null()).then(|| of(environment.expose_provenance()))
}

/// The bytes that the calling thread has allocated. `environment` is the address of its JNI environment.
#[inline(always)]
pub(super) fn of(environment: usize) -> u64 {
    let counted = COUNTED.load(Ordering::Acquire);
    if counted == 0 {
        return UNKNOWN;
    }
    // SAFETY: the caller of `set` promised it, and a thread's structure lives as long as its environment. They are
    // aligned words. The JVM changes them only between two collections, or by a collection, as its own reader allows.
    let word = |distance: usize| unsafe {
        let at = ptr::with_exposed_provenance::<AtomicI64>(environment.wrapping_add(distance));
        (*at).load(Ordering::Relaxed).cast_unsigned()
    };
    let [start, top] =
        [&BUFFER_START, &BUFFER_TOP].map(|place| word(place.load(Ordering::Relaxed)));
    word(counted) + top.saturating_sub(start)
}
