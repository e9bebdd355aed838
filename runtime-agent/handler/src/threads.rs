//! What the handler needs to know about threads, by the kernel's number. Pages of the table are added by the agent
//! thread and never removed, so a handler finds a slot without a lock, and no slot ever goes away.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

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
    /// Its timer; only the agent uses it.
    timer: AtomicI32,
    /// When the thread began, and its CPU clock then; 0 if that is not known. Only the agent uses them.
    began_ns: AtomicU64,
    began_cpu_ns: AtomicU64,
}

/// States of a thread's timer, beside the timer's number plus one: there is none,
pub const TIMER_NONE: i32 = 0;
/// somebody is creating it,
pub const TIMER_BUSY: i32 = -1;
/// the thread is ending and gets none.
pub const TIMER_ENDED: i32 = -2;

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

    /// The state of its timer that stands for a number.
    #[must_use]
    pub const fn timer_of(id: i32) -> i32 {
        id.wrapping_add(1)
    }

    /// The number of the timer in this state, if it has one.
    #[must_use]
    pub const fn id_of_timer(state: i32) -> Option<i32> {
        if state > 0 { Some(state - 1) } else { None }
    }

    /// The state of its timer.
    #[must_use]
    pub fn timer(&self) -> i32 {
        self.timer.load(Ordering::Acquire)
    }

    /// Changes the state of its timer from one to another; `false` if it has a different one.
    pub fn change_timer(&self, from: i32, to: i32) -> bool {
        self.timer.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Sets the state of its timer.
    pub fn set_timer(&self, to: i32) {
        self.timer.store(to, Ordering::Release);
    }

    /// Sets the state of its timer, and returns the one before.
    pub fn swap_timer(&self, to: i32) -> i32 {
        self.timer.swap(to, Ordering::AcqRel)
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
