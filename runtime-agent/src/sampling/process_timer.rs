//! The timer on the process's CPU time (`setitimer`). Its signal goes to a thread that runs.
#![allow(unsafe_code)]

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// Its signal, which nobody can choose.
pub(super) const SIGNAL: libc::c_int = libc::SIGPROF;

/// Whether the agent has started it: a program may use it itself.
static IS_OURS: AtomicBool = AtomicBool::new(false);

/// Whether the program uses the timer.
pub(super) fn is_taken() -> bool {
    !IS_OURS.load(Ordering::Relaxed) && left_us() != Some(0)
}

/// Starts the timer, or changes its interval.
pub(super) fn start(interval_ns: u64) -> io::Result<()> {
    set(interval_ns)?;
    IS_OURS.store(true, Ordering::Relaxed);
    Ok(())
}

/// Stops the timer, if the agent has started it. Its last signal may still be on its way.
pub(super) fn stop() {
    if IS_OURS.swap(false, Ordering::Relaxed) {
        // The kernel refuses no valid value.
        let _ = set(0);
    }
}

/// Time until the timer's next signal, in microseconds; 0 if it is off, `None` if the kernel does not say.
fn left_us() -> Option<i64> {
    let none = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let mut timer = libc::itimerval { it_interval: none, it_value: none };
    // SAFETY: the structure lives during the call.
    let failed = unsafe { libc::getitimer(libc::ITIMER_PROF, &raw mut timer) };
    (failed == 0).then(|| timer.it_value.tv_sec * 1_000_000 + timer.it_value.tv_usec)
}

fn set(interval_ns: u64) -> io::Result<()> {
    const SECOND: u64 = 1_000_000;
    let micros = interval_ns.div_ceil(1_000);
    let part = |n: u64| n.try_into().unwrap_or(0);
    let interval = libc::timeval { tv_sec: part(micros / SECOND), tv_usec: part(micros % SECOND) };
    let timer = libc::itimerval { it_interval: interval, it_value: interval };
    // SAFETY: the structure lives during the call.
    let failed =
        unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const timer, std::ptr::null_mut()) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
