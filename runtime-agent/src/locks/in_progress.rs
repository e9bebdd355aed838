//! Waits that have not ended, and who has the monitor meanwhile. The agent thread asks for that.
#![allow(unsafe_code)]

use std::ptr;

use jvmti_bindings::env::JniEnv;
use jvmti_bindings::prelude::jni;
use log_format::ids::{JavaThreadId, MethodId, OsThreadId};

use crate::jvm::class_names::ClassNumber;
pub(crate) use crate::jvm::thread_key::ThreadKey as Key;
use crate::sys::memory::sharded::Sharded;

/// Who has a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    NotAsked,
    Unknown,
    /// The kernel's number of a platform thread.
    Platform(OsThreadId),
    Virtual(JavaThreadId),
}

/// A wait for a monitor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InProgress {
    /// When it began, in ticks.
    pub began: u64,
    /// The `JavaThread` that waits, or 0.
    pub java_thread: usize,
    /// The number of the lock's class.
    pub class: ClassNumber,
    /// The innermost instrumented call.
    pub method: MethodId,
    pub owner: Owner,
    /// A weak reference to the monitor's object, as an address, or 0: only if the JVM does not say it, as of virtual
    /// threads.
    pub monitor: usize,
}

static WAITS: Sharded<InProgress> = Sharded::new();
/// Parks of virtual threads that wait for something else meanwhile: before JDK 22, `parkNanos` takes a lock of the
/// scheduler's to be woken up.
static OUTER: Sharded<InProgress> = Sharded::new();

/// Begins a wait; returns how many waits cannot be kept for lack of memory. A wait of a platform thread whose end was
/// not seen is forgotten.
pub(super) fn begin(key: Key, wait: InProgress, jni: &JniEnv) -> u64 {
    let (forgotten, lost) = match WAITS.insert(key.number(), wait) {
        Err(wait) => (Some(wait), 1),
        Ok(Some(outer)) if key.virtual_thread().is_some() => {
            match OUTER.insert(key.number(), outer) {
                Err(outer) => (Some(outer), 1),
                Ok(stale) => (stale, 0),
            }
        }
        Ok(stale) => (stale, 0),
    };
    forgotten.iter().for_each(|wait| forget(wait, jni));
    lost
}

pub(super) fn end(key: Key, jni: &JniEnv) -> Option<InProgress> {
    let wait = WAITS.remove(key.number())?;
    forget(&wait, jni);
    if let Some(outer) = OUTER.remove(key.number()) {
        // The place is free.
        let left = WAITS.insert(key.number(), outer);
        left.unwrap_or_else(Some).iter().for_each(|wait| forget(wait, jni));
    }
    Some(wait)
}

pub(super) fn clear(jni: &JniEnv) {
    for waits in [&WAITS, &OUTER] {
        waits.take_all().iter().for_each(|(_, wait)| forget(wait, jni));
    }
}

/// Forgets the waits for which `stays` does not hold, with those around them.
pub(super) fn retain(jni: &JniEnv, stays: impl Fn(Key, &InProgress) -> bool) {
    for (key, wait) in all() {
        if !stays(key, &wait) {
            while end(key, jni).is_some() {}
        }
    }
}

pub(super) fn forget(wait: &InProgress, jni: &JniEnv) {
    if wait.monitor != 0 {
        // SAFETY: a weak reference of this wait's, which is in the map no more.
        unsafe { jni.delete_weak_global_ref(ptr::with_exposed_provenance_mut(wait.monitor)) };
    }
}

/// A new local reference to the object for whose monitor a thread waits since `began`, or null. It is there once.
pub(crate) fn take_monitor(key: Key, began: u64, jni: &JniEnv) -> jni::jobject {
    let mut weak = 0;
    WAITS.change(key.number(), |wait| {
        if wait.began == began {
            weak = std::mem::take(&mut wait.monitor);
        }
    });
    if weak == 0 {
        return ptr::null_mut();
    }
    let weak = ptr::with_exposed_provenance_mut(weak);
    // SAFETY: a weak reference, which is this function's own now.
    unsafe {
        let object = jni.new_local_ref(weak);
        jni.delete_weak_global_ref(weak);
        object
    }
}

/// All waits in progress.
pub(crate) fn all() -> Vec<(Key, InProgress)> {
    let mut all = Vec::new();
    if WAITS.len() > 0 {
        WAITS.for_each(|key, wait| all.push((Key::new(key), *wait)));
    }
    all
}

/// Notes who has the monitor for which a thread waits since `began`; `false` if it has ended.
pub(crate) fn set_owner(key: Key, began: u64, owner: Owner) -> bool {
    let mut is_it = false;
    WAITS.change(key.number(), |wait| {
        is_it = wait.began == began;
        if is_it {
            wait.owner = owner;
        }
    });
    is_it
}
