//! The native methods of the class that probes of JDBC drivers call. The JVM finds them by these names.
#![allow(unsafe_code, non_snake_case)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::Ordering;

use jvmti_bindings::env::JniEnv;
use jvmti_bindings::prelude::jni;
use log_format::rows::Exit;
use rewriter::probe::StatementMethod;
use sampling_handler::signal;

use super::counts::{LOST, add_cost, is_on};
use super::in_progress::{self, Call};
use super::objects::{self, Object};
use super::slow::{self, Execution};
use super::sums::{self, StatementKey};
use super::texts::{self, Text};
use super::urls;
use crate::instrument::statement_probes::{is_one, kind};
use crate::jvm::thread_key::ThreadKey;
use crate::probe;
use crate::probe::stack::method_of;
use crate::sys::clock;

/// `private static native void entered0(int id, int identityHash, Object self, Object text)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_java_lang__00024TProfilerSql_entered0(
    env: *mut jni::JNIEnv,
    _class: jni::jclass,
    id: jni::jint,
    hash: jni::jint,
    object: jni::jobject,
    text: jni::jobject,
) {
    guarded(env, |jni, _| {
        let [id, hash] = [id, hash].map(jni::jint::cast_unsigned);
        // SAFETY: the JVM passes live references, the second to a string, or null.
        unsafe {
            if is_one(jni, id, object) {
                entered(jni, id, hash, text);
            }
        }
    });
}

/// `private static native void returned0(int id)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_java_lang__00024TProfilerSql_returned0(
    env: *mut jni::JNIEnv,
    _class: jni::jclass,
    id: jni::jint,
) {
    guarded(env, |jni, now| left(jni, id.cast_unsigned(), now, false));
}

/// `private static native void failed0(int id)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_java_lang__00024TProfilerSql_failed0(
    env: *mut jni::JNIEnv,
    _class: jni::jclass,
    id: jni::jint,
) {
    guarded(env, |jni, now| left(jni, id.cast_unsigned(), now, true));
}

/// `private static native void prepared0(int identityHash)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_java_lang__00024TProfilerSql_prepared0(
    env: *mut jni::JNIEnv,
    _class: jni::jclass,
    hash: jni::jint,
) {
    guarded(env, |jni, _| prepared(jni, hash.cast_unsigned()));
}

/// Works, with the moment. A panic must not reach the JVM.
fn guarded(env: *mut jni::JNIEnv, work: impl FnOnce(&JniEnv, u64)) {
    // SAFETY: the JVM passes the thread's environment.
    let work = |began| work(&unsafe { JniEnv::from_raw(env) }, began);
    if !is_on() {
        return;
    }
    let began = clock::ticks();
    if catch_unwind(AssertUnwindSafe(|| work(began))).is_err() {
        probe::give_up();
    }
    add_cost(began);
}

fn executes(id: u32) -> bool {
    kind(id).is_some_and(StatementMethod::executes)
}

/// # Safety
/// `text` is a live reference of this thread to a string, or null.
unsafe fn entered(jni: &JniEnv, id: u32, hash: u32, text: jni::jobject) {
    let Some(kind) = kind(id) else { return };
    let object = objects::get(hash);
    // SAFETY: the caller guarantees it.
    let text_of = || unsafe { texts::text(jni, text, object.url) };
    let (text, url) = match kind {
        StatementMethod::AddsText => return objects::add_to_batch(hash, text_of()),
        StatementMethod::ClearsBatch => return objects::end_batch(hash),
        StatementMethod::ExecutesText | StatementMethod::Prepares => (text_of(), object.url),
        StatementMethod::ExecutesPrepared | StatementMethod::ExecutesBatch => {
            (object.executed(), object.url)
        }
        StatementMethod::Creates => (Text::default(), object.url),
        // SAFETY: the caller guarantees it.
        StatementMethod::Connects => (Text::default(), unsafe { urls::number(jni, text) }),
    };
    if kind == StatementMethod::ExecutesBatch {
        objects::end_batch(hash);
    }
    let key = ThreadKey::of_current(jni);
    let here = 0_u8;
    let stack = if key.virtual_thread().is_some() { 0 } else { ptr::from_ref(&here).addr() };
    let method = method_of(signal::own_innermost());
    let began = clock::ticks();
    let call = Call { id, hash, url, text, method, began, stack, inner: 0, is_wrapper: false };
    if !in_progress::begin(key, call, kind.executes()) && kind.executes() {
        LOST.fetch_add(1, Ordering::Relaxed);
    }
}

fn left(jni: &JniEnv, id: u32, now: u64, threw: bool) {
    let Some(call) = in_progress::end(ThreadKey::of_current(jni), id, executes) else { return };
    if !executes(id) || call.is_wrapper {
        return;
    }
    let statement = StatementKey::new(call.url, call.text.id);
    let ticks = now.saturating_sub(call.began);
    if !sums::add(statement, call.method, ticks, threw) {
        LOST.fetch_add(1, Ordering::Relaxed);
    } else if slow::is_slow(ticks) {
        let exit = if threw { Exit::Throw } else { Exit::Return };
        slow::add(jni, (statement, call.text.raw), (call.began, ticks), exit);
    }
}

/// The executions that have not ended, one of a thread.
pub(crate) fn in_progress() -> Vec<Execution> {
    let of = |(thread, call): (ThreadKey, Call)| Execution {
        thread,
        statement: StatementKey::new(call.url, call.text.id),
        raw: call.text.raw,
        began: call.began,
    };
    in_progress::executing(executes).into_iter().map(of).collect()
}

/// A method has made a statement or a connection; its call is the innermost one.
fn prepared(jni: &JniEnv, hash: u32) {
    let makes = |call: &Call| kind(call.id).is_some_and(StatementMethod::returns_object);
    let made = in_progress::end_last(ThreadKey::of_current(jni), makes);
    // The hash of null is 0.
    if let Some(Call { url, text, .. }) = made
        && hash != 0
    {
        objects::set(hash, Object { url, text, ..Object::default() });
    }
}
