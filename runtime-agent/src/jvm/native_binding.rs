//! The native methods of the agent's classes, and how they are bound when a Java program has loaded the library.
//!
//! The JVM looks for native methods of boot classes in the libraries of its agents. One that `System.load` has loaded
//! is none of them, so its methods are registered. The JVM prints a warning on stdout unless the caller is a boot
//! class, and the agent thread has no caller. So the thread that waits for it does that: `Thread.run` has called it.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jvmti_bindings::env::JniEnv;
use jvmti_bindings::prelude::jni;
use rewriter::probe::{PARKED, PARKED_DESCRIPTOR, PARKING, PARKING_DESCRIPTOR};

use crate::stderr::message;

/// How long the agent thread waits for the thread that registers.
const REGISTERED: Duration = Duration::from_secs(10);

/// A native method. The function's real type is another; only the JVM calls it.
pub(crate) struct Native {
    pub name: &'static str,
    pub descriptor: &'static str,
    function: unsafe extern "system" fn(),
}

const fn native(
    name: &'static str,
    descriptor: &'static str,
    function: unsafe extern "system" fn(),
) -> Native {
    Native { name, descriptor, function }
}

// Not imported: the modules that define them use the classes.
unsafe extern "system" {
    fn Java_java_lang_invoke__00024TProfiler_start0();
    fn Java_java_lang_invoke__00024TProfiler_end0();
    fn Java_java_lang_invoke__00024TProfiler_threw0();
    fn Java_java_lang_invoke__00024TProfiler_caught0();
    fn Java_java_lang_invoke__00024TProfiler_initialized0();
    fn Java_java_lang_invoke__00024TProfiler_Parking();
    fn Java_java_lang_invoke__00024TProfiler_Parked();
    fn Java_java_lang_invoke__00024TProfilerSql_entered0();
    fn Java_java_lang_invoke__00024TProfilerSql_returned0();
    fn Java_java_lang_invoke__00024TProfilerSql_failed0();
    fn Java_java_lang_invoke__00024TProfilerSql_prepared0();
}

/// Those of the probe class.
pub(crate) static PROBES: [Native; 7] = [
    native("start0", "(I)V", Java_java_lang_invoke__00024TProfiler_start0),
    native("end0", "(I)V", Java_java_lang_invoke__00024TProfiler_end0),
    native("threw0", "(IIILjava/lang/Object;)V", Java_java_lang_invoke__00024TProfiler_threw0),
    native("caught0", "(I)V", Java_java_lang_invoke__00024TProfiler_caught0),
    native("initialized0", "(I)V", Java_java_lang_invoke__00024TProfiler_initialized0),
    native(PARKING, PARKING_DESCRIPTOR, Java_java_lang_invoke__00024TProfiler_Parking),
    native(PARKED, PARKED_DESCRIPTOR, Java_java_lang_invoke__00024TProfiler_Parked),
];

/// Those of the class that probes of JDBC drivers call.
pub(crate) static STATEMENTS: [Native; 4] = [
    native(
        "entered0",
        "(IILjava/lang/Object;Ljava/lang/Object;)V",
        Java_java_lang_invoke__00024TProfilerSql_entered0,
    ),
    native("returned0", "(I)V", Java_java_lang_invoke__00024TProfilerSql_returned0),
    native("failed0", "(I)V", Java_java_lang_invoke__00024TProfilerSql_failed0),
    native("prepared0", "(II)V", Java_java_lang_invoke__00024TProfilerSql_prepared0),
];

/// What the agent thread asks for.
struct ToBind {
    /// A reference that is valid on every thread until `done` is used or dropped.
    class: jni::jclass,
    natives: &'static [Native],
    done: SyncSender<()>,
}

// SAFETY: `class` is a global reference, which is valid on every thread.
unsafe impl Send for ToBind {}

/// Where to send that; `None` if no thread registers.
static BINDER: Mutex<Option<Sender<ToBind>>> = Mutex::new(None);

fn binder() -> std::sync::MutexGuard<'static, Option<Sender<ToBind>>> {
    BINDER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers native methods for the agent thread, on a thread that a method of a boot class has called.
pub(crate) struct Binder(Receiver<ToBind>);

impl Binder {
    /// From now on the agent thread waits for this thread.
    pub(crate) fn new() -> Self {
        let (sender, receiver) = mpsc::channel();
        *binder() = Some(sender);
        Self(receiver)
    }

    /// Does what the agent thread has asked for.
    pub(crate) fn bind(&self, jni: &JniEnv) {
        for ToBind { class, natives, done } in self.0.try_iter() {
            // SAFETY: the reference is valid until `done` is used.
            if let Err(code) = unsafe { register(jni, class, natives) } {
                message!("the JVM does not take native methods (code {code})");
            }
            let _ = done.send(());
        }
    }
}

impl Drop for Binder {
    fn drop(&mut self) {
        *binder() = None;
    }
}

/// Has the waiting thread register the native methods of a class, if there is such a thread. The JVM finds them by
/// itself otherwise.
///
/// # Safety
/// `class` is a global reference to a class that has these methods. It must not be deleted.
pub(crate) unsafe fn bind(class: jni::jclass, natives: &'static [Native]) {
    let Some(binder) = binder().clone() else { return };
    let (done, is_done) = mpsc::sync_channel(1);
    if binder.send(ToBind { class, natives, done }).is_ok() {
        let _ = is_done.recv_timeout(REGISTERED);
    }
}

/// # Safety
/// `class` is a live reference to a class that has these methods.
unsafe fn register(jni: &JniEnv, class: jni::jclass, natives: &[Native]) -> Result<(), jni::jint> {
    let text = |text: &str| CString::new(text).unwrap_or_default();
    let texts: Vec<_> =
        natives.iter().map(|native| (text(native.name), text(native.descriptor))).collect();
    let methods: Vec<_> = natives
        .iter()
        .zip(&texts)
        .map(|(native, (name, descriptor))| jni::JNINativeMethod {
            name: name.as_ptr(),
            signature: descriptor.as_ptr(),
            fnPtr: native.function as *mut _,
        })
        .collect();
    // SAFETY: the caller guarantees the class; the texts live until the JVM has copied them.
    let registered = unsafe { jni.register_natives(class, &methods) };
    jni.exception_clear();
    registered
}
