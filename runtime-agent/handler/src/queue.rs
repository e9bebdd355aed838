//! Samples on their way from handlers to the agent thread: a ring of words that all threads write and one reads.
//!
//! Its size depends on the number of processors, not of threads: however many threads there are, no more than run at a
//! time are sampled. A handler reserves room, writes, and marks the sample as complete; the reader stops at one that is
//! not, until its thread has run again. Where there is no room, samples are counted as dropped.
//!
//! Orderings, each a release that its reader acquires:
//!
//! ```text
//! length     the pointer to the words is set before it
//! head word  marked complete after the sample's other words
//! tail       advanced after the words were zeroed, so a writer that reserves them finds zeros
//! head       advanced before the sample is complete, so a head that is read after a tail is never behind it
//! ```
//! The words between are relaxed: only the writer that reserved them, then only the reader touches them.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use crate::kernel_stacks::{KernelStack, MAX_KERNEL};
use crate::memory::Memory;
use crate::walk::{End, Frame, Frames, MAX_FRAMES};

/// Words before the shadow stack and the frames.
const HEAD: usize = 5;
/// The most frames of a shadow stack that are copied.
pub const MAX_SHADOW: usize = 255;
/// The most words of a sample.
pub const MAX_WORDS: usize = HEAD + MAX_SHADOW.div_ceil(2) + MOST_FRAMES;
/// The most frames of a sample.
const MOST_FRAMES: usize = MAX_KERNEL + MAX_FRAMES;

const COMPLETE: u64 = 1 << 63;

/// The queue of the process.
pub static QUEUE: Queue = Queue::new();

/// A ring of words.
#[derive(Debug)]
pub struct Queue {
    words: AtomicPtr<AtomicU64>,
    /// How many words there are: a power of two, or 0.
    length: AtomicUsize,
    /// Words reserved so far.
    head: AtomicU64,
    /// Words read so far.
    tail: AtomicU64,
    dropped: AtomicU64,
}

/// A sample, without its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When, by the processor's counter.
    pub ticks: u64,
    /// The kernel's number of the thread.
    pub thread: u32,
    /// How many intervals of CPU time it stands for.
    pub weight: u32,
    /// The instruction's address.
    pub pc: usize,
    /// The number of the virtual thread that the thread runs, or 0.
    pub virtual_thread: u64,
    /// How the walk of the Java stack ended.
    pub end: End,
    /// HotSpot's state of the thread, or 0.
    pub state: u8,
}

impl Queue {
    const fn new() -> Self {
        Self {
            words: AtomicPtr::new(core::ptr::null_mut()),
            length: AtomicUsize::new(0),
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    /// Gives the queue its memory, once.
    ///
    /// # Safety
    /// There are `length` zeroed words, a power of two and at least [`MAX_WORDS`], which stay for ever and are used by
    /// nobody else.
    pub unsafe fn set_memory(&self, words: *mut u64, length: usize) {
        self.words.store(words.cast(), Ordering::Relaxed);
        self.length.store(length, Ordering::Release);
    }

    /// Whether it has memory.
    #[must_use]
    pub fn has_memory(&self) -> bool {
        self.length.load(Ordering::Acquire) != 0
    }

    /// Samples for which there was no room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Adds a sample with its frames: those in the kernel, and the process's own. `shadow` returns the method ids of
    /// the shadow stack one by one, the outermost first, and `depth` is how many.
    pub(crate) fn put(
        &self,
        sample: &Sample,
        depth: usize,
        shadow: impl Fn(usize) -> u32,
        kernel: &KernelStack<impl Memory + Copy>,
        frames: &Frames<'_>,
    ) -> bool {
        let depth = depth.min(MAX_SHADOW);
        let shadow_words = depth.div_ceil(2);
        let frame_count = kernel.len() + frames.len();
        let length = HEAD + shadow_words + frame_count;
        let Some(writer) = self.reserve(length) else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        };
        writer.set(1, sample.ticks);
        writer.set(2, u64::from(sample.weight) << 32 | u64::from(sample.thread));
        writer.set(3, sample.pc as u64);
        writer.set(4, sample.virtual_thread);
        for at in 0..shadow_words {
            let odd = 2 * at + 1;
            let second = if odd < depth { shadow(odd) } else { 0 };
            writer.set(HEAD + at, u64::from(second) << 32 | u64::from(shadow(2 * at)));
        }
        let start = HEAD + shadow_words;
        for at in 0..kernel.len() {
            writer.set(start + at, kernel.frame(at).word());
        }
        for (at, frame) in frames.words().iter().enumerate() {
            writer.set(start + kernel.len() + at, *frame);
        }
        let head = length as u64
            | (frame_count as u64) << 16
            | (depth as u64) << 32
            | u64::from(sample.end as u8) << 40
            | u64::from(sample.state) << 48;
        writer.complete(head);
        true
    }

    fn reserve(&self, length: usize) -> Option<Writer<'_>> {
        let room = self.length.load(Ordering::Acquire);
        loop {
            // The head is never behind a tail that was read before it.
            let tail = self.tail.load(Ordering::Acquire);
            let head = self.head.load(Ordering::Acquire);
            let end = head.wrapping_add(length as u64);
            if end.wrapping_sub(tail) > room as u64 {
                return None;
            }
            let reserved =
                self.head.compare_exchange_weak(head, end, Ordering::AcqRel, Ordering::Relaxed);
            if reserved.is_ok() {
                return Some(Writer { queue: self, start: head });
            }
        }
    }

