//! From a method that the JVM names on a stack to the id by which samples name it: old versions of methods have ids of
//! their own, which nobody knows.

use std::sync::OnceLock;

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::jni;
use sampling_handler::memory::Process;
use sampling_handler::vm_layout::Method;

use super::method_names;
use super::tables::{self, Tables};
use crate::self_test::{NEWEST_TESTED, jdk};

static LAYOUT: OnceLock<Option<Method>> = OnceLock::new();

/// Finds where HotSpot has what is needed, once for the life of the process.
pub(crate) fn prepare(jvmti: &Jvmti, jni: &JniEnv) {
    LAYOUT.get_or_init(|| {
        let mut layout = Tables::read()?.method().ok()?;
        // Ids may be no addresses in a newer JDK.
        let is_tested = jdk::version(jvmti).is_some_and(|version| version <= NEWEST_TESTED);
        let ids = method_names::of_thread(jvmti, jni).filter(|_| is_tested)?;
        layout.original_number = Some(tables::original_number(&layout, &ids)?);
        Some(layout)
    });
}

/// The layout of methods, if old versions can be told.
pub(crate) fn layout() -> Option<&'static Method> {
    LAYOUT.get()?.as_ref()
}

/// The id by which a method is known that is on the stack of a thread.
pub(crate) fn newest(method: jni::jmethodID) -> usize {
    let id = method.expose_provenance();
    layout().map_or(id, |layout| layout.newest_id(&Process, id))
}
