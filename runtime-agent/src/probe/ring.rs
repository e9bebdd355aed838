//! Carries a thread's recorded calls to the agent thread: a ring with one writer and one reader, which never wait for
//! each other. If it is full, or there is no memory, the call is dropped and counted.
//!
//! The ring consists of pages. The writer maps a page when it first writes to it. The reader keeps one page that it has
//! read for the writer to reuse, and unmaps the others. So a thread has the pages of its unread entries, and two more;
//! a thread that records steadily makes no system calls for them.
//!
//! Orderings, each with what it carries from one side to the other:
//!
//! - `written`, released by the writer, acquired by the reader: the entries below it, and the pages that have them.
//! - `read`, released by the reader, acquired by the writer: the reader has read all entries below it, and has taken
//!   their pages out of `pages`. So the writer neither overwrites an unread entry nor finds an unmapped page, although
//!   it loads `pages` relaxed there: in `make_room`, pages below its copy `read_seen` are null or its own.
//! - `spare`, released by the reader, acquired by the writer: the reader has read the page's entries, as above. A
//!   refused exchange hands nothing over, so its load is relaxed; so is the swap of `pages`, which `read` releases.
//! - `pages`, released by the writer: for [`RingReader::give_back`], which does not look at `written` first.
//! - Relaxed: `read_seen` is the writer's alone, `taken` the reader's; another thread becomes the reader only through
//!   `ThreadReader`, which acquires and releases. `dropped` and `dropped_in_requests` have one writer, and stand for
//!   nothing else.
#![allow(unsafe_code)]

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use super::own::Own;
use super::stack::MAX_DEPTH;
use log_format::ids::MethodId;

use crate::sys::mapped_memory::{self, MappedMemory, PAGE};
use crate::sys::memory::Account;

/// An entry of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub kind: Kind,
    /// Number of instrumented frames below this one.
    pub depth: u16,
    pub method: MethodId,
    pub start_ticks: u64,
    pub total_ticks: u64,
    pub self_ticks: u64,
}

const _: () = assert!(size_of::<Record>() == 32 && MAX_DEPTH <= 1 << 16);

impl Record {
    /// An entry that is no call and has no frame, only a number.
    pub(super) const fn of_number(kind: Kind, number: u64) -> Self {
        Self {
            kind,
            depth: 0,
            method: MethodId::NONE,
            start_ticks: number,
            total_ticks: 0,
            self_ticks: 0,
        }
    }
}

/// What an entry means.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The frame at this depth is of this method. Pushed once for each frame, before the first recorded call of itself
    /// or of a frame above it. It has no times.
    Frame,
    /// A call returned.
    Return,
    /// An exception left a call.
    Throw,
    /// The thread runs the virtual thread whose number is in `start_ticks`, or none if that is 0. Pushed before the
    /// first recorded call of what it runs.
    Runs,
    /// The recorded call that comes next, an outermost one, has allocated the bytes in `start_ticks`.
    Allocated,
    /// The recorded call that comes next belongs to a request that a task records, at this depth. If `start_ticks` is
    /// not 0, it is recorded for no other reason.
    InRequest,
}

/// A power of two. Each level of the stack records at most one call per threshold; the agent thread drains 20 times a
/// second.
pub(super) const CAPACITY: u64 = 4096;
/// Entries kept for calls that are the slowest of their method by far (see `slowest_calls`).
pub(super) const RESERVED: u64 = CAPACITY / 4;
/// Entries of a memory page. The reader returns slots a page at a time.
const PAGE_SLOTS: u64 = (PAGE / size_of::<Record>()) as u64;
const PAGES: usize = (CAPACITY / PAGE_SLOTS) as usize;
const _: () = assert!(CAPACITY.is_multiple_of(PAGE_SLOTS));

/// The ring. All of its `unsafe` rests on this: slots from `read` up to `written` belong to the reader, all others to
/// the writer, and each side alone moves its own end. A page belongs to the owner of its slots; the reader takes it out
/// of `pages` before it returns the page's last slot. The writer is the thread itself, by its [`Own`]; the reader is
/// the one [`RingReader`].
#[derive(Debug)]
pub(crate) struct Ring {
    pages: [AtomicPtr<Record>; PAGES],
    /// A page not in use, or null. The reader puts it here, the writer takes it.
    spare: AtomicPtr<Record>,
    written: AtomicU64,
    read: AtomicU64,
    /// How far the reader has read, at most a page beyond what it has returned.
    taken: AtomicU64,
    /// The value of `read` that the writer last saw.
    read_seen: AtomicU64,
    dropped: AtomicU64,
    /// Of them, those in requests that a task records.
    dropped_in_requests: AtomicU64,
}

impl Ring {
    pub(crate) const fn new() -> Self {
        Self {
            pages: [const { AtomicPtr::new(ptr::null_mut()) }; PAGES],
            spare: AtomicPtr::new(ptr::null_mut()),
            written: AtomicU64::new(0),
            read: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            read_seen: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            dropped_in_requests: AtomicU64::new(0),
        }
    }

