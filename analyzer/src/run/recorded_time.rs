//! How long a run recorded, by its logs: the divisor of figures per hour.
//!
//! The agent writes how long recording was on in each interval (`recorded_ns`). If that is missing, an interval with
//! calls counts from its start to the next one's, and at most to the end of its hour: no interval spans two hours. If
//! no interval has it, idle intervals count too.

use std::collections::BTreeMap;

use log_format::file_names::Hour;
use log_format::rows::{CounterRow, counter};

use crate::options::time_range::TimeRange;

const MINUTE_NS: u64 = 60_000_000_000;

/// Pauses up to this long are left out of [`RecordedTime::times`].
const SHORT_PAUSE_NS: u64 = 2_000_000_000;

/// The intervals of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedTime {
    /// By start, in unix nanoseconds: whether an instrumented call ended in the interval.
    intervals: BTreeMap<u64, bool>,
    /// The interval of the previous row: most rows are of the same one.
    latest: Option<(u64, bool)>,
    /// The first and the last moment at which the log has a threshold. Every interval begins with one, including the
    /// one that the end of the run cut short.
    moments: Option<(u64, u64)>,
    /// How long recording was on, by interval.
    recorded_ns: BTreeMap<u64, u64>,
    /// How long allocations were sampled, by interval.
    allocation_ns: BTreeMap<u64, u64>,
}

impl RecordedTime {
    /// Adds the start of a row of method statistics.
    pub fn add_stats(&mut self, start_ns: u64) {
        self.add(start_ns, true);
    }

    /// Adds a row of counters.
    pub fn add_counter(&mut self, row: &CounterRow) {
        if row.name == counter::THRESHOLD_NS {
            let (first, last) = self.moments.unwrap_or((row.start_ns, row.start_ns));
            self.moments = Some((first.min(row.start_ns), last.max(row.start_ns)));
        } else if row.name == counter::ALLOCATION_NS {
            let sum = self.allocation_ns.entry(row.start_ns).or_default();
            *sum = sum.saturating_add(row.value);
            self.add(row.start_ns, false);
        } else if row.name == counter::RECORDED_NS {
            // If the clock was set back, two intervals may begin at the same moment.
            let sum = self.recorded_ns.entry(row.start_ns).or_default();
            *sum = sum.saturating_add(row.value);
            self.add(row.start_ns, false);
        } else if !is_written_at_any_time(&row.name) {
            self.add(row.start_ns, false);
        }
    }

    /// Adds what other rows of the same run showed.
    pub fn merge(&mut self, other: &Self) {
        for (ours, others) in [
            (&mut self.recorded_ns, &other.recorded_ns),
            (&mut self.allocation_ns, &other.allocation_ns),
        ] {
            for (start_ns, ns) in others {
                let sum = ours.entry(*start_ns).or_default();
                *sum = sum.saturating_add(*ns);
            }
        }
        for (start_ns, has_calls) in &other.intervals {
            *self.intervals.entry(*start_ns).or_default() |= has_calls;
        }
        if let Some((first, last)) = other.moments {
            let (our_first, our_last) = self.moments.unwrap_or((first, last));
            self.moments = Some((our_first.min(first), our_last.max(last)));
        }
    }

    fn add(&mut self, start_ns: u64, has_calls: bool) {
        if self.latest == Some((start_ns, has_calls)) {
            return;
        }
        self.latest = Some((start_ns, has_calls));
        *self.intervals.entry(start_ns).or_default() |= has_calls;
    }

    /// How long the run recorded, in nanoseconds.
    #[must_use]
    pub fn ns(&self) -> u64 {
        let told_ns = self.recorded_ns.values().fold(0, |sum: u64, ns| sum.saturating_add(*ns));
        let is_never_logged = self.recorded_ns.is_empty();
        let intervals = self.with_ends().into_iter().filter(|interval| {
            let is_logged = self.recorded_ns.contains_key(&interval.start_ns);
            !is_logged && (interval.has_calls || is_never_logged)
        });
        intervals
            .fold(told_ns, |sum, interval| sum.saturating_add(interval.end_ns - interval.start_ns))
    }

    /// Whether recording was off all the time, as far as the log says.
    #[must_use]
    pub fn was_always_off(&self) -> bool {
        !self.recorded_ns.is_empty() && self.recorded_ns.values().all(|ns| *ns == 0)
    }

    /// Since when the log has recorded calls and no method statistics yet, by its counters: the run goes on, or was
    /// killed.
    #[must_use]
    pub fn without_statistics_since(&self) -> Option<u64> {
        let (_, last) = self.moments?;
        let is_logged = self.recorded_ns.range(last..).next().is_some();
        (!is_logged && !self.recorded_ns.is_empty()).then_some(last)
    }

    /// Intervals with method statistics of which the log does not have how long recording was on.
    #[must_use]
    pub fn without_counters(&self) -> u64 {
        let is_without = |(start_ns, has_calls): &(&u64, &bool)| {
            **has_calls && !self.recorded_ns.contains_key(start_ns)
        };
        self.intervals.iter().filter(is_without).count() as u64
    }

