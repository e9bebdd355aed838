//! Frames of threads that do not run: those of an unmounted virtual thread, and those of a carrier while it runs one.
//!
//! They are copied out of the shadow stack and in again. Without memory for the copy, the calls in progress are
//! counted as lost; what the thread calls afterwards is measured.

use super::lost_calls;
use super::native_stack;
use super::recording_of;
use super::stack::Frame;
use super::thread::ProbeThread;
use crate::sys::memory::Account;

/// A frame of a thread that does not run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SavedFrame {
    pub probe_id: u32,
    pub start_ticks: u64,
    pub callee_ticks: u64,
}

impl SavedFrame {
    fn of(frame: &Frame) -> Self {
        Self {
            probe_id: frame.probe_id(),
            start_ticks: frame.start_ticks(),
            callee_ticks: frame.callee_ticks(),
        }
    }

    pub(crate) fn method(&self) -> u32 {
        self.probe_id & !rewriter::probe::BEFORE_INIT
    }
}

/// The frames of a thread that does not run.
#[derive(Debug)]
pub(crate) struct SavedStack {
    /// What the frames belong to; see `probe::STATE`.
    state: u64,
    pub frames: Vec<SavedFrame>,
    beyond: u64,
    /// Bytes that [`ACCOUNT`] has for it.
    bytes: usize,
}

/// The memory of all saved frames.
static ACCOUNT: Account = Account::new();
/// What the allocator adds to each.
const ALLOCATION: usize = 16;

impl SavedStack {
    /// The recording that the frames are of.
    pub(crate) fn recording(&self) -> u32 {
        recording_of(self.state)
    }

    /// How many calls it stands for.
    pub(super) fn calls(&self) -> u64 {
        self.frames.len() as u64 + self.beyond
    }

    /// An empty one with room for so many frames, if there is memory.
    fn with_room(frames: u32, state: u64, beyond: u64) -> Option<Self> {
        let bytes = frames as usize * size_of::<SavedFrame>() + ALLOCATION;
        if !ACCOUNT.take(bytes) {
            return None;
        }
        let mut saved = Self { state, frames: Vec::new(), beyond, bytes };
        saved.frames.try_reserve_exact(frames as usize).ok()?;
        Some(saved)
    }
}

impl Drop for SavedStack {
    fn drop(&mut self) {
        ACCOUNT.give(self.bytes);
    }
}

/// The calling thread is `thread`: takes all frames off its stack. `None` if there are none, or no memory.
pub(super) fn save(thread: &ProbeThread) -> Option<SavedStack> {
    let stack = &thread.stack;
    let (depth, beyond) = (stack.depth(), stack.beyond());
    if depth == 0 && beyond == 0 {
        return None;
    }
    let mut saved = SavedStack::with_room(depth, stack.state(), beyond);
    if saved.is_none() {
        lost_calls::add(u64::from(depth) + beyond);
    }
    for index in 0..depth {
        let frame = stack.frame(index);
        super::totals_of(thread, frame).leave();
        if let Some(saved) = &mut saved {
            // There is room.
            saved.frames.push(SavedFrame::of(frame));
        }
    }
    stack.pop_to(0);
    stack.set_beyond(0);
    saved
}

/// The calling thread is `thread`, whose stack is empty: puts back what `save` took, here or in another thread. Calls
/// for whose frames there is no room are counted without times when they end.
pub(super) fn restore(thread: &ProbeThread, saved: &SavedStack) {
    let stack = &thread.stack;
    stack.set_state(saved.state);
    // Where the calls stand now only the JVM knows: above all that are yet to come.
    let above_all = native_stack::address_here() + (1 << 30);
    let mut frames = saved.frames.iter();
    while !frames.as_slice().is_empty() && stack.make_room(&thread.account) {
        let Some(frame) = frames.next() else { break };
        let totals = thread.totals_of_method(frame.method());
        stack.push(frame.probe_id, above_all, totals, || frame.start_ticks);
        stack.frame(stack.depth() - 1).add_callee_ticks(frame.callee_ticks);
    }
    stack.set_beyond(frames.as_slice().len() as u64 + saved.beyond);
}
