//! Finds the intervals of the method statistics that a selected time overlaps. Statistics can be cut only between
//! intervals, so a selected time is widened to whole intervals:
//!
//! ```text
//! intervals     |--------|--------|--------|--------|
//! selected                    |=======|
//! statistics             |=================|
//! ```

use log_format::file_names::{Hour, Table};
use log_format::rows::{CounterRow, StatsRow};

use crate::input::problems::Problems;
use crate::input::runs::RunInput;
use crate::input::table_rows::read_rows;
use crate::options::time_range::TimeRange;
use crate::run::recorded_time::RecordedTime;

/// Intervals end up to this long after the full minute.
const LATE_NS: u64 = 2_000_000_000;

/// The intervals of a run that a selected time overlaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The selected time, widened to whole intervals.
    pub statistics: TimeRange,
    /// Whether the selected time is shorter than an interval that it overlaps.
    pub is_shorter: bool,
    /// Whether it overlaps any.
    pub is_any: bool,
}

impl Touched {
    /// Finds the intervals of a run. The reading after this one reports problems with its files.
    pub fn of(run: &RunInput, range: &TimeRange) -> Self {
        let mut time = RecordedTime::default();
        let ends = [range.from_ns, range.to_ns.map(|ns| ns.saturating_sub(1))];
        // No interval spans two hours, so only the hours of the two ends count.
        let hours = ends.map(|ns| ns.map(Hour::of_unix_ns));
        let of_ends = run.files.iter().filter(|file| hours.contains(&Some(file.part.hour)));
        let problems = &mut Problems::default();
        for file in of_ends {
            match file.table {
                Table::Stats => read_rows(&file.path, file.len, problems, |row: StatsRow| {
                    time.add_stats(row.start_ns);
                    Ok(())
                }),
                Table::Counters => read_rows(&file.path, file.len, problems, |row: CounterRow| {
                    time.add_counter(&row);
                    Ok(())
                }),
                _ => {}
            }
        }
        Self::in_intervals(time.intervals(), range)
    }

    fn in_intervals(intervals: impl IntoIterator<Item = (u64, u64)>, range: &TimeRange) -> Self {
        let length_ns = range.from_ns.zip(range.to_ns).map(|(from, to)| to.saturating_sub(from));
        let (mut touched, mut is_shorter) = (Vec::new(), false);
        for (start_ns, end_ns) in intervals {
            let from_ns = range.from_ns.map_or(start_ns, |ns| ns.max(start_ns));
            let to_ns = range.to_ns.map_or(end_ns, |ns| ns.min(end_ns));
            let (inside_ns, whole_ns) =
                (to_ns.saturating_sub(from_ns), end_ns.saturating_sub(start_ns));
            // The edge of an interval that ends a moment late.
            let is_edge =
                inside_ns <= LATE_NS && inside_ns < whole_ns / 2 && Some(inside_ns) != length_ns;
            if inside_ns > 0 && !is_edge {
                touched.push((start_ns, end_ns));
                is_shorter |= length_ns.is_some_and(|ns| ns.saturating_add(LATE_NS) < whole_ns);
            }
        }
        let mut statistics = *range;
        // The hours between those of the two ends were not read.
        let is_in_hour_of = |ns: u64, end_ns: u64| Hour::of_unix_ns(ns) == Hour::of_unix_ns(end_ns);
        if let (Some(from_ns), Some((start_ns, _))) = (range.from_ns, touched.first())
            && is_in_hour_of(*start_ns, from_ns)
        {
            statistics.from_ns = Some(*start_ns);
        }
        if let (Some(to_ns), Some((start_ns, end_ns))) = (range.to_ns, touched.last())
            && is_in_hour_of(*start_ns, to_ns.saturating_sub(1))
        {
            statistics.to_ns = Some(*end_ns);
        }
        Self { statistics, is_shorter, is_any: !touched.is_empty() }
    }

    /// Whether the statistics cover more than the selected time, by more than an interval's delay.
    pub fn is_wider(statistics: &TimeRange, range: &TimeRange) -> bool {
        let more = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => one.saturating_sub(other) > LATE_NS,
            _ => false,
        };
        more(range.from_ns, statistics.from_ns) || more(statistics.to_ns, range.to_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn of(from: Option<u64>, to: Option<u64>) -> (Option<u64>, Option<u64>, bool) {
        let range = TimeRange { from_ns: from.map(|s| s * S), to_ns: to.map(|s| s * S) };
        // The last intervals begin some time late.
        let ends = [(100.0, 110.0), (110.0, 160.0), (160.0, 220.0), (300.4, 360.9), (360.9, 420.2)];
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let ns = |s: f64| (s * 10.0) as u64 * (S / 10);
        let intervals = ends.map(|(start, end)| (ns(start), ns(end)));
        let Touched { statistics, is_shorter, .. } = Touched::in_intervals(intervals, &range);
        (statistics.from_ns.map(|ns| ns / S), statistics.to_ns.map(|ns| ns / S), is_shorter)
    }

    #[test]
    fn a_time_is_widened_to_the_intervals_it_touches() {
        assert_eq!(of(Some(110), Some(160)), (Some(110), Some(160), false));
        assert_eq!(of(Some(105), Some(165)), (Some(100), Some(220), false));
        assert_eq!(of(Some(130), None), (Some(110), None, false));
        assert_eq!(of(None, Some(165)), (None, Some(220), false));
        // Without intervals, nothing is widened.
        assert_eq!(of(Some(20), Some(100)), (Some(20), Some(100), false));
        assert_eq!(of(Some(230), Some(240)), (Some(230), Some(240), false));
    }

    #[test]
    fn a_time_within_an_interval_is_shorter() {
        assert_eq!(of(Some(120), Some(130)), (Some(110), Some(160), true));
        // Also if it lies in two intervals.
        assert_eq!(of(Some(150), Some(170)), (Some(110), Some(220), true));
        assert_eq!(of(Some(119), Some(120)), (Some(110), Some(160), true));
    }

    #[test]
    fn an_interval_that_is_a_moment_late_is_that_of_its_minute() {
        assert_eq!(of(Some(300), Some(360)), (Some(300), Some(360), false));
        assert_eq!(of(Some(360), Some(420)), (Some(360), Some(420), false));
        assert_eq!(of(Some(300), Some(420)), (Some(300), Some(420), false));
    }
}
