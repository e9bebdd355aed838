//! How many of a stack's outermost frames are no endpoint of a task: thousands of calls of a recursion may end one
//! after the other, and each would search the same frames.

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Searched {
    /// The number of the set of methods that were searched for.
    pub set: u32,
    pub frames: u32,
    /// When the last of them began: while it is there, so are all below.
    pub start_ticks: u64,
}
