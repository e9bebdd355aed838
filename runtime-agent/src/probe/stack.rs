//! The shadow stack: the instrumented calls that a thread is in.
//!
//! The thread pushes and pops. The agent thread may read it from outside, to write unfinished calls. It may then see a
//! change half done. That is harmless: all fields that it reads are atomic, and it reads twice (see
//! `unfinished_calls`).
//!
//! Orderings, each with what it carries to that reader:
//!
//! - `depth`, released by a push: the fields of the frames below it. Fields are relaxed, and the next push at the same
//!   depth may change them while they are read: half-done changes, and stores that another processor sees in another
//!   order, last nanoseconds, and the second reading follows after 200 microseconds.
//! - `depth`, released by a pop: the call is in the method statistics.
//! - `blocks` and `level`, both released: a reader that finds a level finds its block, and the frames copied to it.
//! - `state`, released when frames of an earlier recording, or of muted methods, are gone: a reader that finds the
//!   recording does not find its predecessor's frames.
//! - The thread itself loads all of them relaxed: it alone stores them. So does its signal handler.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use rewriter::probe::BEFORE_INIT;

use super::allocated::Noted;
use super::endpoint_search::Searched;
use super::method_totals::MethodTotals;
use super::own::Own;
use log_format::ids::MethodId;

use crate::sys::mapped_memory::{self, MappedMemory};
use crate::sys::memory::Account;

/// Frames that a stack can hold. A Java stack of 1 MB can have more only if methods are inlined into one another.
pub(crate) const MAX_DEPTH: u32 = 65_536;

/// Frames of the first block, a page. Each further block is twice as long.
pub(super) const FIRST_DEPTH: u32 = 128;
const BLOCKS: usize = 10;
const _: () = assert!(FIRST_DEPTH << (BLOCKS - 1) == MAX_DEPTH);
/// Bytes of the first block.
pub(super) const FIRST_BYTES: usize = FIRST_DEPTH as usize * size_of::<Frame>();

/// A stack returns to its first block when it is that shallow again, but at most once in this many ticks, about a
/// millisecond, because it costs some microseconds,
const TRIM_TICKS: u64 = 2_000_000;
/// unless it was deeper than this: beside that many calls the cost is small.
const DEEP: u32 = 1_024;

/// A call in progress. All zero is a valid frame.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Frame {
    totals: AtomicPtr<MethodTotals>,
    start_ticks: AtomicU64,
    /// Time in instrumented callees that have ended.
    callee_ticks: AtomicU64,
    /// Low half: the current probe id of the call. High half, for the thread itself: where the call is on its native
    /// stack, encoded by [`place`], and in the last bit whether this frame is written to the ring; see
    /// `ring::Kind::Frame`.
    id_and_place: AtomicU64,
}

const WRITTEN: u32 = 1;

const fn id_and_place(probe_id: ProbeId, place: u32) -> u64 {
    (place as u64) << 32 | probe_id.0 as u64
}

/// An address in units of eight bytes. The last bit is free, because stacks are aligned to sixteen bytes.
#[allow(clippy::cast_possible_truncation)]
const fn place(address: usize) -> u32 {
    (address >> 3) as u32 & !WRITTEN
}

const _: () = assert!(size_of::<Frame>() == 32);

/// The number in a method's probes: its id, and [`BEFORE_INIT`] in a constructor before its `super(...)` returns.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProbeId(u32);

impl ProbeId {
    /// That of a probe which passes this number.
    pub(crate) const fn new(number: u32) -> Self {
        Self(number)
    }

    pub(crate) const fn get(self) -> u32 {
        self.0
    }

    /// Whether it is that of a constructor before its `super(...)` returns.
    #[inline]
    pub(crate) const fn is_before_init(self) -> bool {
        self.0 & BEFORE_INIT != 0
    }

    /// That of the same method after its `super(...)` has returned.
    #[inline]
    const fn initialized(self) -> Self {
        Self(self.0 & !BEFORE_INIT)
    }

    /// The method with this probe.
    #[inline]
    pub(crate) const fn method(self) -> MethodId {
        MethodId::new(self.initialized().0)
    }
}

impl Frame {
    /// The current probe id of the call. For a constructor before its `super(...)` returns, [`BEFORE_INIT`] is set.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // Its low half.
    pub(crate) fn probe_id(&self) -> ProbeId {
        ProbeId(self.id_and_place.load(Ordering::Relaxed) as u32)
    }

