//! Counted references to threads, whose memory comes from the kernel.
//!
//! A thread begins with one mapping, which is enough for a thread with few methods and a shallow stack. Without memory
//! for it, the thread gets no data; nothing here ends the process.
#![allow(unsafe_code)]

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use super::method_totals::MethodTotals;
use super::stack::{self, ShadowStack};
use super::thread::ProbeThread;
use super::totals::{self, ThreadTotals};
use crate::sys::mapped_memory::{MappedMemory, PAGE};
use crate::sys::memory::Account;

/// Layout of the first mapping: the head, the first hash table, and the first chunk of method statistics, a few of
/// which are in the first page; then the first frames, whose pages are given back whole.
const TABLE: usize = size_of::<Head>().next_multiple_of(64);
const CHUNK: usize = TABLE + totals::FIRST_TABLE_BYTES;
const FRAMES: usize = 3 * PAGE;
const BYTES: usize = FRAMES + stack::FIRST_BYTES;
const _: () = assert!(CHUNK + 4 * size_of::<MethodTotals>() <= PAGE);
const _: () = assert!(CHUNK + totals::FIRST_CHUNK_BYTES <= FRAMES && BYTES == 16 << 10);

/// The thread, and the number of references to it.
#[repr(C)]
struct Head {
    thread: ProbeThread,
    references: AtomicU32,
}

/// A reference to a thread. Dropping the last one unmaps everything that belongs to the thread.
#[derive(Debug)]
pub(crate) struct ThreadRef(NonNull<Head>);

// SAFETY: it counts with an atomic, and `ProbeThread` is `Send` and `Sync`.
unsafe impl Send for ThreadRef {}
// SAFETY: the same.
unsafe impl Sync for ThreadRef {}

impl ThreadRef {
    /// Creates the calling thread's data; `None` if there is no memory.
    pub(super) fn of_current() -> Option<Self> {
        let account = Account::of_thread();
        if !account.take(totals::readings_bytes(totals::FIRST_CHUNK_BYTES)) {
            return None;
        }
        let start = account.map(BYTES)?.into_raw();
        // SAFETY: zeroed memory of the lengths asked for, aligned to 64 bytes, which nobody else uses and which is
        // unmapped only after the thread is dropped.
        unsafe {
            let stack = ShadowStack::new(start.add(FRAMES));
            let totals = ThreadTotals::new(start.add(TABLE), start.add(CHUNK));
            let thread = ProbeThread::new(stack, totals, account);
            start.cast().write(Head { thread, references: AtomicU32::new(1) });
        }
        Some(Self(start.cast()))
    }

    /// The thread's address, which no other live thread has.
    pub(crate) fn address(&self) -> usize {
        self.0.as_ptr().expose_provenance()
    }

    fn head(&self) -> &Head {
        // SAFETY: the head lives as long as a reference to it.
        unsafe { self.0.as_ref() }
    }
}

impl Deref for ThreadRef {
    type Target = ProbeThread;

    fn deref(&self) -> &ProbeThread {
        &self.head().thread
    }
}

impl Clone for ThreadRef {
    fn clone(&self) -> Self {
        // There are far fewer than 2^32 references: the list's, the agent thread's, and briefly one or two more.
        self.head().references.fetch_add(1, Ordering::Relaxed);
        Self(self.0)
    }
}

impl Drop for ThreadRef {
    fn drop(&mut self) {
        if self.head().references.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        // All that others did with the thread happened before this.
        fence(Ordering::Acquire);
        // SAFETY: this was the last reference. The mapping has this length, and nothing of it is used after the thread
        // has been dropped.
        unsafe {
            self.0.drop_in_place();
            drop(MappedMemory::from_raw(self.0.cast(), BYTES));
        }
    }
}