    fn word(&self, at: u64) -> Option<&AtomicU64> {
        let length = self.length.load(Ordering::Relaxed);
        let words = self.words.load(Ordering::Relaxed);
        let index = at as usize & length.wrapping_sub(1);
        // SAFETY: there are this many words, and a sample is only written or read if there are any.
        (length != 0).then(|| unsafe { &*words.add(index) })
    }

    /// Takes the next complete sample: calls `take` with it, the method ids of the shadow stack from the outermost, and
    /// the frames from the innermost. Returns `false` if there is none. Only one thread may call this.
    pub fn take(&self, take: impl FnOnce(Sample, &[u32], &[Frame])) -> bool {
        let tail = self.tail.load(Ordering::Relaxed);
        let get = |at: u64| self.word(tail + at).map_or(0, |word| word.load(Ordering::Relaxed));
        let Some(first) = self.word(tail) else { return false };
        let head = first.load(Ordering::Acquire);
        if head & COMPLETE == 0 {
            return false;
        }
        let length = head & 0xffff;
        let (frame_count, depth) = ((head >> 16 & 0xffff) as usize, (head >> 32 & 0xff) as usize);
        let sample = Sample {
            ticks: get(1),
            thread: (get(2) & 0xffff_ffff) as u32,
            weight: (get(2) >> 32) as u32,
            pc: get(3) as usize,
            virtual_thread: get(4),
            end: End::of((head >> 40 & 0xff) as u8),
            state: (head >> 48 & 0xff) as u8,
        };
        let mut shadow = [0; MAX_SHADOW];
        for (at, id) in shadow.iter_mut().take(depth).enumerate() {
            let two = get((HEAD + at / 2) as u64);
            *id = (two >> (32 * (at & 1)) & 0xffff_ffff) as u32;
        }
        let mut frames = [Frame::from_word(0); MOST_FRAMES];
        let start = HEAD + depth.div_ceil(2);
        for (at, frame) in frames.iter_mut().take(frame_count).enumerate() {
            *frame = Frame::from_word(get((start + at) as u64));
        }
        // The next sample here begins with a zero.
        for at in 0..length {
            if let Some(word) = self.word(tail + at) {
                word.store(0, Ordering::Relaxed);
            }
        }
        self.tail.store(tail + length, Ordering::Release);
        take(sample, shadow.get(..depth).unwrap_or(&[]), frames.get(..frame_count).unwrap_or(&[]));
        true
    }
}

