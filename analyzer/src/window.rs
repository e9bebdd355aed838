//! Which intervals of the method statistics a selected time touches. Statistics can be cut only where
//! an interval begins or ends, so a selected time is widened to the intervals that it touches:
//!
//! ```text
//! intervals     |--------|--------|--------|--------|
//! selected                    |=======|
//! statistics             |=================|
//! ```

use log_format::names::{Hour, Table};
use log_format::rows::{CounterRow, StatsRow};

use crate::input::RunInput;
use crate::problems::Problems;
use crate::recorded_time::RecordedTime;
use crate::table::read_rows;
use crate::time_range::TimeRange;

/// The intervals of a run that a selected time touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The selected time, widened to whole intervals.
    pub statistics: TimeRange,
    /// Whether the selected time is shorter than an interval that it touches.
    pub is_shorter: bool,
}

impl Touched {
    /// Finds the intervals of a run. Problems with its files are those of the reading after this one.
    pub fn of(run: &RunInput, range: &TimeRange) -> Self {
        let mut time = RecordedTime::default();
        let ends = [range.from_ns, range.to_ns.map(|ns| ns.saturating_sub(1))];
        // No interval lies in two hours, so only those of the two ends count.
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
        let mut touched = Self { statistics: *range, is_shorter: false };
        for (start_ns, end_ns) in intervals {
            if start_ns < end_ns && range.overlaps(start_ns, Some(end_ns)) {
                let TimeRange { from_ns, to_ns } = &mut touched.statistics;
                *from_ns = from_ns.map(|ns| ns.min(start_ns));
                *to_ns = to_ns.map(|ns| ns.max(end_ns));
                touched.is_shorter |= length_ns.is_some_and(|length| length < end_ns - start_ns);
            }
        }
        touched
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(from: Option<u64>, to: Option<u64>) -> (Option<u64>, Option<u64>, bool) {
        let range = TimeRange { from_ns: from, to_ns: to };
        let intervals = [(100, 110), (110, 160), (160, 220), (300, 360)];
        let Touched { statistics, is_shorter } = Touched::in_intervals(intervals, &range);
        (statistics.from_ns, statistics.to_ns, is_shorter)
    }

    #[test]
    fn a_time_is_widened_to_the_intervals_it_touches() {
        assert_eq!(of(Some(110), Some(160)), (Some(110), Some(160), false));
        assert_eq!(of(Some(105), Some(165)), (Some(100), Some(220), false));
        assert_eq!(of(Some(130), None), (Some(110), None, false));
        assert_eq!(of(None, Some(161)), (None, Some(220), false));
        // Where there is no interval, nothing is widened.
        assert_eq!(of(Some(20), Some(100)), (Some(20), Some(100), false));
        assert_eq!(of(Some(220), Some(230)), (Some(220), Some(230), false));
    }

    #[test]
    fn a_time_within_an_interval_is_shorter() {
        assert_eq!(of(Some(120), Some(130)), (Some(110), Some(160), true));
        // Also where it lies in two.
        assert_eq!(of(Some(150), Some(170)), (Some(110), Some(220), true));
    }
}
