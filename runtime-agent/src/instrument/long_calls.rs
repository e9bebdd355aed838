//! Which calls have been running for long.

use std::time::Duration;

use crate::sys::clock;

/// A call that the shadow stack says is older than this has been running for long.
const LONG: Duration = Duration::from_secs(1);

/// Whether a call that began then has been running for long.
pub(super) fn is_long(began: u64) -> bool {
    has_run_for(began, LONG)
}

pub(super) fn has_run_for(began: u64, length: Duration) -> bool {
    let now = clock::ticks();
    match now.checked_sub(began) {
        Some(ran) => Duration::from_nanos(clock::ticks_to_ns(ran)) >= length,
        // Processors differ by nanoseconds. A call that began much later than now is from before the counter was set
        // back.
        None => Duration::from_nanos(clock::ticks_to_ns(began - now)) >= LONG,
    }
}
