//! What tells threads apart that are in the middle of something: a virtual thread may go on on another carrier.

use std::cell::Cell;

use jvmti_bindings::env::JniEnv;
use log_format::ids::JavaThreadId;

use crate::jvm::java_threads;
use crate::probe;

/// Marks numbers of virtual threads; addresses are below it.
const VIRTUAL: u64 = 1 << 63;

thread_local! {
    /// The attachment in which the calling thread was seen without a virtual one.
    static IS_PLATFORM_IN: Cell<Option<u32>> = const { Cell::new(None) };
}

/// A thread: its number if it is virtual, else the address of its JNI environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ThreadKey(u64);

impl ThreadKey {
    pub(crate) fn of_virtual(number: JavaThreadId) -> Self {
        Self(number.get() | VIRTUAL)
    }

    pub(crate) fn of_platform(jni: &JniEnv) -> Self {
        Self::of_environment(jni.raw().addr())
    }

    /// The platform thread with a JNI environment at this address.
    pub(crate) const fn of_environment(address: usize) -> Self {
        Self(address as u64)
    }

    /// That of the calling thread. A carrier runs no Java code that calls this for itself, so a thread that was seen
    /// without a virtual one never has one.
    pub(crate) fn of_current(jni: &JniEnv) -> Self {
        if IS_PLATFORM_IN.get() == Some(probe::attachment()) {
            return Self::of_platform(jni);
        }
        let number = java_threads::current_virtual(jni);
        if number.is_none() {
            IS_PLATFORM_IN.set(Some(probe::attachment()));
        }
        number.map_or_else(|| Self::of_platform(jni), Self::of_virtual)
    }

    /// The one with this number.
    pub(crate) const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number, for a map.
    pub(crate) const fn number(self) -> u64 {
        self.0
    }

    /// The number of the virtual thread, if it is one.
    pub(crate) fn virtual_thread(self) -> Option<JavaThreadId> {
        (self.0 & VIRTUAL != 0).then(|| JavaThreadId::new(self.0 & !VIRTUAL))
    }
}
