//! Sums since the run began.

/// Sums since the run began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    /// Calls that ended.
    pub calls: u64,
    /// Rows written to calls.csv.
    pub records: u64,
    pub recorded_calls_dropped: u64,
    /// Calls over the threshold that were not recorded, to stay within the hour's log budget.
    pub recorded_calls_over_budget: u64,
    pub unseen_ends: u64,
    pub lost_calls: u64,
    /// How long recording was on, up to when it was last switched off.
    pub recorded_ns: u64,
    /// What the profiler cost, and the process's CPU time.
    pub probe_ns: u64,
    pub cpu_ns: u64,
    /// Not a sum: the cost of one call's probes in a loop, an estimate in nanoseconds; 0 until it is known.
    pub probe_call_ns: u64,
}
