//! What the first retransformation costs in a JVM that was started without the agent.
//!
//! HotSpot then discards all compiled code. Before JDK 15 it also revokes biased locks in each compiled frame of each
//! stack, and the pause grows with the square of their number: 0.1 s with 60,000 frames, 0.3 s with 120,000, and more
//! than 5 s with 600,000. So nothing is retransformed in a JVM with more frames than fit into a pause.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use jvmti_bindings::env::Jvmti;
use jvmti_bindings::prelude::jni;

use crate::jvm::jvm_properties::java_major;

/// The first JDK without biased locks, unless they are asked for.
const WITHOUT_BIASED_LOCKS: jni::jint = 15;
/// The most frames on all stacks. These take 0.13 s.
pub(super) const MOST_FRAMES: usize = 80_000;

static IS_OVER: AtomicBool = AtomicBool::new(false);

/// Notes that the JVM has retransformed classes, or had the agent from its start: then it knows what code depends on
/// what.
pub(crate) fn set_over() {
    IS_OVER.store(true, Ordering::Relaxed);
}

/// Whether the first retransformation would stop all threads for too long, with this many frames on all stacks.
pub(super) fn is_too_long(jvmti: &Jvmti, frames: usize) -> bool {
    frames > MOST_FRAMES && may_be_too_long(jvmti)
}

/// Whether that depends on the number of frames.
pub(super) fn may_be_too_long(jvmti: &Jvmti) -> bool {
    !IS_OVER.load(Ordering::Relaxed)
        && java_major(jvmti) < WITHOUT_BIASED_LOCKS
        && !fs::read("/proc/self/cmdline").is_ok_and(|line| has_none(&line))
}

/// Whether a command line switches biased locks off.
fn has_none(line: &[u8]) -> bool {
    line.split(|byte| *byte == 0).any(|word| word == b"-XX:-UseBiasedLocking")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_switches_biased_locks_off() {
        assert!(has_none(b"java\0-XX:-UseBiasedLocking\0Main\0"));
        assert!(!has_none(b"java\0-XX:+UseBiasedLocking\0Main\0"));
        assert!(!has_none(b"java\0Main\0"));
    }
}
