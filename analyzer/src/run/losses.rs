//! What a run's logs lack, by its counters: losses, and recorded calls below a raised threshold.

use std::collections::{BTreeMap, BTreeSet};

use log_format::pattern::Pattern;
use log_format::rows::{CounterRow, EventRow, counter, event};

use crate::options::time_range::TimeRange;

/// What was lost, and what the probes cost, summed over runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// What the log lacks.
    pub log: LogLosses,
    /// Calls that the method statistics lack or count wrongly.
    pub statistics: StatisticsLosses,
    /// What was selected and has no probes.
    pub not_instrumented: NotInstrumented,
    /// Timers of threads that the kernel refused: these threads have no samples.
    pub timers_refused: u64,
    /// What the probes cost.
    pub probe_cost: ProbeCost,
}

/// Rows and recorded calls that the log lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogLosses {
    /// Recorded calls dropped because their thread's ring was full.
    pub recorded_calls_dropped: u64,
    /// Recorded calls dropped to stay within the hour's budget.
    pub recorded_calls_over_budget: u64,
    /// Recorded waits for monitors that were dropped: too many waited for the agent thread, or the hour's budget was
    /// used up.
    pub lock_waits_dropped: u64,
    /// Sampled allocations that were not written.
    pub allocation_samples_dropped: u64,
    /// Traced calls that were not written.
    pub trace_samples_dropped: u64,
    /// Exceptions that are counted in no class, for lack of memory.
    pub exceptions_lost: u64,
    /// Examples of exceptions that were not written.
    pub exception_examples_dropped: u64,
    /// Waits for monitors that are counted nowhere, for lack of memory.
    pub lock_waits_lost: u64,
    /// Seconds in which they were not counted, because there were too many.
    pub lock_seconds_skipped: u64,
    /// Slow SQL statements that were not written.
    pub slow_sql_dropped: u64,
    /// Executions of SQL statements that are counted nowhere, for lack of memory.
    pub sql_lost: u64,
    /// Rows dropped because the disk did not take them for too long.
    pub rows_dropped: u64,
    /// Writes of the log that failed.
    pub io_errors: u64,
    /// Hours that were deleted to keep to the limits of size and age.
    pub deleted_hours: u64,
}

/// Calls that the method statistics lack or count wrongly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatisticsLosses {
    /// Calls missing from the method statistics.
    pub lost_calls: u64,
    /// Calls whose end no probe saw; they count as throws.
    pub unseen_ends: u64,
    /// The most methods muted at a time.
    pub muted_methods: u64,
    /// Calls that were in progress when their method was muted or unmuted.
    pub muted_calls: u64,
    /// Calls that were in progress when their method was throttled or unthrottled.
    pub throttled_calls: u64,
}

/// Methods and classes without probes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotInstrumented {
    /// Selected methods that could not be instrumented.
    pub methods: u64,
    /// Trivial leaves, which are not instrumented by default.
    pub leaves: u64,
    /// Selected classes that could not be read.
    pub classes_unreadable: u64,
}

/// What the probes cost, and the CPU time of the process to compare it with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeCost {
    /// Time that the process spent in probes, an estimate.
    pub probe_ns: u64,
    /// CPU time of the process; 0 if its log does not have it.
    pub cpu_ns: u64,
    /// How long recording was on meanwhile.
    pub recorded_ns: u64,
    /// Time of the probes of a short call, an estimate: the least of all intervals; `None` if no log has it.
    pub probe_call_ns: Option<u64>,
    /// Probe time of the run's first interval of ten seconds, in which methods are throttled.
    pub first_probe_ns: u64,
    /// CPU time of the same interval.
    pub first_cpu_ns: u64,
}

