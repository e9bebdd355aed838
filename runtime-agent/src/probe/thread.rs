//! The data that the probe keeps for each thread, and the list of all threads for the agent thread.
//!
//! At a detach, nobody knows where a thread is: it may be in a probe, or about to enter one. So a detach unmaps
//! nothing. The thread lets go of its data at its first probe after the next attach, or when it ends; the last
//! reference, mostly the agent thread's, unmaps them. At the detach, the data's pages are given back to the kernel, and
//! read as zero from then on. A probe still running can handle that; see [`ProbeThread::give_back`].
//!
//! A thread of the service never waits for memory, nor ends the process for lack of it. Except for the list of threads,
//! all memory comes from the kernel, under the ceiling of `memory`, and each owner can do without.
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

/// The data of a thread that has called an instrumented method. What every call needs is in two cache lines.
#[repr(C, align(64))]
pub(crate) struct ProbeThread {
    pub stack: ShadowStack,
    /// Lowest address on the thread's own stack where a call may begin.
    pub least_address: usize,
    pub totals: ThreadTotals,
    /// The attachment to which it belongs.
    attachment: u32,
    /// Replaces method statistics for which there was no memory; its method id is 0.
    pub lost: MethodTotals,
    pub ring: Ring,
    /// Frames whose end no probe saw. Written by the owner.
    unseen_ends: AtomicU64,
    /// The number of the virtual thread that it runs, or 0. Written by the owner.
    runs: AtomicU64,
    /// Owner only: whether the agent thread knows which virtual thread it runs.
    is_runs_told: Cell<bool>,
    /// Owner only: its own frames while it runs a virtual thread.
    aside: Cell<Option<SavedStack>>,
    /// The kernel's thread id.
    pub os_id: u32,
    /// `Thread.getId()` of the platform thread, or 0 while unknown.
    java_id: AtomicU64,
    /// A weak global reference to the `java.lang.Thread`, or null.
    java_thread: AtomicPtr<std::ffi::c_void>,
    /// The thread's name when it ended, in modified UTF-8. The owner writes it before `ended`.
    last_name: UnsafeCell<Option<LastName>>,
    ended: AtomicBool,
    /// The account of its memory.
    pub account: Account,
    /// Owner only: whether it runs virtual threads.
    is_carrier: Cell<bool>,
}

/// Bytes kept of the name of a thread that ended.
const MAX_NAME: usize = 512;

struct LastName {
    bytes: [u8; MAX_NAME],
    length: usize,
}

// SAFETY: its parts are `Sync` by their own rules; only the thread that made it, its owner, uses its cells.
unsafe impl Send for ProbeThread {}
// SAFETY: only the owner uses the cells. Others read the last name only once `ended` is set; everything else is `Sync`.
unsafe impl Sync for ProbeThread {}

/// A thread's name and number.
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
            // Without an entry, the agent thread assumes that it runs none.
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

    /// Owner only: the statistics of a method, or `lost` if there is no memory for them.
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

    /// Owner only: whether the agent thread knows which virtual thread it runs.
    pub(super) fn is_runs_told(&self) -> bool {
        self.is_runs_told.get()
    }

    /// Owner only.
    pub(super) fn set_runs_told(&self) {
        self.is_runs_told.set(true);
    }

    /// Owner only: sets its own frames aside while it runs a virtual thread.
    pub(super) fn set_aside(&self, frames: Option<SavedStack>) {
        self.aside.set(frames);
    }

    /// Owner only.
    pub(super) fn take_aside(&self) -> Option<SavedStack> {
        self.aside.take()
    }

    /// Whether it belongs to an earlier attachment, so that nobody reads it any more.
    pub(crate) fn is_retired(&self) -> bool {
        self.attachment != attachment()
    }

    /// Gives the pages of a retired thread back to the kernel. Its owner may be in a probe meanwhile: it then finds
    /// zeros, which are valid frames, entries and slots, and nobody reads what it writes. Memory that the owner itself
    /// might unmap meanwhile is left alone.
    pub(crate) fn give_back(&self) {
        self.stack.give_back();
        self.ring.give_back();
        self.totals.give_back();
        // It keeps a page or two until it is dropped.
        self.account.give_all();
    }

    /// Owner only.
    pub(crate) fn count_unseen_end(&self) {
        self.unseen_ends.store(self.unseen_ends() + 1, Ordering::Relaxed);
    }

    pub(crate) fn unseen_ends(&self) -> u64 {
        self.unseen_ends.load(Ordering::Relaxed)
    }

    /// `Thread.getId()` of the platform thread, or 0 while unknown.
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

    /// The thread's name when it ended, if it has ended.
    pub(crate) fn last_name(&self) -> Option<ThreadName> {
        if !self.has_ended() {
            return None;
        }
        // SAFETY: it has ended, so nobody writes the name any more.
        let LastName { bytes, length } = unsafe { &*self.last_name.get() }.as_ref()?;
        let name = decode_lossy(bytes.get(..*length)?);
        Some(ThreadName { name, java_id: self.java_id() })
    }

    /// Owner only, before it ends: notes its name, in modified UTF-8.
    pub(crate) fn set_last_name(&self, name: &[u8]) {
        let name = cut(name, MAX_NAME);
        let length = name.len();
        let mut bytes = [0; MAX_NAME];
        bytes.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
        // SAFETY: others read it only after the end.
        unsafe { *self.last_name.get() = Some(LastName { bytes, length }) };
    }

    /// Marks the thread as ended: it runs no more Java code. The agent thread frees it when everything is written.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

