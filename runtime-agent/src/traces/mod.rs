//! Stacks of calls of traced methods. The thread that begins such a call takes its own stack, and the agent thread
//! takes it from here.
#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use jvmti_bindings::env::JniEnv;
use jvmti_bindings::prelude::jni;
use log_format::ids::{JavaThreadId, MethodId, OsThreadId};

use crate::hotspot::own_stack::OwnStack;
use crate::jvm::probe_class::ProbeClass;
use crate::probe;
use crate::probe::ProbeId;
use crate::probe::thread::os_id;
use crate::sys::clock;
use crate::sys::memory::bounded_queue::BoundedQueue;

/// Most calls that wait for the agent thread, which takes them about every 60 ms.
const MOST: usize = 5_000;
/// Taking a stack that takes longer, some 100 us, was interrupted itself.
const MOST_TICKS: u64 = 1 << 18;

/// A call that has just begun.
#[derive(Debug)]
pub(crate) struct TracedCall {
    /// When, in ticks.
    pub at_ticks: u64,
    /// The kernel's number of the thread.
    pub os_id: OsThreadId,
    pub virtual_thread: Option<JavaThreadId>,
    pub method: MethodId,
    /// For how many calls it stands.
    pub calls: u64,
    /// From the method on.
    pub stack: OwnStack,
}

static QUEUE: BoundedQueue<TracedCall> = BoundedQueue::new(MOST, |call| call.stack.bytes());
static IS_ON: AtomicBool = AtomicBool::new(false);
static DROPPED: AtomicU64 = AtomicU64::new(0);
static COST: AtomicU64 = AtomicU64::new(0);

/// Stacks are taken from now on, or not: something takes them from here.
pub(crate) fn turn_on(is_on: bool) {
    IS_ON.store(is_on, Ordering::Relaxed);
}

/// Stacks that were not kept since the JVM began: too many at once, or no memory.
pub(crate) fn dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// How many calls wait for the agent thread.
pub(crate) fn waiting() -> u64 {
    QUEUE.len() as u64
}

/// Takes the calls since the last time.
pub(crate) fn take() -> Vec<TracedCall> {
    QUEUE.take()
}

/// The CPU time that stacks took of the service's threads so far, in nanoseconds.
pub(crate) fn cost_ns() -> u64 {
    clock::ticks_to_ns(COST.load(Ordering::Relaxed))
}

/// A call has begun in the calling thread, and its stack stands for so many.
///
/// # Safety
/// The environment is that of the calling thread.
pub(crate) unsafe fn started(env: *mut jni::JNIEnv, probe_id: ProbeId, calls: u64) {
    if !IS_ON.load(Ordering::Relaxed) {
        return;
    }
    let at_ticks = clock::ticks();
    let add = || {
        // SAFETY: the caller guarantees the environment.
        add(&unsafe { JniEnv::from_raw(env) }, at_ticks, probe_id.method(), calls)
    };
    // A panic must not reach the JVM.
    let is_kept = !QUEUE.is_full()
        && catch_unwind(AssertUnwindSafe(add)).unwrap_or_else(|_| {
            probe::give_up();
            false
        });
    if !is_kept {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
    COST.fetch_add(clock::ticks().saturating_sub(at_ticks).min(MOST_TICKS), Ordering::Relaxed);
    probe::begin_again(probe_id);
}

fn add(jni: &JniEnv, at_ticks: u64, method: MethodId, calls: u64) -> bool {
    let stack = OwnStack::read_in_probe(jni, ProbeClass::frames());
    let Some((virtual_thread, stack)) = stack else { return false };
    QUEUE.push(TracedCall { at_ticks, os_id: os_id(), virtual_thread, method, calls, stack })
}
