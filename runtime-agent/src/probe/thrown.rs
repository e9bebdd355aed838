//! Which exception leaves a call.

/// An exception that leaves a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Thrown {
    /// The identity hash of its class, below 2^31.
    pub class: u32,
    /// Its own: its address would change with each garbage collection.
    pub exception: u32,
}

/// The last exception that left a call of a thread, and when.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastThrown {
    thrown: Thrown,
    at: u64,
}

impl LastThrown {
    pub(super) const fn new(thrown: Thrown, at: u64) -> Self {
        Self { thrown, at }
    }

    /// Whether an exception that now leaves a call which began then left no callee before. It did if it is the last
    /// one, and that left a call while this call was in progress: the same object may be thrown again later.
    #[inline(always)]
    pub(super) fn is_before(self, thrown: Thrown, start_ticks: u64) -> bool {
        self.thrown != thrown || self.at <= start_ticks
    }
}
