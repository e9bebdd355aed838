//! The statistics of every method that a thread has called, and how they are found. Memory grows with the methods that
//! the thread really called: a growing hash table finds them, chunks of entries hold them.
//!
//! `count` and `next` of a chunk are released and acquired: they carry the entries and the chunk, written before.
//! [`method_totals`](super::method_totals) has the orderings of an entry.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use log_format::ids::MethodId;
use rewriter::probe::OFFLINE;

use super::method_totals::{MethodReader, MethodTotals, READING_BYTES};
use super::own::Own;
use super::traced;
use crate::sys::mapped_memory::{self, MappedMemory, PAGE};
use crate::sys::memory::Account;

/// Bytes of a thread's first chunk of entries, which has one entry for each method that the first table can hold. Each
/// further chunk is twice as long, up to
pub(super) const FIRST_CHUNK_BYTES: usize = 25 * size_of::<MethodTotals>();
const LONGEST_CHUNK_BYTES: usize = 64 << 10;

/// The same for all entries of a chunk of this length. It is counted with the chunk.
pub(super) const fn readings_bytes(chunk_bytes: usize) -> usize {
    (chunk_bytes / size_of::<MethodTotals>() - 1) * READING_BYTES
}

/// Head of a chunk of entries; it takes the place of the first entry.
#[repr(C, align(64))]
struct ChunkHead {
    next: AtomicPtr<Self>,
    /// Entries ready to be read.
    count: AtomicU32,
    /// The chunk's length.
    bytes: usize,
}

impl ChunkHead {
    const fn new(bytes: usize) -> Self {
        Self { next: AtomicPtr::new(ptr::null_mut()), count: AtomicU32::new(0), bytes }
    }

    /// The number of entries that fit beside the head.
    #[allow(clippy::cast_possible_truncation)]
    const fn capacity(&self) -> u32 {
        (self.bytes / size_of::<MethodTotals>() - 1) as u32
    }
}

const _: () = assert!(size_of::<ChunkHead>() <= size_of::<MethodTotals>());

/// A slot of the hash table; all zero is empty, because method ids begin at 1.
#[derive(Clone, Copy)]
#[repr(C)]
struct Slot {
    method: u32,
    entry: *const MethodTotals,
}

/// Set in the number of a slot whose method is traced, so that [`ThreadTotals::known`] does not know it.
const TRACED: u32 = 1 << 31;

/// The number of a method's slot.
fn marked(method: u32) -> u32 {
    if traced::is_traced(MethodId::new(method)) { method | TRACED } else { method }
}

/// Slots of the first table, which is shorter than a page.
const FIRST_SLOTS: usize = 32;
/// Bytes of the first table.
pub(super) const FIRST_TABLE_BYTES: usize = FIRST_SLOTS * size_of::<Slot>();
/// Slots of the first mapped table.
const MAPPED_SLOTS: usize = 4096 / size_of::<Slot>();

/// Statistics of all methods of one thread.
#[repr(C)] // What every call needs comes first.
pub(crate) struct ThreadTotals {
    /// The hash table, its number of slots (a power of two) minus one, and the number in use.
    table: Cell<*mut Slot>,
    mask: Cell<usize>,
    used: Cell<usize>,
    /// The highest method id in it.
    highest: Cell<u32>,
    /// The table's memory, if it is not the first table.
    table_mapping: Cell<Option<MappedMemory>>,
    last_chunk: Cell<NonNull<ChunkHead>>,
    /// Where the reader begins.
    first_chunk: NonNull<ChunkHead>,
}

// SAFETY: cells are used through `Own` alone, so by one thread; a reader follows `first_chunk`, and sees entries only
// once `count` has released them.
unsafe impl Sync for ThreadTotals {}
// SAFETY: nothing in it is bound to a thread.
unsafe impl Send for ThreadTotals {}

impl ThreadTotals {
    /// Creates statistics whose first table and first chunk are at these places.
    ///
    /// # Safety
    /// There are [`FIRST_TABLE_BYTES`] and [`FIRST_CHUNK_BYTES`] of zeros, aligned to 64 bytes, which only these
    /// statistics use and which live at least as long as they do.
    pub(super) unsafe fn new(table: NonNull<u8>, chunk: NonNull<u8>) -> Self {
        let chunk: NonNull<ChunkHead> = chunk.cast();
        // SAFETY: the caller guarantees it.
        unsafe { chunk.write(ChunkHead::new(FIRST_CHUNK_BYTES)) };
        Self {
            table: Cell::new(table.cast().as_ptr()),
            mask: Cell::new(FIRST_SLOTS - 1),
            used: Cell::new(0),
            highest: Cell::new(0),
            table_mapping: Cell::new(None),
            last_chunk: Cell::new(chunk),
            first_chunk: chunk,
        }
    }

