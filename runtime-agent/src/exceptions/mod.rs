//! Exceptions that leave instrumented methods: their classes, and examples of them. Probes count them
//! (`probe::throws`), and call this only for what is new.
//!
//! ```text
//! classes     their names, by identity hash
//! examples    one of each class and method in an interval, until the agent thread takes them
//! ```
//! A probe gets the identity hashes of the exception and of its class: Java code has that of a class in a nanosecond,
//! and it does not keep the class alive. The JVM is asked for a class once.
#![allow(unsafe_code)]

mod classes;
mod examples;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use jvmti_bindings::env::JniEnv;
use jvmti_bindings::prelude::jni;

pub(crate) use self::classes::name;
pub(crate) use self::examples::{Example, begin_interval, dropped, take as take_examples};
use crate::options::ExceptionOptions;
use crate::probe::{self, Left, throws};

static WITH_EXAMPLES: AtomicBool = AtomicBool::new(false);
static WITH_MESSAGES: AtomicBool = AtomicBool::new(false);

/// What is done from now on. Only a sampler takes the examples.
pub(crate) fn configure(options: ExceptionOptions, has_sampler: bool) {
    WITH_EXAMPLES.store(has_sampler, Ordering::Relaxed);
    WITH_MESSAGES.store(options.messages, Ordering::Relaxed);
    throws::count(options.count);
}

/// An exception has left an instrumented call of the calling thread.
///
/// # Safety
/// The environment is that of the calling thread, and `thrown` a live reference of it.
pub(crate) unsafe fn left(env: *mut jni::JNIEnv, left: Left, thrown: jni::jobject) {
    if !throws::are_counted() {
        return;
    }
    let work = || {
        // SAFETY: the caller guarantees the environment.
        let jni = unsafe { JniEnv::from_raw(env) };
        // SAFETY: the caller guarantees the reference.
        unsafe {
            classes::know(&jni, left.class, thrown);
            if left.began && WITH_EXAMPLES.load(Ordering::Relaxed) {
                examples::add(&jni, left, thrown, WITH_MESSAGES.load(Ordering::Relaxed));
            }
        }
    };
    // A panic must not reach the JVM.
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        probe::give_up();
    }
}
