//! Which threads there are, and what interrupts each: a timer or a perf event.
//!
//! A Java thread creates and deletes it itself, when it starts and ends. A scan each second finds all others, and
//! deletes those of threads that are gone.
#![allow(unsafe_code)]

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::jni;
use log_format::ids::OsThreadId;
use sampling_handler::signal::{self, MOST_DOUBLED};
use sampling_handler::threads::{Slot, Source, for_each, slot, slot_or_add};

use super::{NoSamples, cost, perf_events, process_timer, rings, thread_names, timers};
use crate::hotspot::thread_list::{ThreadList, java_thread_of};
use crate::jvm::java_threads::NotedThread;
use crate::options::engine::Engine;
use crate::probe::thread::os_id;
use crate::sys::{clock, thread_timer};

/// The interval of CPU time that the user chose; 0 while sampling is off.
static INTERVAL_NS: AtomicU64 = AtomicU64::new(0);
/// How often it has been doubled.
static DOUBLED: AtomicU32 = AtomicU32::new(0);
static SIGNAL: AtomicI32 = AtomicI32::new(0);
static ENGINE: AtomicU8 = AtomicU8::new(Engine::Ctimer as u8);
/// After the kernel refused a timer, none is created for so long.
const RETRY_AFTER_NS: u64 = 60_000_000_000;
static RETRY_NS: AtomicU64 = AtomicU64::new(0);
/// Timers that the kernel refused.
static REFUSED: AtomicU64 = AtomicU64::new(0);
static STARTED: AtomicU64 = AtomicU64::new(0);

/// Scans take no more than one part in so many of a processor's time, but come once in so long.
const SCAN_PART: u64 = 400;
const SCAN_AT_LEAST: Duration = Duration::from_secs(10);

/// Pages of slots: numbers of some 400,000 threads, 16 MB. Threads with others are not sampled.
const MOST_PAGES: u32 = 200;

/// Slots are added by one thread at a time.
fn add(thread: OsThreadId) -> Option<&'static Slot> {
    static ADDING: Mutex<()> = Mutex::new(());
    if let Some(slot) = slot(thread.get()) {
        return Some(slot);
    }
    let _adding = ADDING.lock().unwrap_or_else(PoisonError::into_inner);
    // Numbers may come from all of four millions, and other threads' statistics need memory too.
    static PAGES: AtomicU32 = AtomicU32::new(0);
    if PAGES.load(Ordering::Relaxed) >= MOST_PAGES {
        return None;
    }
    let make = |bytes| {
        super::map_for_good(bytes).map_or(std::ptr::null_mut(), |memory| {
            PAGES.fetch_add(1, Ordering::Relaxed);
            memory.as_ptr()
        })
    };
    // SAFETY: mapped memory that nobody else uses, and that stays; the lock keeps others out.
    unsafe { slot_or_add(thread.get(), make) }
}

/// How often the interval has been doubled since sampling began.
pub(super) fn doubled() -> u32 {
    DOUBLED.load(Ordering::Relaxed)
}

/// Timers that the kernel refused so far.
pub(super) fn refused() -> u64 {
    REFUSED.load(Ordering::Relaxed)
}

/// From now on, threads are interrupted.
fn set_on(engine: Engine, signal: libc::c_int, interval_ns: u64) -> Result<(), NoSamples> {
    SIGNAL.store(signal, Ordering::Relaxed);
    ENGINE.store(engine as u8, Ordering::Relaxed);
    set_doubled(doubled_to(interval_ns, cost::least_interval_ns()));
    timers::read_limit();
    perf_events::read_limit();
    rings::read_limit();
    match engine {
        Engine::Perf => signal::expect_events(),
        Engine::Ctimer => {}
        Engine::Itimer => {
            if !process_timer::is_free() {
                return Err(NoSamples::TimerTaken);
            }
            signal::expect_process_timer();
            // Each tick has one signal at most, while all processors may be busy.
            let processors = thread::available_parallelism().map_or(1, |n| n.get() as u64);
            let needed_ns = thread_timer::tick_ns().saturating_mul(processors);
            set_doubled(doubled().max(doubled_to(interval_ns, needed_ns)));
            process_timer::start(interval_ns << doubled()).map_err(|_| NoSamples::NoTimer)?;
        }
    }
    INTERVAL_NS.store(interval_ns, Ordering::Release);
    Ok(())
}

fn is_engine(engine: Engine) -> bool {
    ENGINE.load(Ordering::Relaxed) == engine as u8
}

fn set_doubled(doubled: u32) {
    DOUBLED.store(doubled, Ordering::Relaxed);
    signal::set_doubled(doubled);
}

/// How often an interval must be doubled to be as long as needed.
fn doubled_to(interval_ns: u64, needed_ns: u64) -> u32 {
    let is_enough = |doubled: &u32| interval_ns << doubled >= needed_ns;
    (0..MOST_DOUBLED).find(is_enough).unwrap_or(MOST_DOUBLED)
}

/// Whether the process's timer, if that is the engine, is still the agent's.
pub(super) fn has_process_timer() -> bool {
    !is_engine(Engine::Itimer) || process_timer::is_ours()
}

