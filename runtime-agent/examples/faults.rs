//! Faults that Java code cannot cause itself: native methods of the test program `programs.Faults`.
#![allow(missing_docs, unsafe_code, non_snake_case)]

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::{jni, jvmti};

/// Throws an exception in a thread, wherever it is, as `Thread.stop` once did.
///
/// # Safety
/// Only the JVM calls it, with its own references.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_programs_Faults_stop(
    env: *mut jni::JNIEnv,
    _class: jni::jclass,
    thread: jni::jthread,
    thrown: jni::jobject,
) {
    // SAFETY: the JVM's own environment and references, on the thread to which they belong.
    unsafe {
        let jni = JniEnv::from_raw(env);
        let mut vm = std::ptr::null_mut();
        let mut raw: *mut jvmti::jvmtiEnv = std::ptr::null_mut();
        let table = &**jni.raw();
        assert_eq!((table.GetJavaVM)(env, &raw mut vm), jni::JNI_OK);
        let found = ((**vm).GetEnv)(vm, (&raw mut raw).cast(), jvmti::JVMTI_VERSION_1_2);
        assert_eq!(found, jni::JNI_OK);
        let jvmti = Jvmti::from_raw(raw);
        let mut capabilities = jvmti::jvmtiCapabilities::default();
        capabilities.set_can_signal_thread(true);
        assert!(jvmti.add_capabilities(&capabilities).is_ok());
        // The test does not care if the thread has ended meanwhile.
        let _ = jvmti.stop_thread(thread, thrown);
        let _ = jvmti.dispose_environment();
    }
}

/// Forks the process, as native libraries do; the child ends at once. Returns the child's exit status.
///
/// # Safety
/// Only the JVM calls it.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_programs_Faults_fork(
    _env: *mut jni::JNIEnv,
    _class: jni::jclass,
) -> jni::jint {
    // SAFETY: the child calls nothing but `_exit`; the parent waits for it.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::_exit(7);
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        libc::WEXITSTATUS(status)
    }
}