    /// The method's id.
    #[inline]
    pub(crate) fn method(&self) -> MethodId {
        self.probe_id().method()
    }

    /// Whether this is a constructor before its `super(...)` returned.
    pub(crate) fn is_before_init(&self) -> bool {
        self.probe_id().is_before_init()
    }

    #[inline]
    /// The call began at this time.
    pub(super) fn begin(&self, ticks: u64) {
        self.start_ticks.store(ticks, Ordering::Relaxed);
    }

    pub(crate) fn start_ticks(&self) -> u64 {
        self.start_ticks.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn callee_ticks(&self) -> u64 {
        self.callee_ticks.load(Ordering::Relaxed)
    }
}

impl<'t> Own<'t, Frame> {
    /// Copies all fields of another frame.
    fn copy(self, from: Self) {
        self.totals.store(from.totals.load(Ordering::Relaxed), Ordering::Relaxed);
        self.id_and_place.store(from.id_and_place.load(Ordering::Relaxed), Ordering::Relaxed);
        self.callee_ticks.store(from.callee_ticks(), Ordering::Relaxed);
        self.start_ticks.store(from.start_ticks(), Ordering::Relaxed);
    }

    fn place_and_written(self) -> u32 {
        (self.id_and_place.load(Ordering::Relaxed) >> 32) as u32
    }

    /// Notes that the constructor's `super(...)` has returned.
    #[inline]
    pub(super) fn set_initialized(self) {
        self.id_and_place.store(
            id_and_place(self.probe_id().initialized(), self.place_and_written()),
            Ordering::Relaxed,
        );
    }

    /// Whether `address` is clearly above this call on the native stack. Addresses of one call's probes differ by a few
    /// words, or by the two Java frames of a guard that is interpreted: some 300 bytes.
    pub(super) fn is_below(self, address: usize) -> bool {
        self.distance_below(address) > 512 / 8
    }

    /// Whether `address` is above this call, or the same.
    pub(super) fn is_not_above(self, address: usize) -> bool {
        self.distance_below(address) >= 0
    }

    /// Stacks are smaller than 16 GiB, so 32 bits suffice.
    fn distance_below(self, address: usize) -> i32 {
        place(address).wrapping_sub(self.place_and_written() & !WRITTEN).cast_signed()
    }

    #[inline]
    pub(super) fn add_callee_ticks(self, ticks: u64) {
        self.callee_ticks.store(self.callee_ticks().wrapping_add(ticks), Ordering::Relaxed);
    }

    /// The statistics of its method; `None` if the frame's page was just given back to the kernel.
    #[inline]
    pub(super) fn totals(self) -> Option<Own<'t, MethodTotals>> {
        // SAFETY: null, or what `push_at` stored: statistics of this thread, which live as long as the thread.
        unsafe { self.totals.load(Ordering::Relaxed).as_ref().map(|totals| Own::new(totals)) }
    }

    /// Whether a record of this frame is in the ring.
    pub(super) fn is_written(self) -> bool {
        self.place_and_written() & WRITTEN != 0
    }

    pub(super) fn set_written(self) {
        let written = id_and_place(self.probe_id(), self.place_and_written() | WRITTEN);
        self.id_and_place.store(written, Ordering::Relaxed);
    }
}

/// The location of a frame in use. Its memory lives as long as the thread, whichever block is in use.
#[derive(Clone, Copy)]
pub(super) struct Place<'t> {
    frame: NonNull<Frame>,
    pub index: u32,
    stack: PhantomData<Own<'t, ShadowStack>>,
}

impl<'t> Place<'t> {
    #[inline(always)]
    pub(super) fn frame(self) -> Own<'t, Frame> {
        // SAFETY: a frame of a block of this thread's stack, made by `place_at`; zero is a frame.
        unsafe { Own::new(self.frame.as_ref()) }
    }

    /// The frame below.
    #[inline(always)]
    pub(super) fn caller(self) -> Option<Own<'t, Frame>> {
        // SAFETY: this is not the first frame of its block, so the one before belongs to the same.
        (self.index > 0).then(|| unsafe { Own::new(self.frame.sub(1).as_ref()) })
    }
}

