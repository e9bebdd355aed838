//! What threads run now, in terms of the methods that have ids.
#![allow(unsafe_code)]

use std::collections::HashMap;

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::jni;

use crate::instrument::internal_name;
use crate::loaders::Loaders;
use crate::methods::Methods;

/// Frames that are looked at, from the innermost on.
const FRAMES: jni::jint = 256;
/// How many methods of the JVM are remembered. They are forgotten then, as those of classes that were
/// unloaded have to be.
const REMEMBERED: usize = 20_000;

/// Knows which of the JVM's methods have ids.
#[derive(Debug, Default)]
pub(crate) struct StackSamples {
    ids: HashMap<usize, Option<u32>>,
}

impl StackSamples {
    /// Calls `see` with the stack of each thread that runs a method with an id: the ids, the innermost
    /// first. All threads stand still for a moment. Virtual threads are left out, as JVMTI has it. Tells how
    /// many threads there are.
    pub(crate) fn take(
        &mut self,
        jvmti: &Jvmti,
        jni: &JniEnv,
        methods: &Methods,
        mut see: impl FnMut(&[u32]),
    ) -> usize {
        let Ok(stacks) = jvmti.get_all_stack_traces(FRAMES) else { return 0 };
        let count = stacks.len();
        if self.ids.len() > REMEMBERED {
            self.ids.clear();
        }
        let mut ids = Vec::new();
        for stack in stacks {
            // SAFETY: a local reference that JVMTI made for this thread.
            unsafe { jni.delete_local_ref(stack.thread) };
            ids.clear();
            ids.extend(stack.frames.iter().filter_map(|frame| {
                *self
                    .ids
                    .entry(frame.method.addr())
                    // SAFETY: the method runs, or did a moment ago; of one whose class is gone the JVM says so.
                    .or_insert_with(|| unsafe { id(jvmti, jni, methods, frame.method) })
            }));
            if !ids.is_empty() {
                see(&ids);
            }
        }
        count
    }
}

/// The id of one of the JVM's methods.
///
/// # Safety
/// `method` is one of the JVM's.
unsafe fn id(
    jvmti: &Jvmti,
    jni: &JniEnv,
    methods: &Methods,
    method: jni::jmethodID,
) -> Option<u32> {
    // SAFETY: the caller's promise; the references that come back are this thread's, and given back.
    unsafe {
        let class = jvmti.get_method_declaring_class(method).ok()?;
        let (internal_name, loader) =
            (internal_name(jvmti, class), Loaders::all().of_class(jvmti, jni, class));
        jni.delete_local_ref(class);
        let (class, loader) = (internal_name?, loader?.number);
        if !methods.has_class(loader, &class) {
            return None;
        }
        let (name, descriptor, _) = jvmti.get_method_name(method).ok()?;
        methods.find(loader, &class, &name, &descriptor)
    }
}
