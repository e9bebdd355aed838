//! Reads calls in progress from outside their threads' shadow stacks.
//!
//! The thread keeps running while its stack is read, and nobody waits for it. If two readings agree, the stack was like
//! that in between.

use log_format::ids::MethodId;

use super::mute;
use super::saved_frames::{SavedFrame, SavedStack};
use super::stack::Frame;
use super::thread::ProbeThread;

/// How long after the first reading the second one follows: longer than a probe takes.
pub(crate) const BETWEEN_READINGS: std::time::Duration = std::time::Duration::from_micros(200);

/// A call in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenFrame {
    pub method: MethodId,
    pub start_ticks: u64,
    pub callee_ticks: u64,
}

impl OpenFrame {
    fn of_saved(frame: &SavedFrame) -> Self {
        Self {
            method: frame.method(),
            start_ticks: frame.start_ticks,
            callee_ticks: frame.callee_ticks,
        }
    }

    /// The frames of a thread that is not running, outermost first.
    pub(crate) fn all_of(saved: &SavedStack) -> Vec<Self> {
        saved.frames.iter().map(Self::of_saved).collect()
    }
}

/// The thread's current frames, outermost first; none if they belong to another recording.
pub(crate) fn read_frames(thread: &ProbeThread, recording: u32) -> Vec<OpenFrame> {
    let stack = &thread.stack;
    if stack.recording() != recording {
        return Vec::new();
    }
    let open = |frame: &Frame| OpenFrame {
        method: frame.method(),
        start_ticks: frame.start_ticks(),
        callee_ticks: frame.callee_ticks(),
    };
    // Pages just given back to the kernel read as zeros, and no method has the id 0.
    stack.look().map(open).take_while(|frame| !frame.method.is_none()).collect()
}

/// The frames of a recording that has ended. A probe that began before its end may still change them: it takes less
/// than a microsecond, but its thread may be off the processor.
pub(crate) fn frames_when_ended(thread: &ProbeThread, recording: u32) -> Vec<OpenFrame> {
    let mut last = read_frames(thread, recording);
    for _ in 0..if last.is_empty() || thread.has_ended() { 0 } else { 20 } {
        std::thread::sleep(BETWEEN_READINGS);
        let again = read_frames(thread, recording);
        if again == last {
            break;
        }
        last = again;
    }
    without_dropped(last)
}

/// Removes the frames that their thread will drop at its next probe because their methods were muted or unmuted.
pub(crate) fn without_dropped(frames: Vec<OpenFrame>) -> Vec<OpenFrame> {
    let mut kept: Vec<OpenFrame> = Vec::with_capacity(frames.len());
    for frame in frames {
        if !mute::concerns(frame.method, frame.start_ticks) {
            kept.push(frame);
        } else if let Some(caller) = kept.last_mut() {
            caller.callee_ticks = caller.callee_ticks.saturating_add(frame.callee_ticks);
        }
    }
    kept
}
