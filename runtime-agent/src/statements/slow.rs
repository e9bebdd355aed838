//! Executions over the threshold, with their stacks, until the agent thread takes them.

use std::sync::atomic::{AtomicU64, Ordering};

use jvmti_bindings::env::JniEnv;
use log_format::ids::{JavaThreadId, OsThreadId};
use log_format::rows::Exit;

use super::sums::StatementKey;
use crate::hotspot::own_stack::OwnStack;
use crate::jvm::thread_key::ThreadKey;
use crate::probe::thread::os_id;
use crate::sys::clock;
use crate::sys::memory::bounded_queue::BoundedQueue;

/// Most executions in a second: a stack takes some 10 us.
const MOST: u64 = 1_000;

/// Executions of so many ticks are kept.
static THRESHOLD: AtomicU64 = AtomicU64::new(u64::MAX);
/// How many there were in this second, and how many were not kept since the JVM began.
static IN_SECOND: AtomicU64 = AtomicU64::new(0);
static DROPPED: AtomicU64 = AtomicU64::new(0);
/// It has no bound of its own: [`MOST`] in a second, and memory, bound it.
static QUEUE: BoundedQueue<SlowStatement> =
    BoundedQueue::new(usize::MAX, |slow| slow.stack.bytes());

/// An execution over the threshold.
#[derive(Debug)]
pub(crate) struct SlowStatement {
    pub statement: StatementKey,
    /// A hash of the text with its literals.
    pub raw: u32,
    /// When it began, and how long it took, in ticks.
    pub began: u64,
    pub ticks: u64,
    pub exit: Exit,
    /// The kernel's number of the thread.
    pub os_id: OsThreadId,
    pub virtual_thread: Option<JavaThreadId>,
    pub stack: OwnStack,
}

/// An execution that has not ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Execution {
    pub thread: ThreadKey,
    pub statement: StatementKey,
    /// A hash of the text with its literals.
    pub raw: u32,
    /// When it began, in ticks.
    pub began: u64,
}

impl Execution {
    /// Whether it has taken long enough by now to be recorded.
    pub(crate) fn is_slow(&self) -> bool {
        is_slow(self.ticks())
    }

    /// How long it has taken so far, in ticks.
    pub(crate) fn ticks(&self) -> u64 {
        clock::ticks().saturating_sub(self.began)
    }
}

pub(super) fn set_threshold(ticks: u64) {
    THRESHOLD.store(ticks, Ordering::Relaxed);
}

/// Whether an execution of so many ticks is kept.
pub(super) fn is_slow(ticks: u64) -> bool {
    ticks >= THRESHOLD.load(Ordering::Relaxed)
}

/// Those that were not kept: too many, or no memory.
pub(super) fn dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

pub(super) fn begin_second() {
    IN_SECOND.store(0, Ordering::Relaxed);
}

/// Frames of a statement's probe on top of a stack: its native method, and its guard.
const PROBE_FRAMES: usize = 2;

/// Adds an execution of the calling thread, which is in a probe.
pub(super) fn add(
    jni: &JniEnv,
    (statement, raw): (StatementKey, u32),
    (began, ticks): (u64, u64),
    exit: Exit,
) {
    let add = || {
        let (virtual_thread, stack) = OwnStack::read_in_probe(jni, PROBE_FRAMES)?;
        let os_id = os_id();
        let slow =
            SlowStatement { statement, raw, began, ticks, exit, os_id, virtual_thread, stack };
        Some(QUEUE.push(slow))
    };
    if IN_SECOND.fetch_add(1, Ordering::Relaxed) >= MOST || add() != Some(true) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Adds an execution that has not ended: recording ends.
pub(crate) fn add_unfinished(execution: &Execution, os_id: OsThreadId, stack: OwnStack) {
    let Execution { thread, statement, raw, began } = *execution;
    let (ticks, virtual_thread) = (execution.ticks(), thread.virtual_thread());
    let exit = Exit::Unfinished;
    let slow = SlowStatement { statement, raw, began, ticks, exit, os_id, virtual_thread, stack };
    if !QUEUE.push(slow) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Takes those since the last call.
pub(crate) fn take() -> Vec<SlowStatement> {
    QUEUE.take()
}
