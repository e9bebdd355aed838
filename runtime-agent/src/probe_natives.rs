//! The native methods of the probe class. The JVM finds them by these names in the agent's library.
#![allow(unsafe_code, non_snake_case)]

use jvmti_bindings::prelude::jni;

use crate::exceptions;
use crate::jvm::java_threads;
use crate::probe::{self, ClassHash, Entry, ProbeId, Thrown};
use crate::traces;

const fn probe_id(number: jni::jint) -> ProbeId {
    ProbeId::new(number.cast_unsigned())
}

/// `private static native void start0(int)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_java_lang_invoke__00024TProfiler_start0(
    env: *mut jni::JNIEnv,
    class: jni::jclass,
    method: jni::jint,
) {
    if !probe::start_plain(probe_id(method), env.expose_provenance()) {
        start_other(env, class, method);
    }
}

/// Starts a call in all other cases. It has the same parameters, so calling it is a plain jump.
#[cold]
#[inline(never)]
extern "system" fn start_other(env: *mut jni::JNIEnv, _class: jni::jclass, method: jni::jint) {
    let entry = probe::start(probe_id(method), env.expose_provenance(), |own| {
        java_threads::remember(env, own)
    });
    match entry {
        Entry::Go => {}
        // SAFETY: the JVM passes the thread's environment.
        Entry::Traced(calls) => unsafe { traces::started(env, probe_id(method), calls) },
        Entry::NoStack => throw_stack_overflow(env),
    }
}

/// Throws the error that the method would meet a few frames later. The error's constructor may be instrumented.
#[cold]
fn throw_stack_overflow(env: *mut jni::JNIEnv) {
    probe::thread::overflow(|| {
        // SAFETY: `env` is the environment of this thread, which the JVM passed to a native method. A null message
        // means none.
        unsafe {
            let table = &**env;
            let class = (table.FindClass)(env, c"java/lang/StackOverflowError".as_ptr());
            if !class.is_null() {
                (table.ThrowNew)(env, class, std::ptr::null());
            }
        }
    });
}

/// `private static native void end0(int)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_java_lang_invoke__00024TProfiler_end0(
    _env: *mut jni::JNIEnv,
    _class: jni::jclass,
    method: jni::jint,
) {
    probe::end(probe_id(method));
}

/// `private static native void threw0(int, int, int, Object)`: the method, the identity hashes of the exception's class
/// and of the exception, and the exception.
#[unsafe(no_mangle)]
pub extern "system" fn Java_java_lang_invoke__00024TProfiler_threw0(
    env: *mut jni::JNIEnv,
    class: jni::jclass,
    method: jni::jint,
    class_hash: jni::jint,
    hash: jni::jint,
    thrown: jni::jobject,
) {
    let [of, exception] = [class_hash, hash].map(jni::jint::cast_unsigned);
    if !probe::threw_plain(probe_id(method), Thrown { class: ClassHash::new(of), exception }) {
        threw_other(env, class, method, class_hash, hash, thrown);
    }
}

/// Ends a call in all other cases. It has the same parameters, so calling it is a plain jump.
#[cold]
#[inline(never)]
extern "system" fn threw_other(
    env: *mut jni::JNIEnv,
    _class: jni::jclass,
    method: jni::jint,
    class_hash: jni::jint,
    hash: jni::jint,
    thrown: jni::jobject,
) {
    let [of, exception] = [class_hash, hash].map(jni::jint::cast_unsigned);
    if let Some(left) =
        probe::threw(probe_id(method), Thrown { class: ClassHash::new(of), exception })
    {
        // SAFETY: the JVM passes the thread's environment and a live reference.
        unsafe { exceptions::left(env, left, thrown) };
    }
}

/// `private static native void caught0(int)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_java_lang_invoke__00024TProfiler_caught0(
    _env: *mut jni::JNIEnv,
    _class: jni::jclass,
    method: jni::jint,
) {
    probe::caught(probe_id(method));
}

/// `private static native void initialized0(int)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_java_lang_invoke__00024TProfiler_initialized0(
    _env: *mut jni::JNIEnv,
    _class: jni::jclass,
    method: jni::jint,
) {
    probe::initialized(probe_id(method));
}
