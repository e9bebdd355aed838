//! How long a run recorded, from its logs: what figures per hour are divided by.
//!
//! ```text
//! starts of intervals     |--------|--------|--------|--------|--------|-----
//! recording_on, _off       on                   off       on            (the log ends)
//! counted                  =====================          ===================
//! ```
//!
//! An interval counts from its start to the next one's, and never beyond its hour: none lies in two. Idle ones count
//! too; time in which recording was off does not.

use std::collections::BTreeMap;

use log_format::names::Hour;
use log_format::rows::{CounterRow, EventRow, counter, event};

const MINUTE_NS: u64 = 60_000_000_000;

/// The intervals of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedTime {
    /// By start, in unix nanoseconds: whether a measured call ended in the interval.
    intervals: BTreeMap<u64, bool>,
    /// The interval of the row before: most rows are of the same one.
    latest: Option<(u64, bool)>,
    /// The first and the last moment at which the log told a threshold. Every interval begins so, also
    /// the one that the end of the run cut off.
    told: Option<(u64, u64)>,
    /// When recording went on, or off.
    switches: BTreeMap<u64, bool>,
}

impl RecordedTime {
    /// Takes the start of a row of totals.
    pub fn add_stats(&mut self, start_ns: u64) {
        self.add(start_ns, true);
    }

    /// Takes a row of counters.
    pub fn add_counter(&mut self, row: &CounterRow) {
        if row.name == counter::THRESHOLD_NS {
            let (first, last) = self.told.unwrap_or((row.start_ns, row.start_ns));
            self.told = Some((first.min(row.start_ns), last.max(row.start_ns)));
        } else if !is_told_at_any_time(&row.name) {
            self.add(row.start_ns, false);
        }
    }

    /// Takes an event.
    pub fn add_event(&mut self, row: &EventRow) {
        let is_on = row.event == event::RECORDING_ON;
        if is_on || row.event == event::RECORDING_OFF {
            self.switches.insert(row.at_ns, is_on);
        }
    }

