//! Rings of perf events, in which the kernel says where a thread was in it: a page of its own figures and one of
//! samples for each thread. `sampling_handler::kernel_stacks` reads them.
//!
//! Who may not lock memory has `perf_event_mlock_kb` for each processor and user, and they count in the agent's memory.
//! The kernel counts them as memory that the user has locked, of which the service may need some, for io_uring. Threads
//! beyond have samples without frames of the kernel.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::sys::mapped_memory::page_size;
use crate::sys::memory::{self, Account};
use crate::sys::perf_event;

/// Their memory, and how much they may take.
static MEMORY: Account = Account::new();
static USED: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);
/// They take at most one part in so many of the agent's memory.
const PART: u64 = 16;
/// Of what other users than root may lock, they take at most one part in so many.
const PART_OF_LOCKED: u64 = 4;
/// Threads whose event has no ring because there was no room.
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// Reads how much memory they may take.
pub(super) fn read_limit() {
    let most = memory::used_and_max().1 / PART;
    let may_lock = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
    let may_lock = may_lock.filter(|_| !rustix::process::geteuid().is_root());
    let most = may_lock.map_or(most, |bytes| most.min(bytes / PART_OF_LOCKED));
    MOST.store(usize::try_from(most).unwrap_or(usize::MAX), Ordering::Relaxed);
}

/// How many threads had none so far, for lack of room.
pub(super) fn refused() -> u64 {
    REFUSED.load(Ordering::Relaxed)
}

fn length() -> usize {
    2 * page_size()
}

/// Counts a thread whose event has no ring.
pub(super) fn refuse() {
    REFUSED.fetch_add(1, Ordering::Relaxed);
}

/// Takes room for a ring, which [`map`] uses or gives back; `false` if there is none.
pub(super) fn reserve() -> bool {
    let used = USED.fetch_add(length(), Ordering::Relaxed).saturating_add(length());
    let has_room = used <= MOST.load(Ordering::Relaxed) && MEMORY.take(length());
    if !has_room {
        USED.fetch_sub(length(), Ordering::Relaxed);
    }
    has_room
}

/// Gives room back.
pub(super) fn give_back() {
    USED.fetch_sub(length(), Ordering::Relaxed);
    MEMORY.give(length());
}

/// Maps the ring of an event.
///
/// # Errors
/// The kernel refuses it.
pub(super) fn map(event: RawFd) -> io::Result<usize> {
    perf_event::map(event, length())
}

/// Unmaps a ring. A handler that reads it meanwhile does so by guarded loads.
pub(super) fn unmap(ring: usize) {
    // SAFETY: a mapping of `map` that nobody uses any more but for guarded loads, and that is unmapped once.
    unsafe { perf_event::unmap(ring, length()) };
}

/// Why the kernel refuses one, for people.
pub(super) fn reason(error: &io::Error) -> String {
    match fs::read_to_string("/proc/sys/kernel/perf_event_mlock_kb") {
        Ok(kb) if error.raw_os_error() == Some(libc::EPERM) => {
            format!("mmap is refused ({error}, perf_event_mlock_kb={})", kb.trim())
        }
        _ => format!("mmap is refused ({error})"),
    }
}
