//! Which virtual thread the calling thread runs.

use std::cell::Cell;

use log_format::ids::JavaThreadId;

use super::recording::attachment;

thread_local! {
    /// The number of the virtual thread that this carrier runs, or 0, and the attachment in which that was set.
    static MOUNTED: Cell<(u32, JavaThreadId)> = const { Cell::new((0, JavaThreadId::NONE)) };
}

/// The number of the virtual thread that the calling thread runs, or 0.
pub(super) fn mounted() -> JavaThreadId {
    let (mounted_in, number) = MOUNTED.get();
    if mounted_in == attachment() { number } else { JavaThreadId::NONE }
}

/// Sets the number of the virtual thread that the calling thread runs from now on, or 0 for none.
pub(super) fn set_mounted(number: JavaThreadId) {
    MOUNTED.set((attachment(), number));
}
