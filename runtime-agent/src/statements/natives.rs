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
use crate::instrument::statement_probes::StatementProbe;
use crate::jvm::thread_key::ThreadKey;
use crate::probe;
use crate::probe::ProbeId;
use crate::sys::clock;

const fn probe_of(id: jni::jint) -> StatementProbe {
    StatementProbe::new(id.cast_unsigned())
}

/// `private static native void entered0(int id, int identityHash, Object self, Object text)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_java_lang_invoke__00024TProfilerSql_entered0(
    env: *mut jni::JNIEnv,
    _class: jni::jclass,
    id: jni::jint,
    hash: jni::jint,
    object: jni::jobject,
    text: jni::jobject,
) {
    guarded(env, |jni, _| {
        let (probe, hash) = (probe_of(id), hash.cast_unsigned());
        // SAFETY: the JVM passes live references, the second to a string, or null.
        unsafe {
            if probe.is_of_one(jni, object) {
                entered(jni, probe, hash, text);
            }
        }
    });
}

/// `private static native void returned0(int id)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_java_lang_invoke__00024TProfilerSql_returned0(
    env: *mut jni::JNIEnv,
    _class: jni::jclass,
    id: jni::jint,
) {
    guarded(env, |jni, now| left(jni, probe_of(id), now, false));
}

/// `private static native void failed0(int id)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_java_lang_invoke__00024TProfilerSql_failed0(
    env: *mut jni::JNIEnv,
    _class: jni::jclass,
    id: jni::jint,
) {
    guarded(env, |jni, now| left(jni, probe_of(id), now, true));
}

/// `private static native void prepared0(int identityHash, int id)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_java_lang_invoke__00024TProfilerSql_prepared0(
    env: *mut jni::JNIEnv,
    _class: jni::jclass,
    hash: jni::jint,
    id: jni::jint,
) {
    guarded(env, |jni, _| made(jni, hash.cast_unsigned(), probe_of(id)));
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

/// # Safety
/// `text` is a live reference of this thread to a string, or null.
unsafe fn entered(jni: &JniEnv, probe: StatementProbe, hash: u32, text: jni::jobject) {
    let Some(kind) = probe.kind() else { return };
    let (object, url) = match kind {
        // SAFETY: the caller guarantees it.
        StatementMethod::Connects => (Object::default(), unsafe { urls::number(jni, text) }),
        StatementMethod::Prepares | StatementMethod::Creates => {
            (Object::default(), objects::url_of(hash))
        }
        _ => {
            let object = objects::get(hash);
            (object, object.url)
        }
    };
    // SAFETY: the caller guarantees it.
    let text_of = || unsafe { texts::text(jni, text, url) };
    let text = match kind {
        StatementMethod::AddsText => return objects::add_to_batch(hash, text_of()),
        StatementMethod::ClearsBatch => return objects::end_batch(hash),
        StatementMethod::ExecutesText | StatementMethod::Prepares => text_of(),
        StatementMethod::ExecutesPrepared => object.executed(),
        StatementMethod::ExecutesBatch => {
            objects::end_batch(hash);
            object.executed()
        }
        StatementMethod::Creates | StatementMethod::Connects => Text::default(),
    };
    let key = ThreadKey::of_current(jni);
    let here = 0_u8;
    let stack = if key.virtual_thread().is_some() { 0 } else { ptr::from_ref(&here).addr() };
    let (executes, is_counted_elsewhere) = (kind.executes(), false);
    let method = ProbeId::new(signal::own_innermost()).method();
    let began = clock::ticks();
    let call =
        Call { probe, executes, hash, url, text, method, began, stack, is_counted_elsewhere };
    if !in_progress::begin(key, call) && executes {
        LOST.fetch_add(1, Ordering::Relaxed);
    }
}

fn left(jni: &JniEnv, probe: StatementProbe, now: u64, threw: bool) {
    if !probe.kind().is_some_and(|kind| kind.executes() || kind.returns_object()) {
        return;
    }
    let Some(call) = in_progress::end(ThreadKey::of_current(jni), probe) else { return };
    if !call.executes || call.is_counted_elsewhere {
        return;
    }
    let statement = StatementKey { text: call.text.id, url: call.url };
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
        statement: StatementKey { text: call.text.id, url: call.url },
        raw: call.text.raw,
        began: call.began,
    };
    in_progress::executing().into_iter().map(of).collect()
}

/// A method has made a statement or a connection.
fn made(jni: &JniEnv, hash: u32, probe: StatementProbe) {
    let call = in_progress::end(ThreadKey::of_current(jni), probe);
    // The hash of null is 0.
    let Some(Call { url, text, .. }) = call.filter(|_| hash != 0) else { return };
    match probe.kind() {
        Some(StatementMethod::Connects) => objects::set_url_of(hash, url),
        _ => objects::set(hash, Object { url, text, ..Object::default() }),
    }
}
