//! Which virtual thread the calling thread runs.

use std::cell::Cell;

use super::recording::attachment;

thread_local! {
    /// The number of the virtual thread that this carrier runs, or 0, and the attachment in which that was set.
    static MOUNTED: Cell<(u32, u64)> = const { Cell::new((0, 0)) };
}

/// The number of the virtual thread that the calling thread runs, or 0.
pub(super) fn mounted() -> u64 {
    let (mounted_in, number) = MOUNTED.get();
    if mounted_in == attachment() { number } else { 0 }
}

/// Sets the number of the virtual thread that the calling thread runs from now on, or 0 for none.
pub(super) fn set_mounted(number: u64) {
    MOUNTED.set((attachment(), number));
}
