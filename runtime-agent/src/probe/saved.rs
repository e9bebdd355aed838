//! Frames of threads that do not run: those of an unmounted virtual thread, and those of a carrier while it runs one.

use super::recording::recording_of;
use super::stack::Frame;
use crate::sys::memory::Account;

/// A frame of a thread that does not run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SavedFrame {
    pub probe_id: u32,
    pub start_ticks: u64,
    pub callee_ticks: u64,
}

impl SavedFrame {
    pub(super) fn of(frame: &Frame) -> Self {
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
    pub(super) state: u64,
    pub frames: Vec<SavedFrame>,
    pub(super) beyond: u64,
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
    pub(super) fn with_room(frames: u32, state: u64, beyond: u64) -> Option<Self> {
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