/// Deletes all timers and events; threads get none from now on.
pub(super) fn end() {
    INTERVAL_NS.store(0, Ordering::SeqCst);
    process_timer::stop();
    // Most slots were never used, and a write would give them memory.
    for_each(|slot| {
        if slot.source() != Source::None {
            stop_source(slot, Source::None);
        }
    });
}

/// Creates what interrupts a thread, unless it has that or has ended.
fn start_source(thread: OsThreadId, slot: &Slot) {
    let interval_ns = INTERVAL_NS.load(Ordering::Acquire);
    let is_refused = clock::monotonic_ns() < RETRY_NS.load(Ordering::Relaxed);
    let is_wanted = interval_ns != 0 && !is_refused && !is_engine(Engine::Itimer);
    if is_wanted && slot.change_source(Source::None, Source::Busy) {
        create_source(thread, slot, interval_ns, true);
    }
}

/// Creates what interrupts a thread that has nothing yet and may not get it from anybody else.
fn create_source(thread: OsThreadId, slot: &Slot, interval_ns: u64, is_new: bool) {
    let doubled = DOUBLED.load(Ordering::Relaxed);
    // An event does not say its interval, and no signal of it counts before the slot has it.
    slot.expect_event(doubled);
    match new_source(thread, interval_ns << doubled, doubled) {
        Ok(source) => {
            // The thread or sampling may have ended meanwhile, and nobody else would delete it.
            if !slot.change_source(Source::Busy, source) {
                delete(source);
            }
            if is_new && matches!(source, Source::Event(event) if event.ring() == 0) {
                rings::refuse();
            }
        }
        // It has ended since it was listed.
        Err(error) if thread != os_id() && is_of_gone_thread(&error) => {
            slot.set_source(Source::None);
        }
        Err(_) => {
            REFUSED.fetch_add(1, Ordering::Relaxed);
            // Others of this user need timers and queued signals too.
            RETRY_NS.store(clock::monotonic_ns() + RETRY_AFTER_NS, Ordering::Relaxed);
            slot.set_source(Source::None);
        }
    }
    // Sampling may have ended meanwhile.
    if INTERVAL_NS.load(Ordering::Acquire) == 0 {
        stop_source(slot, Source::None);
    }
}

/// A perf event, if that is the engine and there are descriptors left, else a timer.
fn new_source(thread: OsThreadId, interval_ns: u64, doubled: u32) -> io::Result<Source> {
    let signal = SIGNAL.load(Ordering::Relaxed);
    if is_engine(Engine::Perf)
        && let Ok(event) = perf_events::create(thread, signal, interval_ns)
    {
        return Ok(Source::Event(event));
    }
    // Threads that live for less than an interval are sampled in proportion, too.
    let first_ns = 1 + random() % interval_ns;
    timers::create(thread, signal, first_ns, interval_ns, doubled).map(Source::Timer)
}

fn delete(source: Source) {
    match source {
        Source::Timer(timer) => timers::delete(timer),
        Source::Event(event) => perf_events::delete(event),
        Source::None | Source::Busy | Source::Ended => {}
    }
}

fn is_of_gone_thread(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ESRCH))
}

/// Replaces what interrupts a thread by one with the interval of now, if it has that.
fn renew_source(thread: OsThreadId, slot: &Slot) {
    let before = slot.source();
    let interval_ns = INTERVAL_NS.load(Ordering::Acquire);
    if matches!(before, Source::Timer(_) | Source::Event(_))
        && interval_ns != 0
        && slot.change_source(before, Source::Busy)
    {
        delete(before);
        create_source(thread, slot, interval_ns, false);
    }
}

/// Deletes what interrupts a thread, if it has that, and sets what follows.
fn stop_source(slot: &Slot, then: Source) {
    delete(slot.swap_source(then));
}

/// A number that nobody can foresee; it need not be good.
pub(super) fn random() -> u64 {
    static STATE: AtomicU64 = AtomicU64::new(0x9e37_79b9_7f4a_7c15);
    let mut x = STATE.fetch_add(clock::ticks() | 1, Ordering::Relaxed);
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^ x >> 33
}

/// Java threads that have started while sampling was on.
pub(super) fn started_so_far() -> u64 {
    STARTED.load(Ordering::Relaxed)
}

/// Whether there is a Java thread with this number.
pub(super) fn is_java(thread: OsThreadId) -> bool {
    slot(thread.get()).is_some_and(|slot| slot.java_thread() != 0)
}

/// When a thread began, or sampling if that was later, and the thread's CPU clock then.
pub(super) fn began(thread: OsThreadId) -> Option<(u64, u64)> {
    slot(thread.get())?.began()
}

