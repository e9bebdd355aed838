//! The shadow stack: the instrumented calls that a thread is in.
//!
//! The owning thread pushes and pops; the drain thread may look at it from outside, to write the
//! calls that are still open. What it sees then may be in the middle of a change, which is harmless:
//! all fields are atomic, and it looks twice (see `Recorder`).
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use rewriter::probe::BEFORE_INIT;

use super::mounts::SavedStack;
use super::native_stack;
use super::totals::MethodTotals;
use crate::mapped::Mapped;

/// Frames that a stack can hold. A Java stack of 1 MB can have more only of methods that are compiled
/// into one another.
pub(crate) const MAX_DEPTH: u32 = 65_536;

/// What a stack has above this, a page, is given back to the kernel when it is no deeper again,
pub(super) const TRIM_DEPTH: u32 = 128;
/// but at most once in so many ticks, about a millisecond: it costs some microseconds,
const TRIM_TICKS: u64 = 2_000_000;
/// which is little beside so many calls. The depth is looked at each time it has grown by so many.
const DEEP: u32 = 1_024;
const _: () = assert!(TRIM_DEPTH < DEEP && DEEP < MAX_DEPTH);

/// A call in progress. All zero is a frame.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Frame {
    totals: AtomicPtr<MethodTotals>,
    start_ticks: AtomicU64,
    /// Time in instrumented callees that have ended.
    callee_ticks: AtomicU64,
    /// In the low half the id that the probes of the call have now. In the high half, which is the owner's,
    /// where the call stands on the thread's own stack, as [`place`] has it, and in its last bit whether
    /// the drain thread knows of this frame; see `ring::Kind::Frame`.
    id_and_place: AtomicU64,
}

const TOLD: u32 = 1;

const fn id_and_place(probe_id: u32, place: u32) -> u64 {
    (place as u64) << 32 | probe_id as u64
}

/// An address in units of eight bytes. The last bit is free, as stacks are aligned to sixteen.
#[allow(clippy::cast_possible_truncation)]
const fn place(address: usize) -> u32 {
    (address >> 3) as u32 & !TOLD
}

const _: () = assert!(size_of::<Frame>() == 32);

impl Frame {
    /// The id that the probes of the call have now: of a constructor before its `super(...)` has
    /// returned, with [`BEFORE_INIT`] set.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // Its low half.
    pub(crate) fn probe_id(&self) -> u32 {
        self.id_and_place.load(Ordering::Relaxed) as u32
    }

    fn place_and_told(&self) -> u32 {
        (self.id_and_place.load(Ordering::Relaxed) >> 32) as u32
    }

    /// The method's id.
    #[inline]
    pub(crate) fn method(&self) -> u32 {
        self.probe_id() & !BEFORE_INIT
    }

    /// Whether this is a constructor that has not been initialized.
    pub(crate) fn is_before_init(&self) -> bool {
        self.probe_id() & BEFORE_INIT != 0
    }

    /// Owner only: the constructor's `super(...)` has returned.
    #[inline]
    pub(crate) fn set_initialized(&self) {
        self.id_and_place
            .store(id_and_place(self.method(), self.place_and_told()), Ordering::Relaxed);
    }

    /// Owner only: whether `address` is clearly above where this call stands on the thread's stack:
    /// probes themselves differ by a few words, or by a frame of Java.
    pub(crate) fn is_below(&self, address: usize) -> bool {
        self.distance_below(address) > 512 / 8
    }

    /// Owner only: whether `address` is above that, or is the same.
    pub(crate) fn is_not_above(&self, address: usize) -> bool {
        self.distance_below(address) >= 0
    }

    /// Stacks are smaller than 16 GiB, so that 32 bits tell.
    fn distance_below(&self, address: usize) -> i32 {
        place(address).wrapping_sub(self.place_and_told() & !TOLD).cast_signed()
    }

    #[inline]
    pub(crate) fn start_ticks(&self) -> u64 {
        self.start_ticks.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn callee_ticks(&self) -> u64 {
        self.callee_ticks.load(Ordering::Relaxed)
    }

    /// Owner only.
    #[inline]
    pub(crate) fn add_callee_ticks(&self, ticks: u64) {
        self.callee_ticks.store(self.callee_ticks().wrapping_add(ticks), Ordering::Relaxed);
    }

    /// Owner only.
    #[inline]
    pub(crate) fn totals(&self) -> *const MethodTotals {
        self.totals.load(Ordering::Relaxed)
    }

    /// Owner only.
    pub(crate) fn is_told(&self) -> bool {
        self.place_and_told() & TOLD != 0
    }

    /// Owner only.
    pub(crate) fn set_told(&self) {
        let told = id_and_place(self.probe_id(), self.place_and_told() | TOLD);
        self.id_and_place.store(told, Ordering::Relaxed);
    }
}

/// A frame of a thread that does not run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SavedFrame {
    probe_id: u32,
    pub start_ticks: u64,
    pub callee_ticks: u64,
}

