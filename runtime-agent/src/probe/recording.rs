//! Whether recording is on, as every probe checks it.
//!
//! Orderings of [`STATE`] and of the guard in Java in front of it:
//!
//! - A change of `STATE` releases what was set before: marks of muted and traced methods, thresholds. A probe compares
//!   it relaxed, because on most calls it is unchanged and nothing follows from it. If it differs, the probe loads it
//!   again, acquiring, before it looks at any of these. A change seen late is a call that began before it.
//! - The guard's `on` is volatile, and set after `STATE` at a start, before it at a stop. Passing it proves nothing:
//!   `start` and `end` look at `STATE`.
//! - The guard's array of muted methods is set after the marks and `STATE`, behind a release fence
//!   (`ProbeClass::set_muted`). Java reads it plainly: its elements depend on its address. A thread may see the array
//!   first and `STATE` late, so `mute::concerns` acquires what the array's reader saw.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Low half: the recording's number, odd while on, even while off; each start and stop adds one. High half: how often
/// methods were muted or unmuted. So one comparison tells a thread that its frames are of an earlier recording, or that
/// some must be dropped.
pub(super) static STATE: AtomicU64 = AtomicU64::new(0);

/// Added to [`STATE`] each time methods are muted or unmuted.
pub(super) const ONE_MUTING: u64 = 1 << 32;

/// The recording in a [`STATE`].
#[allow(clippy::cast_possible_truncation)]
pub(super) const fn recording_of(state: u64) -> u32 {
    state as u32
}

/// Whether recording has ended for good, after an error of the agent.
static GAVE_UP: AtomicBool = AtomicBool::new(false);

/// Begins a recording; `false` if one is in progress, or recording has ended for good.
pub(crate) fn begin_recording() -> bool {
    !gave_up() && change_recording(0)
}

/// Ends recording for good.
pub(crate) fn give_up() {
    GAVE_UP.store(true, Ordering::Release);
    end_recording();
}

/// Whether [`give_up`] was called.
pub(crate) fn gave_up() -> bool {
    GAVE_UP.load(Ordering::Acquire)
}

/// Runs a part of a probe that is not on the common path. A panic would be a bug of the agent, and must not end the
/// service.
pub(super) fn guarded<R>(work: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => Some(result),
        Err(_) => {
            give_up();
            None
        }
    }
}

/// Ends the recording; `false` if none is in progress.
pub(crate) fn end_recording() -> bool {
    change_recording(1)
}

fn change_recording(from_parity: u32) -> bool {
    let next = |state: u64| {
        let recording = recording_of(state);
        let mutings = state - u64::from(recording);
        (recording & 1 == from_parity).then(|| mutings | u64::from(recording.wrapping_add(1)))
    };
    STATE.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok()
}

/// The number of the current recording, or of the last one.
pub(crate) fn recording() -> u32 {
    recording_of(STATE.load(Ordering::Acquire))
}

pub(crate) fn is_recording() -> bool {
    recording() & 1 == 1
}

/// The number of detaches.
static ATTACHMENT: AtomicU32 = AtomicU32::new(0);

/// The number of the current attachment, or of the next one.
pub(crate) fn attachment() -> u32 {
    ATTACHMENT.load(Ordering::Acquire)
}

/// Ends the attachment; another may follow.
pub(super) fn end_attachment() {
    ATTACHMENT.fetch_add(1, Ordering::AcqRel);
}
