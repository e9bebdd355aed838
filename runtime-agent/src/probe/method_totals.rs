//! Exact statistics of one method in one thread.
//!
//! The thread adds; the agent thread reads at any time and takes differences. Nobody resets anything but `max`, and
//! nobody waits. The thread counts a call after writing all its other values. So if a reading includes values of a
//! call not counted yet, no later reading includes them again, and nothing is lost. A reading's calls are those of its
//! histogram and those without times, and it never has more throws than calls. That holds for the last reading too, if
//! the JVM ended a thread inside a probe. (The times may include that call already.)
//!
//! Orderings, each with what it carries to the reader:
//!
//! - `ended`, released last, acquired first: a reader that finds it unchanged has missed no call.
//! - A bucket and `without_times`, released: the other values of the calls that they count. The reader loads them
//!   relaxed and acquires all of them by one fence.
//! - `max_ticks` is swapped by the reader, `class` gets a bit from it, both relaxed: each is one value for itself. If
//!   the reader comes between the thread's load and its store, the next maximum may lack that call, which was not
//!   longer than the maximum before, or the bit is lost and set again later.
//! - All else is relaxed: one thread stores it, and the reader reads it after one of the above.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use log_format::ids::MethodId;

use super::buckets::KEPT_BUCKETS;
use super::own::Own;
use super::thrown_class::ClassHash;

/// Statistics of one method in one thread. What each call changes is in the first cache line.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct MethodTotals {
    method: u32,
    /// The identity hash of the class for which throws count (see `throws`): 0 before the first, [`ClassHash::UNSEEN`]
    /// if the first was not seen. With [`WANTED`], an example is wanted.
    class: AtomicU32,
    /// Calls that the thread has put on its stack, and calls that it has taken off again. If they are equal, none is on
    /// the stack. The reader reads the rest only if the second has changed.
    entered: Cell<u64>,
    ended: AtomicU64,
    throws: AtomicU32,
    /// Throws whose exception came out of no other instrumented call.
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

    /// Counts an exception that began to leave instrumented calls in this method. The caller counts the throw next.
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
    /// Of them, those whose exception came out of no other instrumented call, and the class for which all count.
    pub began: u64,
    pub class: ClassHash,
    pub total_ticks: u64,
    pub self_ticks: u64,
    /// The longest call.
    pub max_ticks: u64,
    /// Buckets, and how many more calls each has.
    pub histogram: Vec<(u8, u32)>,
}

/// Memory that the agent thread keeps for each method of a thread, with a few buckets.
pub(super) const READING_BYTES: usize = size_of::<Reading>() + 4 * size_of::<(u8, u32)>() + 16;

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

#[cfg(test)]
#[path = "method_totals_tests.rs"]
pub(super) mod tests;