/// A Java thread has started: the calling one.
///
/// # Safety
/// `java_thread` is a live reference to the calling thread.
pub(crate) unsafe fn started(jvmti: &Jvmti, jni: &JniEnv, java_thread: jni::jthread) {
    if INTERVAL_NS.load(Ordering::Acquire) == 0 {
        return;
    }
    STARTED.fetch_add(1, Ordering::Relaxed);
    let thread = os_id();
    // SAFETY: the caller guarantees the reference.
    thread_names::note(thread, unsafe { NotedThread::new(jvmti, jni, java_thread) });
    let Some(slot) = add(thread) else {
        REFUSED.fetch_add(1, Ordering::Relaxed);
        return;
    };
    slot.set_java(java_thread_of(jni));
    slot.set_began(clock::monotonic_ns(), clock::cpu_ns_of_thread(thread));
    // The number may have belonged to a thread that ended just now.
    slot.change_source(Source::Ended, Source::None);
    // It may be that of another thread with this number, whose end nobody saw yet.
    renew_source(thread, slot);
    start_source(thread, slot);
}

/// A Java thread ends: the calling one.
pub(crate) fn ended() {
    if let Some(slot) = slot(os_id().get()) {
        slot.set_java(0);
        slot.set_began(0, 0);
        stop_source(slot, Source::Ended);
    }
}

/// From now on, threads are interrupted. Finds the Java threads that have started already.
///
/// # Errors
/// What the JVM does not say.
pub(super) fn begin(
    engine: Engine,
    signal: libc::c_int,
    interval_ns: u64,
    list: &ThreadList<'_>,
) -> Result<(), NoSamples> {
    list.note_environment();
    // Threads that start from here on do it themselves.
    set_on(engine, signal, interval_ns)?;
    list.for_each(|thread| {
        if let Some(slot) = add(thread.os_id) {
            thread_names::note(thread.os_id, thread.noted());
            slot.set_java(thread.java_thread);
            // For this sampling, it begins now.
            slot.set_began(clock::monotonic_ns(), clock::cpu_ns_of_thread(thread.os_id));
            if !thread.is_alive() {
                slot.set_java(0);
                slot.set_began(0, 0);
            }
        }
    })?;
    Ok(())
}

/// All threads that were found by scans, on the agent thread.
#[derive(Debug, Default)]
pub(super) struct Scan {
    present: HashSet<OsThreadId>,
    /// Threads whose end was seen, and that were still there.
    ended: HashSet<OsThreadId>,
    /// No scan before this: with many threads, one takes milliseconds.
    next: Option<Instant>,
}

impl Scan {
    /// Doubles the interval until it is as long as needed. Samples say which one they stand for, so a thread that
    /// keeps the old one does no harm.
    pub(super) fn lengthen_interval(&self, needed_ns: u64) {
        let interval_ns = INTERVAL_NS.load(Ordering::Acquire);
        let needed = doubled_to(interval_ns, needed_ns);
        if needed <= doubled() {
            return;
        }
        set_doubled(needed);
        if is_engine(Engine::Itimer) && process_timer::is_ours() {
            // Else it keeps the old one.
            let _ = process_timer::start(interval_ns << needed);
        }
        for thread in &self.present {
            if let Some(slot) = slot(thread.get()) {
                renew_source(*thread, slot);
            }
        }
    }

    /// The next call scans.
    pub(super) fn be_due(&mut self) {
        self.next = None;
    }

    /// The threads of the last scan.
    pub(super) fn present(&self) -> &HashSet<OsThreadId> {
        &self.present
    }

    /// Sees to it that all threads are interrupted, and forgets those that are gone. Returns the latter; `None`
    /// if it is too early for a scan. Call it each second.
    pub(super) fn run(&mut self) -> Option<Vec<OsThreadId>> {
        if self.next.is_some_and(|next| Instant::now() < next) {
            return None;
        }
        let cpu_ns = || clock::thread_cpu_ns();
        let began_ns = cpu_ns();
        let tasks = fs::read_dir("/proc/self/task").ok()?;
        let numbers = tasks
            .flatten()
            .filter_map(|task| task.file_name().to_str()?.parse().ok().map(OsThreadId::new));
        let present: HashSet<OsThreadId> = numbers.collect();
        let mut ended = HashSet::new();
        for thread in &present {
            let Some(slot) = add(*thread) else { continue };
            if slot.source() == Source::Ended {
                // It ends just now, or its number has been given to another, native one.
                if self.ended.contains(thread) {
                    slot.change_source(Source::Ended, Source::None);
                } else {
                    ended.insert(*thread);
                    continue;
                }
            }
            start_source(*thread, slot);
        }
        // A number may have been given to another thread since the list was read.
        let is_gone =
            |thread: &&OsThreadId| !Path::new("/proc/self/task").join(thread.to_string()).exists();
        let gone: Vec<OsThreadId> =
            self.present.difference(&present).filter(is_gone).copied().collect();
        for gone in &gone {
            if let Some(slot) = slot(gone.get()) {
                slot.set_java(0);
                slot.set_began(0, 0);
                stop_source(slot, Source::None);
            }
        }
        self.ended = ended;
        self.present = present;
        let pause = Duration::from_nanos((cpu_ns() - began_ns) * SCAN_PART);
        self.next = Some(Instant::now() + pause.min(SCAN_AT_LEAST));
        Some(gone)
    }
}
