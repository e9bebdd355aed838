//! Waits for contended monitors, and parks of threads, as locks of `java.util.concurrent` do it: all are counted, by
//! class of the lock and measured method; those over the threshold are kept with their stacks.
//!
//! ```text
//! parks       the probes of LockSupport
//! kinds       what a wait is for
//! waits       counts them, in the threads that wait
//! in_progress waits that have not ended, and who has the monitor
//! sums        all waits that have ended
//! long_waits  those over the threshold, until the agent thread takes them
//! ```
//! The JVM's events come only when a thread is about to wait: a monitor that nobody else wants costs nothing. What can
//! be done before the wait is: after it, the thread has the monitor, and others wait for that.

mod in_progress;
mod kinds;
mod long_waits;
mod parks;
mod sums;
mod waits;

use std::time::Duration;

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::jvmti;

pub(crate) use self::in_progress::{InProgress, Key, Owner, all, set_owner, take_monitor};
pub(crate) use self::kinds::kind;
pub(crate) use self::long_waits::{LongWait, take as take_long_waits};
pub(crate) use self::parks::{blocker_of, owner_of};
pub(crate) use self::sums::{WaitSum, take_sums};
pub(crate) use self::waits::{Counts, cost_ns, enter, entered, is_on, may_have_owner, skip_second};

const EVENTS: [jvmti::jvmtiEvent; 2] =
    [jvmti::JVMTI_EVENT_MONITOR_CONTENDED_ENTER, jvmti::JVMTI_EVENT_MONITOR_CONTENDED_ENTERED];

/// Forgets what was counted and not taken.
pub(crate) fn forget() {
    sums::clear();
    drop(take_long_waits());
}

/// Waits are counted from now on; those in progress are not. The agent thread calls this.
///
/// # Errors
/// The JVM has no such events.
pub(crate) fn begin(
    jvmti: &Jvmti,
    jni: &JniEnv,
    threshold: Duration,
    with_parks: bool,
) -> Result<(), jvmti::jvmtiError> {
    in_progress::clear(jni);
    if with_parks {
        parks::prepare(jvmti, jni);
    }
    waits::begin(jni, threshold);
    jvmti.enable_events_global(&EVENTS).inspect_err(|_| stop(jvmti))
}

/// No more waits are counted.
pub(crate) fn end(jvmti: &Jvmti, jni: &JniEnv) {
    stop(jvmti);
    in_progress::clear(jni);
}

/// The same, without touching the data.
pub(crate) fn stop(jvmti: &Jvmti) {
    if waits::end() {
        let _ = jvmti.disable_events_global(&EVENTS);
    }
}
