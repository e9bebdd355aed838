//! Frames of threads that are not running: of an unmounted virtual thread, or of a carrier while it runs one.

use super::recording::recording_of;
use super::stack::{Frame, ProbeId};
use super::thrown_class::LastThrown;
use log_format::ids::MethodId;

use crate::sys::memory::Account;

/// A frame of a thread that is not running.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SavedFrame {
    pub probe_id: ProbeId,
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

    pub(crate) fn method(&self) -> MethodId {
        self.probe_id.method()
    }
}

/// The frames of a thread that is not running.
#[derive(Debug)]
pub(crate) struct SavedStack {
    /// The state to which the frames belong; see `probe::STATE`.
    pub(super) state: u64,
    pub frames: Vec<SavedFrame>,
    /// The last exceptions that left calls.
    pub(super) thrown: LastThrown,
    pub(super) beyond: u64,
    /// Bytes that it has taken from [`ACCOUNT`].
    bytes: usize,
}

/// The memory of all saved frames.
static ACCOUNT: Account = Account::new();
/// Overhead of the allocator for each.
const ALLOCATION: usize = 16;

impl SavedStack {
    /// The recording to which the frames belong.
    pub(crate) fn recording(&self) -> u32 {
        recording_of(self.state)
    }

    /// The number of calls in it.
    pub(super) fn calls(&self) -> u64 {
        self.frames.len() as u64 + self.beyond
    }

    /// Creates an empty one with room for this many frames, if there is memory.
    pub(super) fn with_room(frames: u32, state: u64, beyond: u64) -> Option<Self> {
        let bytes = frames as usize * size_of::<SavedFrame>() + ALLOCATION;
        if !ACCOUNT.take(bytes) {
            return None;
        }
        let mut saved =
            Self { state, frames: Vec::new(), thrown: LastThrown::default(), beyond, bytes };
        saved.frames.try_reserve_exact(frames as usize).ok()?;
        Some(saved)
    }
}

impl Drop for SavedStack {
    fn drop(&mut self) {
        ACCOUNT.give(self.bytes);
    }
}