/// The shadow stack of a thread.
///
/// Its frames are in a block of memory. When that is full, the thread copies them to one twice as long. When the stack
/// fits into the first block again, the thread copies them back. Blocks are unmapped only with the thread, so a reader
/// from outside always reads frames, though they may be outdated, or zeros.
#[repr(C, align(64))] // What every call needs comes first.
#[derive(Debug)]
pub(crate) struct ShadowStack {
    /// The block in use.
    frames: Cell<NonNull<Frame>>,
    /// The state to which the frames belong; see `probe::STATE`.
    state: AtomicU64,
    depth: AtomicU32,
    /// How many frames the block in use has; 0 while calls are in progress beyond the last frame.
    limit: Cell<u32>,
    /// The index of the block in use. Readers find the block by it.
    level: AtomicU32,
    /// Calls in progress beyond the last frame.
    beyond: Cell<u64>,
    trimmed_ticks: Cell<u64>,
    /// What the thread had allocated when its outermost call began.
    allocated: Noted,
    /// What a task knows of the frames.
    searched: Cell<Searched>,
    /// The blocks created so far.
    blocks: [AtomicPtr<Frame>; BLOCKS],
}

// SAFETY: cells are used through `Own` alone, so by one thread; everything else is atomic.
unsafe impl Sync for ShadowStack {}
// SAFETY: its memory is bound to no thread.
unsafe impl Send for ShadowStack {}

/// Number of frames of a block.
const fn capacity(level: u32) -> u32 {
    FIRST_DEPTH << level
}

/// Size of a block in bytes.
const fn block_bytes(level: u32) -> usize {
    FIRST_BYTES << level
}

impl ShadowStack {
    /// Creates a stack whose first block is at `first`.
    ///
    /// # Safety
    /// There are [`FIRST_BYTES`] of zeros, aligned to 64 bytes, which only this stack uses and which live at least as
    /// long as it.
    pub(super) unsafe fn new(first: NonNull<u8>) -> Self {
        let blocks = [const { AtomicPtr::new(ptr::null_mut()) }; BLOCKS];
        blocks[0].store(first.cast().as_ptr(), Ordering::Relaxed);
        Self {
            frames: Cell::new(first.cast()),
            state: AtomicU64::new(0),
            depth: AtomicU32::new(0),
            limit: Cell::new(FIRST_DEPTH),
            level: AtomicU32::new(0),
            beyond: Cell::new(0),
            trimmed_ticks: Cell::new(0),
            allocated: Noted::new(),
            searched: Cell::new(Searched::default()),
            blocks,
        }
    }

    /// Offsets of the frames' address, of the depth and of the state; the size of a frame, and where it has the id.
    pub(super) const fn offsets() -> [usize; 5] {
        [
            offset_of!(Self, frames),
            offset_of!(Self, depth),
            offset_of!(Self, state),
            size_of::<Frame>(),
            offset_of!(Frame, id_and_place),
        ]
    }

    /// The frames in use, as seen from outside. While the thread runs, some may be outdated, or zeros.
    pub(crate) fn look(&self) -> impl Iterator<Item = &Frame> {
        let level = self.level.load(Ordering::Acquire);
        let block = self.blocks.get(level as usize).map(|block| block.load(Ordering::Acquire));
        let block = block.and_then(NonNull::new);
        let depth = if block.is_some() { self.depth().min(capacity(level)) } else { 0 };
        let frame = move |index: u32| {
            // SAFETY: the block has this many frames, zero is a valid frame, and the block is unmapped only with the
            // thread.
            Some(unsafe { block?.add(index as usize).as_ref() })
        };
        (0..depth).filter_map(frame)
    }

    #[inline]
    pub(crate) fn depth(&self) -> u32 {
        self.depth.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn recording(&self) -> u32 {
        super::recording::recording_of(self.state.load(Ordering::Acquire))
    }

    /// The state for which the frames were last checked.
    #[inline]
    pub(super) fn state(&self) -> u64 {
        self.state.load(Ordering::Relaxed)
    }

    /// Gives the pages of this block and all longer ones back to the kernel.
    fn release_blocks(&self, first: u32) {
        for (level, block) in (0..).zip(&self.blocks).skip(first as usize) {
            if let Some(start) = NonNull::new(block.load(Ordering::Acquire)) {
                // SAFETY: the block has this length and is unmapped only with the thread; zero is a valid frame.
                unsafe { mapped_memory::release(start.cast(), block_bytes(level), 0) };
            }
        }
    }

    /// Gives all its pages back to the kernel. Nobody may rely on its frames afterwards.
    pub(super) fn give_back(&self) {
        self.release_blocks(0);
    }
}

impl<'t> Own<'t, ShadowStack> {
    /// What a task knows of the frames.
    pub(super) fn searched(self) -> Searched {
        self.searched.get()
    }

