//! Exact statistics of every method that a thread has called.
//!
//! The thread adds; the agent thread reads at any time and takes differences. Nobody resets anything but `max`, and
//! nobody waits. The thread counts a call after writing all its other values. So if a reading includes values of a
//! call not counted yet, no later reading includes them again, and nothing is lost. A reading's calls are those of its
//! histogram and those without times, and it never has more throws than calls. That holds for the last reading too, if
//! the JVM ended a thread inside a probe. (The times may include that call already.) Memory grows with the methods that
//! the thread really called: a growing hash table finds them, chunks of entries hold them.
//!
//! Orderings, each with what it carries to the reader:
//!
//! - `ended`, released last, acquired first: a reader that finds it unchanged has missed no call.
//! - A bucket and `without_times`, released: the other values of the calls that they count. The reader loads them
//!   relaxed and acquires all of them by one fence.
//! - `count` and `next` of a chunk, released and acquired: the entries and the chunk, written before.
//! - `max_ticks` is swapped by the reader, `class` gets a bit from it, both relaxed: each is one value for itself. If
//!   the reader comes between the thread's load and its store, the next maximum may lack that call, which was not
//!   longer than the maximum before, or the bit is lost and set again later.
//! - All else is relaxed: one thread stores it, and the reader reads it after one of the above.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

use rewriter::probe::OFFLINE;

use super::buckets::KEPT_BUCKETS;
use super::own::Own;
use super::thrown::ClassHash;
use super::traced;
use log_format::ids::MethodId;

use crate::sys::mapped_memory::{self, MappedMemory, PAGE};
use crate::sys::memory::Account;

/// Statistics of one method in one thread. What each call changes is in the first cache line.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct MethodTotals {
    method: u32,
    /// The identity hash of the class for which throws count (see `throws`): 0 before the first, [`ClassHash::UNSEEN`] if the first
    /// was not seen. With [`WANTED`], an example is wanted.
    class: AtomicU32,
    /// Calls that the thread has put on its stack, and calls that it has taken off again. If they are equal, none is on
    /// the stack. The reader reads the rest only if the second has changed.
    entered: Cell<u64>,
    ended: AtomicU64,
    throws: AtomicU32,
    /// Throws whose exception came out of no other measured call.
    began: AtomicU32,
    total_ticks: AtomicU64,
    self_ticks: AtomicU64,
    max_ticks: AtomicU64,
    histogram: [AtomicU32; KEPT_BUCKETS],
    /// Calls in no bucket.
    without_times: AtomicU32,
}

const _: () = assert!(size_of::<MethodTotals>() == 384);

// SAFETY: cells are used through `Own` alone, so by one thread; everything else is atomic.
unsafe impl Sync for MethodTotals {}

/// Adds without a locked instruction: there is only one writer.
fn add(counter: &AtomicU64, value: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(value), Ordering::Relaxed);
}

/// Adds one, without a locked instruction.
#[inline]
fn add_one(counter: &AtomicU32) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

/// Set in the class of a method's throws if an example is wanted. Identity hashes have 31 bits.
const WANTED: u32 = 1 << 31;

/// Counts a call. A reader that sees the count sees the call's times.
#[inline]
fn count_one(count: &AtomicU32) {
    count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
}

impl MethodTotals {
    pub(crate) const fn new(method: u32) -> Self {
        Self {
            method,
            class: AtomicU32::new(0),
            entered: Cell::new(0),
            ended: AtomicU64::new(0),
            throws: AtomicU32::new(0),
            began: AtomicU32::new(0),
            total_ticks: AtomicU64::new(0),
            self_ticks: AtomicU64::new(0),
            max_ticks: AtomicU64::new(0),
            histogram: [const { AtomicU32::new(0) }; KEPT_BUCKETS],
            without_times: AtomicU32::new(0),
        }
    }
}

