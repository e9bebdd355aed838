//! Samples of allocated objects: the JVM's event comes once in so many bytes of each thread, in the thread.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::{jni, jvmti};
use log_format::ids::{JavaThreadId, OsThreadId};

use crate::hotspot::own_stack::OwnStack;
use crate::jvm::class_names::{self, ClassNumber};
use crate::jvm::java_threads;
use crate::probe::thread::os_id;
use crate::sys::clock::{self, TimeOn, as_f64};
use crate::sys::memory::bounded_queue::BoundedQueue;

const EVENT: [jvmti::jvmtiEvent; 1] = [jvmti::JVMTI_EVENT_SAMPLED_OBJECT_ALLOC];
/// Most samples that wait for the agent thread, which takes them about every 60 ms.
const MOST: usize = 5_000;

static IS_ON: AtomicBool = AtomicBool::new(false);
/// The JNI environment of the agent thread, whose objects do not count.
static AGENT: AtomicUsize = AtomicUsize::new(0);
/// The interval in force, in bytes.
static INTERVAL: AtomicU64 = AtomicU64::new(0);
static DROPPED: AtomicU64 = AtomicU64::new(0);
/// How long allocations were sampled. The agent thread turns it on and off.
static SAMPLED: TimeOn = TimeOn::new();
static COST: AtomicU64 = AtomicU64::new(0);
/// An event that takes longer, some 100 us, was interrupted itself.
const MOST_TICKS: u64 = 1 << 18;

/// Samples that were not kept since the JVM began: too many at once, or no memory.
pub(crate) fn dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// A sampled object.
#[derive(Debug)]
pub(crate) struct Allocation {
    /// When it was allocated, in ticks.
    pub at_ticks: u64,
    /// The kernel's number of the thread.
    pub os_id: OsThreadId,
    pub virtual_thread: Option<JavaThreadId>,
    /// The number of its class.
    pub class: ClassNumber,
    /// How many objects, and how many bytes of them, it stands for.
    pub objects: f64,
    pub bytes: f64,
    pub stack: OwnStack,
}

static QUEUE: BoundedQueue<Allocation> = BoundedQueue::new(MOST, |sample| sample.stack.bytes());

/// How many samples wait for the agent thread.
pub(crate) fn waiting() -> u64 {
    QUEUE.len() as u64
}

/// Takes the samples since the last call.
pub(crate) fn take() -> Vec<Allocation> {
    QUEUE.take()
}

/// How long allocations were sampled since the JVM began, in nanoseconds.
pub(crate) fn sampled_ns() -> u64 {
    SAMPLED.ns()
}

/// The CPU time that events took of the service's threads so far, in nanoseconds.
pub(crate) fn cost_ns() -> u64 {
    clock::ticks_to_ns(COST.load(Ordering::Relaxed))
}

/// Forgets what was sampled and not taken, and the interval.
pub(crate) fn forget() {
    drop(take());
    INTERVAL.store(0, Ordering::Relaxed);
}

/// The interval that was last in force, in bytes; `None` if nothing was sampled.
pub(crate) fn last_interval() -> Option<u64> {
    Some(INTERVAL.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0)
}

/// The interval in force, in bytes; `None` while nothing is sampled.
pub(crate) fn interval() -> Option<u64> {
    IS_ON.load(Ordering::Relaxed).then(|| INTERVAL.load(Ordering::Relaxed))
}

fn capability() -> jvmti::jvmtiCapabilities {
    let mut capability = jvmti::jvmtiCapabilities::default();
    capability.set_can_generate_sampled_object_alloc_events(true);
    capability
}

