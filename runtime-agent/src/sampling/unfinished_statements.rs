//! Records the slow SQL statements that have not ended when recording ends, with the stacks of their threads.
#![allow(unsafe_code)]

use std::collections::HashMap;

use jvmti_bindings::env::Jvmti;
use log_format::ids::OsThreadId;
use sampling_handler::walk::End;

use crate::hotspot::own_stack::OwnStack;
use crate::hotspot::thread_list::ThreadList;
use crate::jvm::thread_key::ThreadKey;
use crate::statements::{self, Execution};

/// Records them, if there are any.
pub(super) fn record<'j>(jvmti: &'j Jvmti, list: impl FnOnce() -> Option<ThreadList<'j>>) {
    let slow = statements::in_progress().into_iter().filter(Execution::is_slow);
    let mut slow: HashMap<ThreadKey, Execution> = slow.map(|of| (of.thread, of)).collect();
    if slow.is_empty() {
        return;
    }
    if let Some(list) = list() {
        let environment = list.environment();
        let _ = list.for_each(|thread| {
            let key = ThreadKey::of_environment(thread.java_thread.wrapping_add(environment));
            if let Some(execution) = slow.remove(&key) {
                // SAFETY: a live reference of this thread.
                let stack = unsafe { OwnStack::said(jvmti, thread.object) };
                let stack = stack.unwrap_or_else(no_stack);
                statements::add_unfinished(&execution, thread.os_id, stack);
            }
        });
    }
    // Virtual threads: the JVM does not list them.
    for execution in slow.values().filter(|of| of.thread.virtual_thread().is_some()) {
        statements::add_unfinished(execution, OsThreadId::NONE, no_stack());
    }
}

fn no_stack() -> OwnStack {
    OwnStack { end: End::Off, frames: Vec::new(), shadow: Vec::new() }
}
