//! What the probe keeps of each thread, and the list of all of them for the drain thread.
//!
//! Where a thread is when the agent is detached, nobody can tell: in a probe, perhaps, or about to
//! enter one. So what belongs to a thread is unmapped only by the thread itself: when it meets a probe
//! again after the next attach, or when it ends. At the detach its pages are given back to the kernel
//! where they read as zero from then on, which a probe that is still at work can bear: see
//! [`ProbeThread::give_back`].
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::mounts::{self, SavedStack};
use super::native_stack;
use super::ring::Ring;
use super::stack::ShadowStack;
use super::thread_word;
use super::totals::{MethodTotals, ThreadTotals};

/// A thread that has called an instrumented method. What every call needs is in two cache lines.
#[repr(C, align(64))]
pub(crate) struct ProbeThread {
    pub stack: ShadowStack,
    /// Lowest address on the thread's own stack where a call may begin.
    pub least_address: usize,
    pub totals: ThreadTotals,
    /// The attachment that it belongs to.
    attachment: u32,
    /// Takes the place of totals for which there was no memory; its method id is 0.
    pub lost: MethodTotals,
    pub ring: Ring,
    /// Frames whose end was never seen. The owner writes it.
    unseen_ends: AtomicU64,
    /// The number of the virtual thread that it runs, or 0. The owner writes it.
    runs: AtomicU64,
    /// The owner's: whether the drain thread knows what it runs.
    is_runs_told: Cell<bool>,
    /// The owner's: its own frames, while it runs a virtual thread.
    aside: Cell<Option<SavedStack>>,
    /// The kernel's thread id.
    pub os_id: u32,
    /// A weak global reference to the `java.lang.Thread`, or null.
    java_thread: AtomicPtr<std::ffi::c_void>,
    /// What the thread was called when it ended.
    last_name: Mutex<Option<ThreadName>>,
    ended: AtomicBool,
}

// SAFETY: its parts are `Sync` by their own rules, of which the owner of a thread's cells is the
// thread that made it.
unsafe impl Send for ProbeThread {}
// SAFETY: the cells are used by the owner alone; everything else is `Sync`.
unsafe impl Sync for ProbeThread {}

/// How a thread presents itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadName {
    pub name: String,
    /// `Thread.getId()`, or 0.
    pub java_id: u64,
}

/// The kernel's id of the calling thread.
pub(crate) fn os_id() -> u32 {
    // SAFETY: has no preconditions.
    unsafe { libc::gettid() }.unsigned_abs()
}

impl ProbeThread {
    fn new() -> Option<Self> {
        let runs = mounts::mounted();
        Some(Self {
            attachment: attachment(),
            stack: ShadowStack::new()?,
            totals: ThreadTotals::new()?,
            lost: MethodTotals::new(0),
            ring: Ring::new()?,
            least_address: native_stack::least_address(),
            unseen_ends: AtomicU64::new(0),
            runs: AtomicU64::new(runs),
            // What is not said is that it runs none.
            is_runs_told: Cell::new(runs == 0),
            aside: Cell::new(None),
            os_id: os_id(),
            java_thread: AtomicPtr::new(ptr::null_mut()),
            last_name: Mutex::new(None),
            ended: AtomicBool::new(false),
        })
    }

    /// The number of the virtual thread that it runs, or 0.
    pub(crate) fn runs(&self) -> u64 {
        self.runs.load(Ordering::Acquire)
    }

    /// Owner only.
    pub(super) fn set_runs(&self, number: u64) {
        self.runs.store(number, Ordering::Release);
        self.is_runs_told.set(false);
    }

    /// Owner only: whether the drain thread knows what it runs.
    pub(super) fn is_runs_told(&self) -> bool {
        self.is_runs_told.get()
    }

    /// Owner only.
    pub(super) fn set_runs_told(&self) {
        self.is_runs_told.set(true);
    }

    /// Owner only: keeps its own frames while it runs a virtual thread.
    pub(super) fn set_aside(&self, frames: Option<SavedStack>) {
        self.aside.set(frames);
    }

    /// Owner only.
    pub(super) fn take_aside(&self) -> Option<SavedStack> {
        self.aside.take()
    }

    /// Whether it is of an earlier attachment: nobody reads it any more.
    pub(crate) fn is_retired(&self) -> bool {
        self.attachment != attachment()
    }

    /// Gives the pages back to the kernel of a thread that is retired. Its owner may be in a probe all
    /// the while: it finds zeros, which are frames, entries and slots, and what it writes nobody
    /// reads. What it could unmap itself meanwhile is left alone.
    pub(crate) fn give_back(&self) {
        self.stack.give_back();
        self.ring.give_back();
        self.totals.give_back();
    }

    /// Owner only.
    pub(crate) fn count_unseen_end(&self) {
        self.unseen_ends.store(self.unseen_ends() + 1, Ordering::Relaxed);
    }

    pub(crate) fn unseen_ends(&self) -> u64 {
        self.unseen_ends.load(Ordering::Relaxed)
    }

    pub(crate) fn java_thread(&self) -> *mut std::ffi::c_void {
        self.java_thread.load(Ordering::Acquire)
    }

    pub(crate) fn take_java_thread(&self) -> *mut std::ffi::c_void {
        self.java_thread.swap(ptr::null_mut(), Ordering::AcqRel)
    }

    pub(crate) fn set_java_thread(&self, weak: *mut std::ffi::c_void) {
        self.java_thread.store(weak, Ordering::Release);
    }

