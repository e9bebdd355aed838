//! What Java code cannot do itself: native methods of the test programs `programs.Faults`, `programs.SetsTimer` and
//! `programs.Natives`.
#![allow(missing_docs, unsafe_code, non_snake_case)]

use std::hint::black_box;
use std::time::{Duration, Instant};

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

/// Sets the process's timer of CPU time, to an interval in microseconds.
///
/// # Safety
/// Only the JVM calls it.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_programs_SetsTimer_set(
    _env: *mut jni::JNIEnv,
    _class: jni::jclass,
    micros: jni::jlong,
) {
    let time = libc::timeval { tv_sec: micros / 1_000_000, tv_usec: micros % 1_000_000 };
    let timer = libc::itimerval { it_interval: time, it_value: time };
    // SAFETY: the structure lives during the call.
    let failed =
        unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const timer, std::ptr::null_mut()) };
    assert_eq!(failed, 0);
}

/// The interval of the process's timer of CPU time, in microseconds.
///
/// # Safety
/// Only the JVM calls it.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_programs_SetsTimer_interval(
    _env: *mut jni::JNIEnv,
    _class: jni::jclass,
) -> jni::jlong {
    let none = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let mut timer = libc::itimerval { it_interval: none, it_value: none };
    // SAFETY: the structure lives during the call.
    assert_eq!(unsafe { libc::getitimer(libc::ITIMER_PROF, &raw mut timer) }, 0);
    timer.it_interval.tv_sec * 1_000_000 + timer.it_interval.tv_usec
}

/// Works for so many nanoseconds in `natives_inner`, which `natives_middle` and `natives_outer` call.
///
/// # Safety
/// Only the JVM calls it.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_programs_Natives_burn(
    _env: *mut jni::JNIEnv,
    _class: jni::jclass,
    nanos: jni::jlong,
) -> jni::jlong {
    let end = Instant::now() + Duration::from_nanos(nanos.cast_unsigned());
    let mut sum = 1;
    while Instant::now() < end {
        sum = natives_outer(sum);
    }
    sum.cast_signed()
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn natives_outer(seed: u64) -> u64 {
    let numbers = black_box([seed; 16]);
    black_box(natives_middle(numbers[3])) + 1
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn natives_middle(seed: u64) -> u64 {
    black_box(natives_inner(black_box(seed))) + 1
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn natives_inner(seed: u64) -> u64 {
    (0..200_000)
        .fold(black_box(seed), |sum, number| (sum ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}
