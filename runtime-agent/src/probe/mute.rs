//! Muted methods, as the probe sees them, where the guard in Java is not enough.
//!
//! The guard keeps the calls of a muted method from the probe, but cannot end calls in progress. Those would stay on
//! their thread's stack, and be taken for callers of later calls, or for calls that an exception left. So each time
//! methods are muted or unmuted, every thread checks its stack at its next probe. It drops calls of muted methods, and
//! calls that began before their method was last muted or unmuted.
//!
//! To mute a method, mark it here first, then close the guard. To unmute it, open the guard first. Each step ends with
//! [`tell`]. So a call whose end the guard hides is dropped, whichever of the two its thread saw first.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::own::Own;
use super::recording::{ONE_MUTING, STATE};
use super::stack::Frame;
use super::thread::OwnThread;
use log_format::ids::MethodId;

use crate::sys::memory::two_level::TwoLevel;

/// When each method was last muted or unmuted, in ticks, with [`MUTED`] and [`BY_AGENT`] in the low bits; 0 if never.
/// It has room for four million methods.
static CHANGES: TwoLevel<AtomicU64, 8_192> = TwoLevel::new();
/// Dropped calls, by [`Cause`].
static DROPPED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

const MUTED: u64 = 1;
const BY_AGENT: u64 = 2;

/// Who muted or unmuted a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The user, by a pattern.
    User,
    /// The agent: the overhead budget throttled or resumed it, or its probes are from an earlier attachment.
    Agent,
}

fn change(method: MethodId) -> Option<&'static AtomicU64> {
    CHANGES.get(method.get())
}

/// Marks a method as muted or unmuted from `now` on, in ticks. `false` if its id is too high, or there is no memory.
pub(crate) fn set(method: MethodId, is_muted: bool, cause: Cause, now: u64) -> bool {
    let Some(change) = CHANGES.get_or_make(method.get()) else { return false };
    let by = if cause == Cause::Agent { BY_AGENT } else { 0 };
    change.store(now & !(MUTED | BY_AGENT) | by | u64::from(is_muted), Ordering::Relaxed);
    true
}

/// Makes every thread check its stack for muted methods, and find out again which methods are traced. What it finds and
/// the guard in Java must already be set.
pub(crate) fn tell() {
    STATE.fetch_add(ONE_MUTING, Ordering::SeqCst);
}

/// Whether the method is muted.
pub(crate) fn is_muted(method: MethodId) -> bool {
    change(method).is_some_and(|change| change.load(Ordering::Relaxed) & MUTED != 0)
}

/// Whether to drop a call of this method that began at `start_ticks`.
pub(crate) fn concerns(method: MethodId, start_ticks: u64) -> bool {
    // If the guard hid an end from this thread, the mark that was set before the guard closed is visible here.
    fence(Ordering::Acquire);
    let change = change(method).map_or(0, |change| change.load(Ordering::Relaxed));
    change & MUTED != 0 || change != 0 && start_ticks <= change
}

/// Removes from the stack, at any depth, the calls whose methods were muted or unmuted since they began, marks what is
/// traced, and marks the stack as checked for `state`. The self time of the removed calls goes to their callers.
#[cold]
pub(super) fn drop_frames(own: OwnThread<'_>, state: u64) {
    let stack = own.stack();
    // While calls beyond the last frame run, frames must not move.
    if stack.beyond() > 0 {
        return;
    }
    let mut kept = 0;
    for index in 0..stack.depth() {
        let frame = stack.frame(index);
        if concerns(frame.method(), frame.start_ticks()) {
            drop_frame(own, frame, kept);
        } else {
            if kept < index {
                stack.move_frame(index, kept);
            }
            kept += 1;
        }
    }
    stack.pop_to(kept);
    own.mark_traced();
    stack.set_state(state);
}

/// Counts a frame as dropped. `depth` frames remain below it.
pub(super) fn drop_frame<'t>(own: OwnThread<'t>, frame: Own<'t, Frame>, depth: u32) {
    let by = change(frame.method()).map_or(0, |change| change.load(Ordering::Relaxed));
    let cause = if by & BY_AGENT != 0 { Cause::Agent } else { Cause::User };
    dropped(cause).fetch_add(1, Ordering::Relaxed);
    own.totals_of(frame).leave();
    if let Some(caller) = depth.checked_sub(1) {
        own.stack().frame(caller).add_callee_ticks(frame.callee_ticks());
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

/// Forgets all mutes and counts. Recording must be off.
pub(crate) fn forget() {
    CHANGES.forget();
    for dropped in &DROPPED {
        dropped.store(0, Ordering::Relaxed);
    }
}