    /// What the thread was called when it ended.
    pub(crate) fn last_name(&self) -> Option<ThreadName> {
        self.last_name.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The thread has run its last Java code; the drain thread frees it when all is written.
    pub(crate) fn end(&self, name: Option<ThreadName>) {
        *self.last_name.lock().unwrap_or_else(PoisonError::into_inner) = name;
        self.ended.store(true, Ordering::Release);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

thread_local! {
    /// A StackOverflowError is being made: calls that this takes are not refused.
    static IS_OVERFLOWING: Cell<bool> = const { Cell::new(false) };
}

/// Makes a StackOverflowError for the calling thread, unless that is what it is at. That may run Java
/// code, probes and all.
pub(crate) fn overflow(throw: impl FnOnce()) {
    if !IS_OVERFLOWING.replace(true) {
        throw();
        IS_OVERFLOWING.set(false);
    }
}

/// Each detach adds one.
static ATTACHMENT: AtomicU32 = AtomicU32::new(0);

/// The number of the attachment that is under way or comes next.
pub(crate) fn attachment() -> u32 {
    ATTACHMENT.load(Ordering::Acquire)
}

static THREADS: Mutex<Vec<Arc<ProbeThread>>> = Mutex::new(Vec::new());

fn threads() -> MutexGuard<'static, Vec<Arc<ProbeThread>>> {
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The calling thread, if it has called an instrumented method before.
///
/// The reference is good until the thread itself calls [`begin_current`] or [`end_current`].
pub(crate) fn current() -> Option<&'static ProbeThread> {
    // SAFETY: the word is null, or was set below, to a thread that `THREADS` keeps until it has ended,
    // and is replaced or set back to null before that.
    unsafe { ptr::with_exposed_provenance::<ProbeThread>(thread_word::get()).as_ref() }
}

/// The same, if it costs next to nothing to find out. Nobody is found before [`thread_word::init`],
/// nor where the counter is not the clock.
#[inline(always)]
pub(super) fn current_if_near() -> Option<&'static ProbeThread> {
    // SAFETY: as above.
    unsafe { ptr::with_exposed_provenance::<ProbeThread>(thread_word::near()).as_ref() }
}

/// Calls of threads for which there was no memory.
static LOST_CALLS: AtomicU64 = AtomicU64::new(0);

/// Calls that no thread's totals have.
pub(crate) fn lost_calls() -> u64 {
    LOST_CALLS.load(Ordering::Relaxed)
}

/// A thread for which there was no memory asks again after so many calls.
const CALLS_WITHOUT_MEMORY: u32 = 1_000;

thread_local! {
    static UNTIL_NEXT_TRY: Cell<u32> = const { Cell::new(0) };
}

/// Makes the calling thread known. What there was of it in an earlier attachment goes. `None` if there
/// is no memory for it.
#[cold]
pub(crate) fn begin_current() -> Option<&'static ProbeThread> {
    let wait = UNTIL_NEXT_TRY.get();
    let new = if wait == 0 { ProbeThread::new() } else { None };
    let Some(new) = new else {
        LOST_CALLS.fetch_add(1, Ordering::Relaxed);
        UNTIL_NEXT_TRY.set(wait.checked_sub(1).unwrap_or(CALLS_WITHOUT_MEMORY));
        return None;
    };
    let thread = Arc::new(new);
    let old = thread_word::get();
    thread_word::set(Arc::as_ptr(&thread).expose_provenance());
    let mut all = threads();
    if let Some(index) = all.iter().position(|known| Arc::as_ptr(known).addr() == old) {
        let old = all.swap_remove(index);
        // It may have got this one when nobody was there to take it any more.
        thread.set_java_thread(old.take_java_thread());
    }
    all.push(thread);
    drop(all);
    current()
}

/// Takes leave of the calling thread, of which `name` is asked if it was ever known.
pub(crate) fn end_current(name: impl FnOnce() -> Option<ThreadName>) {
    let Some(thread) = current() else { return };
    let name = if thread.is_retired() { None } else { name() };
    thread_word::set(0);
    let mut all = threads();
    let Some(place) = all.iter().position(|other| ptr::eq(Arc::as_ptr(other), thread)) else {
        return;
    };
    // Retired by now, perhaps. Then there is no drain thread to forget it.
    if thread.is_retired() {
        all.swap_remove(place);
    } else {
        // The last that is done with it: whoever has seen it may forget it, and unmap it.
        thread.end(name);
    }
}

/// The attachment ends: whoever is known is retired. Returns those that have not ended.
pub(crate) fn retire_all() -> Vec<Arc<ProbeThread>> {
    let mut all = threads();
    ATTACHMENT.fetch_add(1, Ordering::AcqRel);
    LOST_CALLS.store(0, Ordering::Relaxed);
    all.retain(|thread| !thread.has_ended());
    all.clone()
}

/// Keeps everybody from the list of threads.
#[cfg(test)]
pub(crate) fn lock_all() -> MutexGuard<'static, Vec<Arc<ProbeThread>>> {
    threads()
}

/// All threads that are known and not retired.
pub(crate) fn all() -> Vec<Arc<ProbeThread>> {
    threads().iter().filter(|thread| !thread.is_retired()).cloned().collect()
}

/// Forgets a thread that has ended.
pub(crate) fn forget(thread: &Arc<ProbeThread>) {
    threads().retain(|other| !Arc::ptr_eq(other, thread));
}
