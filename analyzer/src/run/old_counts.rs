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
    /// Logs of thread dumps.
    pub dump_logs: u64,
    /// Thread dumps that were read.
    pub dumps: u64,
    /// The time between two dumps: the shortest and the longest of all logs.
    pub dump_interval_ns: Option<(u64, u64)>,
}

impl OldCounts {
    /// Adds the counts of other logs.
    pub fn merge(&mut self, other: &Self) {
        self.logs_in_ms = self.logs_in_ms.saturating_add(other.logs_in_ms);
        self.logs_in_ns = self.logs_in_ns.saturating_add(other.logs_in_ns);
        self.calls = self.calls.saturating_add(other.calls);
        self.without_caller = self.without_caller.saturating_add(other.without_caller);
        self.dump_logs = self.dump_logs.saturating_add(other.dump_logs);
        self.dumps = self.dumps.saturating_add(other.dumps);
        self.dump_interval_ns = match (self.dump_interval_ns, other.dump_interval_ns) {
            (Some((low, high)), Some((lowest, highest))) => {
                Some((low.min(lowest), high.max(highest)))
            }
            (one, other) => one.or(other),
        };
    }

    /// Number of logs.
    #[must_use]
    pub fn logs(&self) -> u64 {
        let of_calls = self.logs_in_ms.saturating_add(self.logs_in_ns);
        of_calls.saturating_add(self.dump_logs)
    }
}
