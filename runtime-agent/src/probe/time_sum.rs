//! A sum of durations in ticks, with their maximum and histogram.

use log_format::histogram::Histogram;

use crate::probe::buckets::{KEPT_BUCKETS, bucket_of};
use crate::sys::clock;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct TimeSum {
    ticks: u64,
    max: u64,
    buckets: [u32; KEPT_BUCKETS],
}

impl TimeSum {
    pub(crate) const NONE: Self = Self { ticks: 0, max: 0, buckets: [0; KEPT_BUCKETS] };

    pub(crate) fn add(&mut self, ticks: u64) {
        self.ticks = self.ticks.saturating_add(ticks);
        self.max = self.max.max(ticks);
        if let Some(bucket) = self.buckets.get_mut(bucket_of(ticks)) {
            *bucket = bucket.saturating_add(1);
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.ticks = self.ticks.saturating_add(other.ticks);
        self.max = self.max.max(other.max);
        for (sum, more) in self.buckets.iter_mut().zip(other.buckets) {
            *sum = sum.saturating_add(more);
        }
    }

    /// How many durations there are.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().map(|count| u64::from(*count)).sum()
    }

    pub(crate) fn total_ns(&self) -> u64 {
        clock::ticks_to_ns(self.ticks)
    }

    pub(crate) fn max_ns(&self) -> u64 {
        clock::ticks_to_ns(self.max)
    }

    pub(crate) fn histogram(&self) -> Histogram {
        let mut hist = Histogram::default();
        for (bucket, count) in (0..).zip(self.buckets) {
            if count > 0 {
                hist.add(bucket, u64::from(count));
            }
        }
        hist
    }
}