    /// All entries for their reader, oldest first. Their order never changes.
    pub(super) fn entries(&self) -> impl Iterator<Item = MethodReader<'_>> {
        let mut chunk = self.first_chunk;
        let mut index = 0;
        std::iter::from_fn(move || {
            loop {
                // SAFETY: a chunk of these statistics, which lives as long as `self`, with a head.
                let head = unsafe { chunk.as_ref() };
                if index < head.count.load(Ordering::Acquire) {
                    index += 1;
                    // SAFETY: entries below `count` were written before it was released.
                    let entry = unsafe { chunk.cast().add(index as usize).as_ref() };
                    return Some(MethodReader::new(entry));
                }
                if index < head.capacity() {
                    return None;
                }
                chunk = NonNull::new(head.next.load(Ordering::Acquire))?;
                index = 0;
            }
        })
    }

    /// The chunks and their lengths, from the first on.
    fn chunks(&self) -> impl Iterator<Item = (NonNull<ChunkHead>, usize)> {
        let mut next = Some(self.first_chunk);
        std::iter::from_fn(move || {
            let chunk = next?;
            // SAFETY: a chunk of these statistics, with a head; a caller unmaps it only after it has asked for the
            // next.
            let head = unsafe { chunk.as_ref() };
            next = NonNull::new(head.next.load(Ordering::Acquire));
            Some((chunk, head.bytes))
        })
    }

    /// Gives the entries' pages back to the kernel, but not each chunk's first page, which has its head. The thread may
    /// add entries meanwhile: chunks are unmapped only when `self` is dropped, and an entry of zeros is valid. The
    /// table is left alone, because the thread may replace it.
    pub(super) fn give_back(&self) {
        for (chunk, bytes) in self.chunks() {
            // SAFETY: the chunk has this length; see above.
            unsafe { mapped_memory::release(chunk.cast(), bytes, 1) };
        }
    }
}

