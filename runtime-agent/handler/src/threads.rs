//! What the handler needs to know about threads, by the kernel's number. Pages of the table are added by the agent
//! thread and never removed, so a handler finds a slot without a lock, and no slot ever goes away.
//!
//! Orderings: a page, a `JavaThread`, a source and the time of a thread's begin are released when they are set, and
//! acquired where they are read, so what was written before is there: the zeroed slots, the mapped ring, `seen` and
//! `doubled` of a new event. After that, `seen` is relaxed, as only handlers of its own thread use it, and `busy`
//! orders one handler of a thread against another that interrupts it.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

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
    source: AtomicU64,
    /// How often the interval of its perf event was doubled.
    doubled: AtomicU32,
    /// The head of its event's ring when the handler last read it.
    seen: AtomicU64,
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
    /// This perf event.
    Event(Event),
}

/// A perf event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    descriptor: i32,
    ring: usize,
}

impl Event {
    /// Rings begin at multiples of this.
    const ALIGNED: usize = 1 << 12;

    /// The event with a descriptor, and the address of the ring in which the kernel says where the thread was, or 0.
    /// `None` if a slot has no room for these: no process has so many files or so much memory.
    #[must_use]
    pub const fn new(descriptor: i32, ring: usize) -> Option<Self> {
        let has_room = descriptor >> DESCRIPTOR_BITS == 0
            && ring.is_multiple_of(Self::ALIGNED)
            && (ring / Self::ALIGNED) >> (u64::BITS - DESCRIPTOR_BITS - KIND_BITS) == 0;
        if has_room { Some(Self { descriptor, ring }) } else { None }
    }

    /// Its descriptor.
    #[must_use]
    pub const fn descriptor(self) -> i32 {
        self.descriptor
    }

    /// The address of its ring, or 0.
    #[must_use]
    pub const fn ring(self) -> usize {
        self.ring
    }
}

/// Of a source's word, the lowest bits say the kind. Of an event, its descriptor is above them, and then its ring: one
/// load gives the handler both.
const KIND_BITS: u32 = 2;
const DESCRIPTOR_BITS: u32 = 26;
const TIMER: u64 = 1;
const EVENT: u64 = 2;

impl Source {
    const fn word(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Busy => 1 << KIND_BITS,
            Self::Ended => 2 << KIND_BITS,
            Self::Timer(number) => (number.cast_unsigned() as u64) << KIND_BITS | TIMER,
            Self::Event(Event { descriptor, ring }) => {
                let page = (ring / Event::ALIGNED) as u64;
                let descriptor = descriptor.cast_unsigned() as u64;
                (page << DESCRIPTOR_BITS | descriptor) << KIND_BITS | EVENT
            }
        }
    }

    const fn of(word: u64) -> Self {
        let rest = word >> KIND_BITS;
        match (word & ((1 << KIND_BITS) - 1), rest) {
            (TIMER, number) => Self::Timer((number as u32).cast_signed()),
            (EVENT, _) => {
                let descriptor = (rest as u32 & ((1 << DESCRIPTOR_BITS) - 1)).cast_signed();
                let ring = (rest >> DESCRIPTOR_BITS) as usize * Event::ALIGNED;
                Self::Event(Event { descriptor, ring })
            }
            (_, 0) => Self::None,
            (_, 1) => Self::Busy,
            _ => Self::Ended,
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

    /// Prepares for a new perf event: nobody has read its ring yet, and its interval was doubled so often.
    pub fn expect_event(&self, doubled: u32) {
        self.seen.store(0, Ordering::Relaxed);
        self.doubled.store(doubled, Ordering::Release);
    }

    /// The head of its event's ring when the handler last read it.
    pub(crate) fn seen(&self) -> u64 {
        self.seen.load(Ordering::Relaxed)
    }

    pub(crate) fn set_seen(&self, head: u64) {
        self.seen.store(head, Ordering::Relaxed);
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
    fn each_source_is_distinguished_from_the_others() {
        let all = [Source::None, Source::Busy, Source::Ended, Source::Timer(0), Source::Timer(7)];
        let events =
            [(0, 0), (1_048_576, 0), ((1 << 26) - 1, 0xffff_ffff_f000), (3, 0x7fff_f7fc_b000)];
        let events = events.map(|(descriptor, ring)| Event::new(descriptor, ring).expect("room"));
        for source in all.into_iter().chain(events.map(Source::Event)) {
            assert_eq!(Source::of(source.word()), source);
        }
        for (descriptor, ring) in [(1 << 26, 0), (-1, 0), (1, 4095), (1, 1 << 48)] {
            assert_eq!(Event::new(descriptor, ring), None, "{descriptor} {ring}");
        }
    }
}
