//! Counts waits as they begin and end, in the threads that wait.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::jni;
use log_format::ids::MethodId;
use log_format::rows::LockKind;
use sampling_handler::signal;

use super::in_progress::{self, InProgress, Key, Owner};
use super::kinds::kind;
use super::{long_waits, sums};
use crate::jvm::class_names::{self, ClassNumber};
use crate::jvm::java_threads;
use crate::probe::ProbeId;
use crate::sys::clock::{self, TimeOn};

/// The JVM does not say for which monitor a platform thread waits: it does only for agents that came with it.
static NOTES_MONITORS: AtomicBool = AtomicBool::new(false);
static IS_ON: AtomicBool = AtomicBool::new(false);
/// Waits of so many ticks are kept.
static THRESHOLD: AtomicU64 = AtomicU64::new(u64::MAX);
/// Waits that have ended; those of them that were other parks; those over the threshold that were not kept; those that
/// are not counted for lack of memory.
static WAITS: AtomicU64 = AtomicU64::new(0);
static PARKS: AtomicU64 = AtomicU64::new(0);
static DROPPED: AtomicU64 = AtomicU64::new(0);
static LOST: AtomicU64 = AtomicU64::new(0);
/// How long nothing was counted, because there were too many. The agent thread turns it on and off.
static SKIPPED: TimeOn = TimeOn::new();
/// What all waits cost.
static COST_NS: AtomicU64 = AtomicU64::new(0);
/// When waits began to be counted, in ticks, and the JNI environment of the agent thread, whose waits do not count.
static BEGAN: AtomicU64 = AtomicU64::new(0);
static AGENT: AtomicUsize = AtomicUsize::new(0);
/// What counts for an event at most, in nanoseconds, and for the stack of a recorded wait: what takes longer was
/// interrupted. Usually they take 0.3 us and some 10 us.
const MOST_NS: u64 = 2_000;
const MOST_STACK_NS: u64 = 50_000;
/// What the JVM takes for its event besides: it makes references, and changes the thread's state twice. At the second
/// event, the thread has the monitor, and others wait longer. With the agent's part, a wait cost some 1 us: a program
/// that does nothing else, 57,000 times a second, was slower by 20 to 30%.
const EVENT_NS: u64 = 400;

/// What was counted since the JVM began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Waits that ended.
    pub waits: u64,
    /// Those of them that were parks for what no thread owns.
    pub other_parks: u64,
    /// Those of them that were not kept although they took long.
    pub dropped: u64,
    /// Others, which are counted nowhere for lack of memory.
    pub lost: u64,
    /// Seconds, rounded up, in which nothing was counted, because there were too many.
    pub seconds_skipped: u64,
}

impl Counts {
    pub(crate) fn now() -> Self {
        let [waits, other_parks, dropped, lost] =
            [&WAITS, &PARKS, &DROPPED, &LOST].map(|counter| counter.load(Ordering::Relaxed));
        let seconds_skipped = SKIPPED.ns().div_ceil(1_000_000_000);
        // More may have ended between the two readings.
        let other_parks = other_parks.min(waits);
        Self { waits, other_parks, dropped, lost, seconds_skipped }
    }
}

/// The CPU time that events took of the service's threads so far, in nanoseconds.
pub(crate) fn cost_ns() -> u64 {
    COST_NS.load(Ordering::Relaxed)
}

/// Whether waits are counted now.
pub(crate) fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// From now on, nothing is counted, because there are too many.
pub(super) fn begin_to_skip() {
    SKIPPED.begin();
}

/// Waits are counted again, or nothing is to be counted any more.
pub(super) fn end_skipping() {
    SKIPPED.end();
}

/// Waits are counted from now on. The agent thread calls this.
pub(super) fn begin(jvmti: &Jvmti, jni: &JniEnv, threshold: Duration) {
    let can = jvmti.get_capabilities().unwrap_or_default();
    NOTES_MONITORS.store(!can.can_get_current_contended_monitor(), Ordering::Relaxed);
    AGENT.store(jni.raw().addr(), Ordering::Relaxed);
    BEGAN.store(clock::ticks(), Ordering::Relaxed);
    let threshold_ns = u64::try_from(threshold.as_nanos()).unwrap_or(u64::MAX);
    THRESHOLD.store(clock::ns_to_ticks(threshold_ns), Ordering::Relaxed);
    IS_ON.store(true, Ordering::Release);
}

/// Waits are counted again, also those that are in progress.
pub(super) fn go_on() {
    IS_ON.store(true, Ordering::Release);
}

/// No more waits are counted; `false` if none were.
pub(super) fn end() -> bool {
    IS_ON.swap(false, Ordering::AcqRel)
}

/// Notes what a probe cost that began then.
pub(super) fn add_cost(began: u64) {
    add_time(began, MOST_NS, 0);
}

/// Notes what an event of the JVM cost that began then.
fn add_event(began: u64) {
    add_time(began, MOST_NS, EVENT_NS);
}

fn add_time(began: u64, most_ns: u64, besides_ns: u64) {
    let took_ns = clock::ticks_to_ns(clock::ticks().saturating_sub(began));
    COST_NS.fetch_add(took_ns.min(most_ns) + besides_ns, Ordering::Relaxed);
}

