//! Waits for contended monitors, and parks of threads, as locks of `java.util.concurrent` do it: all are counted, by
//! class of the lock and instrumented method; those over the threshold are kept with their stacks.
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

use crate::sys::clock;

pub(crate) use self::in_progress::{InProgress, Key, Owner, all, set_owner, take_monitor};
pub(crate) use self::kinds::kind;
pub(crate) use self::long_waits::{LongWait, take as take_long_waits};
pub(crate) use self::parks::{blocker_of, owner_of};
pub(crate) use self::sums::{row as sum_row, take_sums};
pub(crate) use self::waits::{Counts, cost_ns, enter, entered, may_have_owner};

/// Waits that have lasted so long outlive a pause.
const LONG_NS: u64 = 100_000_000;

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
    waits::begin(jvmti, jni, threshold);
    jvmti.enable_events_global(&EVENTS).inspect_err(|_| stop(jvmti))
}

/// No more waits are counted.
pub(crate) fn end(jvmti: &Jvmti, jni: &JniEnv) {
    stop(jvmti);
    waits::end_skipping();
    in_progress::clear(jni);
}

/// Waits are not counted for a time, because there are too many. Those of platform threads that have lasted long stay:
/// a deadlock is still one.
pub(crate) fn pause(jvmti: &Jvmti, jni: &JniEnv) {
    stop(jvmti);
    waits::begin_to_skip();
    let now = clock::ticks();
    let long = clock::ns_to_ticks(LONG_NS);
    in_progress::retain(jni, |key, wait| {
        key.virtual_thread().is_none() && now.saturating_sub(wait.began) >= long
    });
}

/// Waits are counted again. Of those in progress, the ones stay whose thread, by its `JavaThread`, still waits; that of
/// a virtual thread is a carrier's, and says nothing.
///
/// # Errors
/// The JVM refuses it.
pub(crate) fn resume(
    jvmti: &Jvmti,
    jni: &JniEnv,
    still_waits: impl Fn(usize) -> bool,
) -> Result<(), jvmti::jvmtiError> {
    in_progress::retain(jni, |key, wait| {
        key.virtual_thread().is_none() && still_waits(wait.java_thread)
    });
    waits::end_skipping();
    waits::go_on();
    jvmti.enable_events_global(&EVENTS).inspect_err(|_| stop(jvmti))
}

/// The same, without touching the data.
pub(crate) fn stop(jvmti: &Jvmti) {
    if waits::end() {
        let _ = jvmti.disable_events_global(&EVENTS);
    }
}
