//! A library to be loaded before the C library's, for tests that set the clock of one process: it adds
//! to CLOCK_REALTIME the seconds that stand, as eight bytes, in the file that `SET_CLOCK` names. The
//! file can be written to under way.
#![allow(missing_docs, unsafe_code)]

use std::ffi::CStr;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

/// The number in the file, in memory that the file is mapped to.
fn offset() -> Option<&'static AtomicI64> {
    static OFFSET: OnceLock<Option<&'static AtomicI64>> = OnceLock::new();
    *OFFSET.get_or_init(|| {
        // SAFETY: the environment is not changed while a process begins; the mapping is a page that
        // is never unmapped, and whose first eight bytes are the file's.
        unsafe {
            let name = libc::getenv(c"SET_CLOCK".as_ptr());
            if name.is_null() {
                return None;
            }
            let file = libc::open(CStr::from_ptr(name).as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
            let page = libc::mmap(ptr::null_mut(), 8, libc::PROT_READ, libc::MAP_SHARED, file, 0);
            libc::close(file);
            (page != libc::MAP_FAILED).then(|| AtomicI64::from_ptr(page.cast()))
        }
    })
}

/// As the C library's.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(
    clock: libc::clockid_t,
    time: *mut libc::timespec,
) -> libc::c_int {
    // SAFETY: the caller's promise: `time` can be written to.
    unsafe {
        let result = libc::syscall(libc::SYS_clock_gettime, clock, time);
        if result == 0 && clock == libc::CLOCK_REALTIME {
            let seconds = offset().map_or(0, |offset| offset.load(Ordering::Relaxed));
            (*time).tv_sec += seconds;
        }
        i32::try_from(result).unwrap_or(-1)
    }
}
