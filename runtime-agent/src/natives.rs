//! The native methods of the probe class. The JVM finds them by these names in the agent's library.
#![allow(unsafe_code, non_snake_case)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use jvmti_bindings::prelude::jni;

use crate::{java_threads, probe};

/// `private static native void start0(int)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_java_lang__00024TProfiler_start0(
    env: *mut jni::JNIEnv,
    _class: jni::jclass,
    method: jni::jint,
) {
    probe::start(method.cast_unsigned(), |thread| {
        // The one part of a probe that leaves our own data. A panic stays here.
        let _ = catch_unwind(AssertUnwindSafe(|| java_threads::remember(env, thread)));
    });
}

/// `private static native void end0(int)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_java_lang__00024TProfiler_end0(
    _env: *mut jni::JNIEnv,
    _class: jni::jclass,
    method: jni::jint,
) {
    probe::end(method.cast_unsigned());
}

/// `private static native void threw0(int)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_java_lang__00024TProfiler_threw0(
    _env: *mut jni::JNIEnv,
    _class: jni::jclass,
    method: jni::jint,
) {
    probe::threw(method.cast_unsigned());
}

/// `private static native void caught0(int)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_java_lang__00024TProfiler_caught0(
    _env: *mut jni::JNIEnv,
    _class: jni::jclass,
    method: jni::jint,
) {
    probe::caught(method.cast_unsigned());
}
