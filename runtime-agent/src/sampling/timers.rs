//! Timers on the CPU time of single threads. Each sends the sampling signal to its thread.

use std::fs;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use log_format::ids::OsThreadId;
use rustix::io::Errno;
use sampling_handler::signal::timer_value;

use crate::probe::thread::os_id;
use crate::sys::thread_timer::{self, TimerId};

/// Timers that there are, and how many there may be: each takes one of the queued signals of the JVM's user, and the
/// service needs some too.
static TIMERS: AtomicU64 = AtomicU64::new(0);
static MOST: AtomicU64 = AtomicU64::new(0);

/// Reads how many timers there may be: half of `ulimit -i`.
pub(super) fn read_limit() {
    MOST.store(thread_timer::limit().map_or(u64::MAX, |most| most / 2), Ordering::Relaxed);
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
        Err(error) if error.raw_os_error() == Some(Errno::AGAIN.raw_os_error()) => None,
        Err(error) => Some(format!("timer_create is refused ({error})")),
    }
}

/// Creates a timer that sends `signal` to a thread after `first_ns` and then each `interval_ns` of its CPU time, which
/// was doubled so often.
pub(super) fn create(
    thread: OsThreadId,
    signal: libc::c_int,
    first_ns: u64,
    interval_ns: u64,
    doubled: u32,
) -> io::Result<TimerId> {
    if TIMERS.fetch_add(1, Ordering::Relaxed) >= MOST.load(Ordering::Relaxed) {
        TIMERS.fetch_sub(1, Ordering::Relaxed);
        return Err(io::ErrorKind::QuotaExceeded.into());
    }
    // A pointer has 64 bits.
    let value = usize::try_from(timer_value(thread.get(), doubled)).unwrap_or(0);
    let created = thread_timer::create(thread, (signal, value), first_ns, interval_ns);
    if created.is_err() {
        TIMERS.fetch_sub(1, Ordering::Relaxed);
    }
    created
}

/// Deletes a timer. Its last signal may still be on its way.
pub(super) fn delete(id: TimerId) {
    thread_timer::delete(id);
    TIMERS.fetch_sub(1, Ordering::Relaxed);
}
