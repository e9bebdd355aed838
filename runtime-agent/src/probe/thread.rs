//! What the probe keeps of each thread, and the list of all of them for the agent thread.
//!
//! Where a thread is when the agent is detached, nobody can tell: in a probe, perhaps, or about to
//! enter one. So what belongs to a thread is unmapped only by the thread itself: when it meets a probe
//! again after the next attach, or when it ends. At the detach its pages are given back to the kernel
//! where they read as zero from then on, which a probe that is still at work can bear: see
//! [`ProbeThread::give_back`].
//!
//! A thread of the service never waits for memory, nor ends the process for lack of it: what is made here, and what
//! grows later, comes from the kernel under the ceiling of `memory`, and each owner can do without.
#![allow(unsafe_code)]

use std::cell::{Cell, UnsafeCell};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jvmti_bindings::mutf8::decode_lossy;

use super::modified_utf8::cut;
use super::recording::attachment;
use super::ring::Ring;
use super::saved::SavedStack;
use super::stack::{Frame, ShadowStack};
pub(crate) use super::thread_ref::ThreadRef;
use super::totals::{MethodTotals, ThreadTotals};
use super::{lost_calls, mounted, native_stack, recording, thread_word};
use crate::sys::memory::Account;

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
    /// The owner's: whether the agent thread knows what it runs.
    is_runs_told: Cell<bool>,
    /// The owner's: its own frames, while it runs a virtual thread.
    aside: Cell<Option<SavedStack>>,
    /// The kernel's thread id.
    pub os_id: u32,
    /// `Thread.getId()` of the platform thread, or 0 while that is not known.
    java_id: AtomicU64,
    /// A weak global reference to the `java.lang.Thread`, or null.
    java_thread: AtomicPtr<std::ffi::c_void>,
    /// What the thread was called when it ended, in modified UTF-8. The owner writes it before `ended`.
    last_name: UnsafeCell<Option<LastName>>,
    ended: AtomicBool,
    /// The memory that it has.
    pub account: Account,
    /// The owner's: it runs virtual threads.
    is_carrier: Cell<bool>,
}

/// Bytes of a thread's name that are kept at its end.
const MAX_NAME: usize = 512;

struct LastName {
    bytes: [u8; MAX_NAME],
    length: usize,
}