impl Losses {
    /// Adds a row of counters if it lies in `range`. Counters other than losses are ignored.
    pub fn add(&mut self, row: &CounterRow, range: &TimeRange) {
        let Self { log, statistics, not_instrumented, timers_refused, probe_cost } = self;
        if row.name == counter::DELETED_HOURS {
            // The count since the run began, because rows of deleted hours are deleted with them.
            log.deleted_hours = log.deleted_hours.max(row.value);
            return;
        }
        if row.name == counter::MUTED_METHODS && range.contains(row.start_ns) {
            statistics.muted_methods = statistics.muted_methods.max(row.value);
            return;
        }
        if row.name == counter::PROBE_CALL_NS && range.contains(row.start_ns) {
            probe_cost.add_probe_call(Some(row.value));
            return;
        }
        let (sum, holds_for_run) = match row.name.as_str() {
            counter::RECORDED_CALLS_DROPPED => (&mut log.recorded_calls_dropped, false),
            counter::LOST_CALLS => (&mut statistics.lost_calls, false),
            counter::UNSEEN_ENDS => (&mut statistics.unseen_ends, false),
            counter::IO_ERRORS => (&mut log.io_errors, false),
            counter::ROWS_DROPPED => (&mut log.rows_dropped, false),
            counter::RECORDED_CALLS_OVER_BUDGET => (&mut log.recorded_calls_over_budget, false),
            counter::ALLOCATION_SAMPLES_DROPPED => (&mut log.allocation_samples_dropped, false),
            counter::TRACE_SAMPLES_DROPPED => (&mut log.trace_samples_dropped, false),
            counter::EXCEPTIONS_LOST => (&mut log.exceptions_lost, false),
            counter::EXCEPTION_EXAMPLES_DROPPED => (&mut log.exception_examples_dropped, false),
            counter::LOCK_WAITS_DROPPED => (&mut log.lock_waits_dropped, false),
            counter::LOCK_WAITS_LOST => (&mut log.lock_waits_lost, false),
            counter::LOCK_SECONDS_SKIPPED => (&mut log.lock_seconds_skipped, false),
            counter::SLOW_SQL_DROPPED => (&mut log.slow_sql_dropped, false),
            counter::SQL_LOST => (&mut log.sql_lost, false),
            counter::MUTED_CALLS => (&mut statistics.muted_calls, false),
            counter::THROTTLED_CALLS => (&mut statistics.throttled_calls, false),
            counter::PROBE_NS => (&mut probe_cost.probe_ns, false),
            counter::CPU_NS => (&mut probe_cost.cpu_ns, false),
            counter::RECORDED_NS => (&mut probe_cost.recorded_ns, false),
            // A thread without a timer stays so until it ends.
            counter::TIMERS_REFUSED => (timers_refused, true),
            // A method that was not instrumented stays so, whichever hours are selected.
            counter::NOT_INSTRUMENTED => (&mut not_instrumented.methods, true),
            counter::LEAVES => (&mut not_instrumented.leaves, true),
            counter::UNREADABLE => (&mut not_instrumented.classes_unreadable, true),
            _ => return,
        };
        if holds_for_run || range.contains(row.start_ns) {
            *sum = sum.saturating_add(row.value);
        }
    }

    /// Adds the losses of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.log.merge(&other.log);
        self.statistics.merge(&other.statistics);
        self.not_instrumented.merge(&other.not_instrumented);
        add_all([(&mut self.timers_refused, other.timers_refused)]);
        self.probe_cost.merge(&other.probe_cost);
    }
}

impl LogLosses {
    /// Whether every recorded call is in the log.
    #[must_use]
    pub fn has_all_recorded_calls(&self) -> bool {
        [self.recorded_calls_dropped, self.recorded_calls_over_budget, self.rows_dropped] == [0; 3]
    }

    fn merge(&mut self, other: &Self) {
        add_all([
            (&mut self.recorded_calls_dropped, other.recorded_calls_dropped),
            (&mut self.recorded_calls_over_budget, other.recorded_calls_over_budget),
            (&mut self.lock_waits_dropped, other.lock_waits_dropped),
            (&mut self.allocation_samples_dropped, other.allocation_samples_dropped),
            (&mut self.trace_samples_dropped, other.trace_samples_dropped),
            (&mut self.exceptions_lost, other.exceptions_lost),
            (&mut self.exception_examples_dropped, other.exception_examples_dropped),
            (&mut self.lock_waits_lost, other.lock_waits_lost),
            (&mut self.lock_seconds_skipped, other.lock_seconds_skipped),
            (&mut self.slow_sql_dropped, other.slow_sql_dropped),
            (&mut self.sql_lost, other.sql_lost),
            (&mut self.rows_dropped, other.rows_dropped),
            (&mut self.io_errors, other.io_errors),
            (&mut self.deleted_hours, other.deleted_hours),
        ]);
    }
}