    /// Adds what was seen in other rows of the same run.
    pub fn merge(&mut self, other: &Self) {
        self.switches.extend(&other.switches);
        for (start_ns, has_calls) in &other.intervals {
            *self.intervals.entry(*start_ns).or_default() |= has_calls;
        }
        if let Some((first, last)) = other.told {
            let (our_first, our_last) = self.told.unwrap_or((first, last));
            self.told = Some((our_first.min(first), our_last.max(last)));
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
        self.with_ends()
            .iter()
            .fold(0, |sum: u64, interval| sum.saturating_add(self.on_ns(interval)))
    }

    /// For how long of an interval recording was on.
    fn on_ns(&self, &Interval { start_ns, end_ns, .. }: &Interval) -> u64 {
        // Without a word on it, it was.
        let was_on = |at_ns| {
            let before = self.switches.range(..=at_ns).next_back().map(|(_, is_on)| *is_on);
            before.or_else(|| self.switches.values().next().map(|is_on| !is_on)).unwrap_or(true)
        };
        let (mut sum_ns, mut since) = (0, was_on(start_ns).then_some(start_ns));
        for (at_ns, is_on) in self.switches.range(start_ns..end_ns) {
            match (is_on, since) {
                (true, None) => since = Some(*at_ns),
                (false, Some(since_ns)) => (sum_ns, since) = (sum_ns + at_ns - since_ns, None),
                _ => {}
            }
        }
        sum_ns + since.map_or(0, |since_ns| end_ns - since_ns)
    }

    /// The start and the end of each interval, in order.
    pub fn intervals(&self) -> impl Iterator<Item = (u64, u64)> {
        self.with_ends().into_iter().map(|interval| (interval.start_ns, interval.end_ns))
    }

    fn with_ends(&self) -> Vec<Interval> {
        let mut starts = self.intervals.clone();
        let first = starts.first_key_value().map(|(start, _)| *start);
        if let (Some((told, _)), Some(first)) = (self.told, first) {
            // The first interval has no counters if nothing happened in it.
            starts.entry(told.min(first)).or_default();
        }
        let nexts = starts.keys().skip(1).copied().map(Some).chain([None]);
        let mut intervals: Vec<Interval> = starts
            .iter()
            .zip(nexts)
            .map(|((start_ns, has_calls), next)| {
                let told = self.told.map(|(_, last)| last).filter(|last| last > start_ns);
                let of_minute = (start_ns / MINUTE_NS).saturating_add(1).saturating_mul(MINUTE_NS);
                let hour = Hour::of_unix_ns(*start_ns).start_unix_ns();
                let end_ns = next.or(told).unwrap_or(of_minute);
                Interval {
                    start_ns: *start_ns,
                    end_ns: end_ns.min(hour.saturating_add(60 * MINUTE_NS)).max(*start_ns),
                    has_calls: *has_calls,
                }
            })
            .collect();
        // What was begun when the run ended: nobody knows how long it was, and it has no figures.
        let is_end_told = |start_ns| self.told.is_some_and(|(_, last)| last > start_ns);
        intervals.pop_if(|last| !last.has_calls && !is_end_told(last.start_ns));
        intervals
    }
}

/// Whether the log has this gauge also at other moments than an interval's start.
fn is_told_at_any_time(name: &str) -> bool {
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

    /// Recorded seconds of a run with intervals that begin so many seconds after 14:00. `end` is when the run ended,
    /// which begins one more. `switches` are when recording went on or off.
    fn seconds(starts: &[(u64, bool)], end: Option<u64>, switches: &[(u64, bool)]) -> u64 {
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
        for (at, is_on) in switches {
            let event = if *is_on { event::RECORDING_ON } else { event::RECORDING_OFF };
            // Each hour's files repeat it.
            time.add_event(&EventRow::new(T14 + at * S, event));
            time.add_event(&EventRow::new(T14 + at * S, event));
        }
        let ns = time.ns();
        assert_eq!(ns % S, 0);
        ns / S
    }

    #[test]
    fn a_run_recorded_from_its_first_interval_to_its_end() {
        assert_eq!(seconds(&[], None, &[]), 0);
        assert_eq!(seconds(&[(20, true), (30, true)], Some(47), &[]), 27);
        // Killed: nobody knows when, and the totals of the last interval are lost.
        assert_eq!(seconds(&[(20, true), (30, true), (60, false)], None, &[]), 40);
        // Written under way, or the counters are not there.
        assert_eq!(seconds(&[(20, true), (30, true)], None, &[]), 40);
        // Idle to its end.
        let idle = [(20, true), (30, false), (60, false)];
        let mut time = RecordedTime::default();
        for (at, has_calls) in idle {
            time.add(T14 + at * S, has_calls);
        }
        time.add_counter(&counter_row(T14 + 75 * S, counter::THRESHOLD_NS));
        assert_eq!(time.ns(), 55 * S);
        // A threshold that was changed under way is no end of anything.
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
        // One call that takes three minutes: it is in the figures when it ends.
        let long_call = [(20, false), (30, false), (60, false), (120, false), (180, true)];
        assert_eq!(seconds(&long_call, Some(200), &[]), 180);
        assert_eq!(seconds(&[(0, true), (60, false), (120, true)], Some(180), &[]), 180);
        let hours = [(3_540, true), (3 * 3_600, true)];
        assert_eq!(seconds(&hours, Some(3 * 3_600 + 9), &[(3_540, true)]), 69);
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
        let switches = [(0, true), (75, false), (260, true)];
        assert_eq!(seconds(&stopped, Some(310), &switches), 125);
        // A flush ends an interval at once too.
        assert_eq!(seconds(&[(0, true), (60, true), (75, true)], Some(120), &[(0, true)]), 120);
        // From the start, and to the end.
        let of = [(0, false), (10, false), (60, true), (120, false)];
        assert_eq!(seconds(&of, Some(180), &[(0, false), (60, true), (120, false)]), 60);
        // Periods shorter than an interval.
        let periods: Vec<(u64, bool)> =
            (0..10).flat_map(|i| [(20 * i, true), (20 * i + 5, false)]).collect();
        assert_eq!(seconds(&[(0, true), (60, true), (120, true)], Some(200), &periods), 50);
        // The hours before were deleted, and their switches with them.
        assert_eq!(seconds(&[(100, true), (160, true)], Some(200), &[(130, false)]), 30);
    }
}