impl SavedFrame {
    pub(crate) fn method(&self) -> u32 {
        self.probe_id & !BEFORE_INIT
    }
}

/// The shadow stack of a thread.
#[repr(C)] // What every call needs comes first.
#[derive(Debug)]
pub(crate) struct ShadowStack {
    frames: Mapped,
    /// What the frames belong to; see `probe::STATE`.
    state: AtomicU64,
    depth: AtomicU32,
    /// The next depth that `deepest` is to know of, or where there is no room left; the owner's, like all
    /// that follows.
    limit: Cell<u32>,
    /// A depth that was reached since memory was given back last, or 0.
    deepest: Cell<u32>,
    /// Calls in progress beyond the last frame.
    beyond: Cell<u64>,
    trimmed_ticks: Cell<u64>,
}

// SAFETY: cells are used by the owning thread alone; everything else is atomic.
unsafe impl Sync for ShadowStack {}

impl ShadowStack {
    pub(crate) fn new() -> Option<Self> {
        Some(Self {
            frames: Mapped::new(MAX_DEPTH as usize * size_of::<Frame>())?,
            depth: AtomicU32::new(0),
            state: AtomicU64::new(0),
            beyond: Cell::new(0),
            deepest: Cell::new(0),
            limit: Cell::new(TRIM_DEPTH),
            trimmed_ticks: Cell::new(0),
        })
    }

    /// The frame at `index`, from 0 for the outermost, in use or not.
    #[inline]
    pub(crate) fn frame(&self, index: u32) -> &Frame {
        debug_assert!(index < MAX_DEPTH);
        // An index out of range would be a fault of ours; it must not become one of the service.
        let index = index.min(MAX_DEPTH - 1);
        // SAFETY: the index is below MAX_DEPTH.
        unsafe { self.frame_at(index) }
    }

    /// # Safety
    /// The index is below [`MAX_DEPTH`].
    #[inline]
    unsafe fn frame_at(&self, index: u32) -> &Frame {
        // SAFETY: there is memory for MAX_DEPTH frames, aligned, and zero is a frame.
        unsafe { &*self.frames.start().cast::<Frame>().as_ptr().add(index as usize) }
    }

