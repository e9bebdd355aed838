//! A library to preload before the C library, for tests that set the clocks of one process. The file in `SET_CLOCK` has
//! three eight-byte numbers, which may change at run time; missing ones are 0.
//!
//! ```text
//! 0   seconds to add to CLOCK_REALTIME
//! 8   1 to hold CLOCK_MONOTONIC still, as a suspended machine does; it goes on from there afterwards
//! 16  nanoseconds to add to CLOCK_MONOTONIC
//! ```
#![allow(missing_docs, unsafe_code)]

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

const NS: i64 = 1_000_000_000;
/// The count of numbers in the file, and the length of one.
const NUMBERS: usize = 3;
const LENGTH: usize = 8;

/// The numbers of the file, in memory mapped from the file.
fn numbers() -> Option<&'static [AtomicI64; NUMBERS]> {
    static FOUND: OnceLock<Option<&'static [AtomicI64; NUMBERS]>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // SAFETY: the environment does not change while a process begins; the mapping is a page that is never unmapped,
        // with the file's bytes followed by zeros.
        unsafe {
            let name = libc::getenv(c"SET_CLOCK".as_ptr());
            if name.is_null() {
                return None;
            }
            let file = libc::open(CStr::from_ptr(name).as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
            let (length, read) = (NUMBERS * LENGTH, libc::PROT_READ);
            let page = libc::mmap(ptr::null_mut(), length, read, libc::MAP_SHARED, file, 0);
            libc::close(file);
            (page != libc::MAP_FAILED).then(|| &*page.cast())
        }
    })
}

/// How CLOCK_MONOTONIC has been held so far.
struct Held {
    /// The value at which it is held now.
    at_ns: Option<i64>,
    /// How far it is behind.
    behind_ns: i64,
}

/// The shown value of CLOCK_MONOTONIC when its true value is `ns`.
fn monotonic(ns: i64, is_held: bool, ahead_ns: i64) -> i64 {
    static HELD: Mutex<Held> = Mutex::new(Held { at_ns: None, behind_ns: 0 });
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let shown = ns + ahead_ns - held.behind_ns;
    match (held.at_ns, is_held) {
        // Another thread may have asked the kernel later, and already have held the clock.
        (Some(at_ns), true) => at_ns,
        (None, true) => *held.at_ns.insert(shown),
        (Some(at_ns), false) => {
            held.behind_ns += shown - at_ns;
            held.at_ns = None;
            at_ns
        }
        (None, false) => shown,
    }
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(
    clock: libc::clockid_t,
    time: *mut libc::timespec,
) -> libc::c_int {
    // SAFETY: the caller guarantees that `time` can be written to.
    unsafe {
        let result = libc::syscall(libc::SYS_clock_gettime, clock, time);
        if let Some([seconds, is_held, ahead_ns]) = numbers().filter(|_| result == 0) {
            match clock {
                libc::CLOCK_REALTIME => (*time).tv_sec += seconds.load(Ordering::Relaxed),
                libc::CLOCK_MONOTONIC => {
                    let ns = (*time).tv_sec * NS + (*time).tv_nsec;
                    let is_held = is_held.load(Ordering::Relaxed) == 1;
                    let shown = monotonic(ns, is_held, ahead_ns.load(Ordering::Relaxed));
                    ((*time).tv_sec, (*time).tv_nsec) = (shown / NS, shown % NS);
                }
                _ => {}
            }
        }
        i32::try_from(result).unwrap_or(-1)
    }
}
