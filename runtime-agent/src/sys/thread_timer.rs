//! Timers on the CPU time of single threads (`timer_create`), each with a signal for its thread.
#![allow(unsafe_code)]

use std::io;
use std::mem;

use log_format::ids::OsThreadId;
use rustix::process::{Resource, getrlimit};

use crate::sys::clock::clock_of;

/// The kernel's number of a timer.
pub(crate) type TimerId = i32;

/// How many signals may be queued for the user of this process, of which each timer takes one; `None` without a limit.
pub(crate) fn limit() -> Option<u64> {
    getrlimit(Resource::Sigpending).current
}

/// Creates a timer that sends `signal` with `value` to a thread after `first_ns` of its CPU time, and then each
/// `interval_ns`.
///
/// # Errors
/// The kernel refuses it.
pub(crate) fn create(
    thread: OsThreadId,
    (signal, value): (libc::c_int, usize),
    first_ns: u64,
    interval_ns: u64,
) -> io::Result<TimerId> {
    // SAFETY: zero is a valid value of the structure.
    let mut event: libc::sigevent = unsafe { mem::zeroed() };
    event.sigev_value.sival_ptr = std::ptr::with_exposed_provenance_mut(value);
    event.sigev_signo = signal;
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_notify_thread_id = thread.get().cast_signed();
    let mut id: TimerId = 0;
    // SAFETY: both structures live during the call.
    let failed = unsafe {
        libc::syscall(libc::SYS_timer_create, clock_of(thread), &raw mut event, &raw mut id)
    };
    if failed != 0 {
        return Err(io::Error::last_os_error());
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
pub(crate) fn delete(id: TimerId) {
    // SAFETY: it takes a number, and no memory.
    unsafe { libc::syscall(libc::SYS_timer_delete, id) };
}

/// The kernel's tick in nanoseconds, 0 if it does not say: it looks at timers of CPU time no more often.
pub(crate) fn tick_ns() -> u64 {
    let mut tick = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure lives during the call.
    let failed = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut tick) };
    if failed == 0 { u64::try_from(tick.tv_nsec).unwrap_or(0) } else { 0 }
}

fn spec(ns: u64) -> libc::timespec {
    const SECOND: u64 = 1_000_000_000;
    let part = |n: u64| n.try_into().unwrap_or(0);
    libc::timespec { tv_sec: part(ns / SECOND), tv_nsec: part(ns % SECOND) }
}

/// Sends a thread of this process a signal that looks like one of a timer. Its handler must be installed.
pub(crate) fn send(thread: OsThreadId, signal: libc::c_int, value: u64) {
    /// The kernel's structure, with the fields of a timer.
    #[repr(C)]
    struct Info {
        signal: libc::c_int,
        error: libc::c_int,
        code: libc::c_int,
        unused: libc::c_int,
        timer: libc::c_int,
        overrun: libc::c_int,
        value: u64,
        rest: [u64; 12],
    }
    const SI_TIMER: libc::c_int = -2;
    const _: () = assert!(size_of::<Info>() == size_of::<libc::siginfo_t>());
    let info = Info {
        signal,
        error: 0,
        code: SI_TIMER,
        unused: 0,
        timer: 0,
        overrun: 0,
        value,
        rest: [0; 12],
    };
    // SAFETY: the structure has the kernel's form and lives during the call.
    unsafe {
        libc::syscall(
            libc::SYS_rt_tgsigqueueinfo,
            std::process::id(),
            thread.get(),
            signal,
            &raw const info,
        );
    }
}
