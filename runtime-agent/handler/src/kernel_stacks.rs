//! Where threads were in the kernel: what the kernel wrote into the ring of a thread's perf event, once for each
//! interval of its CPU time.
//!
//! The ring is mapped for reading only, so the kernel overwrites the oldest, and it writes backwards: the newest record
//! begins at its head, and older ones follow, up to where the last reading began. Nobody has to tell the kernel what
//! was read, so a handler that reads while another thread unmaps the ring does no harm: its loads are guarded.
//!
//! ```text
//! head -> | newest record | an older one | seen -> | read before | ... 0
//! record: kind (4 bytes), mode (2), bytes (2) | number of addresses | addresses, the innermost first
//! ```

use crate::memory::Memory;
use crate::walk::Frame;

/// The most addresses of a stack that are taken, the innermost ones.
pub const MAX_KERNEL: usize = 64;

/// Offsets in the ring's first page, the kernel's `perf_event_mmap_page`.
const HEAD: usize = 1024;
const DATA_OFFSET: usize = 1040;
const DATA_SIZE: usize = 1048;
/// The kind of a record that is a sample.
const SAMPLE: u64 = 9;
/// Addresses from here on say only what follows.
const MARKERS: u64 = u64::MAX - 4094;

/// Instead of where the last reading began: samples were taken without a reading. Only the newest one is new then. No
/// record begins there.
pub(crate) const UNREAD: u64 = 1;

/// The samples in a ring since it was last read, the newest first.
pub(crate) struct NewSamples<M> {
    memory: M,
    data: usize,
    size: u64,
    head: u64,
    next: u64,
    seen: u64,
}

impl<M: Memory + Copy> NewSamples<M> {
    /// Those in the ring at an address, up to the head of the last reading; `None` if there is no ring.
    pub(crate) fn of(memory: M, ring: usize, seen: u64) -> Option<Self> {
        if ring == 0 {
            return None;
        }
        let word = |offset: usize| memory.word(ring.wrapping_add(offset));
        let (head, size) = (word(HEAD)? as u64, word(DATA_SIZE)? as u64);
        let data = ring.wrapping_add(word(DATA_OFFSET)?);
        size.is_power_of_two().then_some(Self { memory, data, size, head, next: head, seen })
    }

    /// Where the next reading ends.
    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    fn word(&self, at: u64) -> u64 {
        let place = self.data.wrapping_add((at & (self.size - 1)) as usize);
        self.memory.word(place).unwrap_or(0) as u64
    }
}

impl<M: Memory + Copy> Iterator for NewSamples<M> {
    type Item = KernelStack<M>;

    fn next(&mut self) -> Option<KernelStack<M>> {
        loop {
            let at = self.next;
            // The ring began at 0.
            if at == self.seen || at == 0 {
                return None;
            }
            let header = self.word(at);
            let (kind, bytes) = (header & 0xffff_ffff, header >> 48);
            let end = at.wrapping_add(bytes);
            // An older record may have been overwritten.
            if bytes < 8 || bytes & 7 != 0 || end.wrapping_sub(self.head) > self.size {
                return None;
            }
            self.next = if self.seen == UNREAD { self.seen } else { end };
            if kind == SAMPLE {
                return Some(KernelStack::of(self, at, bytes));
            }
        }
    }
}

/// The stack of a sample in the kernel; empty if the thread was not in it.
pub(crate) struct KernelStack<M> {
    ring: Option<NewSamples<M>>,
    /// Where the addresses begin.
    at: u64,
    len: usize,
}

impl<M: Memory + Copy> KernelStack<M> {
    /// An empty one.
    pub(crate) const fn none() -> Self {
        Self { ring: None, at: 0, len: 0 }
    }

    fn of(ring: &NewSamples<M>, at: u64, bytes: u64) -> Self {
        let count = ring.word(at.wrapping_add(8)).min((bytes / 8).saturating_sub(2)) as usize;
        let ring = NewSamples { ..*ring };
        let mut first = at.wrapping_add(16);
        let mut len = count;
        while len > 0 && ring.word(first) >= MARKERS {
            first = first.wrapping_add(8);
            len -= 1;
        }
        Self { ring: Some(ring), at: first, len: len.min(MAX_KERNEL) }
    }

