//! A table by method id. Only pages with entries in use exist, and reading takes no lock.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, Ordering};

use crate::sys::mapped_memory::{MappedMemory, PAGE, page_size, release};

/// A value used only through shared references.
///
/// # Safety
/// All zero bytes are a valid value, it needs no drop, and its alignment divides a page.
pub(crate) unsafe trait Zeroed: Sync {
    /// Sets it to zero.
    fn clear(&self);
}

// SAFETY: an atomic number, for which zero is valid.
unsafe impl Zeroed for AtomicU8 {
    fn clear(&self) {
        self.store(0, Ordering::Relaxed);
    }
}

// SAFETY: the same.
unsafe impl Zeroed for AtomicU64 {
    fn clear(&self) {
        self.store(0, Ordering::Relaxed);
    }
}

/// The table: `PAGES` pages of entries, zero at first. For use in a `static`: pages are never unmapped.
pub(crate) struct TwoLevel<T, const PAGES: usize> {
    pages: [AtomicPtr<T>; PAGES],
}

impl<T: Zeroed, const PAGES: usize> TwoLevel<T, PAGES> {
    const ENTRIES: usize = PAGE / size_of::<T>();

    pub(crate) const fn new() -> Self {
        Self { pages: [const { AtomicPtr::new(std::ptr::null_mut()) }; PAGES] }
    }

    fn page(&self, index: u32) -> Option<(&AtomicPtr<T>, usize)> {
        let index = usize::try_from(index).ok()?;
        Some((self.pages.get(index / Self::ENTRIES)?, index % Self::ENTRIES))
    }

    /// The entry, if its page exists. An entry without a page is zero.
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        let (page, at) = self.page(index)?;
        let start = NonNull::new(page.load(Ordering::Acquire))?;
        // SAFETY: the page was mapped for this many entries, is never unmapped, and was zero at first.
        Some(unsafe { start.add(at).as_ref() })
    }

    /// The entry; its page is created if necessary. `None` beyond the table's end, or without memory.
    pub(crate) fn get_or_make(&self, index: u32) -> Option<&T> {
        let (page, _) = self.page(index)?;
        if page.load(Ordering::Acquire).is_null() {
            let new = MappedMemory::new(PAGE)?;
            let start = new.start().cast().as_ptr();
            let order = (Ordering::AcqRel, Ordering::Acquire);
            // If another thread was faster, this unmaps the new one.
            if page.compare_exchange(std::ptr::null_mut(), start, order.0, order.1).is_ok() {
                new.into_raw();
            }
        }
        self.get(index)
    }

    /// Sets all entries to zero, and gives their memory back.
    pub(crate) fn forget(&self) {
        let starts = self.pages.iter().map(|page| page.load(Ordering::Acquire));
        for start in starts.filter_map(NonNull::new) {
            if page_size() == PAGE {
                // SAFETY: the page has this length and is never unmapped; zero is at any time a valid value.
                unsafe { release(start.cast(), PAGE, 0) };
            } else {
                // SAFETY: the page has this many entries.
                (0..Self::ENTRIES).for_each(|at| unsafe { start.add(at).as_ref() }.clear());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_made_on_demand_and_forgotten() {
        static TABLE: TwoLevel<AtomicU64, 4> = TwoLevel::new();
        let value = |index| TABLE.get(index).map(|entry| entry.load(Ordering::Relaxed));
        assert_eq!(value(700), None);
        TABLE.get_or_make(700).unwrap().store(7, Ordering::Relaxed);
        assert_eq!([511, 512, 700, 1_024].map(value), [None, Some(0), Some(7), None]);
        TABLE.get_or_make(2_047).unwrap().store(8, Ordering::Relaxed);
        assert!(TABLE.get_or_make(2_048).is_none() && TABLE.get(u32::MAX).is_none());
        TABLE.forget();
        assert_eq!([700, 2_047].map(value), [Some(0), Some(0)]);
    }

    #[test]
    fn threads_that_make_a_page_at_once_share_it() {
        static TABLE: TwoLevel<AtomicU8, 64> = TwoLevel::new();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for index in (0..64 * 4_096).step_by(512) {
                        TABLE.get_or_make(index).unwrap().fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        let all_eight = (0..64 * 4_096)
            .step_by(512)
            .all(|index| TABLE.get(index).is_some_and(|entry| entry.load(Ordering::Relaxed) == 8));
        assert!(all_eight);
    }
}