    /// The page of a position.
    #[allow(clippy::cast_possible_truncation, clippy::indexing_slicing)] // It is below PAGES.
    fn page(&self, position: u64) -> &AtomicPtr<Record> {
        &self.pages[(position / PAGE_SLOTS) as usize % PAGES]
    }

    /// The slot of a position, if its page exists.
    fn slot(&self, position: u64) -> Option<NonNull<Record>> {
        let start = NonNull::new(self.page(position).load(Ordering::Acquire))?;
        #[allow(clippy::cast_possible_truncation)]
        let index = (position % PAGE_SLOTS) as usize;
        // SAFETY: the index is below the page's number of slots, and a page is aligned for any type.
        Some(unsafe { start.add(index) })
    }

    /// Calls dropped so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Of them, those in requests that a task records.
    pub(crate) fn dropped_in_requests(&self) -> u64 {
        self.dropped_in_requests.load(Ordering::Relaxed)
    }
}

impl Own<'_, Ring> {
    /// Makes room for `count` entries; `false` if the ring would then hold more than `capacity`, or there is no memory.
    pub(super) fn make_room(self, count: u64, capacity: u64, account: &Account) -> bool {
        let written = self.written.load(Ordering::Relaxed);
        let end = written + count;
        if end > self.read_seen.load(Ordering::Relaxed) + capacity {
            self.read_seen.store(self.read.load(Ordering::Acquire), Ordering::Relaxed);
        }
        let first = written / PAGE_SLOTS;
        end <= self.read_seen.load(Ordering::Relaxed) + capacity
            && (first..end.div_ceil(PAGE_SLOTS)).all(|n| self.make_page(n * PAGE_SLOTS, account))
    }

    /// Maps the page of a position that is the writer's, unless it exists.
    fn make_page(self, position: u64, account: &Account) -> bool {
        let page = self.page(position);
        if page.load(Ordering::Relaxed).is_null() {
            // Each slot is written before it is read, so old contents do not matter.
            let spare = self.spare.swap(ptr::null_mut(), Ordering::Acquire);
            if !spare.is_null() {
                page.store(spare, Ordering::Release);
                return true;
            }
            let Some(mapped) = account.map(PAGE) else { return false };
            page.store(mapped.into_raw().cast().as_ptr(), Ordering::Release);
        }
        true
    }

    /// Appends an entry, for which [`make_room`](Self::make_room) made room.
    pub(super) fn push(self, record: Record) {
        let written = self.written.load(Ordering::Relaxed);
        let has_room = written < self.read_seen.load(Ordering::Relaxed) + CAPACITY;
        let Some(slot) = self.slot(written).filter(|_| has_room) else { return self.count_drop() };
        // SAFETY: there is room, so the slot is the writer's; the reader gets it by the release below.
        unsafe { slot.write(record) };
        self.written.store(written + 1, Ordering::Release);
    }

    /// Counts a call that did not fit.
    pub(super) fn count_drop(self) {
        self.dropped.store(self.dropped.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Counts one in a request that a task records.
    pub(super) fn count_drop_in_request(self) {
        self.count_drop();
        let dropped = self.dropped_in_requests.load(Ordering::Relaxed);
        self.dropped_in_requests.store(dropped + 1, Ordering::Relaxed);
    }
}

/// The reader's side of a ring.
pub(super) struct RingReader<'r>(&'r Ring);

impl<'r> RingReader<'r> {
    /// # Safety
    /// The ring has no other reader meanwhile.
    pub(super) const unsafe fn new(ring: &'r Ring) -> Self {
        Self(ring)
    }

    /// Gives all pages back to the kernel. The writer may still write.
    pub(super) fn give_back(self) {
        for page in self.0.pages.iter().chain([&self.0.spare]) {
            if let Some(start) = NonNull::new(page.load(Ordering::Acquire)) {
                // SAFETY: the one reader neither unmaps nor reads it any more; the ring is dropped later.
                unsafe { mapped_memory::release(start.cast(), PAGE, 0) };
            }
        }
    }