    /// The end of the last interval with method statistics.
    #[must_use]
    pub fn statistics_end_ns(&self) -> Option<u64> {
        let last = self.with_ends().into_iter().rev().find(|interval| interval.has_calls);
        last.map(|interval| interval.end_ns)
    }

    /// The start and the end of each interval, in order.
    pub fn intervals(&self) -> impl Iterator<Item = (u64, u64)> {
        self.with_ends().into_iter().map(|interval| (interval.start_ns, interval.end_ns))
    }

    /// From the first interval in which the run recorded to the end of the last one, or to the last recorded call: of a
    /// run that goes on or was killed, the log lacks an end.
    #[must_use]
    pub fn span(&self, last_call_ns: Option<u64>) -> Option<(u64, u64)> {
        let is_never_logged = self.recorded_ns.is_empty();
        let mut recorded = self.with_ends().into_iter().filter(|interval| {
            let logged = self.recorded_ns.get(&interval.start_ns);
            logged.map_or(interval.has_calls || is_never_logged, |ns| *ns > 0)
        });
        let first = recorded.next()?;
        let last = recorded.next_back().unwrap_or(first);
        Some((first.start_ns, last.end_ns.max(last_call_ns.unwrap_or_default())))
    }

    /// When the run recorded in `range`: times from a moment until before another, in order.
    #[must_use]
    pub fn times(&self, range: &TimeRange) -> Vec<(u64, u64)> {
        let is_never_logged = self.recorded_ns.is_empty();
        let mut times: Vec<(u64, u64)> = Vec::new();
        for Interval { start_ns, end_ns, has_calls } in self.with_ends() {
            let end_ns = match self.recorded_ns.get(&start_ns) {
                Some(ns) => end_ns.min(start_ns.saturating_add(*ns)),
                None if has_calls || is_never_logged => end_ns,
                None => continue,
            };
            let start_ns = range.from_ns.map_or(start_ns, |ns| ns.max(start_ns));
            let end_ns = range.to_ns.map_or(end_ns, |ns| ns.min(end_ns));
            if start_ns >= end_ns {
                continue;
            }
            match times.last_mut() {
                Some((_, last_ns)) if start_ns <= last_ns.saturating_add(SHORT_PAUSE_NS) => {
                    *last_ns = end_ns.max(*last_ns);
                }
                _ => times.push((start_ns, end_ns)),
            }
        }
        times
    }

    /// When allocations were sampled in `range`: times from a moment until before another. They are taken as the first
    /// part of each interval.
    #[must_use]
    pub fn allocation_times(&self, range: &TimeRange) -> Vec<(u64, u64)> {
        let clipped = |(start_ns, ns): (&u64, &u64)| {
            let from_ns = range.from_ns.map_or(*start_ns, |from_ns| from_ns.max(*start_ns));
            let end_ns = start_ns.saturating_add(*ns);
            (from_ns, range.to_ns.map_or(end_ns, |to_ns| to_ns.min(end_ns)))
        };
        let times = self.allocation_ns.iter().map(clipped);
        times.filter(|(from_ns, to_ns)| from_ns < to_ns).collect()
    }

    fn with_ends(&self) -> Vec<Interval> {
        let mut starts = self.intervals.clone();
        let first = starts.first_key_value().map(|(start, _)| *start);
        if let (Some((began, _)), Some(first)) = (self.moments, first) {
            // The first interval has no counters if nothing happened in it.
            starts.entry(began.min(first)).or_default();
        }
        let nexts = starts.keys().skip(1).copied().map(Some).chain([None]);
        let mut intervals: Vec<Interval> = starts
            .iter()
            .zip(nexts)
            .map(|((start_ns, has_calls), next)| {
                let known = self.moments.map(|(_, last)| last).filter(|last| last > start_ns);
                // After a kill, nothing follows.
                let recorded = self.recorded_ns.get(start_ns);
                let known = known.or(recorded.map(|ns| start_ns.saturating_add(*ns)));
                let of_minute = (start_ns / MINUTE_NS).saturating_add(1).saturating_mul(MINUTE_NS);
                let hour = Hour::of_unix_ns(*start_ns).start_unix_ns();
                let end_ns = next.or(known).unwrap_or(of_minute);
                Interval {
                    start_ns: *start_ns,
                    end_ns: end_ns.min(hour.saturating_add(60 * MINUTE_NS)).max(*start_ns),
                    has_calls: *has_calls,
                }
            })
            .collect();
        // The interval that was in progress when the run ended: its length is unknown, and it has no figures.
        let is_end_known = |start_ns| self.moments.is_some_and(|(_, last)| last > start_ns);
        intervals.pop_if(|last| !last.has_calls && !is_end_known(last.start_ns));
        intervals
    }
}

/// Whether the log has this gauge at other moments than an interval's start too.
fn is_written_at_any_time(name: &str) -> bool {
    name == counter::RAISED_TO_NS || name == counter::MUTED_METHODS
}

