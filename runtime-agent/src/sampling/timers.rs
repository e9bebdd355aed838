//! Timers on the CPU time of single threads (`timer_create`). Each sends the sampling signal to its thread.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};

use sampling_handler::signal::timer_value;

use log_format::ids::OsThreadId;

use crate::probe::thread::os_id;

/// Timers that there are, and how many there may be: each takes one of the queued signals of the JVM's user, and the
/// service needs some too.
static TIMERS: AtomicU64 = AtomicU64::new(0);
static MOST: AtomicU64 = AtomicU64::new(0);

/// Reads how many timers there may be: half of `ulimit -i`.
pub(super) fn read_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure lives during the call.
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_SIGPENDING, &raw mut limit) };
    let most = if failed == 0 { limit.rlim_cur / 2 } else { u64::MAX };
    MOST.store(most, Ordering::Relaxed);
}

/// The kernel's tick in nanoseconds: it looks at timers of CPU time no more often.
pub(super) fn tick_ns() -> u64 {
    let mut tick = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure lives during the call.
    let failed = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut tick) };
    if failed == 0 { u64::try_from(tick.tv_nsec).unwrap_or(0) } else { 0 }
}

/// Why there can be no timers here for most threads; `None` if there can, even if others of this user have all of them
/// now.
pub(super) fn refusal() -> Option<String> {
    const NEVER_NS: u64 = 1 << 60;
    read_limit();
    let most = MOST.load(Ordering::Relaxed);
    let threads = fs::read_dir("/proc/self/task").map_or(0, |tasks| tasks.count() as u64);
    // A program that begins will have more.
    if most < 2 * threads {
        return Some(format!("ulimit -i leaves {most} timers, and there are {threads} threads"));
    }
    match create(os_id(), libc::SIGSTKFLT, NEVER_NS, NEVER_NS, 0) {
        Ok(timer) => {
            delete(timer);
            None
        }
        Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => None,
        Err(error) => Some(format!("timer_create is refused ({error})")),
    }
}

/// The kernel's number of a timer.
pub(super) type TimerId = i32;

/// Creates a timer that sends `signal` to a thread after `first_ns` and then each `interval_ns` of its CPU time, which
/// was doubled so often.
pub(super) fn create(
    thread: OsThreadId,
    signal: libc::c_int,
    first_ns: u64,
    interval_ns: u64,
    doubled: u32,
) -> io::Result<TimerId> {
    // SAFETY: zero is a valid value of the structure.
    let mut event: libc::sigevent = unsafe { mem::zeroed() };
    // A pointer has 64 bits.
    let value = usize::try_from(timer_value(thread.get(), doubled)).unwrap_or(0);
    event.sigev_value.sival_ptr = std::ptr::with_exposed_provenance_mut(value);
    event.sigev_signo = signal;
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_notify_thread_id = thread.get().cast_signed();
    if TIMERS.fetch_add(1, Ordering::Relaxed) >= MOST.load(Ordering::Relaxed) {
        TIMERS.fetch_sub(1, Ordering::Relaxed);
        return Err(io::ErrorKind::QuotaExceeded.into());
    }
    let mut id: TimerId = 0;
    // SAFETY: both structures live during the call.
    let failed = unsafe {
        libc::syscall(libc::SYS_timer_create, clock_of(thread), &raw mut event, &raw mut id)
    };
    if failed != 0 {
        let error = io::Error::last_os_error();
        TIMERS.fetch_sub(1, Ordering::Relaxed);
        return Err(error);
    }
    let timing = libc::itimerspec { it_interval: spec(interval_ns), it_value: spec(first_ns) };
    let none: *mut libc::itimerspec = std::ptr::null_mut();
    // SAFETY: the timer was created above; the structure lives during the call.
    let failed = unsafe { libc::syscall(libc::SYS_timer_settime, id, 0, &raw const timing, none) };
    if failed != 0 {
        let error = io::Error::last_os_error();
        delete(id);
        return Err(error);
    }
    Ok(id)
}

/// Deletes a timer. Its last signal may still be on its way.
pub(super) fn delete(id: TimerId) {
    // SAFETY: the timer was created by `create`, and is deleted once.
    unsafe { libc::syscall(libc::SYS_timer_delete, id) };
    TIMERS.fetch_sub(1, Ordering::Relaxed);
}

/// The clock of a thread's CPU time, as the kernel numbers it.
pub(super) fn clock_of(thread: OsThreadId) -> libc::clockid_t {
    const PER_THREAD: u32 = 4;
    const SCHEDULED: u32 = 2;
    (!thread.get() << 3 | PER_THREAD | SCHEDULED).cast_signed()
}

fn spec(ns: u64) -> libc::timespec {
    const SECOND: u64 = 1_000_000_000;
    let part = |n: u64| n.try_into().unwrap_or(0);
    libc::timespec { tv_sec: part(ns / SECOND), tv_nsec: part(ns % SECOND) }
}