impl<'t> Own<'t, ThreadTotals> {
    /// A method's statistics, if they exist and are in the method's own slot.
    #[inline]
    pub(super) fn known(self, method: u32) -> Option<Own<'t, MethodTotals>> {
        let index = method as usize & self.mask.get();
        // SAFETY: the index is below the table's number of slots, which are plain numbers.
        let slot = unsafe { self.table.get().add(index).read() };
        if slot.method == method { self.entry(slot) } else { None }
    }

    /// A method's statistics, created if necessary. `None` if there is no memory for them, or the id is not one of an
    /// instrumented method.
    #[inline]
    pub(super) fn of(self, method: u32, account: &Account) -> Option<Own<'t, MethodTotals>> {
        let slot = self.find(self.table.get(), self.mask.get(), method);
        // SAFETY: `find` returns a slot of the table.
        let found = unsafe { slot.read() };
        if found.method & !TRACED == method {
            return self.entry(found);
        }
        self.insert(method, account)
    }

    /// Marks the methods that are traced, and no others.
    #[cold]
    pub(super) fn mark_traced(self) {
        for index in 0..=self.mask.get() {
            // SAFETY: the index is below the table's number of slots, which are plain numbers.
            let slot = unsafe { &mut *self.table.get().add(index) };
            if slot.method != 0 {
                slot.method = marked(slot.method & !TRACED);
            }
        }
    }

    /// The entry of a slot. It is null in an empty one, whose number is no method's id.
    #[inline]
    fn entry(self, slot: Slot) -> Option<Own<'t, MethodTotals>> {
        // SAFETY: an entry that is not null lies in a chunk of this thread, which lives as long as its statistics.
        unsafe { slot.entry.as_ref().map(|entry| Own::new(entry)) }
    }

    /// The slot that holds `method`, or the empty one where it belongs.
    #[inline]
    fn find(self, table: *mut Slot, mask: usize, method: u32) -> *mut Slot {
        let mut index = method as usize & mask;
        loop {
            // SAFETY: the index is below the table's number of slots.
            let slot = unsafe { table.add(index) };
            // SAFETY: the same; a slot is plain numbers, zero at first.
            let found = unsafe { (*slot).method } & !TRACED;
            if found == method || found == 0 {
                return slot;
            }
            // The table is at most three quarters full, so there is an empty slot.
            index = (index + 1) & mask;
        }
    }

    #[cold]
    fn insert(self, method: u32, account: &Account) -> Option<Own<'t, MethodTotals>> {
        if method >= OFFLINE {
            return None;
        }
        self.highest.set(self.highest.get().max(method));
        if 4 * (self.used.get() + 1) > 3 * (self.mask.get() + 1) {
            self.grow_table(account)?;
        } else if self.is_shared(method) {
            // If there is no memory for a longer table, this one still has room.
            self.grow_table(account);
        }
        let entry = self.new_entry(method, account)?;
        let slot = self.find(self.table.get(), self.mask.get(), method);
        let filled = Slot { method: marked(method), entry: entry.as_ptr() };
        // SAFETY: `find` returns a slot of the table.
        unsafe { slot.write(filled) };
        self.used.set(self.used.get() + 1);
        self.entry(filled)
    }

    /// Whether another method occupies this method's own slot, and a longer table would avoid that: ids have no gaps,
    /// so in a table as long as the highest id no two methods share a slot. `false` if most slots would be empty, or
    /// ids are so far apart that others would collide.
    fn is_shared(self, method: u32) -> bool {
        let (used, slots) = (self.used.get(), self.mask.get() + 1);
        // SAFETY: the index is below the table's number of slots, which are plain numbers.
        let own = unsafe { self.table.get().add(method as usize & self.mask.get()).read() };
        own.method != 0 && 4 * used > slots && (self.highest.get() as usize) < 8 * slots
    }

    fn grow_table(self, account: &Account) -> Option<()> {
        let (old, old_slots) = (self.table.get(), self.mask.get() + 1);
        let slots = (2 * old_slots).max(MAPPED_SLOTS);
        let mapping = account.map(slots * size_of::<Slot>())?;
        let table: *mut Slot = mapping.start().cast().as_ptr();
        for index in 0..old_slots {
            // SAFETY: the index is below the old table's number of slots.
            let slot = unsafe { old.add(index).read() };
            if slot.method != 0 {
                // SAFETY: `find` returns a slot of the new table.
                unsafe { self.find(table, slots - 1, slot.method & !TRACED).write(slot) };
            }
        }
        self.table.set(table);
        self.mask.set(slots - 1);
        // Nobody uses the old table any more.
        if let Some(old) = self.table_mapping.replace(Some(mapping)) {
            account.unmap(old);
        }
        Some(())
    }

    fn new_entry(self, method: u32, account: &Account) -> Option<NonNull<MethodTotals>> {
        let chunk = self.chunk_with_room(account)?;
        // SAFETY: a chunk of these statistics, which lives as long as `self`, with a head.
        let count = unsafe { &chunk.as_ref().count };
        let index = count.load(Ordering::Relaxed);
        // SAFETY: there is room: the head and this entry fit into the chunk.
        let entry = unsafe { chunk.cast::<MethodTotals>().add(1 + index as usize) };
        // SAFETY: the place is within the chunk, aligned, and nobody reads it before `count` includes it.
        unsafe { entry.write(MethodTotals::new(method)) };
        count.store(index + 1, Ordering::Release);
        Some(entry)
    }

    /// The last chunk, or a new one if that is full.
    fn chunk_with_room(self, account: &Account) -> Option<NonNull<ChunkHead>> {
        let last = self.last_chunk.get();
        // SAFETY: a chunk of these statistics, which lives as long as `self`, with a head.
        let head = unsafe { last.as_ref() };
        if head.count.load(Ordering::Relaxed) < head.capacity() {
            return Some(last);
        }
        let bytes = (2 * head.bytes).next_multiple_of(PAGE).min(LONGEST_CHUNK_BYTES);
        if !account.take(readings_bytes(bytes)) {
            return None;
        }
        let Some(mapped) = account.map(bytes) else {
            account.give(readings_bytes(bytes));
            return None;
        };
        let new: NonNull<ChunkHead> = mapped.into_raw().cast();
        // SAFETY: the mapping is longer than a head and aligned, and nobody else has it yet.
        unsafe { new.write(ChunkHead::new(bytes)) };
        head.next.store(new.as_ptr(), Ordering::Release);
        self.last_chunk.set(new);
        Some(new)
    }
}

impl Drop for ThreadTotals {
    fn drop(&mut self) {
        // The first chunk belongs to the thread's first mapping.
        for (chunk, bytes) in self.chunks().skip(1) {
            // SAFETY: it was made from a mapping of this length. Each chunk is visited once, after its head was read,
            // and nobody reads it any more.
            drop(unsafe { MappedMemory::from_raw(chunk.cast(), bytes) });
        }
    }
}

#[cfg(test)]
#[path = "totals_tests.rs"]
mod tests;
