//! Counts of what was read of TProfiler's own logs.

/// What was read of TProfiler's logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OldCounts {
    /// Logs with times in milliseconds.
    pub logs_in_ms: u64,
    /// Logs with times in nanoseconds.
    pub logs_in_ns: u64,
    /// Rows.
    pub calls: u64,
    /// Rows whose caller has no row.
    pub without_caller: u64,
}

impl OldCounts {
    /// Adds the counts of other logs.
    pub fn merge(&mut self, other: &Self) {
        self.logs_in_ms = self.logs_in_ms.saturating_add(other.logs_in_ms);
        self.logs_in_ns = self.logs_in_ns.saturating_add(other.logs_in_ns);
        self.calls = self.calls.saturating_add(other.calls);
        self.without_caller = self.without_caller.saturating_add(other.without_caller);
    }

    /// Number of logs.
    #[must_use]
    pub fn logs(&self) -> u64 {
        self.logs_in_ms.saturating_add(self.logs_in_ns)
    }
}
