//! The data that the probe keeps for each thread, and the list of all threads for the agent thread.
//!
//! At a detach, nobody knows where a thread is: it may be in a probe, or about to enter one. So a detach unmaps
//! nothing. The thread lets go of its data at its first probe after the next attach, or when it ends; the last
//! reference, mostly the agent thread's, unmaps them. At the detach, the data's pages are given back to the kernel, and
//! read as zero from then on. A probe still running can handle that; see [`ThreadReader::give_back`].
//!
//! Only the thread itself changes its data, through [`Own`]: [`with_current`] hands it to closures. They run no Java
//! code, so no probe begins, and no thread ends, inside of them. Only a [`ThreadReader`] takes recorded calls out.
//!
//! A thread of the service never waits for memory, nor ends the process for lack of it. Except for the list of threads,
//! all memory comes from the kernel, under the ceiling of `memory`, and each owner can do without.
//!
//! Orderings, beside those of stack, statistics and ring:
//!
//! - The list is behind a mutex: who finds a thread in it finds the thread's data whole.
//! - `ended`, released and acquired: the last name, and all entries and counts of the thread. The agent thread looks at
//!   it before it reads the thread for the last time.
//! - `has_reader`, acquired and released like a lock: the reader before has ended with the ring and the readings.
//! - References (`thread_ref`) are counted as `Arc` does: each is released, and the last one acquires all others. A new
//!   one is relaxed, because it is made of one that exists.
//! - `runs`, released and acquired: the frames of the virtual thread that ran before were taken off. `in_flight` reads
//!   it before and after the frames.
//! - `java_thread`, released and acquired: the JVM's weak reference. `java_id` is a number, and stands for nothing
//!   else.
#![allow(unsafe_code)]

use std::cell::{Cell, UnsafeCell};
use std::mem::offset_of;
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jvmti_bindings::mutf8::decode_lossy;
use sampling_handler::signal::Shadow;

use super::method_totals::{MethodReader, MethodTotals};
use super::modified_utf8::cut;
use super::own::Own;
use super::recording::attachment;
use super::ring::{Record, Ring, RingReader};
use super::saved_frames::SavedStack;
use super::stack::{Frame, ShadowStack};
pub(crate) use super::thread_ref::ThreadRef;
use super::thrown_class::{LastThrown, Thrown};
use super::totals::ThreadTotals;
use super::{current_virtual_thread, lost_calls, native_stack, recording, thread_word, traced};
use log_format::ids::{JavaThreadId, MethodId, OsThreadId};

use crate::sys::memory::Account;

/// The data of a thread that has called an instrumented method. What every call needs is in two cache lines.
#[repr(C, align(64))]
pub struct ProbeThread {
    pub(super) stack: ShadowStack,
    /// Lowest address on the thread's own stack where a call may begin.
    pub(super) least_address: usize,
    totals: ThreadTotals,
    /// The attachment to which it belongs.
    attachment: u32,
    /// Replaces method statistics for which there was no memory; its method id is 0.
    lost: MethodTotals,
    ring: Ring,
    /// Frames whose end no probe saw.
    unseen_ends: AtomicU64,
    /// The number of the virtual thread that it runs, or 0.
    runs: AtomicU64,
    /// Whether the agent thread knows which virtual thread it runs.
    has_written_runs: Cell<bool>,
    /// Its own frames while it runs a virtual thread.
    aside: Cell<Option<SavedStack>>,
    /// The kernel's thread id.
    pub(crate) os_id: OsThreadId,
    /// `Thread.getId()` of the platform thread, or 0 while unknown.
    java_id: AtomicU64,
    /// A weak global reference to the `java.lang.Thread`, or null.
    java_thread: AtomicPtr<std::ffi::c_void>,
    /// The thread's name when it ended, in modified UTF-8. Written before `ended`.
    last_name: UnsafeCell<Option<LastName>>,
    ended: AtomicBool,
    /// Whether there is a [`ThreadReader`].
    has_reader: AtomicBool,
    /// The account of its memory.
    pub(super) account: Account,
    /// Whether it runs virtual threads.
    is_carrier: Cell<bool>,
    /// The last exceptions that left calls.
    thrown: LastThrown,
}

/// Where the sampler finds the shadow stack of a thread whose word is at this distance.
pub(super) fn shadow_layout(word: isize) -> Shadow {
    let stack = offset_of!(ProbeThread, stack);
    let [frames, depth, state, frame_size, id] = ShadowStack::offsets();
    Shadow {
        word,
        frames: stack + frames,
        depth: stack + depth,
        state: stack + state,
        runs: offset_of!(ProbeThread, runs),
        frame_size,
        id,
        now: &recording::STATE,
    }
}

