//! The ceiling of the agent's memory (option `max_memory`).
//!
//! Memory that grows with threads, their methods, parked virtual threads or recorded calls is taken from one sum before
//! it is allocated, through the [`Account`] of its owner. Beyond the ceiling the owner does without: calls are counted
//! as lost or dropped, and existing data stays intact. What the agent thread keeps for threads that are already known
//! is counted too, but never refused: a 64th of the ceiling is reserved for that.

pub(crate) mod bounded_queue;
pub(crate) mod limit;
pub(crate) mod sharded;
pub(crate) mod two_level;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use crate::sys::mapped_memory::{MappedMemory, page_size};

/// After a refusal, this many more requests of a thread are refused at once. Any other request changes [`USED`], which
/// all threads share, and a thread without memory may ask at each call.
pub(crate) const AFTER_REFUSAL: u32 = 100;

/// This fraction of the ceiling is reserved for requests that are never refused.
const NEVER_REFUSED: usize = 64;

/// Bytes that all accounts together may use.
static MAX: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Bytes that they use.
static USED: AtomicUsize = AtomicUsize::new(0);
/// Whether an account was refused memory since the run began, and nobody has asked about it yet.
static IS_REFUSAL_NEW: AtomicBool = AtomicBool::new(false);

/// Sets the ceiling for a run that begins.
pub(crate) fn begin(max_bytes: u64) {
    MAX.store(usize::try_from(max_bytes).unwrap_or(usize::MAX), Ordering::Relaxed);
    IS_REFUSAL_NEW.store(false, Ordering::Relaxed);
}

/// Bytes in use, and the ceiling.
pub(crate) fn used_and_max() -> (u64, u64) {
    (USED.load(Ordering::Relaxed) as u64, MAX.load(Ordering::Relaxed) as u64)
}

/// Whether a request was refused since the last call.
pub(crate) fn take_refusal() -> bool {
    IS_REFUSAL_NEW.load(Ordering::Relaxed) && IS_REFUSAL_NEW.swap(false, Ordering::Relaxed)
}

/// The bytes of one owner. They are given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Account {
    bytes: AtomicUsize,
    /// Whether it belongs to a thread, which alone takes from it.
    is_of_thread: bool,
    /// The number of next requests to refuse at once.
    refused_at_once: AtomicU32,
}

impl Account {
    /// An account for memory that threads share.
    pub(crate) const fn new() -> Self {
        Self::with(false)
    }

    /// An account for one thread's memory.
    pub(crate) const fn of_thread() -> Self {
        Self::with(true)
    }

    const fn with(is_of_thread: bool) -> Self {
        Self { bytes: AtomicUsize::new(0), is_of_thread, refused_at_once: AtomicU32::new(0) }
    }

    /// Bytes that it uses.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Takes bytes; `false` if that would exceed the ceiling, or would have shortly before.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        if let Some(left) = self.refused_at_once.load(Ordering::Relaxed).checked_sub(1) {
            self.refused_at_once.store(left, Ordering::Relaxed);
            return false;
        }
        let is_taken = self.take_now(bytes);
        if !is_taken && self.is_of_thread {
            self.refused_at_once.store(AFTER_REFUSAL, Ordering::Relaxed);
        }
        is_taken
    }

    /// Makes the next request ask again.
    #[cfg(test)]
    pub(crate) fn forget_refusal(&self) {
        self.refused_at_once.store(0, Ordering::Relaxed);
    }

    fn take_now(&self, bytes: usize) -> bool {
        #[cfg(test)]
        if tests::is_refusing() {
            return false;
        }
        let used = USED.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let max = MAX.load(Ordering::Relaxed);
        if used > max - max / NEVER_REFUSED {
            USED.fetch_sub(bytes, Ordering::Relaxed);
            IS_REFUSAL_NEW.store(true, Ordering::Relaxed);
            return false;
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        true
    }

    /// Gives bytes back, but no more than it has.
    pub(crate) fn give(&self, bytes: usize) {
        let less = |own: usize| Some(own.saturating_sub(bytes));
        let had = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        USED.fetch_sub(had.unwrap_or(0).min(bytes), Ordering::Relaxed);
    }

    /// Gives all bytes back.
    pub(crate) fn give_all(&self) {
        USED.fetch_sub(self.bytes.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Sets its bytes, even beyond the ceiling: they are already in use.
    pub(crate) fn set(&self, bytes: usize) {
        USED.fetch_add(bytes, Ordering::Relaxed);
        USED.fetch_sub(self.bytes.swap(bytes, Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Maps memory from the kernel; `None` if that would exceed the ceiling, or the kernel refuses.
    pub(crate) fn map(&self, length: usize) -> Option<MappedMemory> {
        let bytes = length.next_multiple_of(page_size());
        if !self.take(bytes) {
            return None;
        }
        let mapped = MappedMemory::new(length);
        if mapped.is_none() {
            self.give(bytes);
            IS_REFUSAL_NEW.store(true, Ordering::Relaxed);
        }
        mapped
    }

    /// Unmaps memory that [`map`](Self::map) mapped.
    pub(crate) fn unmap(&self, mapped: MappedMemory) {
        let bytes = mapped.length().next_multiple_of(page_size());
        drop(mapped);
        self.give(bytes);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.give_all();
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static IS_REFUSING: Cell<bool> = const { Cell::new(false) };
        static REFUSALS: Cell<u32> = const { Cell::new(0) };
    }

    /// Whether a test refuses memory to the calling thread. Called once for each request that is not refused at once.
    pub(crate) fn is_refusing() -> bool {
        let is_refusing = IS_REFUSING.get();
        REFUSALS.set(REFUSALS.get() + u32::from(is_refusing));
        is_refusing
    }

    /// How often a test refused memory to the calling thread, without refusals at once.
    pub(crate) fn refusals() -> u32 {
        REFUSALS.get()
    }

    /// Refuses memory to the calling thread from now on, or no longer.
    pub(crate) fn refuse(refuses: bool) {
        IS_REFUSING.set(refuses);
    }

    #[test]
    fn an_account_gives_back_what_it_has_and_no_more() {
        // Other tests take memory meanwhile, so only the account's own figures are certain.
        let account = Account::new();
        let own = || account.bytes();
        assert!(account.take(1_000) && account.take(500));
        account.give(300);
        assert_eq!(own(), 1_200);
        account.give(5_000);
        assert_eq!(own(), 0);
        account.set(70);
        account.set(50);
        assert_eq!(own(), 50);
        let mapped = account.map(page_size() + 1).unwrap();
        assert_eq!(own(), 50 + 2 * page_size());
        account.unmap(mapped);
        assert_eq!(own(), 50);
        refuse(true);
        assert!(!account.take(1) && account.map(1).is_none());
        refuse(false);
        assert_eq!(own(), 50);
        account.give_all();
        assert_eq!(own(), 0);
    }
}
