//! The native method of the Java classes in `maven/`, which load this library with `System.load`.
//!
//! ```java
//! final class Command implements Runnable {    // package io.github.tprofiler
//!     int kind;                                // PREMAIN, START or STOP
//!     String options;                          // null: as they are
//!     int code;                                // set by `run`, from `attach_protocol`
//!     public native void run();                // a plain Thread runs it
//! }
//! ```
#![allow(unsafe_code, non_snake_case)]

use std::ffi::CString;
use std::fs::{self, DirEntry, File};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, OnceLock, PoisonError};

use jvmti_bindings::env::JniEnv;
use jvmti_bindings::prelude::jni;

use crate::attach_protocol;
use crate::entry_points::Agent_OnAttach;
use crate::error::Error;
use crate::request::Request;
use crate::session::active;
use crate::session::java_call::JavaCall;
use crate::stderr::message;

const PREMAIN: jni::jint = 0;
const START: jni::jint = 1;

/// The library's file, which the Java classes delete once it is loaded, and which they keep open only as long as their
/// class loader is there. `tprofiler attach` and `detach` find it among the open files of the process.
static LIBRARY: OnceLock<Option<File>> = OnceLock::new();

/// The options that the run has been started with.
static OPTIONS: Mutex<Option<String>> = Mutex::new(None);

/// `public native void run()`
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_github_tprofiler_Command_run(
    env: *mut jni::JNIEnv,
    command: jni::jobject,
) {
    // SAFETY: the JVM passes the thread's environment and a live reference to a command, which has these fields.
    let _ = catch_unwind(AssertUnwindSafe(|| unsafe {
        let jni = JniEnv::from_raw(env);
        LIBRARY.get_or_init(open_deleted_library);
        let class = jni.get_object_class(command);
        let kind = jni.get_field_id(class, "kind", "I");
        let options = jni.get_field_id(class, "options", "Ljava/lang/String;");
        let code = jni.get_field_id(class, "code", "I");
        if let (Some(kind), Some(options), Some(code)) = (kind, options, code) {
            let options = jni.get_object_field(command, options);
            let options = (!options.is_null()).then(|| jni.get_string_lossy(options));
            let done = match jni.get_int_field(command, kind) {
                PREMAIN => start(env, JavaCall::Premain, options.flatten()),
                START => start(env, JavaCall::Start, options.flatten()),
                _ => stop(),
            };
            jni.set_int_field(command, code, done);
        }
    }));
}

/// Opens the deleted file of the library once more, by the descriptor that the Java classes have.
fn open_deleted_library() -> Option<File> {
    let files = fs::read_dir("/proc/self/fd").ok()?.flatten();
    let is_library = |file: &DirEntry| {
        let link = fs::read_link(file.path()).unwrap_or_default();
        link.to_string_lossy().ends_with("/libtprofiler.so (deleted)")
    };
    files.into_iter().find(is_library).and_then(|file| File::open(file.path()).ok())
}

/// Begins a run, or recording if a run is active.
///
/// # Safety
/// `env` is the environment of this thread.
unsafe fn start(env: *mut jni::JNIEnv, call: JavaCall, options: Option<String>) -> jni::jint {
    let mut given = OPTIONS.lock().unwrap_or_else(PoisonError::into_inner);
    if active::get().is_some() {
        if options.is_some() && *given != options {
            message!("agent already active in this JVM; what was given first counts");
        }
        return ask(Request::Start);
    }
    let options = options.unwrap_or_default();
    let Ok(text) = CString::new(options.as_str()) else {
        message!("an option has a NUL character; profiling is off");
        return attach_protocol::WRONG_OPTIONS;
    };
    let mut vm = std::ptr::null_mut();
    // SAFETY: the JVM writes its table to the variable; the text lives until the call ends.
    let code = unsafe {
        if ((**env).GetJavaVM)(env, &raw mut vm) != jni::JNI_OK {
            return attach_protocol::REFUSED;
        }
        Agent_OnAttach(vm, text.as_ptr().cast_mut(), call.mark())
    };
    if code == attach_protocol::OK {
        *given = Some(options);
    }
    code
}

/// Ends recording.
fn stop() -> jni::jint {
    match active::get() {
        Some(_) => ask(Request::Stop),
        None => attach_protocol::NOT_ATTACHED,
    }
}

fn ask(request: Request) -> jni::jint {
    let late = Error::State("the agent has ended");
    let answer = active::get().ok_or(late).and_then(|running| running.agent.ask(request));
    match answer {
        Ok(_) => attach_protocol::OK,
        Err(error) => {
            message!("{error}");
            attach_protocol::REFUSED
        }
    }
}
