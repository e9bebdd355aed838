//! The way of a thread's records to the drain thread: a ring with one writer and one reader, who
//! never wait for each other. When it is full the record is dropped and counted.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use super::stack::MAX_DEPTH;
use crate::mapped::{Mapped, PAGE};

/// What a ring carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub kind: Kind,
    /// Number of instrumented frames below this one.
    pub depth: u16,
    pub method: u32,
    pub start_ticks: u64,
    pub total_ticks: u64,
    pub self_ticks: u64,
}

const _: () = assert!(size_of::<Record>() == 32 && MAX_DEPTH <= 1 << 16);

/// What a record says.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The frame at this depth is of this method: told once a frame, before the first record of
    /// itself or of a frame above it. It has no times.
    Frame,
    /// A call returned.
    Return,
    /// An exception left a call.
    Throw,
    /// The thread runs the virtual thread whose number is in `start_ticks`, or none if that is 0.
    /// Told before the first record of what it runs.
    Runs,
}

/// A power of two. Records come at most every threshold from each level of the stack; the drain
/// thread looks 20 times a second.
const SLOTS: usize = 4096;
const CAPACITY: u64 = SLOTS as u64;
/// Slots of a page of memory. The reader hands slots back by the page, and gives the page back to the
/// kernel before: a thread that records no more has a page or two, however much it recorded.
const PAGE_SLOTS: u64 = (PAGE / size_of::<Record>()) as u64;
const _: () = assert!(CAPACITY.is_multiple_of(PAGE_SLOTS));

/// The ring. All of its `unsafe` rests on this: slots from `read` up to `written` belong to the
/// reader, all others to the writer, and each side alone moves its own end.
#[derive(Debug)]
pub(crate) struct Ring {
    slots: Mapped,
    written: AtomicU64,
    read: AtomicU64,
    /// How far the reader has come, up to a page further than it has handed back.
    taken: Cell<u64>,
    /// The writer's last look at `read`.
    read_seen: Cell<u64>,
    dropped: AtomicU64,
}

// SAFETY: `read_seen` is used by the writer alone (`has_room`) and `taken` by the reader (`drain`);
// everything else is atomic or governed by the rule above.
unsafe impl Sync for Ring {}

impl Ring {
    pub(crate) fn new() -> Option<Self> {
        Some(Self {
            slots: Mapped::new(SLOTS * size_of::<Record>())?,
            written: AtomicU64::new(0),
            read: AtomicU64::new(0),
            taken: Cell::new(0),
            read_seen: Cell::new(0),
            dropped: AtomicU64::new(0),
        })
    }

    fn slot(&self, position: u64) -> *mut Record {
        #[allow(clippy::cast_possible_truncation)]
        let index = position as usize & (SLOTS - 1);
        // SAFETY: the index is below SLOTS, for which there is memory; a page is aligned for
        // anything.
        unsafe { self.slots.start().cast::<Record>().as_ptr().add(index) }
    }

    /// Whether `count` records fit. Writer only.
    pub(crate) fn has_room(&self, count: u64) -> bool {
        let written = self.written.load(Ordering::Relaxed);
        if written + count <= self.read_seen.get() + CAPACITY {
            return true;
        }
        self.read_seen.set(self.read.load(Ordering::Acquire));
        written + count <= self.read_seen.get() + CAPACITY
    }

    /// Appends a record for which [`has_room`](Self::has_room) was true. Writer only.
    pub(crate) fn push(&self, record: Record) {
        let written = self.written.load(Ordering::Relaxed);
        // SAFETY: there is room, so the slot is the writer's; the reader gets it by the release
        // below.
        unsafe { self.slot(written).write(record) };
        self.written.store(written + 1, Ordering::Release);
    }

    /// Counts a record that did not fit. Writer only.
    pub(crate) fn count_drop(&self) {
        self.dropped.store(self.dropped.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Records dropped so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Gives all its pages back to the kernel. There is no reader any more.
    pub(super) fn give_back(&self) {
        self.slots.release_from(0);
    }

    /// Takes all records that are there. Reader only.
    pub(crate) fn drain(&self, mut take: impl FnMut(Record)) {
        let written = self.written.load(Ordering::Acquire);
        let mut taken = self.taken.get();
        while taken < written {
            // SAFETY: the writer filled this slot before it released `written`, and leaves it alone
            // until `read` has passed it.
            take(unsafe { self.slot(taken).read() });
            taken += 1;
            self.taken.set(taken);
            if taken.is_multiple_of(PAGE_SLOTS) {
                #[allow(clippy::cast_possible_truncation)]
                let page = ((taken - PAGE_SLOTS) & (CAPACITY - 1)) as usize * size_of::<Record>();
                self.slots.release(page..page + PAGE);
                self.read.store(taken, Ordering::Release);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(n: u64) -> Record {
        Record {
            kind: Kind::Return,
            depth: 0,
            method: 1,
            start_ticks: n,
            total_ticks: !n,
            self_ticks: n,
        }
    }

    #[test]
    fn a_full_ring_drops_and_counts_and_goes_on_when_read() {
        let ring = Ring::new().unwrap();
        let mut next = 0;
        let mut expected = Vec::new();
        for round in 0..3 {
            for _ in 0..CAPACITY + 10 {
                if ring.has_room(1) {
                    ring.push(record(next));
                    expected.push(next);
                } else {
                    ring.count_drop();
                }
                next += 1;
            }
            assert_eq!(ring.dropped(), 10 * (round + 1));
            let mut read = Vec::new();
            ring.drain(|r| read.push(r.start_ticks));
            assert_eq!(read, expected);
            expected.clear();
        }
        assert!(ring.has_room(CAPACITY) && !ring.has_room(CAPACITY + 1));
    }

    #[test]
    fn records_cross_threads_whole_and_in_order() {
        let ring = Ring::new().unwrap();
        let pushed = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..1_000_000 {
                    if ring.has_room(1) {
                        ring.push(record(n));
                        pushed.fetch_add(1, Ordering::Relaxed);
                    } else {
                        ring.count_drop();
                    }
                }
            });
            let (mut taken, mut last) = (0, None);
            while taken + ring.dropped() < 1_000_000 {
                ring.drain(|r| {
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
}