    /// Takes all available entries.
    pub(super) fn drain(&mut self, account: &Account, mut take: impl FnMut(Record)) {
        let Self(ring) = self;
        let written = ring.written.load(Ordering::Acquire);
        let mut taken = ring.taken.load(Ordering::Relaxed);
        while taken < written {
            if let Some(slot) = ring.slot(taken) {
                // SAFETY: the writer filled this slot before it released `written`, and leaves it alone until `read`
                // has passed it.
                take(unsafe { slot.read() });
            }
            taken += 1;
            ring.taken.store(taken, Ordering::Relaxed);
            if taken.is_multiple_of(PAGE_SLOTS) {
                let page = ring.page(taken - 1).swap(ptr::null_mut(), Ordering::Relaxed);
                let (none, set) = (ptr::null_mut(), Ordering::Release);
                if ring.spare.compare_exchange(none, page, set, Ordering::Relaxed).is_err()
                    && let Some(start) = NonNull::new(page)
                {
                    // SAFETY: made by `make_page` with this length; all its slots are the reader's, and it is taken
                    // out of the ring before they are handed back.
                    account.unmap(unsafe { MappedMemory::from_raw(start.cast(), PAGE) });
                }
                ring.read.store(taken, Ordering::Release);
            }
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        for page in self.pages.iter_mut().chain([&mut self.spare]) {
            if let Some(start) = NonNull::new(*page.get_mut()) {
                // SAFETY: made by `make_page` with this length, and nobody has the ring any more.
                drop(unsafe { MappedMemory::from_raw(start.cast(), PAGE) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::mapped_memory::page_size;
    use crate::sys::memory::tests::refuse;

    fn writer(ring: &Ring) -> Own<'_, Ring> {
        // SAFETY: each ring is the data of the one thread of its test that writes.
        unsafe { Own::new(ring) }
    }

    fn drain(ring: &Ring, account: &Account, take: impl FnMut(Record)) {
        // SAFETY: one thread of each test reads.
        unsafe { RingReader::new(ring) }.drain(account, take);
    }

    fn record(n: u64) -> Record {
        Record {
            kind: Kind::Return,
            depth: 0,
            method: MethodId::new(1),
            start_ticks: n,
            total_ticks: !n,
            self_ticks: n,
        }
    }

    #[test]
    fn a_full_ring_drops_and_counts_and_goes_on_when_read() {
        let (ring, account) = (Ring::new(), Account::new());
        let mut next = 0;
        let mut expected = Vec::new();
        for round in 0..3 {
            for _ in 0..CAPACITY + 10 {
                if writer(&ring).make_room(1, CAPACITY, &account) {
                    writer(&ring).push(record(next));
                    expected.push(next);
                } else {
                    writer(&ring).count_drop();
                }
                next += 1;
            }
            assert_eq!(ring.dropped(), 10 * (round + 1));
            let mut read = Vec::new();
            drain(&ring, &account, |r| read.push(r.start_ticks));
            assert_eq!(read, expected);
            expected.clear();
        }
        // A partly read last page remains, and one page is spare.
        let is_part = !ring.written.load(Ordering::Relaxed).is_multiple_of(PAGE_SLOTS);
        assert!(account.bytes() <= page_size() * (1 + usize::from(is_part)));
        assert!(
            writer(&ring).make_room(CAPACITY, CAPACITY, &account)
                && !writer(&ring).make_room(CAPACITY + 1, CAPACITY, &account)
        );
    }

    #[test]
    fn records_cross_threads_whole_and_in_order() {
        let (ring, account) = (Ring::new(), Account::new());
        let pushed = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..1_000_000 {
                    if writer(&ring).make_room(1, CAPACITY, &account) {
                        writer(&ring).push(record(n));
                        pushed.fetch_add(1, Ordering::Relaxed);
                    } else {
                        writer(&ring).count_drop();
                    }
                }
            });
            let (mut taken, mut last) = (0, None);
            while taken + ring.dropped() < 1_000_000 {
                drain(&ring, &account, |r| {
                    assert_eq!(r.total_ticks, !r.start_ticks);
                    assert!(last < Some(r.start_ticks));
                    last = Some(r.start_ticks);
                    taken += 1;
                });
                std::thread::yield_now();
            }
            assert_eq!(taken, pushed.load(Ordering::Relaxed));
        });
    }

    #[test]
    fn pages_come_with_entries_and_go_when_they_are_read() {
        let (ring, account) = (Ring::new(), Account::new());
        let pages = || account.bytes() / page_size();
        let push = |count: u64| {
            assert!(writer(&ring).make_room(count, CAPACITY, &account));
            (0..count).for_each(|n| writer(&ring).push(record(n)));
        };
        assert_eq!(pages(), 0);
        push(1);
        assert_eq!(pages(), 1);
        push(PAGE_SLOTS);
        assert_eq!(pages(), 2);
        push(1_000);
        assert_eq!(pages(), 9);
        drain(&ring, &account, |_| {});
        assert_eq!(pages(), 2);
        // Without memory, there is room only in this page and the spare one.
        refuse(true);
        let left = 2 * PAGE_SLOTS - (1 + PAGE_SLOTS + 1_000) % PAGE_SLOTS;
        push(left);
        assert!(!writer(&ring).make_room(1, CAPACITY, &account));
        refuse(false);
        push(1);
        let mut read = 0;
        drain(&ring, &account, |_| read += 1);
        assert_eq!((read, pages()), (left + 1, 2));
    }

    #[test]
    fn steady_entries_ask_for_no_memory() {
        let (ring, account) = (Ring::new(), Account::new());
        let record_page = || {
            for n in 0..PAGE_SLOTS {
                assert!(writer(&ring).make_room(1, CAPACITY, &account));
                writer(&ring).push(record(n));
            }
        };
        let mut read = 0;
        let mut read_all = || drain(&ring, &account, |_| read += 1);
        record_page();
        record_page();
        read_all();
        refuse(true);
        for _ in 0..1_000 {
            record_page();
            read_all();
        }
        refuse(false);
        assert_eq!(read, 1_002 * PAGE_SLOTS);
    }
}
