//! Which threads still wait for what they waited for before waits were not counted for a time.

use std::collections::HashMap;

use crate::sys::clock;

/// The most CPU time that a waiting thread uses in a second, in nanoseconds: before JDK 24, one of those that wait for
/// a monitor looks at it about once a second. A thread that uses so little may have had the monitor meanwhile, and wait
/// again: then two waits count as one.
const MOST_NS: u64 = 100_000;

/// The CPU time of each thread, by its `JavaThread`, at a moment.
#[derive(Debug, Default)]
pub(super) struct PausedWaits {
    at_ns: u64,
    cpu_times: HashMap<usize, u64>,
}

impl PausedWaits {
    pub(super) fn begin(cpu_times: HashMap<usize, u64>) -> Self {
        Self { at_ns: clock::monotonic_ns(), cpu_times }
    }

    /// Whether waits are counted, so that there is nothing to ask.
    pub(super) fn is_empty(&self) -> bool {
        self.cpu_times.is_empty()
    }

    /// Whether a thread still waits, by its CPU time now.
    pub(super) fn still_waits(&self, java_thread: usize, cpu_times: &HashMap<usize, u64>) -> bool {
        let seconds = clock::monotonic_ns().saturating_sub(self.at_ns) / 1_000_000_000;
        match (self.cpu_times.get(&java_thread), cpu_times.get(&java_thread)) {
            (Some(before), Some(now)) => now.saturating_sub(*before) <= MOST_NS * (1 + seconds),
            _ => false,
        }
    }
}
