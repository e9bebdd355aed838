//! Method statistics of an interval, over all threads. Intervals end on a minute of the clock, so that none spans two
//! hours.

use std::collections::HashMap;

use log_format::histogram::Histogram;
use log_format::ids::MethodId;
use log_format::rows::StatsRow;

use crate::drain::hot_methods::Sum;
use crate::probe::method_totals::Added;
use crate::sys::clock;

const MINUTE_NS: u64 = 60_000_000_000;
const FIRST_INTERVAL_NS: u64 = 10_000_000_000;

/// Rows made at a time: with thousands of methods, all rows at once would take megabytes.
const ROWS: usize = 1_024;

/// Method statistics since the interval began, by method.
pub(crate) struct Interval {
    pub start_ns: u64,
    pub minutes: u64,
    end_ns: u64,
    /// Whether it is the run's first.
    is_first: bool,
    methods: HashMap<MethodId, Totals>,
}

#[derive(Default)]
struct Totals {
    sum: Sum,
    /// Buckets in use with their counts, in no order.
    histogram: Vec<(u8, u64)>,
}

impl Interval {
    /// The run's first interval: a short one, so that a user who tries the agent soon sees something.
    pub(crate) fn first(now_ns: u64) -> Self {
        let interval = Self::begin(now_ns, 1);
        let end_ns = interval.end_ns.min(now_ns + FIRST_INTERVAL_NS);
        Self { end_ns, is_first: true, ..interval }
    }

    pub(crate) fn begin(now_ns: u64, minutes: u64) -> Self {
        let length_ns = minutes * MINUTE_NS;
        let end_ns = (now_ns / length_ns + 1) * length_ns;
        Self { start_ns: now_ns, end_ns, minutes, is_first: false, methods: HashMap::new() }
    }

    /// Whether it is the run's first and still empty.
    pub(crate) fn is_untouched(&self) -> bool {
        self.is_first && self.methods.is_empty()
    }

    /// Whether it is time to end it. If the clock is set back, the interval ends now and does not wait until the
    /// clock catches up.
    pub(crate) fn is_over(&self, now_ns: u64) -> bool {
        now_ns >= self.end_ns || now_ns < self.start_ns
    }

    /// Whether it lasted about as long as planned.
    pub(crate) fn was_whole(&self, now_ns: u64) -> bool {
        now_ns >= self.end_ns && self.end_ns - self.start_ns > self.minutes * MINUTE_NS / 10 * 9
    }

    /// Adds what a thread has done.
    pub(crate) fn add(&mut self, method: MethodId, since: &Added) {
        let totals = self.methods.entry(method).or_default();
        totals.sum.add(&Sum::of(since));
        for (bucket, count) in &since.histogram {
            let count = u64::from(*count);
            match totals.histogram.iter_mut().find(|(known, _)| known == bucket) {
                Some((_, counted)) => *counted += count,
                None => totals.histogram.push((*bucket, count)),
            }
        }
    }

    /// The rows of all methods, a batch at a time.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Vec<StatsRow>> + '_ {
        let mut methods: Vec<MethodId> = self.methods.keys().copied().collect();
        methods.sort_unstable();
        let mut methods = methods.into_iter();
        std::iter::from_fn(move || {
            let rows: Vec<StatsRow> =
                methods.by_ref().take(ROWS).filter_map(|method| self.row(method)).collect();
            (!rows.is_empty()).then_some(rows)
        })
    }

    fn row(&self, method: MethodId) -> Option<StatsRow> {
        let Totals { sum, histogram } = self.methods.get(&method)?;
        let mut hist = Histogram::default();
        for (bucket, count) in histogram {
            hist.add(*bucket, *count);
        }
        Some(StatsRow {
            start_ns: self.start_ns,
            method,
            calls: sum.calls,
            throws: sum.throws,
            total_ns: clock::ticks_to_ns(sum.total_ticks),
            self_ns: clock::ticks_to_ns(sum.self_ticks),
            max_ns: clock::ticks_to_ns(sum.max_ticks),
            hist,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_many_methods_come_in_order_and_whole() {
        let mut interval = Interval::begin(90_000_000_000, 1);
        let reading = |bucket: u8| Added {
            calls: 1,
            throws: 1,
            max_ticks: u64::from(bucket),
            histogram: vec![(bucket, 1)],
            ..Added::default()
        };
        for method in (1..=3_000).rev() {
            for bucket in [40, 3, 40] {
                interval.add(MethodId::new(method), &reading(bucket));
            }
        }
        let parts: Vec<Vec<StatsRow>> = interval.rows().collect();
        assert!(parts.len() > 2 && parts.iter().all(|part| part.len() <= ROWS));
        let rows = parts.concat();
        assert!((1..=3_000).eq(rows.iter().map(|row| row.method.get())));
        for row in rows {
            assert_eq!((row.start_ns, row.calls, row.throws), (90_000_000_000, 3, 3));
            assert_eq!(row.hist.encode(), "3:1;40:2");
        }
        let now = |seconds: u64| seconds * 1_000_000_000;
        assert!(!interval.is_over(now(119)) && interval.is_over(now(120)));
        assert!(interval.is_over(now(89)) && !interval.was_whole(now(120)));
    }
}