impl StatisticsLosses {
    fn merge(&mut self, other: &Self) {
        add_all([
            (&mut self.lost_calls, other.lost_calls),
            (&mut self.unseen_ends, other.unseen_ends),
            (&mut self.muted_methods, other.muted_methods),
            (&mut self.muted_calls, other.muted_calls),
            (&mut self.throttled_calls, other.throttled_calls),
        ]);
    }
}

impl NotInstrumented {
    fn merge(&mut self, other: &Self) {
        add_all([
            (&mut self.methods, other.methods),
            (&mut self.leaves, other.leaves),
            (&mut self.classes_unreadable, other.classes_unreadable),
        ]);
    }
}

impl ProbeCost {
    fn add_probe_call(&mut self, ns: Option<u64>) {
        self.probe_call_ns = self.probe_call_ns.into_iter().chain(ns).min();
    }

    /// Adds a row of counters of the run's first interval, in addition to [`Losses::add`].
    pub fn add_first(&mut self, row: &CounterRow) {
        let sum = match row.name.as_str() {
            counter::PROBE_NS => &mut self.first_probe_ns,
            counter::CPU_NS => &mut self.first_cpu_ns,
            _ => return,
        };
        *sum = sum.saturating_add(row.value);
    }

    /// Adds the cost of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.add_probe_call(other.probe_call_ns);
        add_all([
            (&mut self.probe_ns, other.probe_ns),
            (&mut self.cpu_ns, other.cpu_ns),
            (&mut self.recorded_ns, other.recorded_ns),
            (&mut self.first_probe_ns, other.first_probe_ns),
            (&mut self.first_cpu_ns, other.first_cpu_ns),
        ]);
    }
}

/// Adds to each sum.
fn add_all<const N: usize>(sums: [(&mut u64, u64); N]) {
    for (sum, more) in sums {
        *sum = sum.saturating_add(more);
    }
}

/// The thresholds of a run over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thresholds {
    /// Every configured threshold of all methods.
    asked_ns: BTreeSet<u64>,
    /// Every threshold of some methods, by their pattern.
    own_ns: BTreeMap<String, BTreeSet<u64>>,
    /// When thresholds were raised, and to what; both in nanoseconds. 0 means back to the configured threshold.
    changes: Vec<(u64, u64)>,
}

/// A time in which no call below a raised threshold was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raised {
    /// When it was raised, in unix nanoseconds.
    pub from_ns: u64,
    /// When it was back at the configured value; `None` if that is not in the log.
    pub to_ns: Option<u64>,
    /// The highest threshold in between.
    pub highest_ns: u64,
}

impl Thresholds {
    /// Adds a row of counters if it is a threshold. Rows that only repeat a threshold take no memory.
    pub fn add(&mut self, row: &CounterRow) {
        if row.name == counter::THRESHOLD_NS {
            self.asked_ns.insert(row.value);
        }
        let is_change = self.changes.last().is_none_or(|(_, ns)| *ns != row.value);
        if row.name == counter::RAISED_TO_NS && is_change {
            self.changes.push((row.start_ns, row.value));
        }
    }

    /// Adds an event if it sets a threshold for some methods.
    pub fn add_event(&mut self, row: &EventRow) {
        if row.event == event::THRESHOLD {
            self.own_ns.entry(row.pattern.clone()).or_default().extend(row.threshold_ns);
        }
    }

    /// Forgets thresholds of patterns that name no method: no call is below them.
    pub fn keep_own(&mut self, names_some: impl Fn(&Pattern) -> bool) {
        self.own_ns.retain(|pattern, _| Pattern::parse(pattern).is_ok_and(|own| names_some(&own)));
    }

    /// The lowest configured threshold. `None` if the log has none.
    #[must_use]
    pub fn lowest_ns(&self) -> Option<u64> {
        self.all_ns().min()
    }