/// Allocations are sampled from now on, once in so many bytes. The agent thread calls this.
///
/// # Errors
/// The JVM refuses it: another agent samples them.
pub(crate) fn begin(jvmti: &Jvmti, jni: &JniEnv, bytes: u64) -> Result<(), jvmti::jvmtiError> {
    AGENT.store(jni.raw().addr(), Ordering::Relaxed);
    jvmti.add_capabilities(&capability())?;
    let begun = set_interval(jvmti, bytes).and_then(|()| jvmti.enable_events_global(&EVENT));
    if begun.is_err() {
        let _ = jvmti.relinquish_capabilities(&capability());
    } else {
        SAMPLED.begin();
        IS_ON.store(true, Ordering::Release);
    }
    begun
}

/// Changes the interval.
///
/// # Errors
/// The JVM refuses it.
pub(crate) fn set_interval(jvmti: &Jvmti, bytes: u64) -> Result<(), jvmti::jvmtiError> {
    jvmti.set_heap_sampling_interval(jni::jint::try_from(bytes).unwrap_or(jni::jint::MAX))?;
    INTERVAL.store(bytes, Ordering::Relaxed);
    Ok(())
}

/// Nothing is sampled any more, and other agents may sample.
pub(crate) fn end(jvmti: &Jvmti) {
    if IS_ON.swap(false, Ordering::AcqRel) {
        SAMPLED.end();
        let _ = jvmti.disable_events_global(&EVENT);
        let _ = jvmti.relinquish_capabilities(&capability());
    }
}

/// The calling thread, whose `JavaThread` is this, or 0 if that is not known, has allocated an object.
///
/// # Safety
/// The references are those of the event.
pub(crate) unsafe fn sampled(
    jvmti: &Jvmti,
    jni: &JniEnv,
    java_thread: usize,
    thread: jni::jthread,
    class: jni::jclass,
    size: u64,
) {
    let Some(interval) = interval() else { return };
    if jni.raw().addr() == AGENT.load(Ordering::Relaxed) {
        return;
    }
    let at_ticks = clock::ticks();
    // SAFETY: the caller guarantees the references.
    let is_kept =
        unsafe { add(jvmti, jni, java_thread, thread, class, at_ticks, weight(size, interval)) };
    if !is_kept {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
    COST.fetch_add(clock::ticks().saturating_sub(at_ticks).min(MOST_TICKS), Ordering::Relaxed);
}

/// How many objects of this size a sample stands for, and how many bytes: the JVM's sampling points are a Poisson
/// process along the allocated bytes, so an object is sampled with the probability 1 - e^(-size/interval).
fn weight(size: u64, interval: u64) -> (f64, f64) {
    let (size, interval) = (as_f64(size), as_f64(interval));
    let objects = if interval < 1.0 { 1.0 } else { 1.0 / -(-size / interval).exp_m1() };
    (objects, objects * size)
}

/// # Safety
/// As [`sampled`].
unsafe fn add(
    jvmti: &Jvmti,
    jni: &JniEnv,
    java_thread: usize,
    thread: jni::jthread,
    class: jni::jclass,
    at_ticks: u64,
    (objects, bytes): (f64, f64),
) -> bool {
    if QUEUE.is_full() {
        return false;
    }
    // SAFETY: the caller guarantees the references.
    let (class, virtual_thread) =
        unsafe { (class_names::of_class(jvmti, class), java_threads::virtual_number(jni, thread)) };
    let Some(stack) = OwnStack::read(java_thread, virtual_thread) else { return false };
    let os_id = os_id();
    QUEUE.push(Allocation { at_ticks, os_id, virtual_thread, class, objects, bytes, stack })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_stands_for_what_was_not_sampled() {
        let near = |found: (f64, f64), objects: f64, bytes: f64| {
            let is_near = |one: f64, other: f64| (one - other).abs() <= other * 1e-3;
            assert!(is_near(found.0, objects) && is_near(found.1, bytes), "{found:?}");
        };
        // A small object stands for an interval, a large one for itself.
        near(weight(16, 524_288), 32_768.5, 524_296.0);
        near(weight(524_288, 524_288), 1.582, 829_413.0);
        near(weight(100_000_000, 524_288), 1.0, 100_000_000.0);
        near(weight(16, 0), 1.0, 16.0);
    }
}