/// Bytes kept of the name of a thread that ended.
pub(crate) const MAX_NAME: usize = 512;

struct LastName {
    bytes: [u8; MAX_NAME],
    length: usize,
}

// SAFETY: nothing in it is bound to the thread that made it, once nobody has an `Own` of it.
unsafe impl Send for ProbeThread {}
// SAFETY: cells are used through `Own` alone, so by one thread. The last name is written through `Own` until `ended` is
// set, and only read from then on. Everything else is `Sync`.
unsafe impl Sync for ProbeThread {}

/// A thread's name and number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadName {
    pub name: String,
    /// `Thread.getId()`, or 0.
    pub java_id: JavaThreadId,
}

/// The kernel's id of the calling thread.
pub(crate) fn os_id() -> OsThreadId {
    OsThreadId::new(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs())
}

impl ProbeThread {
    pub(super) fn new(stack: ShadowStack, totals: ThreadTotals, account: Account) -> Self {
        let runs = current_virtual_thread::mounted();
        Self {
            attachment: attachment(),
            stack,
            totals,
            lost: MethodTotals::new(0),
            ring: Ring::new(),
            least_address: native_stack::least_address(),
            unseen_ends: AtomicU64::new(0),
            runs: AtomicU64::new(runs.get()),
            // Without an entry, the agent thread assumes that it runs none.
            has_written_runs: Cell::new(runs.is_none()),
            aside: Cell::new(None),
            os_id: os_id(),
            java_id: AtomicU64::new(0),
            java_thread: AtomicPtr::new(ptr::null_mut()),
            last_name: UnsafeCell::new(None),
            ended: AtomicBool::new(false),
            has_reader: AtomicBool::new(false),
            account,
            is_carrier: Cell::new(!runs.is_none()),
            thrown: LastThrown::default(),
        }
    }

    /// The number of the virtual thread that it runs, or 0.
    pub(crate) fn runs(&self) -> JavaThreadId {
        JavaThreadId::new(self.runs.load(Ordering::Acquire))
    }

    /// Whether it belongs to an earlier attachment, so that nobody reads it any more.
    pub(super) fn is_retired(&self) -> bool {
        self.attachment != attachment()
    }

    pub(crate) fn unseen_ends(&self) -> u64 {
        self.unseen_ends.load(Ordering::Relaxed)
    }

