//! Whether recording goes on, as every probe asks it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// In the low half, which recording is going on: odd while on, even while off; each start and stop adds
/// one. In the high half, how often methods were muted or unmuted. So with one comparison a thread
/// notices that its frames are of an earlier recording, or that some are to be dropped.
pub(super) static STATE: AtomicU64 = AtomicU64::new(0);

/// One more time that methods were muted or unmuted.
pub(super) const ONE_MUTING: u64 = 1 << 32;

/// The recording in a [`STATE`].
#[allow(clippy::cast_possible_truncation)]
pub(super) const fn recording_of(state: u64) -> u32 {
    state as u32
}

/// Recording has ended for good, after an error of ours.
static GAVE_UP: AtomicBool = AtomicBool::new(false);

/// Begins a recording; `false` if one is going on, or none may begin any more.
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

/// Runs a part of a probe that is not on the common path. A panic, which would be a fault of ours,
/// must not end the service.
pub(super) fn guarded<R>(work: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => Some(result),
        Err(_) => {
            give_up();
            None
        }
    }
}

/// Ends the recording; `false` if none is going on.
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

/// The number of the recording that is going on or went on last.
pub(crate) fn recording() -> u32 {
    recording_of(STATE.load(Ordering::Acquire))
}

pub(crate) fn is_recording() -> bool {
    recording() & 1 == 1
}

/// Each detach adds one.
static ATTACHMENT: AtomicU32 = AtomicU32::new(0);

/// The number of the attachment that is under way or comes next.
pub(crate) fn attachment() -> u32 {
    ATTACHMENT.load(Ordering::Acquire)
}

/// The attachment is over; another may come.
pub(super) fn end_attachment() {
    ATTACHMENT.fetch_add(1, Ordering::AcqRel);
}
