//! The probes in the methods with which threads park. They do not depend on the filters, and have no ids.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

use jvmti_bindings::env::{JniEnv, Jvmti};
use rewriter::{Outcome, Rewriter};

use crate::jvm::java_threads;
use crate::jvm::pauses::{self, Cause};
use crate::options::retransform::Retransform;
use crate::stderr::message;

/// The class whose methods park threads. They have no loops, so it may be retransformed at any time.
pub(super) const CLASS: &str = "java/util/concurrent/locks/LockSupport";

static ARE_WANTED: AtomicBool = AtomicBool::new(false);
static ARE_THERE: AtomicBool = AtomicBool::new(false);

/// Whether parks are counted while waits are.
pub(crate) fn are_there() -> bool {
    ARE_THERE.load(Ordering::Relaxed)
}

/// Inserts the probes. The load hook is open; the class was loaded long before. Without retransformation, they are left
/// out, as where the filters include the class.
pub(crate) fn begin(jvmti: &Jvmti, jni: &JniEnv, retransform: Retransform) {
    if retransform == Retransform::Off {
        return;
    }
    ARE_WANTED.store(true, Ordering::Release);
    retransform_class(jvmti, jni);
}

/// Removes them. The load hook is closed.
pub(super) fn end(jvmti: &Jvmti, jni: &JniEnv) {
    ARE_WANTED.store(false, Ordering::Release);
    if ARE_THERE.swap(false, Ordering::AcqRel) {
        retransform_class(jvmti, jni);
    }
}

fn retransform_class(jvmti: &Jvmti, jni: &JniEnv) {
    let _frame = jni.push_local_frame(16);
    let Ok(thread) = jvmti.get_current_thread() else { return };
    // SAFETY: live references of this thread.
    let class = unsafe {
        let any = java_threads::thread_class(jni, thread);
        java_threads::boot_class(jni, any, &CLASS.replace('/', "."))
    };
    match class {
        Some(class) => {
            // SAFETY: a live reference of this thread.
            let retransform = || unsafe { jvmti.retransform_classes(&[class]) };
            if let Err(error) = pauses::timed(Cause::Retransform, retransform) {
                message!("lock: the JVM does not retransform {CLASS}: {error:?}");
            }
        }
        None => message!("lock: {CLASS} is not found; parks are not counted"),
    }
}

/// The class with probes; `None` if it stays as it is.
pub(super) fn rewrite(bytes: &[u8]) -> Option<Vec<u8>> {
    if !ARE_WANTED.load(Ordering::Acquire) {
        return None;
    }
    let outcome = Rewriter::new().rewrite_parks(bytes);
    let Ok(Outcome::Rewritten(rewritten)) = outcome else { return None };
    ARE_THERE.store(true, Ordering::Release);
    Some(rewritten.bytes)
}