    #[inline]
    pub(crate) fn depth(&self) -> u32 {
        self.depth.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn recording(&self) -> u32 {
        super::recording_of(self.state())
    }

    /// The state in which the frames are right.
    #[inline]
    pub(super) fn state(&self) -> u64 {
        self.state.load(Ordering::Relaxed)
    }

    /// Owner only.
    pub(super) fn set_state(&self, state: u64) {
        self.state.store(state, Ordering::Relaxed);
    }

    /// Owner only: calls beyond the last frame.
    #[inline]
    pub(crate) fn beyond(&self) -> u64 {
        self.beyond.get()
    }

    /// Owner only.
    pub(crate) fn set_beyond(&self, calls: u64) {
        self.beyond.set(calls);
    }

    /// Owner only: the depth, and the next frame, if there is room for it, and pushing it needs no look at
    /// the memory in use.
    #[inline]
    pub(super) fn plain_place(&self) -> Option<(u32, &Frame)> {
        let depth = self.depth.load(Ordering::Relaxed);
        // SAFETY: the limit is never above MAX_DEPTH.
        (depth < self.limit.get()).then(|| (depth, unsafe { self.frame_at(depth) }))
    }

    /// Owner only: the newest frame's index, if there is one, and no call can stand beyond it.
    #[inline]
    pub(super) fn plain_top(&self) -> Option<u32> {
        // Of no frames it is the largest number there is.
        let top = self.depth.load(Ordering::Relaxed).wrapping_sub(1);
        (top < MAX_DEPTH - 1).then_some(top)
    }

    /// Owner only: pushes a frame; there must be room.
    #[inline]
    pub(crate) fn push(
        &self,
        probe_id: u32,
        address: usize,
        totals: &MethodTotals,
        clock: impl FnOnce() -> u64,
    ) {
        let depth = self.depth.load(Ordering::Relaxed);
        if depth >= self.limit.get() {
            self.deepest.set(depth);
            self.limit.set((self.limit.get() + DEEP).min(MAX_DEPTH));
        }
        self.push_at((depth, self.frame(depth)), probe_id, address, totals, clock);
    }

    /// The same at this depth, which is the stack's, with the frame that is there.
    #[inline]
    pub(super) fn push_at(
        &self,
        (depth, frame): (u32, &Frame),
        probe_id: u32,
        address: usize,
        totals: &MethodTotals,
        clock: impl FnOnce() -> u64,
    ) {
        // The clock first: processors read their counter only when they know where all that was stored
        // before went. What the kernel takes for a page that the stack grows by is the call's, therefore.
        let now = clock();
        totals.enter();
        frame.totals.store(ptr::from_ref(totals).cast_mut(), Ordering::Relaxed);
        frame.id_and_place.store(id_and_place(probe_id, place(address)), Ordering::Relaxed);
        frame.callee_ticks.store(0, Ordering::Relaxed);
        frame.start_ticks.store(now, Ordering::Relaxed);
        self.depth.store(depth + 1, Ordering::Release);
    }

    /// Owner only: pops down to `depth` frames. The popped frames stay readable until the next push.
    #[inline]
    pub(crate) fn pop_to(&self, depth: u32) {
        self.depth.store(depth, Ordering::Release);
    }

    /// Owner only: copies the frame at `from` to `to`, below it. The drain thread does not know it there.
    pub(super) fn move_frame(&self, from: u32, to: u32) {
        let (from, to) = (self.frame(from), self.frame(to));
        to.totals.store(from.totals().cast_mut(), Ordering::Relaxed);
        let untold = id_and_place(from.probe_id(), from.place_and_told() & !TOLD);
        to.id_and_place.store(untold, Ordering::Relaxed);
        to.callee_ticks.store(from.callee_ticks(), Ordering::Relaxed);
        to.start_ticks.store(from.start_ticks(), Ordering::Relaxed);
    }

    /// Owner only: takes all frames away. `None` if there are none.
    pub(crate) fn save(&self) -> Option<SavedStack> {
        let depth = self.depth.load(Ordering::Relaxed);
        if depth == 0 && self.beyond() == 0 {
            return None;
        }
        let save = |index| {
            let frame = self.frame(index);
            // SAFETY: a frame in use points to totals of this thread, which live as long as it.
            if let Some(totals) = unsafe { frame.totals().as_ref() } {
                totals.leave();
            }
            SavedFrame {
                probe_id: frame.probe_id(),
                start_ticks: frame.start_ticks(),
                callee_ticks: frame.callee_ticks(),
            }
        };
        let frames = (0..depth).map(save).collect();
        let saved = SavedStack { state: self.state(), frames, beyond: self.beyond() };
        self.pop_to(0);
        self.set_beyond(0);
        Some(saved)
    }

    /// Owner only: puts back what `save` took, here or in another thread. The stack is empty, and
    /// `totals` gives the totals of a method in this thread.
    pub(crate) fn restore<'t>(&self, saved: &SavedStack, totals: impl Fn(u32) -> &'t MethodTotals) {
        self.set_state(saved.state);
        // Where the calls stand now only the JVM knows: above all that are yet to come.
        let above_all = native_stack::address_here() + (1 << 30);
        for frame in &saved.frames {
            self.push(frame.probe_id, above_all, totals(frame.method()), || frame.start_ticks);
            self.frame(self.depth() - 1).add_callee_ticks(frame.callee_ticks);
        }
        self.set_beyond(saved.beyond);
    }

    /// Owner only: whether there may be memory to give back when so many frames are left.
    #[inline]
    pub(super) fn is_trimmed_at(&self, depth: u32) -> bool {
        self.deepest.get() > 0 && (depth == 0 || depth == TRIM_DEPTH)
    }

    /// Owner only: gives memory back after a deep recursion. There are [`TRIM_DEPTH`] frames at most.
    #[cold]
    pub(super) fn trim(&self, now: u64) {
        let since = now.wrapping_sub(self.trimmed_ticks.get());
        if self.deepest.get() > DEEP || since > TRIM_TICKS {
            self.trimmed_ticks.set(now);
            self.deepest.set(0);
            self.limit.set(TRIM_DEPTH);
            self.frames.release_from(TRIM_DEPTH as usize * size_of::<Frame>());
        }
    }

    /// Gives all its pages back to the kernel. Nobody may rely on its frames any more.
    pub(super) fn give_back(&self) {
        self.frames.release_from(0);
    }

    /// Owner only: forgets the frames of an earlier recording.
    #[cold]
    pub(crate) fn restart(&self, state: u64) {
        for index in 0..self.depth.load(Ordering::Relaxed) {
            // SAFETY: a frame in use points to totals of this thread, which live as long as it.
            if let Some(totals) = unsafe { self.frame(index).totals().as_ref() } {
                totals.leave();
            }
        }
        self.pop_to(0);
        self.beyond.set(0);
        self.set_state(state);
    }
}