impl Own<'_, MethodTotals> {
    /// Notes that the method is on the stack once more.
    #[inline]
    pub(super) fn enter(self) {
        self.entered.set(self.entered.get().wrapping_add(1));
    }

    /// Calls that the thread has put on its stack.
    pub(super) fn entered(self) -> u64 {
        self.entered.get()
    }

    /// Notes that the method is on the stack once less, without counting the call.
    pub(super) fn leave(self) {
        self.ended.store(self.with_one_ended(), Ordering::Release);
    }

    fn with_one_ended(self) -> u64 {
        self.ended.load(Ordering::Relaxed).wrapping_add(1)
    }

    /// Adds the times of a call that ended. The caller must count it next, with the value returned here.
    #[inline]
    #[must_use]
    pub(super) fn add(self, call: &EndedCall) -> u64 {
        let ended = self.with_one_ended();
        add(&self.self_ticks, call.self_ticks);
        // In a recursion, only the outermost call counts.
        if ended == self.entered.get() {
            add(&self.total_ticks, call.total_ticks);
        }
        if call.threw {
            add_one(&self.throws);
        }
        if call.total_ticks > self.max_ticks.load(Ordering::Relaxed) {
            self.max_ticks.store(call.total_ticks, Ordering::Relaxed);
        }
        ended
    }

    /// The class for which throws count; see the field.
    #[inline]
    pub(super) fn class(self) -> ClassHash {
        ClassHash::new(self.class_bits() & !WANTED)
    }

    /// The same, marked if an example is wanted.
    #[inline]
    pub(super) fn class_bits(self) -> u32 {
        self.class.load(Ordering::Relaxed)
    }

    /// Sets it, once, or takes back that an example is wanted.
    pub(super) fn set_class(self, class: ClassHash) {
        self.class.store(class.bits(), Ordering::Relaxed);
    }

    /// Whether these are the statistics of calls for which there was no memory.
    pub(super) fn is_of_lost_calls(self) -> bool {
        self.method == 0
    }

    /// Counts an exception that began to leave measured calls in this method. The caller counts the throw next.
    #[inline]
    pub(super) fn add_began(self) {
        add_one(&self.began);
    }

    /// Whether no call has taken longer since the last reading.
    pub(super) fn is_longest(self, total_ticks: u64) -> bool {
        total_ticks >= self.max_ticks.load(Ordering::Relaxed)
    }

    /// Counts a call in this bucket and takes it off the stack. `ended` is what [`add`](Self::add) returned.
    #[inline]
    pub(super) fn count(self, bucket: usize, ended: u64) {
        self.count_in(bucket);
        // Last: the reader reads the rest once this has changed.
        self.ended.store(ended, Ordering::Release);
    }

    #[inline]
    fn count_in(self, bucket: usize) {
        debug_assert!(bucket < KEPT_BUCKETS);
        // A bucket that does not exist would be a bug of the agent; it must not harm the service.
        if let Some(count) = self.histogram.get(bucket) {
            count_one(count);
        }
    }

    /// Counts a call whose times are unknown.
    pub(super) fn count_without_times(self, threw: bool) {
        // The call was never on the stack, but the difference of the two must not change.
        self.enter();
        if threw {
            add_one(&self.throws);
        }
        count_one(&self.without_times);
        self.ended.store(self.with_one_ended(), Ordering::Release);
    }
}

/// A call that ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedCall {
    pub total_ticks: u64,
    pub self_ticks: u64,
    pub threw: bool,
}

/// The increase of one method's statistics between two readings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Added {
    pub calls: u64,
    pub throws: u64,
    /// Of them, those whose exception came out of no other measured call, and the class for which all count.
    pub began: u64,
    pub class: ClassHash,
    pub total_ticks: u64,
    pub self_ticks: u64,
    /// The longest call.
    pub max_ticks: u64,
    /// Buckets, and how many more calls each has.
    pub histogram: Vec<(u8, u32)>,
}

/// The values that a reader last found. All numbers wrap around.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    ended: u64,
    throws: u32,
    began: u32,
    total_ticks: u64,
    self_ticks: u64,
    without_times: u32,
    /// Non-empty buckets.
    histogram: Vec<(u8, u32)>,
}

impl Reading {
    /// Memory that it has beyond what is counted with its chunk.
    pub(crate) fn bytes_more(&self) -> usize {
        let bytes = size_of::<Self>() + self.histogram.capacity() * size_of::<(u8, u32)>() + 16;
        bytes.saturating_sub(READING_BYTES)
    }
}