    /// Recorded calls dropped so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.ring.dropped()
    }

    /// Of them, those in requests that a task records.
    pub(crate) fn dropped_in_requests(&self) -> u64 {
        self.ring.dropped_in_requests()
    }

    /// `Thread.getId()` of the platform thread, or 0 while unknown.
    pub(crate) fn java_id(&self) -> JavaThreadId {
        JavaThreadId::new(self.java_id.load(Ordering::Relaxed))
    }

    pub(crate) fn java_thread(&self) -> *mut std::ffi::c_void {
        self.java_thread.load(Ordering::Acquire)
    }

    pub(crate) fn take_java_thread(&self) -> *mut std::ffi::c_void {
        self.java_thread.swap(ptr::null_mut(), Ordering::AcqRel)
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

    /// Marks the thread as ended: it runs no more Java code. The agent thread frees it when everything is written.
    fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

/// The calling thread's own data.
pub type OwnThread<'t> = Own<'t, ProbeThread>;

impl<'t> OwnThread<'t> {
    #[inline(always)]
    pub(super) fn stack(self) -> Own<'t, ShadowStack> {
        self.part(|thread| &thread.stack)
    }

    #[inline(always)]
    pub(super) fn totals(self) -> Own<'t, ThreadTotals> {
        self.part(|thread| &thread.totals)
    }

    /// Replaces method statistics for which there was no memory.
    pub(super) fn lost(self) -> Own<'t, MethodTotals> {
        self.part(|thread| &thread.lost)
    }

    pub(super) fn ring(self) -> Own<'t, Ring> {
        self.part(|thread| &thread.ring)
    }

    /// The statistics of a method, or `lost` if there is no memory for them.
    pub(super) fn totals_of_method(self, method: MethodId) -> Own<'t, MethodTotals> {
        self.totals().of(method.get(), &self.account).unwrap_or(self.lost())
    }

    /// The statistics of a frame's method, or `lost` if the frame's page was just given back to the kernel.
    pub(super) fn totals_of(self, frame: Own<'t, Frame>) -> Own<'t, MethodTotals> {
        frame.totals().unwrap_or(self.lost())
    }

    pub(super) fn set_runs(self, number: JavaThreadId) {
        self.runs.store(number.get(), Ordering::Release);
        self.has_written_runs.set(false);
    }

    /// Whether it runs virtual threads.
    pub(super) fn is_carrier(self) -> bool {
        self.is_carrier.get()
    }

    pub(crate) fn set_carrier(self) {
        self.is_carrier.set(true);
    }

    /// Whether the agent thread knows which virtual thread it runs.
    pub(super) fn has_written_runs(self) -> bool {
        self.has_written_runs.get()
    }

    pub(super) fn set_runs_written(self) {
        self.has_written_runs.set(true);
    }

    /// Sets its own frames aside while it runs a virtual thread.
    pub(super) fn set_aside(self, frames: Option<SavedStack>) {
        self.aside.set(frames);
    }

    pub(super) fn take_aside(self) -> Option<SavedStack> {
        self.aside.take()
    }

    /// Marks the statistics of methods that are traced.
    pub(super) fn mark_traced(self) {
        if traced::may_be_marked() {
            self.totals().mark_traced();
        }
    }

    /// Notes an exception that leaves a call; see [`LastThrown::note`].
    #[inline(always)]
    pub(super) fn note_thrown(self, thrown: Thrown, start_ticks: u64, now: u64) -> bool {
        self.thrown.note(thrown, start_ticks, now)
    }

    /// The last exceptions that left calls.
    pub(super) fn last_thrown(self) -> LastThrown {
        self.thrown.clone()
    }

    pub(super) fn set_last_thrown(self, thrown: &LastThrown) {
        self.thrown.copy(thrown);
    }

    pub(super) fn count_unseen_end(self) {
        self.unseen_ends.store(self.unseen_ends() + 1, Ordering::Relaxed);
    }

    pub(crate) fn set_java_id(self, java_id: JavaThreadId) {
        self.java_id.store(java_id.get(), Ordering::Relaxed);
    }

    pub(crate) fn set_java_thread(self, weak: *mut std::ffi::c_void) {
        self.java_thread.store(weak, Ordering::Release);
    }

    /// Notes its name, in modified UTF-8, unless it has ended.
    pub(crate) fn set_last_name(self, name: &[u8]) {
        if self.has_ended() {
            return;
        }
        let name = cut(name, MAX_NAME);
        let length = name.len();
        let mut bytes = [0; MAX_NAME];
        bytes.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
        // SAFETY: this thread alone writes it, and others read it only after the end.
        unsafe { *self.last_name.get() = Some(LastName { bytes, length }) };
    }
}

/// The one reader of a thread's recorded calls and method statistics.
pub(crate) struct ThreadReader(ThreadRef);

impl ThreadReader {
    /// The thread's reader; `None` while there is another.
    pub(crate) fn of(thread: ThreadRef) -> Option<Self> {
        (!thread.has_reader.swap(true, Ordering::Acquire)).then(|| Self(thread))
    }

    /// Takes all recorded calls out of the ring.
    pub(crate) fn drain(&mut self, take: impl FnMut(Record)) {
        // SAFETY: this is the one reader, and borrowed until the end.
        let mut ring = unsafe { RingReader::new(&self.0.ring) };
        ring.drain(&self.0.account, take);
    }

    /// The statistics of calls for which there was no memory.
    pub(crate) fn lost(&mut self) -> MethodReader<'_> {
        MethodReader::new(&self.0.lost)
    }

    /// The statistics of all methods, oldest first. Their order never changes.
    pub(crate) fn entries(&mut self) -> impl Iterator<Item = MethodReader<'_>> {
        self.0.totals.entries()
    }

    /// Gives the pages of a retired thread back to the kernel. The thread may be in a probe meanwhile: it then finds
    /// zeros, which are valid frames, entries and slots, and nobody reads what it writes. Memory that the thread itself
    /// might unmap meanwhile is left alone.
    pub(crate) fn give_back(self) {
        self.0.stack.give_back();
        // SAFETY: this is the one reader.
        unsafe { RingReader::new(&self.0.ring) }.give_back();
        self.0.totals.give_back();
        // It keeps a page or two until it is dropped.
        self.0.account.give_all();
    }
}

impl Deref for ThreadReader {
    type Target = ThreadRef;

    fn deref(&self) -> &ThreadRef {
        &self.0
    }
}

