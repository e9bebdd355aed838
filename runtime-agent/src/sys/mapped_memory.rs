//! Memory straight from the kernel: zeroed, committed page by page when it is touched.
//!
//! The probe takes its memory from here and not from the allocator: a probe may run wherever Java code runs, and a
//! shadow stack should cost only the pages it uses.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The usual size of a page.
pub(crate) const PAGE: usize = 4096;

/// After the kernel refused a request, this many more are refused without asking it, so that threads do not spend their
/// time asking for memory that is not there.
const AFTER_REFUSAL: u32 = 100;
static REFUSED_AT_ONCE: AtomicU32 = AtomicU32::new(0);

/// A private, anonymous mapping. It is unmapped when dropped.
#[derive(Debug)]
pub(crate) struct MappedMemory {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to this value alone, whichever thread holds it.
unsafe impl Send for MappedMemory {}
// SAFETY: a shared reference gives access to the address only.
unsafe impl Sync for MappedMemory {}

impl MappedMemory {
    /// Maps `length` bytes; `None` if the kernel refuses, or has refused shortly before.
    pub(crate) fn new(length: usize) -> Option<Self> {
        let less = |left: u32| left.checked_sub(1);
        if REFUSED_AT_ONCE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok() {
            return None;
        }
        let mapped = Self::large(length);
        if mapped.is_none() {
            REFUSED_AT_ONCE.store(AFTER_REFUSAL, Ordering::Relaxed);
        }
        mapped
    }

    /// Maps so many bytes that their refusal says nothing of small requests.
    pub(crate) fn large(length: usize) -> Option<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return None;
        }
        // Without this, a thread's first frame would take 2 MB on a machine that uses huge pages for all memory.
        // SAFETY: the mapping that was made above. A kernel without huge pages refuses, which does no harm.
        unsafe { libc::madvise(start, length, libc::MADV_NOHUGEPAGE) };
        NonNull::new(start.cast()).map(|start| Self { start, length })
    }

    /// The first byte. It is aligned to a page, and all bytes are zero at first.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Gives up ownership and returns the first byte. The memory stays mapped until [`from_raw`](Self::from_raw).
    pub(crate) fn into_raw(self) -> NonNull<u8> {
        let start = self.start;
        std::mem::forget(self);
        start
    }

    /// Takes back the mapping of `length` bytes that [`into_raw`](Self::into_raw) returned.
    ///
    /// # Safety
    /// `start` comes from `into_raw` of a mapping of this length, and is passed here only once.
    pub(crate) unsafe fn from_raw(start: NonNull<u8>, length: usize) -> Self {
        Self { start, length }
    }
}

/// The kernel's page size, which on some machines is larger than [`PAGE`].
pub(crate) fn page_size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    // SAFETY: it asks for a number.
    let size = || unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    *SIZE.get_or_init(|| usize::try_from(size()).unwrap_or(PAGE).max(PAGE))
}

/// Gives the whole pages between `start + offset` and `start + length` back to the kernel; they read as zero
/// afterwards.
///
/// # Safety
/// The range lies in a [`MappedMemory`] that is not unmapped meanwhile, and zero is at any time a valid value for its
/// users.
pub(crate) unsafe fn release(start: NonNull<u8>, length: usize, offset: usize) {
    let (page, address) = (page_size(), start.as_ptr().addr());
    let from = (address + offset).next_multiple_of(page);
    let to = (address + length) / page * page;
    if from >= to {
        return;
    }
    // SAFETY: the range lies within the mapping; the caller guarantees the rest.
    unsafe {
        libc::madvise(start.as_ptr().add(from - address).cast(), to - from, libc::MADV_DONTNEED)
    };
}

impl Drop for MappedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` with this length, and is unmapped once.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's flags of a mapping.
    fn flags(start: usize) -> String {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut lines = maps.lines().skip_while(|line| {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let address = |text: &str| usize::from_str_radix(text, 16).ok();
            !range.is_some_and(|(from, to)| {
                address(from).is_some_and(|from| from <= start)
                    && address(to).is_some_and(|to| start < to)
            })
        });
        lines.find_map(|line| line.strip_prefix("VmFlags:")).unwrap().to_owned()
    }

    #[test]
    fn no_huge_page_is_made_of_it_and_what_is_released_is_zero() {
        let mapped = MappedMemory::new(4 << 20).unwrap();
        let at = |offset: usize| mapped.start().as_ptr().wrapping_add(offset);
        let flags = flags(mapped.start().as_ptr().addr());
        assert!(flags.split(' ').any(|flag| flag == "nh"), "{flags}");
        let page = page_size();
        for offset in [0, page, 2 * page - 1, 2 * page] {
            // SAFETY: within the mapping, which is this test's.
            unsafe { at(offset).write(7) };
        }
        // The half pages at both ends stay.
        // SAFETY: the mapping is this test's, and zero is a value of its bytes.
        unsafe { release(mapped.start(), 2 * page + page / 2, page / 2) };
        // SAFETY: as above.
        let found = [0, page, 2 * page - 1, 2 * page].map(|offset| unsafe { at(offset).read() });
        assert_eq!(found, [7, 0, 0, 7]);
    }
}
