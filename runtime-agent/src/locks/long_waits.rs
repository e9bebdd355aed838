//! Waits over the threshold, with their stacks, until the agent thread takes them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use log_format::ids::OsThreadId;
use log_format::rows::LockKind;

use super::in_progress::{InProgress, Key, Owner};
use super::kinds;
use crate::hotspot::own_stack::OwnStack;
use crate::jvm::class_names::ClassNumber;
use crate::probe::thread::os_id;
use crate::sys::memory::Account;

/// Most waits that wait for the agent thread, which takes them about every 60 ms.
const MOST: usize = 1_000;

/// The memory of stacks that wait.
static MEMORY: Account = Account::new();

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

impl LongWait {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.stack.bytes()
    }
}

static QUEUE: Mutex<Vec<LongWait>> = Mutex::new(Vec::new());

fn queue() -> MutexGuard<'static, Vec<LongWait>> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a wait of the calling thread, which has just ended; `false` if too many wait, or there is no memory.
pub(super) fn add(key: Key, wait: InProgress, ticks: u64) -> bool {
    let InProgress { began, java_thread, class, owner, .. } = wait;
    // The thread has the monitor, and others wait for it.
    if queue().len() >= MOST {
        return false;
    }
    let Some(mut stack) = OwnStack::read(java_thread, key.virtual_thread()) else { return false };
    // After a park, the thread is in the probe.
    if kinds::kind(class) != LockKind::Monitor && !stack.frames.is_empty() {
        stack.frames.remove(0);
    }
    let wait = LongWait { began, ticks, os_id: os_id(), key, class, owner, stack };
    let mut queue = queue();
    let has_room = queue.len() < MOST && queue.try_reserve(1).is_ok() && MEMORY.take(wait.bytes());
    if has_room {
        queue.push(wait);
    }
    has_room
}

/// Takes the waits since the last call.
pub(crate) fn take() -> Vec<LongWait> {
    let mut queue = queue();
    MEMORY.give_all();
    std::mem::take(&mut *queue)
}