/// A thread is about to wait for a monitor: the calling one, whose `JavaThread` is this, or 0 if that is not known.
///
/// # Safety
/// The references are those of the event.
pub(crate) unsafe fn enter(
    jvmti: &Jvmti,
    jni: &JniEnv,
    java_thread: usize,
    thread: jni::jthread,
    object: jni::jobject,
) {
    if !counts(jni) {
        return;
    }
    let began = clock::ticks();
    // SAFETY: the caller guarantees the references.
    unsafe {
        let class = class_names::number(jvmti, jni, object);
        begin_wait(jni, key(jni, thread), began, java_thread, class, object);
    }
    add_event(began);
}

/// Whether waits of the calling thread are counted now.
pub(super) fn counts(jni: &JniEnv) -> bool {
    is_on() && jni.raw().addr() != AGENT.load(Ordering::Relaxed)
}

/// The calling thread begins to wait for something of this class.
///
/// # Safety
/// `object` is a live reference of this thread, or null.
pub(super) unsafe fn begin_wait(
    jni: &JniEnv,
    key: Key,
    began: u64,
    java_thread: usize,
    class: ClassNumber,
    object: jni::jobject,
) {
    let method = ProbeId::new(signal::own_innermost()).method();
    let is_untold = match key.virtual_thread() {
        Some(_) => true,
        None => kind(class) == LockKind::Monitor && NOTES_MONITORS.load(Ordering::Relaxed),
    };
    let is_noted = is_untold && may_have_owner(class);
    // SAFETY: the caller guarantees it.
    let monitor = if is_noted { unsafe { weak(jni, object) } } else { 0 };
    let wait = InProgress { began, java_thread, class, method, owner: Owner::NotAsked, monitor };
    if let lost @ 1.. = in_progress::begin(key, wait, jni) {
        LOST.fetch_add(lost, Ordering::Relaxed);
    }
    if !is_on() {
        // All others were removed meanwhile.
        let _ = in_progress::end(key, jni);
    }
}

/// Whether another thread may have what is waited for.
pub(crate) fn may_have_owner(class: ClassNumber) -> bool {
    kind(class) != LockKind::Park
}

/// Whether a wait of this length is kept with its stack. Idle threads of a pool park outside of instrumented methods.
fn is_kept(wait: &InProgress, ticks: u64) -> bool {
    let is_idle = wait.method == MethodId::NONE && !may_have_owner(wait.class);
    !is_idle && ticks >= THRESHOLD.load(Ordering::Relaxed)
}

/// The calling thread, whose `JavaThread` is this, has waited for a monitor, and has it now.
///
/// # Safety
/// The reference is that of the event.
pub(crate) unsafe fn entered(jni: &JniEnv, java_thread: usize, thread: jni::jthread) {
    if !is_on() {
        return;
    }
    let now = clock::ticks();
    // SAFETY: the caller guarantees the reference.
    let ended = end_wait(jni, unsafe { key(jni, thread) }, now, java_thread);
    add_event(now);
    ended.iter().for_each(EndedWait::keep);
}

/// A wait that has ended, and is to be kept with its stack.
pub(super) struct EndedWait {
    key: Key,
    wait: InProgress,
    ticks: u64,
}

impl EndedWait {
    pub(super) fn keep(&self) {
        let began = clock::ticks();
        if !long_waits::add(self.key, self.wait, self.ticks) {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
        add_time(began, MOST_STACK_NS, 0);
    }
}

/// The calling thread waits no longer. Returns the wait if it is to be kept.
pub(super) fn end_wait(jni: &JniEnv, key: Key, now: u64, java_thread: usize) -> Option<EndedWait> {
    // It may have begun to wait before waits were counted.
    let wait = in_progress::end(key, jni)?;
    if wait.began < BEGAN.load(Ordering::Relaxed) {
        return None;
    }
    let ticks = now.saturating_sub(wait.began);
    // A virtual thread may have another carrier than before.
    let wait = InProgress { java_thread, ..wait };
    let is_counted = sums::add(wait.class, wait.method, ticks);
    let counter = if is_counted { &WAITS } else { &LOST };
    counter.fetch_add(1, Ordering::Relaxed);
    if is_counted && !may_have_owner(wait.class) {
        PARKS.fetch_add(1, Ordering::Relaxed);
    }
    (is_counted && is_kept(&wait, ticks)).then_some(EndedWait { key, wait, ticks })
}

/// A weak reference to an object, as an address; 0 if there is no memory.
///
/// # Safety
/// `object` is a live reference of this thread.
unsafe fn weak(jni: &JniEnv, object: jni::jobject) -> usize {
    // SAFETY: the caller guarantees it.
    let weak = unsafe { jni.new_weak_global_ref(object) };
    if weak.is_null() {
        jni.exception_clear();
    }
    weak.expose_provenance()
}

/// What tells waiting threads apart. A virtual thread may wait on one carrier and go on on another.
///
/// # Safety
/// The reference is that of the event.
pub(super) unsafe fn key(jni: &JniEnv, thread: jni::jthread) -> Key {
    // SAFETY: the caller guarantees the reference.
    let number = unsafe { java_threads::virtual_number(jni, thread) };
    number.map_or_else(|| Key::of_platform(jni), Key::of_virtual)
}
