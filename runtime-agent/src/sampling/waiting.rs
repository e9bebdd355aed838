//! What threads wait for, as the JVM says it.

use jvmti_bindings::prelude::{jni, jvmti};

/// What a thread does while it does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Waiting {
    /// For a monitor that another thread has.
    Blocked,
    /// In `Object.wait` or `Thread.join`, without and with a time limit.
    Wait,
    TimedWait,
    Sleeping,
    Parked,
    /// In native code: for the network, a disk, another process.
    Native,
    /// For the JVM: a safepoint, the garbage collector, a class being initialized.
    Vm,
    /// For a processor.
    Runnable,
}

impl Waiting {
    /// The name in the log.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Wait => "waiting",
            Self::TimedWait => "timed_waiting",
            Self::Sleeping => "sleeping",
            Self::Parked => "parked",
            Self::Native => "native",
            Self::Vm => "vm",
            Self::Runnable => "runnable",
        }
    }

    /// By the JVM's state of a thread, and HotSpot's own. Only a blocked thread waits: the JVM says it of every carrier
    /// with a virtual thread too.
    pub(super) fn of(state: jni::jint, hotspot: u8) -> Self {
        let is = |flag| matches!(hotspot, 10 | 11) && state & flag != 0;
        if is(jvmti::JVMTI_THREAD_STATE_BLOCKED_ON_MONITOR_ENTER) {
            Self::Blocked
        } else if is(jvmti::JVMTI_THREAD_STATE_SLEEPING) {
            Self::Sleeping
        } else if is(jvmti::JVMTI_THREAD_STATE_PARKED) {
            Self::Parked
        } else if is(jvmti::JVMTI_THREAD_STATE_WAITING_WITH_TIMEOUT) {
            Self::TimedWait
        } else if is(jvmti::JVMTI_THREAD_STATE_WAITING) {
            Self::Wait
        } else {
            match hotspot {
                4 | 5 => Self::Native,
                6 | 7 | 10 | 11 => Self::Vm,
                _ => Self::Runnable,
            }
        }
    }
}
