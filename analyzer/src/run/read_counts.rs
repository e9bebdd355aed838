//! How much of a run was read.

use std::collections::BTreeSet;

use log_format::file_names::Hour;

use crate::run::old_counts::OldCounts;

/// How much was read, and how much of it was not selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows of `calls.csv`.
    pub records: u64,
    /// When the last call ended of those, in unix nanoseconds.
    pub last_call_ns: Option<u64>,
    /// Rows of `stats.csv`.
    pub stats_rows: u64,
    /// Rows of the table that the report is made from which lie in the selected time.
    pub rows_in_range: u64,
    /// Recorded calls without a call path, where calls are grouped by thread.
    pub records_without_path: u64,
    /// Methods without a name in their run.
    pub unknown_methods: u64,
    /// The hours of the files read.
    pub hours: BTreeSet<Hour>,
    /// Counts of TProfiler's own logs.
    pub tprofiler: OldCounts,
}

impl Counts {
    /// Adds the counts of another run.
    pub fn merge(&mut self, other: &Self) {
        self.records = self.records.saturating_add(other.records);
        self.last_call_ns = self.last_call_ns.max(other.last_call_ns);
        self.stats_rows = self.stats_rows.saturating_add(other.stats_rows);
        self.rows_in_range = self.rows_in_range.saturating_add(other.rows_in_range);
        self.records_without_path =
            self.records_without_path.saturating_add(other.records_without_path);
        self.unknown_methods = self.unknown_methods.saturating_add(other.unknown_methods);
        self.hours.extend(&other.hours);
        self.tprofiler.merge(&other.tprofiler);
    }
}
