//! Memory straight from the kernel: zeroed, committed page by page when it is touched.
//!
//! The probe's memory comes from here and not from the allocator: a probe may run wherever Java
//! code runs, and a shadow stack should cost only what is used of it.
#![allow(unsafe_code)]

use std::ptr::NonNull;

/// A page of memory; where the kernel's are larger, it gives back whole ones only.
pub(crate) const PAGE: usize = 4096;

/// A private, anonymous mapping. It is unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapped {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to this value alone, whichever thread holds it.
unsafe impl Send for Mapped {}
// SAFETY: through a shared reference only the address can be had.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps `length` bytes; `None` if the kernel refuses.
    pub(crate) fn new(length: usize) -> Option<Self> {
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
        NonNull::new(start.cast()).map(|start| Self { start, length })
    }

    /// The first byte. It is aligned to a page, and all bytes are zero at first.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The mapping's first byte; it is not unmapped until [`from_raw`](Self::from_raw).
    pub(crate) fn into_raw(self) -> NonNull<u8> {
        let start = self.start;
        std::mem::forget(self);
        start
    }

    /// The mapping of `length` bytes that [`into_raw`](Self::into_raw) gave away.
    ///
    /// # Safety
    /// `start` comes from `into_raw` of a mapping of this length, and is used once.
    pub(crate) unsafe fn from_raw(start: NonNull<u8>, length: usize) -> Self {
        Self { start, length }
    }

    /// Gives some of its pages back to the kernel; they read as zero afterwards.
    pub(crate) fn release(&self, bytes: std::ops::Range<usize>) {
        // SAFETY: the part of the mapping that there is; nobody has references into it, as in
        // `release_from`.
        unsafe { release(self.start, bytes.end.min(self.length), bytes.start) };
    }

    /// Gives the memory from `offset` on back to the kernel; it reads as zero afterwards.
    pub(crate) fn release_from(&self, offset: usize) {
        // SAFETY: the mapping is this value's. The caller holds no references into it: users of the
        // memory go through raw pointers to atomics, `Cell`s and slots that are written before they
        // are read, for which zero is a value.
        unsafe { release(self.start, self.length, offset) };
    }
}

/// Gives the memory of a mapping from `offset` on, or from the next page, back to the kernel; it reads
/// as zero afterwards.
///
/// # Safety
/// `start` and `length` are those of a [`Mapped`] that is not unmapped meanwhile, and for whoever uses
/// it zero is a value at any time.
pub(crate) unsafe fn release(start: NonNull<u8>, length: usize, offset: usize) {
    let offset = offset.next_multiple_of(PAGE);
    if offset >= length {
        return;
    }
    // SAFETY: the range lies within the mapping; the rest is the caller's promise.
    unsafe {
        libc::madvise(start.as_ptr().add(offset).cast(), length - offset, libc::MADV_DONTNEED)
    };
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` with this length, and is unmapped once.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}