// SAFETY: its parts are `Sync` by their own rules, of which the owner of a thread's cells is the
// thread that made it.
unsafe impl Send for ProbeThread {}
// SAFETY: the cells are used by the owner alone, and the last name by others only once `ended` is set; everything
// else is `Sync`.
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
    pub(super) fn new(stack: ShadowStack, totals: ThreadTotals, account: Account) -> Self {
        let runs = mounted::mounted();
        Self {
            attachment: attachment(),
            stack,
            totals,
            lost: MethodTotals::new(0),
            ring: Ring::new(),
            least_address: native_stack::least_address(),
            unseen_ends: AtomicU64::new(0),
            runs: AtomicU64::new(runs),
            // What is not said is that it runs none.
            is_runs_told: Cell::new(runs == 0),
            aside: Cell::new(None),
            os_id: os_id(),
            java_id: AtomicU64::new(0),
            java_thread: AtomicPtr::new(ptr::null_mut()),
            last_name: UnsafeCell::new(None),
            ended: AtomicBool::new(false),
            account,
            is_carrier: Cell::new(runs != 0),
        }
    }

    /// Owner only: the totals of a method, or those that take their place where there is no memory.
    pub(super) fn totals_of_method(&self, method: u32) -> &MethodTotals {
        self.totals.of(method, &self.account).unwrap_or(&self.lost)
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

    /// Owner only: whether it runs virtual threads.
    pub(super) fn is_carrier(&self) -> bool {
        self.is_carrier.get()
    }

    /// Owner only.
    pub(crate) fn set_carrier(&self) {
        self.is_carrier.set(true);
    }

    /// Owner only: whether the agent thread knows what it runs.
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
        // What it keeps is a page or two, until it is dropped.
        self.account.give_all();
    }

    /// Owner only.
    pub(crate) fn count_unseen_end(&self) {
        self.unseen_ends.store(self.unseen_ends() + 1, Ordering::Relaxed);
    }

    pub(crate) fn unseen_ends(&self) -> u64 {
        self.unseen_ends.load(Ordering::Relaxed)
    }

    /// `Thread.getId()` of the platform thread, or 0 while that is not known.
    pub(crate) fn java_id(&self) -> u64 {
        self.java_id.load(Ordering::Relaxed)
    }

    /// Owner only.
    pub(crate) fn set_java_id(&self, java_id: u64) {
        self.java_id.store(java_id, Ordering::Relaxed);
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

    /// What the thread was called when it ended, if it has.
    pub(crate) fn last_name(&self) -> Option<ThreadName> {
        if !self.has_ended() {
            return None;
        }
        // SAFETY: it has ended, so nobody writes any more.
        let LastName { bytes, length } = unsafe { &*self.last_name.get() }.as_ref()?;
        let name = decode_lossy(bytes.get(..*length)?);
        Some(ThreadName { name, java_id: self.java_id() })
    }

    /// Owner only, before its end: notes what it is called, in modified UTF-8.
    pub(crate) fn set_last_name(&self, name: &[u8]) {
        let name = cut(name, MAX_NAME);
        let length = name.len();
        let mut bytes = [0; MAX_NAME];
        bytes.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
        // SAFETY: others read it only after the end.
        unsafe { *self.last_name.get() = Some(LastName { bytes, length }) };
    }

    /// The thread has run its last Java code; the agent thread frees it when all is written.
    pub(crate) fn end(&self) {
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

static THREADS: Mutex<Vec<ThreadRef>> = Mutex::new(Vec::new());

fn threads() -> MutexGuard<'static, Vec<ThreadRef>> {
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
    let is_known = wait == 0 && make_known().is_some();
    if !is_known {
        lost_calls::add_thread();
        UNTIL_NEXT_TRY.set(wait.checked_sub(1).unwrap_or(CALLS_WITHOUT_MEMORY));
        return None;
    }
    current()
}

fn make_known() -> Option<()> {
    let thread = ThreadRef::of_current()?;
    let mut all = threads();
    if all.len() == all.capacity() {
        all.try_reserve(1).ok()?;
    }
    let old = thread_word::get();
    thread_word::set(thread.address());
    if let Some(index) = all.iter().position(|known| known.address() == old) {
        let old = all.swap_remove(index);
        // It may have got this one when nobody was there to take it any more.
        thread.set_java_thread(old.take_java_thread());
        thread.set_java_id(old.java_id());
        thread.is_carrier.set(thread.is_carrier() || old.is_carrier());
    }
    // There is room.
    all.push(thread);
    Some(())
}

/// Takes leave of the calling thread. If it was ever known, `note_name` notes what it is called.
pub(crate) fn end_current(note_name: impl FnOnce(&ProbeThread)) {
    let Some(thread) = current() else { return };
    if !thread.is_retired() {
        note_name(thread);
    }
    thread_word::set(0);
    let mut all = threads();
    let Some(place) = all.iter().position(|other| ptr::eq(&raw const **other, thread)) else {
        return;
    };
    // Retired by now, perhaps. Then there is no agent thread to forget it.
    if thread.is_retired() {
        all.swap_remove(place);
    } else {
        // The last that is done with it: whoever has seen it may forget it, and unmap it.
        thread.end();
    }
}

/// The attachment ends: whoever is known is retired. Returns those that have not ended.
pub(crate) fn retire_all() -> Vec<ThreadRef> {
    let mut all = threads();
    recording::end_attachment();
    lost_calls::forget();
    all.retain(|thread| !thread.has_ended());
    all.clone()
}

/// Makes room in the list, so that threads that come seldom need the allocator for it.
pub(crate) fn make_room_in_list() {
    let mut all = threads();
    if all.capacity() - all.len() < SPARE {
        // Without it a thread tries for itself.
        let _ = all.try_reserve(2 * SPARE);
    }
}

/// Places of the list that are free when the agent thread has looked.
const SPARE: usize = 64;

/// Keeps everybody from the list of threads.
#[cfg(test)]
pub(crate) fn lock_all() -> MutexGuard<'static, Vec<ThreadRef>> {
    threads()
}

/// All threads that are known and not retired.
pub(crate) fn all() -> Vec<ThreadRef> {
    threads().iter().filter(|thread| !thread.is_retired()).cloned().collect()
}

/// Forgets a thread that has ended.
pub(crate) fn forget(thread: &ThreadRef) {
    let address = thread.address();
    let mut all = threads();
    if let Some(place) = all.iter().position(|other| other.address() == address) {
        all.swap_remove(place);
    }
}

/// The totals of a frame's method; `None` if the frame was given back to the kernel just now. They live
/// as long as the thread.
#[inline]
#[allow(unsafe_code)]
pub(super) fn totals_in<'t>(_: &'t ProbeThread, frame: &Frame) -> Option<&'t MethodTotals> {
    // SAFETY: a frame in use points to totals of its thread, which live as long as the thread; the
    // kernel's pages are zero.
    unsafe { frame.totals().as_ref() }
}

pub(super) fn totals_of<'t>(thread: &'t ProbeThread, frame: &Frame) -> &'t MethodTotals {
    totals_in(thread, frame).unwrap_or(&thread.lost)
}
