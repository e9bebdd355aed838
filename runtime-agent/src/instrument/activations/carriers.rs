//! Threads that carry virtual threads.
#![allow(unsafe_code)]

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::{jni, jvmti};

use crate::jvm::jvm_properties::internal_name;
use crate::jvm::pauses::{self, Cause};

/// HotSpot's extension that gives the virtual thread of a carrier.
pub(super) struct Carriers(Option<jvmti::jvmtiExtensionFunction>);

impl Carriers {
    pub(super) fn new(jvmti: &Jvmti) -> Self {
        const ID: &str = "com.sun.hotspot.functions.GetVirtualThread";
        let functions = jvmti.get_extension_functions().unwrap_or_default();
        let found = functions.into_iter().find(|function| function.id.as_deref() == Some(ID));
        Self(found.and_then(|function| function.func))
    }

    /// The virtual thread that a carrier carries. The call keeps virtual threads from being mounted anywhere, so it is
    /// made only for carriers.
    ///
    /// # Safety
    /// `carrier` is a live reference of this thread.
    pub(super) unsafe fn mounted_on(
        &self,
        jvmti: &Jvmti,
        carrier: jni::jthread,
    ) -> Option<jni::jthread> {
        let function = self.0?;
        let mut found: jni::jthread = std::ptr::null_mut();
        let error = pauses::timed(Cause::LookAtOne, || {
            // SAFETY: the function takes a carrier and a place for the result, by its description.
            unsafe { function(jvmti.raw(), carrier, &raw mut found) }
        });
        (error == jvmti::jvmtiError::NONE && !found.is_null()).then_some(found)
    }
}

/// Whether a thread carries virtual threads.
///
/// # Safety
/// `thread` is a live reference of this thread.
pub(super) unsafe fn is_carrier(jvmti: &Jvmti, jni: &JniEnv, thread: jni::jthread) -> bool {
    // SAFETY: the caller's promise; the class is given back.
    let name = unsafe {
        let class = jni.get_object_class(thread);
        let name = internal_name(jvmti, class);
        jni.delete_local_ref(class);
        name
    };
    name.as_deref() == Some("jdk/internal/misc/CarrierThread")
}

/// Whether virtual threads run in this JVM, as far as its threads tell.
pub(crate) fn exist(jvmti: &Jvmti, jni: &JniEnv) -> bool {
    let threads = jvmti.get_all_threads().unwrap_or_default();
    // SAFETY: live references of this thread, deleted here.
    unsafe {
        let has_carriers = threads.iter().any(|thread| is_carrier(jvmti, jni, *thread));
        threads.into_iter().for_each(|thread| jni.delete_local_ref(thread));
        has_carriers
    }
}
