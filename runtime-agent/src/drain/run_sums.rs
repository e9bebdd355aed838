//! Sums since the run began.

/// Sums since the run began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    pub calls: CallSums,
    /// How long recording was on, up to when it was last switched off.
    pub recorded_ns: u64,
    /// What the profiler cost, and the process's CPU time.
    pub probe_ns: u64,
    pub cpu_ns: u64,
    /// Not a sum: the cost of one call's probes in a loop, an estimate in nanoseconds; 0 until it is known.
    pub probe_call_ns: u64,
}

/// Calls since the run began, and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallSums {
    /// Calls that ended.
    pub ended: u64,
    /// Rows written to calls.csv.
    pub recorded: u64,
    /// Recorded calls lost to a full buffer.
    pub recorded_dropped: u64,
    /// Calls over the threshold that were not recorded, to stay within the hour's log budget.
    pub recorded_over_budget: u64,
    pub unseen_ends: u64,
    /// Calls lost for lack of memory.
    pub lost: u64,
}

/// CPU samples of a period, in nanoseconds: in probes, and all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SampledProbes {
    pub probes_ns: u64,
    pub all_ns: u64,
}

impl SampledProbes {
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            probes_ns: self.probes_ns.saturating_sub(before.probes_ns),
            all_ns: self.all_ns.saturating_sub(before.all_ns),
        }
    }
}
