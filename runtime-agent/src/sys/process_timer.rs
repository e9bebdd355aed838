//! The timer on the process's CPU time (`setitimer`). Its signal, SIGPROF, goes to a thread that runs.
#![allow(unsafe_code)]

use std::io;

const SECOND_US: u64 = 1_000_000;

/// The timer's interval in microseconds; 0 if it is off, 1 if it fires once, `None` if the kernel does not say.
pub(crate) fn interval_us() -> Option<u64> {
    let none = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let mut timer = libc::itimerval { it_interval: none, it_value: none };
    // SAFETY: the structure lives during the call.
    let failed = unsafe { libc::getitimer(libc::ITIMER_PROF, &raw mut timer) };
    let us = |time: libc::timeval| {
        let part = |n: i64| u64::try_from(n).unwrap_or(0);
        part(time.tv_sec) * SECOND_US + part(time.tv_usec)
    };
    // A timer that fires once has no interval.
    let interval_us = us(timer.it_interval).max(us(timer.it_value).min(1));
    (failed == 0).then_some(interval_us)
}

/// Starts the timer with this interval in microseconds, or stops it with 0.
///
/// # Errors
/// The kernel refuses it.
pub(crate) fn set_interval_us(interval_us: u64) -> io::Result<()> {
    let part = |n: u64| n.try_into().unwrap_or(0);
    let interval = libc::timeval {
        tv_sec: part(interval_us / SECOND_US),
        tv_usec: part(interval_us % SECOND_US),
    };
    let timer = libc::itimerval { it_interval: interval, it_value: interval };
    // SAFETY: the structure lives during the call.
    let failed =
        unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const timer, std::ptr::null_mut()) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