/// Room for a sample.
struct Writer<'q> {
    queue: &'q Queue,
    start: u64,
}

impl Writer<'_> {
    fn set(&self, at: usize, value: u64) {
        if let Some(word) = self.queue.word(self.start + at as u64) {
            word.store(value, Ordering::Relaxed);
        }
    }

    fn complete(&self, head: u64) {
        if let Some(word) = self.queue.word(self.start) {
            word.store(head | COMPLETE, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use core::mem::MaybeUninit;
    use std::boxed::Box;
    use std::thread;
    use std::vec::Vec;

    use super::*;
    use crate::memory::Process;

    const SAMPLES: u64 = 50_000;

    fn sample(thread: u32, number: u64) -> Sample {
        Sample {
            ticks: number,
            thread,
            weight: 1,
            pc: number as usize,
            virtual_thread: u64::from(thread) << 40,
            end: End::of((number % 12) as u8),
            state: 8,
        }
    }

    /// Threads write samples of different lengths while another reads: each arrives whole, and in its thread's order.
    #[test]
    fn samples_arrive_whole() {
        static QUEUE: Queue = Queue::new();
        let words = Box::leak(std::vec![0_u64; 2_048].into_boxed_slice());
        // SAFETY: leaked memory that nobody else uses.
        unsafe { QUEUE.set_memory(words.as_mut_ptr(), words.len()) };
        let mut last = [0; 4];
        let mut taken = 0;
        thread::scope(|scope| {
            let writers: Vec<_> = (0..4_u32)
                .map(|writer| {
                    scope.spawn(move || {
                        for number in 1..=SAMPLES {
                            let depth = (number % 7) as usize;
                            let mut slots = [MaybeUninit::new(number); 16];
                            let frames = Frames::of_words(&mut slots, (number % 16) as usize);
                            let in_kernel = KernelStack::<Process>::none();
                            let id = |at: usize| (number as u32).wrapping_add(at as u32);
                            while !QUEUE.put(
                                &sample(writer, number),
                                depth,
                                id,
                                &in_kernel,
                                &frames,
                            ) {
                                thread::yield_now();
                            }
                        }
                    })
                })
                .collect();
            let mut done = false;
            loop {
                let is_over = writers.iter().all(thread::ScopedJoinHandle::is_finished);
                while QUEUE.take(|got, shadow, frames| {
                    let number = got.ticks;
                    assert_eq!(got, sample(got.thread, number));
                    assert_eq!(shadow.len() as u64, number % 7);
                    for (at, id) in shadow.iter().enumerate() {
                        assert_eq!(*id, (number as u32).wrapping_add(at as u32));
                    }
                    assert_eq!(frames.len() as u64, number % 16);
                    assert!(frames.iter().all(|frame| frame.word() == number));
                    let before = &mut last[got.thread as usize];
                    *before += 1;
                    assert_eq!(number, *before);
                    taken += 1;
                }) {}
                if done {
                    break;
                }
                done = is_over;
            }
        });
        assert_eq!(taken, 4 * SAMPLES);
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        static QUEUE: Queue = Queue::new();
        let words = Box::leak(std::vec![0_u64; 1_024].into_boxed_slice());
        // SAFETY: leaked memory that nobody else uses.
        unsafe { QUEUE.set_memory(words.as_mut_ptr(), words.len()) };
        let (none, in_kernel) = (Frames::new(&mut []), KernelStack::<Process>::none());
        let put =
            (0..1_000).filter(|n| QUEUE.put(&sample(1, *n), 0, |_| 0, &in_kernel, &none)).count();
        assert_eq!((put, QUEUE.dropped()), (1_024 / HEAD, 1_000 - (1_024 / HEAD) as u64));
        let mut taken = 0;
        while QUEUE.take(|got, _, _| assert_eq!(got.ticks, taken)) {
            taken += 1;
        }
        assert_eq!(taken, put as u64);
        assert!(QUEUE.put(&sample(1, 5), 0, |_| 0, &in_kernel, &none));
    }
}
