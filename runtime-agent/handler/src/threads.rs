//! What the handler needs to know about threads, by the kernel's number. Pages of the table are added by the agent
//! thread and never removed, so a handler finds a slot without a lock, and no slot ever goes away.
#![allow(unsafe_code)]

use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};

/// Slots of a page.
pub const PAGE: usize = 2_048;
/// The kernel's numbers are below 4,194,304.
const PAGES: usize = 2_048;

static TABLE: [AtomicPtr<[Slot; PAGE]>; PAGES] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; PAGES];

/// A thread. All zero is a thread about which nothing is known.
#[derive(Debug, Default)]
pub struct Slot {
    /// A handler is taking a sample of this thread.
    busy: AtomicBool,
    /// Its `JavaThread`, or 0.
    java_thread: AtomicUsize,
    /// What interrupts it; a handler only compares it.
    source: AtomicI32,
    /// How often the interval of its perf event was doubled.
    doubled: AtomicU32,
    /// When the thread began, and its CPU clock then; 0 if that is not known. Only the agent uses them.
    began_ns: AtomicU64,
    began_cpu_ns: AtomicU64,
}

/// What interrupts a thread each interval of its CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nothing.
    None,
    /// Somebody is creating it.
    Busy,
    /// The thread is ending and gets none.
    Ended,
    /// The timer with this number.
    Timer(i32),
    /// The perf event with this descriptor.
    Event(i32),
}

impl Source {
    const fn word(self) -> i32 {
        match self {
            Self::None => 0,
            Self::Busy => -1,
            Self::Ended => -2,
            Self::Timer(number) => number.wrapping_add(1),
            Self::Event(descriptor) => (-3_i32).wrapping_sub(descriptor),
        }
    }

    const fn of(word: i32) -> Self {
        match word {
            0 => Self::None,
            -1 => Self::Busy,
            -2 => Self::Ended,
            1.. => Self::Timer(word - 1),
            _ => Self::Event((-3_i32).wrapping_sub(word)),
        }
    }
}

impl Slot {
    /// Sets the thread's `JavaThread`, or 0. The thread itself calls this when it starts and ends.
    pub fn set_java(&self, java_thread: usize) {
        self.java_thread.store(java_thread, Ordering::Release);
    }

    /// Notes when the thread began, and its CPU clock then; 0 if that is not known.
    pub fn set_began(&self, at_ns: u64, cpu_ns: u64) {
        self.began_cpu_ns.store(cpu_ns, Ordering::Relaxed);
        self.began_ns.store(at_ns, Ordering::Release);
    }

    /// When the thread began, and its CPU clock then, if that is known.
    #[must_use]
    pub fn began(&self) -> Option<(u64, u64)> {
        let at_ns = self.began_ns.load(Ordering::Acquire);
        (at_ns != 0).then(|| (at_ns, self.began_cpu_ns.load(Ordering::Relaxed)))
    }

    /// What interrupts it.
    #[must_use]
    pub fn source(&self) -> Source {
        Source::of(self.source.load(Ordering::Acquire))
    }

    /// Changes what interrupts it from one to another; `false` if it has a different one.
    pub fn change_source(&self, from: Source, to: Source) -> bool {
        let (from, to) = (from.word(), to.word());
        self.source.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Sets what interrupts it.
    pub fn set_source(&self, to: Source) {
        self.source.store(to.word(), Ordering::Release);
    }

    /// Sets what interrupts it, and returns the one before.
    pub fn swap_source(&self, to: Source) -> Source {
        Source::of(self.source.swap(to.word(), Ordering::AcqRel))
    }

    /// Sets how often the interval of its perf event was doubled.
    pub fn set_doubled(&self, doubled: u32) {
        self.doubled.store(doubled, Ordering::Release);
    }

    pub(crate) fn doubled(&self) -> u32 {
        self.doubled.load(Ordering::Acquire)
    }

    /// Its `JavaThread`, or 0.
    #[must_use]
    pub fn java_thread(&self) -> usize {
        self.java_thread.load(Ordering::Acquire)
    }

    /// Begins a sample; `false` if one is being taken of this thread.
    pub(crate) fn begin(&self) -> bool {
        !self.busy.swap(true, Ordering::Acquire)
    }

    pub(crate) fn end(&self) {
        self.busy.store(false, Ordering::Release);
    }
}

/// The slot of a thread, if its page was added.
#[must_use]
pub fn slot(thread: u32) -> Option<&'static Slot> {
    let thread = thread as usize;
    let page = TABLE.get(thread / PAGE)?.load(Ordering::Acquire);
    // SAFETY: null, or a page that stays for ever.
    let page = unsafe { page.as_ref() }?;
    page.get(thread % PAGE)
}

/// Calls `each` with every slot of the pages that were added.
pub fn for_each(mut each: impl FnMut(&'static Slot)) {
    for page in &TABLE {
        // SAFETY: null, or a page that stays for ever.
        if let Some(page) = unsafe { page.load(Ordering::Acquire).as_ref() } {
            page.iter().for_each(&mut each);
        }
    }
}

/// Adds the page of a thread's slot, if it is missing: `make` returns zeroed memory for it, or nothing.
///
/// Returns the slot. Only one thread may call this at a time.
///
/// # Safety
/// What `make` returns stays as it is for ever, and is used by nobody else.
pub unsafe fn slot_or_add(
    thread: u32,
    make: impl FnOnce(usize) -> *mut u8,
) -> Option<&'static Slot> {
    if let Some(slot) = slot(thread) {
        return Some(slot);
    }
    let place = TABLE.get(thread as usize / PAGE)?;
    let page = make(size_of::<[Slot; PAGE]>());
    place.store(page.cast(), Ordering::Release);
    slot(thread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_source_is_told_from_the_others() {
        let all = [Source::None, Source::Busy, Source::Ended, Source::Timer(0), Source::Timer(7)];
        for source in all.into_iter().chain([Source::Event(0), Source::Event(1_048_576)]) {
            assert_eq!(Source::of(source.word()), source);
        }
    }
}
