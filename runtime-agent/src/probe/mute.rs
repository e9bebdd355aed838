//! Methods that are muted, as the probe sees them where the guard in Java is not enough.
//!
//! The guard keeps the calls of a muted method from the probe. What it cannot do is to end those that
//! are in progress at that moment: they would stay on their thread's stack, and be taken for callers of
//! what comes next, or for calls that an exception left. So each time that methods are muted or unmuted,
//! every thread looks through its stack at its next probe, and drops the calls that this concerns:
//! those of methods that are muted, and those that began before their method was muted or unmuted last.
//!
//! To mute, a method is first marked here, then the guard is closed; to unmute, the guard is opened
//! first. Each step ends with [`tell`]. So a call whose end the guard hides is dropped whichever of the
//! two its thread saw first.

use std::sync::atomic::{AtomicU64, Ordering};

use super::recording::{ONE_MUTING, STATE};
use super::stack::Frame;
use super::thread::ProbeThread;
use super::thread::totals_of;
use crate::sys::memory::two_level::TwoLevel;

/// When each method was muted or unmuted last, in ticks, with [`MUTED`] and [`BY_AGENT`] in the last bits;
/// 0 if it never was. It has room for four million methods.
static CHANGES: TwoLevel<AtomicU64, 8_192> = TwoLevel::new();
/// Calls that were dropped, by [`Cause`].
static DROPPED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

const MUTED: u64 = 1;
const BY_AGENT: u64 = 2;

/// Who muted or unmuted a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The user, by a pattern.
    User,
    /// The agent: the overhead budget throttled it or measures it again, or it has probes of an earlier attachment.
    Agent,
}

fn change(method: u32) -> Option<&'static AtomicU64> {
    CHANGES.get(method)
}

/// Marks a method as muted or unmuted from `now` on, in ticks. `false` if that cannot be done: its id
/// is too high, or there is no memory.
pub(crate) fn set(method: u32, is_muted: bool, cause: Cause, now: u64) -> bool {
    let Some(change) = CHANGES.get_or_make(method) else { return false };
    let by = if cause == Cause::Agent { BY_AGENT } else { 0 };
    change.store(now & !(MUTED | BY_AGENT) | by | u64::from(is_muted), Ordering::Relaxed);
    true
}

/// Has every thread look at its stack: what was marked, and what the guard in Java was told, is done.
pub(crate) fn tell() {
    STATE.fetch_add(ONE_MUTING, Ordering::SeqCst);
}

/// Whether the method is muted.
pub(crate) fn is_muted(method: u32) -> bool {
    change(method).is_some_and(|change| change.load(Ordering::Relaxed) & MUTED != 0)
}

/// Whether a call of this method that began at `start_ticks` is to be dropped.
pub(crate) fn concerns(method: u32, start_ticks: u64) -> bool {
    let change = change(method).map_or(0, |change| change.load(Ordering::Relaxed));
    change & MUTED != 0 || change != 0 && start_ticks <= change
}

/// Takes the calls off the stack whose methods were muted or unmuted since they began, wherever they
/// stand on it, and has the stack be that of `state`. Their own time is their caller's.
#[cold]
pub(super) fn drop_frames(thread: &ProbeThread, state: u64) {
    let stack = &thread.stack;
    // Where calls have no frames, frames must stay where they are until those calls have ended.
    if stack.beyond() > 0 {
        return;
    }
    let mut kept = 0;
    for index in 0..stack.depth() {
        let frame = stack.frame(index);
        if concerns(frame.method(), frame.start_ticks()) {
            drop_frame(thread, frame, kept);
        } else {
            if kept < index {
                stack.move_frame(index, kept);
            }
            kept += 1;
        }
    }
    stack.pop_to(kept);
    stack.set_state(state);
}

/// Counts a frame as dropped. `depth` frames stay below it.
pub(super) fn drop_frame(thread: &ProbeThread, frame: &Frame, depth: u32) {
    let by = change(frame.method()).map_or(0, |change| change.load(Ordering::Relaxed));
    let cause = if by & BY_AGENT != 0 { Cause::Agent } else { Cause::User };
    dropped(cause).fetch_add(1, Ordering::Relaxed);
    totals_of(thread, frame).leave();
    if let Some(caller) = depth.checked_sub(1) {
        thread.stack.frame(caller).add_callee_ticks(frame.callee_ticks());
    }
}

/// Calls that were in progress when their method was muted or unmuted for this cause.
pub(crate) fn dropped_calls(cause: Cause) -> u64 {
    dropped(cause).load(Ordering::Relaxed)
}

fn dropped(cause: Cause) -> &'static AtomicU64 {
    let [user, agent] = &DROPPED;
    match cause {
        Cause::User => user,
        Cause::Agent => agent,
    }
}

/// No method is muted, and none ever was. Recording must be off.
pub(crate) fn forget() {
    CHANGES.forget();
    for dropped in &DROPPED {
        dropped.store(0, Ordering::Relaxed);
    }
}
