//! How long a run recorded, from its logs: what figures per hour are divided by.
//!
//! ```text
//! starts of intervals     |--------|--------|--------|---|      |--------|--------|-
//! a measured call ended    yes      no       yes      yes no     no       yes      no
//! counted                  ======== ======== ======== ===        ======== ========
//!                                   idle                  paused  idle
//! ```
//!
//! An interval counts from its start to the next one's, and never beyond its hour: none lies in two.
//! One in which no measured call ended was idle, or all of its calls were still under way, and counts
//! too, unless recording was off. The log has no word for that; what tells is that `stop` ends an
//! interval at once, where all others end with a minute, and the options `start`, `window`, `record`
//! and `pause`.

use std::collections::BTreeMap;

use log_format::names::Hour;
use log_format::rows::{CounterRow, counter};
use log_format::run::Run;
use log_format::units::{as_ns, parse_duration};

const MINUTE_NS: u64 = 60_000_000_000;

/// The agent looks whether an interval is over about once a second.
const LATE_NS: u64 = 2_000_000_000;

/// The first interval of a run is cut short, after ten seconds.
const FIRST_NS: u64 = 12_000_000_000;

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

    /// Adds what was seen in other rows of the same run.
    pub fn merge(&mut self, other: &Self) {
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
    pub fn ns(&self, run: &Run) -> u64 {
        let intervals = self.with_ends();
        let option = |name: &str| run.options.get(name).map(String::as_str);
        let duration = |name| option(name).and_then(|text| parse_duration(text).ok()).map(as_ns);
        if let (Some(record_ns), Some(pause_ns @ 1..)) = (duration("record"), duration("pause")) {
            return periods_ns(&intervals, record_ns, pause_ns);
        }
        let has_window = option("window").is_some_and(|window| !window.is_empty());
        let first_ns = intervals.first().map_or(0, |interval| interval.start_ns);
        let mut is_off = option("start") == Some("off");
        let mut sum_ns = 0_u64;
        for interval in &intervals {
            let was_cut_in = interval.start_ns % MINUTE_NS > LATE_NS
                && interval.start_ns.saturating_sub(first_ns) > FIRST_NS;
            is_off = !interval.has_calls && (is_off || has_window || was_cut_in);
            if !is_off {
                sum_ns = sum_ns.saturating_add(interval.end_ns - interval.start_ns);
            }
        }
        sum_ns
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

/// Whether the log tells this also at other moments than an interval's start.
fn is_told_at_any_time(name: &str) -> bool {
    let own_threshold = name.strip_prefix(counter::THRESHOLD_NS);
    own_threshold.is_some_and(|of| of.starts_with(':'))
        || name == counter::RAISED_TO_NS
        || name == counter::MUTED_METHODS
        || name.starts_with(counter::MUTED)
        || name.starts_with(counter::THROTTLED)
        || name.starts_with(counter::THROTTLED_MEAN_NS)
}

#[derive(Clone, Copy, Debug)]
struct Interval {
    start_ns: u64,
    end_ns: u64,
    has_calls: bool,
}

/// The recorded part of periods of recording and pause. Where in an interval a pause was is not in the
/// log: what is known is that a stretch of periods begins with recording.
fn periods_ns(intervals: &[Interval], record_ns: u64, pause_ns: u64) -> u64 {
    let period_ns = record_ns.saturating_add(pause_ns);
    let of_stretch = |length_ns: u64| {
        let whole = length_ns.checked_div(period_ns).unwrap_or(0);
        let rest = length_ns.checked_rem(period_ns).unwrap_or(0);
        whole.saturating_mul(record_ns).saturating_add(rest.min(record_ns))
    };
    let (mut sum_ns, mut stretch) = (0_u64, None::<(u64, u64)>);
    for interval in intervals.iter().filter(|interval| interval.has_calls) {
        let gap_ns = |end_ns| interval.start_ns.saturating_sub(end_ns);
        let is_next = |end_ns| gap_ns(end_ns) <= period_ns.saturating_add(MINUTE_NS);
        stretch = match stretch {
            Some((start_ns, end_ns)) if is_next(end_ns) => Some((start_ns, interval.end_ns)),
            ended => {
                let ended_ns = ended.map_or(0, |(start_ns, end_ns)| of_stretch(end_ns - start_ns));
                sum_ns = sum_ns.saturating_add(ended_ns);
                Some((interval.start_ns, interval.end_ns))
            }
        };
    }
    let last_ns = stretch.map_or(0, |(start_ns, end_ns)| of_stretch(end_ns - start_ns));
    sum_ns.saturating_add(last_ns)
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

    /// Recorded seconds of a run with intervals that begin so many seconds after 14:00, each with
    /// whether calls ended in it. `end` is when the run ended, which begins one more.
    fn seconds(starts: &[(u64, bool)], end: Option<u64>, options: &[(&str, &str)]) -> u64 {
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
        let options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let ns = time.ns(&Run { options, ..Run::default() });
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
        assert_eq!(time.ns(&Run::default()), 55 * S);
        // A threshold that was changed under way is no end of anything.
        let mut time = RecordedTime::default();
        for at in [0, 60, 120] {
            time.add_stats(T14 + at * S);
        }
        time.add_counter(&counter_row(T14 + 70 * S, counter::THRESHOLD_NS));
        time.add_counter(&counter_row(T14 + 71 * S, counter::RAISED_TO_NS));
        time.add_counter(&counter_row(T14 + 72 * S, "threshold_ns:com.shop"));
        time.add_counter(&counter_row(T14 + 73 * S, "muted:com.shop"));
        time.add_counter(&counter_row(T14 + 74 * S, "throttled_mean_ns:com.shop.Util.hash()I"));
        time.add_counter(&counter_row(T14 + 74 * S, "throttled:com.shop.Util.hash()I"));
        assert_eq!(time.ns(&Run::default()), 180 * S);
    }

    #[test]
    fn idle_minutes_count_and_hours_that_are_not_there_do_not() {
        // One call that takes three minutes: it is in the figures when it ends.
        let long_call = [(20, false), (30, false), (60, false), (120, false), (180, true)];
        assert_eq!(seconds(&long_call, Some(200), &[]), 180);
        assert_eq!(seconds(&[(0, true), (60, false), (120, true)], Some(180), &[]), 180);
        assert_eq!(seconds(&[(3_540, true), (3 * 3_600, true)], Some(3 * 3_600 + 9), &[]), 69);
    }

    #[test]
    fn recording_that_was_switched_off_does_not_count() {
        // Stopped at 1:15 and started at 4:20, which is known by the minute.
        let stopped = [
            (0, true),
            (60, true),
            (75, false),
            (120, false),
            (180, false),
            (240, true),
            (300, true),
        ];
        assert_eq!(seconds(&stopped, Some(310), &[]), 145);
        // A flush in a busy minute ends an interval at once too.
        assert_eq!(seconds(&[(0, true), (60, true), (75, true)], Some(120), &[]), 120);
        let off = [("start", "off")];
        assert_eq!(seconds(&[(0, false), (10, false), (60, true)], Some(120), &off), 60);
        let window = [("window", "09:00:00-15:02:00")];
        let closed = [(0, true), (60, true), (120, false), (180, false)];
        assert_eq!(seconds(&closed, Some(200), &window), 120);
    }

    #[test]
    fn of_periods_of_recording_and_pause_the_recorded_share_counts() {
        let periods = [("record", "5000000000ns"), ("pause", "15000000000ns")];
        let minutes: Vec<(u64, bool)> = (0..20).map(|i| (i * 60, i % 2 == 0)).collect();
        // The last one is not counted: 19 minutes, of which a quarter was recorded.
        assert_eq!(seconds(&minutes, Some(1_200), &periods), 19 * 15);
        // As a real run had it: 200 s, five times 10 s of which were recorded.
        let periods = [("record", "10s"), ("pause", "30s")];
        let starts = [(8, true), (18, true), (58, false), (60, true), (98, false), (120, true)];
        let starts = [&starts[..], &[(138, true), (178, false), (180, false)]].concat();
        assert_eq!(seconds(&starts, Some(208), &periods), 50);
        // On two days: the night is no pause.
        let days = [(0, true), (20, false), (7_200, true)];
        assert_eq!(seconds(&days, Some(7_220), &periods), 20);
        let always = [("record", "5000000000ns"), ("pause", "0")];
        assert_eq!(seconds(&[(0, true), (60, true)], Some(120), &always), 120);
    }
}