#[derive(Clone, Copy, Debug)]
struct Interval {
    start_ns: u64,
    end_ns: u64,
    has_calls: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    /// 2026-11-20T14:00:00Z.
    const T14: u64 = 1_795_183_200 * S;

    fn counter_row(start_ns: u64, name: &str) -> CounterRow {
        CounterRow { start_ns, name: name.into(), value: 1 }
    }

    /// A run with intervals that begin this many seconds after 14:00. The run ended at `end`, which begins one more
    /// interval. `recorded` has for how many seconds of an interval recording was on.
    fn run(starts: &[(u64, bool)], end: Option<u64>, recorded: &[(u64, u64)]) -> RecordedTime {
        let mut time = RecordedTime::default();
        for (at, has_calls) in starts {
            let start_ns = T14 + at * S;
            time.add_counter(&counter_row(start_ns, counter::THRESHOLD_NS));
            time.add_counter(&counter_row(start_ns, counter::BYTES));
            if *has_calls {
                time.add_stats(start_ns);
                time.add_stats(start_ns);
            }
        }
        if let Some(end) = end {
            time.add_counter(&counter_row(T14 + end * S, counter::THRESHOLD_NS));
            time.add_counter(&counter_row(T14 + end * S, counter::BYTES));
        }
        for (at, seconds) in recorded {
            let row = counter_row(T14 + at * S, counter::RECORDED_NS);
            time.add_counter(&CounterRow { value: seconds * S, ..row });
        }
        time
    }

    /// Recorded seconds of this run.
    fn seconds(starts: &[(u64, bool)], end: Option<u64>, recorded: &[(u64, u64)]) -> u64 {
        let ns = run(starts, end, recorded).ns();
        assert_eq!(ns % S, 0);
        ns / S
    }

    #[test]
    fn a_run_recorded_from_its_first_interval_to_its_end() {
        assert_eq!(seconds(&[], None, &[]), 0);
        assert_eq!(seconds(&[(20, true), (30, true)], Some(47), &[]), 27);
        // Killed at an unknown time, and the method statistics of the last interval are lost.
        assert_eq!(seconds(&[(20, true), (30, true), (60, false)], None, &[]), 40);
        // Still being written, or without counters.
        assert_eq!(seconds(&[(20, true), (30, true)], None, &[]), 40);
        // Idle to its end.
        let idle = [(20, true), (30, false), (60, false)];
        let mut time = RecordedTime::default();
        for (at, has_calls) in idle {
            time.add(T14 + at * S, has_calls);
        }
        time.add_counter(&counter_row(T14 + 75 * S, counter::THRESHOLD_NS));
        assert_eq!(time.ns(), 55 * S);
        // A threshold changed within an interval does not end it.
        let mut time = RecordedTime::default();
        for at in [0, 60, 120] {
            time.add_stats(T14 + at * S);
        }
        time.add_counter(&counter_row(T14 + 70 * S, counter::THRESHOLD_NS));
        time.add_counter(&counter_row(T14 + 71 * S, counter::RAISED_TO_NS));
        time.add_counter(&counter_row(T14 + 72 * S, counter::MUTED_METHODS));
        assert_eq!(time.ns(), 180 * S);
    }

    #[test]
    fn idle_minutes_count_and_hours_that_are_not_there_do_not() {
        // One call that takes three minutes: it counts when it ends.
        let long_call = [(20, false), (30, false), (60, false), (120, false), (180, true)];
        assert_eq!(seconds(&long_call, Some(200), &[]), 180);
        assert_eq!(seconds(&[(0, true), (60, false), (120, true)], Some(180), &[]), 180);
        let hours = [(3_540, true), (3 * 3_600, true)];
        assert_eq!(seconds(&hours, Some(3 * 3_600 + 9), &[]), 69);
    }

    #[test]
    fn recording_that_was_switched_off_does_not_count() {
        let stopped = [
            (0, true),
            (60, true),
            (75, false),
            (120, false),
            (180, false),
            (240, true),
            (300, true),
        ];
        let recorded = [(0, 60), (60, 15), (240, 40), (300, 10)];
        assert_eq!(seconds(&stopped, Some(310), &recorded), 125);
        // Its row was lost because the disk was full.
        assert_eq!(seconds(&stopped, Some(310), &recorded[1..]), 125);
        let times = |from, to| {
            let range = TimeRange { from_ns: Some(T14 + from * S), to_ns: Some(T14 + to * S) };
            let times = run(&stopped, Some(310), &recorded).times(&range);
            let in_seconds = times.iter().map(|(from, to)| ((from - T14) / S, (to - T14) / S));
            in_seconds.collect::<Vec<_>>()
        };
        assert_eq!(times(0, 900), [(0, 75), (240, 280), (300, 310)]);
        assert_eq!(times(50, 250), [(50, 75), (240, 250)]);
        // The clock was set back from 15:00, and intervals overlap.
        let set_back = [(3_600, true), (0, true), (60, true)];
        assert_eq!(seconds(&set_back, Some(90), &[(3_600, 12), (0, 60), (60, 30)]), 102);
    }
}