    /// How many frames it has.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// A frame, from the innermost.
    pub(crate) fn frame(&self, index: usize) -> Frame {
        let at = self.at.wrapping_add(8 * index as u64);
        let address = self.ring.as_ref().map_or(0, |ring| ring.word(at)) as usize;
        // Of callers these are return addresses, before which the call is.
        Frame::of_kernel(address.wrapping_sub(usize::from(index > 0)))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    const SIZE: usize = 256;
    const RING: usize = 0x10_000;
    const PAGE: usize = 4096;
    const KERNEL: u64 = 0xffff_ffff_8100_0000;

    /// A ring as the kernel writes it.
    #[derive(Clone)]
    struct Written {
        head: u64,
        data: [u64; SIZE / 8],
    }

    impl Memory for &Written {
        fn word(&self, address: usize) -> Option<usize> {
            let offset = address.checked_sub(RING)?;
            let word = match offset {
                HEAD => self.head,
                DATA_OFFSET => PAGE as u64,
                DATA_SIZE => SIZE as u64,
                _ => *self.data.get(offset.checked_sub(PAGE)? / 8)?,
            };
            Some(word as usize)
        }
    }

    impl Written {
        fn new() -> Self {
            Self { head: 0, data: [0; SIZE / 8] }
        }

        /// Adds a record of a kind.
        fn add(&mut self, kind: u64, addresses: &[u64]) {
            let words = 2 + addresses.len() as u64;
            self.head = self.head.wrapping_sub(8 * words);
            let all = [kind | ((8 * words) << 48), addresses.len() as u64];
            for (index, word) in all.iter().chain(addresses).enumerate() {
                let at = self.head.wrapping_add(8 * index as u64) as usize & (SIZE - 1);
                self.data[at / 8] = *word;
            }
        }

        fn read(&self, seen: u64) -> Vec<Vec<usize>> {
            let stacks = NewSamples::of(self, RING, seen).into_iter().flatten();
            let frames = |stack: KernelStack<_>| (0..stack.len()).map(move |at| stack.frame(at));
            stacks.map(|stack| frames(stack).filter_map(Frame::kernel).collect()).collect()
        }
    }

    #[test]
    fn samples_since_the_last_reading_are_found_the_newest_first() {
        let mut ring = Written::new();
        assert!(ring.read(0).is_empty() && NewSamples::of(&ring, 0, 0).is_none());
        ring.add(SAMPLE, &[MARKERS + 7, KERNEL + 10, KERNEL + 20]);
        let seen = ring.head;
        let [ten, twenty] = [10, 20].map(|n: u64| (KERNEL + n) as usize);
        assert_eq!(ring.read(0), [[ten, twenty - 1]]);
        ring.add(SAMPLE, &[]);
        // The kernel says that it did less.
        ring.add(5, &[1, 2]);
        ring.add(SAMPLE, &[MARKERS + 7, KERNEL + 20]);
        assert_eq!(ring.read(seen), [std::vec![twenty], std::vec![]]);
        assert_eq!(ring.read(ring.head), Vec::<Vec<usize>>::new());
    }

    #[test]
    fn after_samples_without_a_reading_only_the_newest_is_new() {
        let mut ring = Written::new();
        assert!(ring.read(UNREAD).is_empty());
        ring.add(SAMPLE, &[KERNEL + 1]);
        ring.add(SAMPLE, &[KERNEL + 2]);
        assert_eq!(ring.read(UNREAD), [[(KERNEL + 2) as usize]]);
    }

    #[test]
    fn what_was_overwritten_is_skipped() {
        let mut ring = Written::new();
        for number in 0..50 {
            ring.add(SAMPLE, &[KERNEL + number, KERNEL, KERNEL, KERNEL]);
        }
        // 256 bytes have room for five of 48.
        let newest = |stacks: Vec<Vec<usize>>| stacks.iter().map(|of| of[0]).collect::<Vec<_>>();
        let expected: Vec<usize> = (45..50).rev().map(|n| (KERNEL + n) as usize).collect();
        assert_eq!(newest(ring.read(0)), expected);
    }

    #[test]
    fn damaged_rings_end_the_reading() {
        let mut ring = Written::new();
        ring.add(SAMPLE, &[KERNEL]);
        for header in [0, SAMPLE, SAMPLE | 7 << 48, SAMPLE | 512 << 48] {
            let at = ring.head as usize & (SIZE - 1);
            ring.data[at / 8] = header;
            assert!(ring.read(0).is_empty(), "{header:x}");
        }
        // More addresses than the record has room for.
        let mut ring = Written::new();
        ring.add(SAMPLE, &[KERNEL]);
        let at = ring.head as usize & (SIZE - 1);
        ring.data[at / 8 + 1] = u64::MAX;
        assert_eq!(ring.read(0), [[KERNEL as usize]]);
    }
}