/// One method's statistics, for the one thread that reads them: each reading resets the maximum.
pub(crate) struct MethodReader<'r>(&'r MethodTotals);

impl<'r> MethodReader<'r> {
    pub(super) const fn new(totals: &'r MethodTotals) -> Self {
        Self(totals)
    }

    pub(crate) fn method(&self) -> MethodId {
        MethodId::new(self.0.method)
    }

    /// An example of an exception is wanted.
    pub(crate) fn want_example(&self) {
        self.0.class.fetch_or(WANTED, Ordering::Relaxed);
    }

    /// The increase since `before`, which is then set to the present reading. `None` if there is none.
    pub(crate) fn take_since(&self, before: &mut Reading) -> Option<Added> {
        let Self(totals) = self;
        let ended = totals.ended.load(Ordering::Acquire);
        if ended == before.ended {
            return None;
        }
        let mut histogram = Vec::with_capacity(before.histogram.len());
        let mut added = Added::default();
        let mut old = before.histogram.iter().peekable();
        for (bucket, count) in (0u8..).zip(&totals.histogram) {
            let count = count.load(Ordering::Relaxed);
            let old = old.next_if(|(b, _)| *b == bucket).map_or(0, |(_, count)| *count);
            // A count that wraps around to 0 between two readings is kept as 0.
            if count != old {
                let more = count.wrapping_sub(old);
                added.calls += u64::from(more);
                added.histogram.push((bucket, more));
            }
            if count != 0 || old != 0 {
                // There are thousands of these, most with one bucket.
                histogram.reserve_exact(1);
                histogram.push((bucket, count));
            }
        }
        let without_times = totals.without_times.load(Ordering::Relaxed);
        added.calls += u64::from(without_times.wrapping_sub(before.without_times));
        if added.calls == 0 {
            // The reading before already included it, or the frames taken off the stack were not counted.
            before.ended = ended;
            return None;
        }
        // The other values of each call found above are visible to the reads below.
        fence(Ordering::Acquire);
        let throws = totals.throws.load(Ordering::Relaxed).wrapping_sub(before.throws);
        let began = totals.began.load(Ordering::Relaxed).wrapping_sub(before.began);
        let total_ticks = totals.total_ticks.load(Ordering::Relaxed);
        let self_ticks = totals.self_ticks.load(Ordering::Relaxed);
        // A throw of a call that is not counted yet is reported with that call.
        let calls = u32::try_from(added.calls).unwrap_or(u32::MAX);
        let throws = throws.min(calls);
        let began = began.min(throws);
        (added.throws, added.began) = (throws.into(), began.into());
        added.class = ClassHash::new(totals.class.load(Ordering::Relaxed) & !WANTED);
        let (throws, began) =
            (before.throws.wrapping_add(throws), before.began.wrapping_add(began));
        added.total_ticks = total_ticks.wrapping_sub(before.total_ticks);
        added.self_ticks = self_ticks.wrapping_sub(before.self_ticks);
        // Swap, so that a longer call stored meanwhile is not lost.
        added.max_ticks = totals.max_ticks.swap(0, Ordering::Relaxed);
        *before =
            Reading { ended, throws, began, total_ticks, self_ticks, without_times, histogram };
        Some(added)
    }
}

/// Bytes of a thread's first chunk of entries, which has one entry for each method that the first table can hold. Each
/// further chunk is twice as long, up to
pub(super) const FIRST_CHUNK_BYTES: usize = 25 * size_of::<MethodTotals>();
const LONGEST_CHUNK_BYTES: usize = 64 << 10;

/// Memory that the agent thread keeps for each entry, with a few buckets.
const READING_BYTES: usize = size_of::<Reading>() + 4 * size_of::<(u8, u32)>() + 16;

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
                    return Some(MethodReader(entry));
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
    /// add entries meanwhile: chunks are unmapped only when `self` is dropped, and an entry of zeros is valid. The table
    /// is left alone, because the thread may replace it.
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
