//! What the agent does in this JVM: nothing, or one run, from the JVM's start or an attach until the JVM's end or a
//! detach. After a detach its thread may go on for a minute, to restore classes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::options::retransform::Retransform;

static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Notes that the JVM is shutting down.
pub(crate) fn set_ending() {
    IS_ENDING.store(true, Ordering::Relaxed);
}

/// Whether the JVM is shutting down. Nobody waits for looks at stacks or for classes any more.
pub(crate) fn is_ending() -> bool {
    IS_ENDING.load(Ordering::Relaxed)
}

static LAST_RETRANSFORM: Mutex<Retransform> = Mutex::new(Retransform::On);

/// Keeps a run's option `retransform`: it applies to the run's classes after its end too.
pub(crate) fn set_last_retransform(retransform: Retransform) {
    *LAST_RETRANSFORM.lock().unwrap_or_else(PoisonError::into_inner) = retransform;
}

pub(crate) fn last_retransform() -> Retransform {
    *LAST_RETRANSFORM.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the agent's threads do.
#[derive(Debug)]
struct Phase {
    /// A run is active, begins, or ends.
    is_active: bool,
    /// A thread of an earlier run restores classes.
    is_restoring: bool,
}

static PHASE: Mutex<Phase> = Mutex::new(Phase { is_active: false, is_restoring: false });
static RESTORED: Condvar = Condvar::new();

fn phase() -> MutexGuard<'static, Phase> {
    PHASE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a run is active, begins, or ends.
pub(crate) fn is_active() -> bool {
    phase().is_active
}

/// Takes the right to begin a run; `false` if one is active.
pub(crate) fn begin() -> bool {
    !std::mem::replace(&mut phase().is_active, true)
}

/// Ends the run.
pub(crate) fn end() {
    phase().is_active = false;
}

/// Ends the run; its thread goes on to restore classes.
pub(crate) fn end_and_restore() {
    let mut phase = phase();
    (phase.is_restoring, phase.is_active) = (true, false);
}

/// Takes the right to restore classes; `false` if a run is active or another thread has the right.
pub(crate) fn begin_restoring() -> bool {
    let mut phase = phase();
    !phase.is_active && !std::mem::replace(&mut phase.is_restoring, true)
}

/// Whether classes are being restored after a run.
pub(crate) fn is_restoring() -> bool {
    phase().is_restoring
}

/// Notes that the calling thread has stopped restoring classes.
pub(crate) fn end_restoring() {
    phase().is_restoring = false;
    RESTORED.notify_all();
}

/// Waits until the thread of an earlier run notices that another run begins, and stops restoring classes.
/// `false` if it does not in time.
pub(crate) fn take_over(limit: Duration) -> bool {
    let waited = RESTORED.wait_timeout_while(phase(), limit, |phase| phase.is_restoring);
    !waited.unwrap_or_else(PoisonError::into_inner).0.is_restoring
}