impl Drop for ThreadReader {
    fn drop(&mut self) {
        self.0.has_reader.store(false, Ordering::Release);
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
static KNOWN_SO_FAR: AtomicU64 = AtomicU64::new(0);

fn threads() -> MutexGuard<'static, Vec<ThreadRef>> {
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `work` with the calling thread's data; `None` if there are none.
pub fn with_current<R>(work: impl FnOnce(OwnThread<'_>) -> R) -> Option<R> {
    // SAFETY: it is the thread's word.
    unsafe { with(thread_word::get(), work) }
}

/// Like [`with_current`], but only if the lookup costs next to nothing, else `false`: before [`thread_word::init`], and
/// if the counter is not the clock.
#[inline(always)]
pub(super) fn with_current_if_near(work: impl FnOnce(OwnThread<'_>) -> bool) -> bool {
    // SAFETY: it is the thread's word, or null.
    unsafe { with(thread_word::near(), work) }.unwrap_or(false)
}

/// # Safety
/// `word` is the calling thread's word, or null.
#[inline(always)]
unsafe fn with<R>(word: usize, work: impl FnOnce(OwnThread<'_>) -> R) -> Option<R> {
    let thread = ptr::with_exposed_provenance::<ProbeThread>(word);
    // SAFETY: null, or the calling thread's data, which `THREADS` keeps until `begin_current` or `end_current`. Their
    // callers promise that `work` does not run then.
    let own = unsafe { Own::new(thread.as_ref()?) };
    Some(work(own))
}

/// Whether the calling thread has data of this attachment.
pub(super) fn is_known() -> bool {
    with_current(|own| !own.is_retired()).unwrap_or(false)
}

/// After this many calls, a thread without memory tries again.
const CALLS_WITHOUT_MEMORY: u32 = 1_000;

thread_local! {
    static UNTIL_NEXT_TRY: Cell<u32> = const { Cell::new(0) };
}

/// Creates the calling thread's data for a recording and drops that of an earlier attachment. `false` if there is no
/// memory, or the recording has ended.
///
/// # Safety
/// The calling thread is not in a closure of [`with_current`].
#[cold]
pub(super) unsafe fn begin_current(recording: u32) -> bool {
    let wait = UNTIL_NEXT_TRY.get();
    let is_known = wait == 0 && make_known(recording).is_some();
    if !is_known && recording::recording() == recording {
        lost_calls::add_thread();
        UNTIL_NEXT_TRY.set(wait.checked_sub(1).unwrap_or(CALLS_WITHOUT_MEMORY));
    }
    is_known
}

fn make_known(recording: u32) -> Option<()> {
    let thread = ThreadRef::of_current()?;
    let mut all = threads();
    // A detach ends the recording, then retires all threads. After that, nobody would take this one off the list.
    if recording::recording() != recording {
        return None;
    }
    if all.len() == all.capacity() {
        all.try_reserve(1).ok()?;
    }
    let old = thread_word::get();
    thread_word::set(thread.address());
    if let Some(index) = all.iter().position(|known| known.address() == old) {
        let old = all.swap_remove(index);
        // SAFETY: the calling thread's data, until now and from now on.
        let (before, own) = unsafe { (OwnThread::new(&old), OwnThread::new(&thread)) };
        // It may have got this one when nobody was left to take it.
        own.set_java_thread(before.take_java_thread());
        own.set_java_id(before.java_id());
        if before.is_carrier() {
            own.set_carrier();
        }
    }
    // Room was reserved above.
    all.push(thread);
    KNOWN_SO_FAR.fetch_add(1, Ordering::Relaxed);
    Some(())
}

/// Ends the calling thread's data. If there is any, `note_name` notes the thread's name.
///
/// # Safety
/// The calling thread is not in a closure of [`with_current`].
pub(crate) unsafe fn end_current(note_name: impl FnOnce(OwnThread<'_>)) {
    if is_known() {
        with_current(note_name);
    }
    let address = thread_word::get();
    if address == 0 {
        return;
    }
    thread_word::set(0);
    let mut all = threads();
    let found = all.iter().enumerate().find(|(_, other)| other.address() == address);
    let Some((place, thread)) = found else { return };
    // If it is retired by now, there is no agent thread to forget it.
    if thread.is_retired() {
        all.swap_remove(place);
    } else {
        // The agent thread may then forget the thread, and unmap it.
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

/// How many threads have been added to the list so far.
pub(crate) fn known_so_far() -> u64 {
    KNOWN_SO_FAR.load(Ordering::Relaxed)
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