thread_local! {
    /// A StackOverflowError is being created: calls made for that are not refused.
    static IS_OVERFLOWING: Cell<bool> = const { Cell::new(false) };
}

/// Creates a StackOverflowError for the calling thread, unless it is already creating one. That may run instrumented
/// Java code.
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

/// The calling thread's data, if it has called an instrumented method before.
///
/// The reference is valid until the thread itself calls [`begin_current`] or [`end_current`].
pub(crate) fn current() -> Option<&'static ProbeThread> {
    // SAFETY: the word is null, or was set below to a thread that `THREADS` keeps until it has ended, and is replaced
    // or set back to null before that.
    unsafe { ptr::with_exposed_provenance::<ProbeThread>(thread_word::get()).as_ref() }
}

/// Like [`current`], but only if the lookup costs next to nothing. `None` before [`thread_word::init`], and if the
/// counter is not the clock.
#[inline(always)]
pub(super) fn current_if_near() -> Option<&'static ProbeThread> {
    // SAFETY: as above.
    unsafe { ptr::with_exposed_provenance::<ProbeThread>(thread_word::near()).as_ref() }
}

/// After this many calls, a thread without memory tries again.
const CALLS_WITHOUT_MEMORY: u32 = 1_000;

thread_local! {
    static UNTIL_NEXT_TRY: Cell<u32> = const { Cell::new(0) };
}

/// Creates the calling thread's data and drops that of an earlier attachment. `None` if there is no memory.
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
        // It may have got this one when nobody was left to take it.
        thread.set_java_thread(old.take_java_thread());
        thread.set_java_id(old.java_id());
        thread.is_carrier.set(thread.is_carrier() || old.is_carrier());
    }
    // Room was reserved above.
    all.push(thread);
    Some(())
}

/// Ends the calling thread's data. If there is any, `note_name` notes the thread's name.
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
    // If it is retired by now, there is no agent thread to forget it.
    if thread.is_retired() {
        all.swap_remove(place);
    } else {
        // This must come last: the agent thread may then forget the thread, and unmap it.
        thread.end();
    }
}

/// Ends the attachment: retires all known threads. Returns those that have not ended.
pub(crate) fn retire_all() -> Vec<ThreadRef> {
    let mut all = threads();
    recording::end_attachment();
    lost_calls::forget();
    all.retain(|thread| !thread.has_ended());
    all.clone()
}

/// Reserves room in the list, so that threads that start later seldom need the allocator.
pub(crate) fn make_room_in_list() {
    let mut all = threads();
    if all.capacity() - all.len() < SPARE {
        // If this fails, a new thread tries for itself.
        let _ = all.try_reserve(2 * SPARE);
    }
}

/// Free places of the list after the agent thread has reserved.
const SPARE: usize = 64;

/// Locks the list of threads.
#[cfg(test)]
pub(crate) fn lock_all() -> MutexGuard<'static, Vec<ThreadRef>> {
    threads()
}

/// All threads that are not retired.
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

/// The statistics of a frame's method; `None` if the frame's page was just given back to the kernel. They live as long
/// as the thread.
#[inline]
#[allow(unsafe_code)]
pub(super) fn totals_in<'t>(_: &'t ProbeThread, frame: &Frame) -> Option<&'t MethodTotals> {
    // SAFETY: a frame in use points to statistics of its thread, which live as long as the thread; pages given back to
    // the kernel are zero, which is null here.
    unsafe { frame.totals().as_ref() }
}

pub(super) fn totals_of<'t>(thread: &'t ProbeThread, frame: &Frame) -> &'t MethodTotals {
    totals_in(thread, frame).unwrap_or(&thread.lost)
}
