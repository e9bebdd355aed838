//! What the end of a run's files lacks: the JVM was killed, or a file was cut.

use crate::run::read_counts::Counts;
use crate::run::recorded_time::RecordedTime;
use crate::run::selection::Selection;

/// Method statistics are written when their interval ends, recorded calls every second. Up to this long after the last
/// statistics is normal for recorded calls.
const NORMAL_NS: u64 = 2_000_000_000;

/// What a run lacks at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CutShort {
    /// When the last method statistics and the last recorded call ended, in unix nanoseconds, if they are apart and the
    /// figures are those of the statistics.
    pub statistics_end: Option<(u64, u64)>,
    /// Recorded calls that were written and are not there.
    pub recorded_calls: u64,
    /// Intervals with method statistics and without counters.
    pub without_counters: u64,
}

impl CutShort {
    /// Finds it, if the whole time of a whole run is selected. By the counters, `written` calls were recorded.
    /// `has_all_tables`: the agent wrote the log, which leaves out none.
    pub fn of(
        counts: &Counts,
        recorded: &RecordedTime,
        (written, has_all_tables): (u64, bool),
        selection: &Selection,
    ) -> Self {
        if !selection.range.is_everything() {
            return Self::default();
        }
        let statistics_end = recorded.statistics_end_ns().zip(counts.last_call_ns);
        Self {
            statistics_end: statistics_end
                .filter(|(end_ns, last_ns)| *last_ns > end_ns.saturating_add(NORMAL_NS))
                .filter(|_| !selection.counts_records()),
            recorded_calls: written.saturating_sub(counts.records),
            without_counters: if has_all_tables { recorded.without_counters() } else { 0 },
        }
    }

    /// Whether nothing is missing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What a run lacks at its end.
#[derive(Debug, PartialEq, Eq)]
pub struct CutInRun {
    /// Label of the run.
    pub run: String,
    /// What it lacks.
    pub cut: CutShort,
}
