//! Perf events on the CPU time of single threads (`perf_event_open`, `cpu-clock`), and their rings.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use log_format::ids::OsThreadId;
use perf_event_open_sys::bindings::{
    PERF_COUNT_SW_CPU_CLOCK, PERF_FLAG_FD_CLOEXEC, PERF_SAMPLE_CALLCHAIN, PERF_TYPE_SOFTWARE,
    perf_event_attr,
};
use perf_event_open_sys::{ioctls, perf_event_open};

/// Opens an event of a thread, which is still disabled; with `stacks`, it says where the thread is in the kernel, in a
/// ring that it writes backwards.
///
/// # Errors
/// The kernel refuses it.
pub(crate) fn open(thread: OsThreadId, interval_ns: u64, stacks: bool) -> io::Result<OwnedFd> {
    let mut event = perf_event_attr {
        type_: PERF_TYPE_SOFTWARE,
        size: u32::try_from(size_of::<perf_event_attr>()).unwrap_or(0),
        config: u64::from(PERF_COUNT_SW_CPU_CLOCK),
        ..Default::default()
    };
    event.__bindgen_anon_1.sample_period = interval_ns;
    event.__bindgen_anon_2.wakeup_events = 1;
    event.set_disabled(1);
    if stacks {
        event.sample_type = u64::from(PERF_SAMPLE_CALLCHAIN);
        event.set_exclude_callchain_user(1);
        event.set_write_backward(1);
    }
    let flags = libc::c_ulong::from(PERF_FLAG_FD_CLOEXEC);
    // SAFETY: the structure lives during the call; the event is of one thread, on any processor, in no group.
    let fd = unsafe { perf_event_open(&raw mut event, thread.get().cast_signed(), -1, -1, flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// From now on, the event sends `signal` to `thread`, once it is enabled.
///
/// # Errors
/// The kernel refuses it.
pub(crate) fn send_to(
    event: BorrowedFd<'_>,
    thread: OsThreadId,
    signal: libc::c_int,
) -> io::Result<()> {
    const SET_OWNER: libc::c_int = 15;
    const SET_SIGNAL: libc::c_int = 10;
    const FLAGS: libc::c_int = libc::O_ASYNC | libc::O_NONBLOCK;
    /// The kernel's `f_owner_ex`: the kind 0 is a thread.
    #[repr(C)]
    struct Owner {
        kind: libc::c_int,
        thread: libc::pid_t,
    }
    let owner = Owner { kind: 0, thread: thread.get().cast_signed() };
    let fd = event.as_raw_fd();
    // SAFETY: the descriptor is open, and the structure lives during the call.
    unsafe {
        succeeds(libc::fcntl(fd, SET_SIGNAL, signal))?;
        succeeds(libc::fcntl(fd, SET_OWNER, &raw const owner))?;
        succeeds(libc::fcntl(fd, libc::F_SETFL, FLAGS))
    }
}

/// Enables an event.
///
/// # Errors
/// The kernel refuses it.
pub(crate) fn enable(event: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    succeeds(unsafe { ioctls::ENABLE(event.as_raw_fd(), 0) })
}

/// Disables an event, and closes it. A forked process may have the descriptor too.
pub(crate) fn close(event: OwnedFd) {
    // SAFETY: the descriptor is open.
    unsafe { ioctls::DISABLE(event.as_raw_fd(), 0) };
}

fn succeeds(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Maps the ring of an event, of `length` bytes, to be read.
///
/// # Errors
/// The kernel refuses it.
pub(crate) fn map(event: RawFd, length: usize) -> io::Result<usize> {
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    let ring = unsafe {
        libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, event, 0)
    };
    if ring == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(ring.addr()) }
}

/// Unmaps a ring.
///
/// # Safety
/// It is a mapping of [`map`] of this length, which nobody uses any more but for guarded loads, and which is unmapped
/// once.
pub(crate) unsafe fn unmap(ring: usize, length: usize) {
    // SAFETY: the caller guarantees it.
    unsafe { libc::munmap(std::ptr::without_provenance_mut(ring), length) };
}