    /// Every configured threshold, of any method and at any time.
    pub fn all_ns(&self) -> impl Iterator<Item = u64> + '_ {
        self.asked_ns.iter().chain(self.own_ns.values().flatten()).copied()
    }

    /// The times in `range` in which thresholds were raised.
    #[must_use]
    pub fn raised(&self, range: &TimeRange) -> Vec<Raised> {
        let mut changes = self.changes.clone();
        changes.sort_by_key(|(at_ns, _)| *at_ns);
        let mut times: Vec<Raised> = Vec::new();
        for (at_ns, threshold_ns) in changes {
            match times.last_mut().filter(|time| time.to_ns.is_none()) {
                Some(time) if threshold_ns == 0 => time.to_ns = Some(at_ns),
                Some(time) => time.highest_ns = time.highest_ns.max(threshold_ns),
                None if threshold_ns == 0 => {}
                None => {
                    times.push(Raised { from_ns: at_ns, to_ns: None, highest_ns: threshold_ns })
                }
            }
        }
        times.retain(|time| range.overlaps(time.from_ns, time.to_ns));
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(start_ns: u64, name: &str, value: u64) -> CounterRow {
        CounterRow { start_ns, name: name.into(), value }
    }

    #[test]
    fn losses_count_in_their_range_and_missing_probes_always() {
        let range = TimeRange { from_ns: Some(10), to_ns: None };
        let mut losses = Losses::default();
        for name in [
            counter::RECORDED_CALLS_DROPPED,
            counter::NOT_INSTRUMENTED,
            counter::RECORDED_CALLS,
            "new_in_v9",
        ] {
            losses.add(&row(9, name, 1), &range);
            losses.add(&row(10, name, 20), &range);
        }
        let expected = Losses {
            log: LogLosses { recorded_calls_dropped: 20, ..LogLosses::default() },
            not_instrumented: NotInstrumented { methods: 21, ..NotInstrumented::default() },
            ..Losses::default()
        };
        assert_eq!(losses, expected);
    }

    #[test]
    fn deleted_hours_are_a_count_of_the_run() {
        let range = TimeRange { from_ns: Some(10), to_ns: None };
        let mut losses = Losses::default();
        for (at, hours) in [(5, 1), (20, 3), (30, 3)] {
            losses.add(&row(at, counter::DELETED_HOURS, hours), &range);
            losses.add(&row(at, counter::RECORDED_CALLS_OVER_BUDGET, 10), &range);
        }
        assert_eq!((losses.log.deleted_hours, losses.log.recorded_calls_over_budget), (3, 20));
        losses.merge(&losses.clone());
        assert_eq!(losses.log.deleted_hours, 6);
    }

    #[test]
    fn raised_thresholds_are_reported_with_their_times() {
        let mut thresholds = Thresholds::default();
        for (at, ns) in [(0, 0), (10, 0), (20, 2), (30, 4), (40, 0), (50, 0), (60, 8), (70, 8)] {
            thresholds.add(&row(at, counter::THRESHOLD_NS, 3));
            let pattern = "com.shop".into();
            let own =
                EventRow { threshold_ns: Some(2), pattern, ..EventRow::new(at, event::THRESHOLD) };
            thresholds.add_event(&own);
            thresholds.add(&row(at, counter::RAISED_TO_NS, ns));
            thresholds.add(&row(at, counter::BYTES, 99));
        }
        assert_eq!(thresholds.lowest_ns(), Some(2));
        thresholds.keep_own(|_| true);
        assert_eq!(thresholds.lowest_ns(), Some(2));
        let first = Raised { from_ns: 20, to_ns: Some(40), highest_ns: 4 };
        let second = Raised { from_ns: 60, to_ns: None, highest_ns: 8 };
        assert_eq!(thresholds.raised(&TimeRange::default()), [first.clone(), second.clone()]);
        let late = TimeRange { from_ns: Some(40), to_ns: None };
        assert_eq!(thresholds.raised(&late), [second]);
        let early = TimeRange { from_ns: None, to_ns: Some(60) };
        assert_eq!(thresholds.raised(&early), [first]);
        thresholds.keep_own(|_| false);
        assert_eq!(thresholds.lowest_ns(), Some(3));
    }
}
