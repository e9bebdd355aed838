//! Waits over the threshold, with their stacks, until the agent thread takes them.

use log_format::ids::OsThreadId;
use log_format::rows::LockKind;

use super::in_progress::{InProgress, Key, Owner};
use super::kinds;
use crate::hotspot::own_stack::OwnStack;
use crate::jvm::class_names::ClassNumber;
use crate::probe::thread::os_id;
use crate::sys::memory::bounded_queue::BoundedQueue;

/// Most waits that wait for the agent thread, which takes them about every 60 ms.
const MOST: usize = 1_000;

/// A wait over the threshold.
#[derive(Debug)]
pub(crate) struct LongWait {
    /// When it began, and how long it took, in ticks.
    pub began: u64,
    pub ticks: u64,
    /// The kernel's number of the thread.
    pub os_id: OsThreadId,
    pub key: Key,
    pub class: ClassNumber,
    pub owner: Owner,
    pub stack: OwnStack,
}

static QUEUE: BoundedQueue<LongWait> = BoundedQueue::new(MOST, |wait| wait.stack.bytes());

/// Adds a wait of the calling thread, which has just ended; `false` if too many wait, or there is no memory.
pub(super) fn add(key: Key, wait: InProgress, ticks: u64) -> bool {
    let InProgress { began, java_thread, class, owner, .. } = wait;
    // The thread has the monitor, and others wait for it.
    if QUEUE.is_full() {
        return false;
    }
    let Some(mut stack) = OwnStack::read(java_thread, key.virtual_thread()) else { return false };
    // After a park, the thread is in the probe.
    if kinds::kind(class) != LockKind::Monitor && !stack.frames.is_empty() {
        stack.frames.remove(0);
    }
    QUEUE.push(LongWait { began, ticks, os_id: os_id(), key, class, owner, stack })
}

/// Takes the waits since the last call.
pub(crate) fn take() -> Vec<LongWait> {
    QUEUE.take()
}