    /// Notes what a task knows of the frames.
    pub(super) fn set_searched(self, searched: Searched) {
        self.searched.set(searched);
    }

    /// The number of frames of the block in use.
    fn capacity(self) -> u32 {
        capacity(self.level.load(Ordering::Relaxed))
    }

    /// The frame at `index`, from 0 for the outermost, in use or not.
    #[inline]
    pub(super) fn frame(self, index: u32) -> Own<'t, Frame> {
        self.place(index).frame()
    }

    /// The location of the frame at `index`.
    #[inline]
    pub(super) fn place(self, index: u32) -> Place<'t> {
        let last = self.capacity() - 1;
        debug_assert!(index <= last);
        // An index out of range would be a bug of the agent; it must not harm the service.
        // SAFETY: the index is that of a frame of the block.
        unsafe { self.place_at(index.min(last)) }
    }

    /// # Safety
    /// The block in use has a frame with this index.
    #[inline(always)]
    unsafe fn place_at(self, index: u32) -> Place<'t> {
        // SAFETY: the caller guarantees it.
        let frame = unsafe { self.frames.get().add(index as usize) };
        Place { frame, index, stack: PhantomData }
    }

    pub(super) fn set_state(self, state: u64) {
        self.state.store(state, Ordering::Release);
    }

    /// Number of calls beyond the last frame.
    #[inline]
    pub(super) fn beyond(self) -> u64 {
        self.beyond.get()
    }

    pub(super) fn set_beyond(self, calls: u64) {
        self.beyond.set(calls);
        self.limit.set(if calls == 0 { self.capacity() } else { 0 });
    }

    /// The depth and the next frame, if there is room for it.
    #[inline]
    pub(super) fn plain_place(self) -> Option<(u32, Own<'t, Frame>)> {
        let depth = self.depth.load(Ordering::Relaxed);
        // SAFETY: the limit is never above the number of frames of the block in use.
        (depth < self.limit.get()).then(|| (depth, unsafe { self.place_at(depth) }.frame()))
    }

    /// The newest frame, if there is one and no call is beyond the last frame.
    #[inline(always)]
    pub(super) fn plain_top(self) -> Option<Place<'t>> {
        // Without frames this wraps to the largest number.
        let top = self.depth.load(Ordering::Relaxed).wrapping_sub(1);
        // SAFETY: the limit is never above the number of frames of the block in use.
        (top < self.limit.get()).then(|| unsafe { self.place_at(top) })
    }

    /// Makes room for one more frame if necessary. `false` if the next call must go beyond the last frame: the stack is
    /// at its limit, there is no memory, or other calls are beyond already.
    pub(super) fn make_room(self, account: &Account) -> bool {
        let is_full = self.depth.load(Ordering::Relaxed) >= self.capacity();
        self.beyond.get() == 0 && (!is_full || self.grow(account))
    }

    /// Pushes a frame; there must be room.
    #[inline]
    pub(super) fn push(
        self,
        probe_id: ProbeId,
        address: usize,
        totals: Own<'t, MethodTotals>,
        clock: impl FnOnce() -> u64,
    ) {
        let depth = self.depth.load(Ordering::Relaxed);
        self.push_at((depth, self.frame(depth)), probe_id, address, totals, clock);
    }

    /// Like [`push`](Self::push), with the stack's depth and the frame at that depth.
    #[inline]
    pub(super) fn push_at(
        self,
        (depth, frame): (u32, Own<'t, Frame>),
        probe_id: ProbeId,
        address: usize,
        totals: Own<'t, MethodTotals>,
        clock: impl FnOnce() -> u64,
    ) {
        // Read the clock first: processors read their counter only once they know the addresses of all earlier stores.
        // So the call includes the time in which the kernel maps a page for the stack.
        let now = clock();
        totals.enter();
        frame.totals.store(ptr::from_ref(&*totals).cast_mut(), Ordering::Relaxed);
        frame.id_and_place.store(id_and_place(probe_id, place(address)), Ordering::Relaxed);
        frame.callee_ticks.store(0, Ordering::Relaxed);
        frame.start_ticks.store(now, Ordering::Relaxed);
        self.depth.store(depth + 1, Ordering::Release);
    }

    /// Notes what the thread has allocated until now, if the call at `depth` is the outermost.
    #[inline(always)]
    pub(super) fn note_allocated(self, depth: u32, environment: usize) {
        if depth == 0 {
            self.allocated.begin(environment);
        }
    }

    /// It is not known what the outermost call allocates.
    pub(super) fn forget_allocated(self) {
        self.allocated.forget();
    }

    /// What the thread has allocated since its outermost call began, if that is known.
    pub(super) fn allocated_since(self) -> Option<u64> {
        self.allocated.since()
    }

    /// Pops down to `depth` frames. The popped frames stay readable until the next push.
    #[inline]
    pub(super) fn pop_to(self, depth: u32) {
        self.depth.store(depth, Ordering::Release);
    }

    /// Copies the frame at `from` to `to`, below it. There, the agent thread does not know it yet.
    pub(super) fn move_frame(self, from: u32, to: u32) {
        let (from, to) = (self.frame(from), self.frame(to));
        to.copy(from);
        let unwritten = id_and_place(from.probe_id(), from.place_and_written() & !WRITTEN);
        to.id_and_place.store(unwritten, Ordering::Relaxed);
        // It was noted for another call.
        self.forget_allocated();
    }

    /// Moves to the next longer block. `false` if there is none, or no memory for it.
    #[cold]
    fn grow(self, account: &Account) -> bool {
        let level = self.level.load(Ordering::Relaxed) + 1;
        let Some(block) = self.blocks.get(level as usize) else { return false };
        if !account.take(block_bytes(level)) {
            return false;
        }
        if block.load(Ordering::Relaxed).is_null() {
            let Some(mapped) = MappedMemory::new(block_bytes(level)) else {
                account.give(block_bytes(level));
                return false;
            };
            block.store(mapped.into_raw().cast().as_ptr(), Ordering::Release);
        }
        self.move_to(level);
        true
    }

    /// Copies the frames in use to an existing block with room for them, and uses that block.
    fn move_to(self, level: u32) {
        let to = self.blocks.get(level as usize).map(|block| block.load(Ordering::Relaxed));
        let Some(to) = to.and_then(NonNull::new) else { return };
        let depth = self.depth.load(Ordering::Relaxed);
        debug_assert!(depth <= capacity(level));
        for index in 0..depth.min(capacity(level)) {
            // SAFETY: the block of this thread's stack has this many frames, and zero is a valid frame.
            unsafe { Own::new(to.add(index as usize).as_ref()) }.copy(self.frame(index));
        }
        self.frames.set(to);
        // A reader that finds the block finds the frames in it.
        self.level.store(level, Ordering::Release);
        self.set_beyond(self.beyond());
    }

    /// Whether there may be memory to give back when this many frames remain.
    #[inline]
    pub(super) fn is_trimmed_at(self, depth: u32) -> bool {
        self.limit.get() > FIRST_DEPTH && (depth == 0 || depth == FIRST_DEPTH)
    }

    /// Gives memory back after a deep recursion. At most [`FIRST_DEPTH`] frames are in use.
    #[cold]
    pub(super) fn trim(self, now: u64, account: &Account) {
        let since = now.wrapping_sub(self.trimmed_ticks.get());
        if self.capacity() > DEEP || since > TRIM_TICKS {
            self.trimmed_ticks.set(now);
            let level = self.level.load(Ordering::Relaxed);
            self.move_to(0);
            self.release_blocks(1);
            (1..=level).for_each(|level| account.give(block_bytes(level)));
        }
    }

    /// Forgets the frames of an earlier recording.
    #[cold]
    pub(super) fn restart(self, state: u64) {
        for index in 0..self.depth.load(Ordering::Relaxed) {
            if let Some(totals) = self.frame(index).totals() {
                totals.leave();
            }
        }
        self.pop_to(0);
        self.set_beyond(0);
        self.set_state(state);
    }
}

impl Drop for ShadowStack {
    fn drop(&mut self) {
        // The first block belongs to the thread's first mapping.
        for (level, block) in (0..).zip(&mut self.blocks).skip(1) {
            if let Some(start) = NonNull::new(*block.get_mut()) {
                // SAFETY: made by `grow` with this length; nobody uses this stack any more.
                drop(unsafe { MappedMemory::from_raw(start.cast(), block_bytes(level)) });
            }
        }
    }
}
