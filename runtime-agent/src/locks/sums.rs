//! Sums of all waits that have ended, by class of the lock and measured method.

use log_format::histogram::Histogram;
use log_format::ids::MethodId;
use log_format::rows::LockRow;
use rewriter::probe::OFFLINE;

use super::kinds;
use crate::jvm::class_names;
use crate::probe::buckets::{KEPT_BUCKETS, bucket_of};
use crate::sys::clock;
use crate::sys::memory::sharded::Sharded;

/// Waits for locks of one class from one method.
#[derive(Clone, Debug)]
pub(crate) struct WaitSum {
    ticks: u64,
    max: u64,
    buckets: [u32; KEPT_BUCKETS],
}

impl WaitSum {
    pub(crate) const NONE: Self = Self { ticks: 0, max: 0, buckets: [0; KEPT_BUCKETS] };

    fn add(&mut self, ticks: u64) {
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

    /// How many waits there are, and their time in nanoseconds.
    pub(crate) fn waits_and_ns(&self) -> (u64, u64) {
        (self.buckets.iter().map(|count| u64::from(*count)).sum(), clock::ticks_to_ns(self.ticks))
    }

    pub(crate) fn row(&self, start_ns: u64, class: u32, method: MethodId) -> LockRow {
        let mut hist = Histogram::default();
        for (bucket, count) in (0..).zip(self.buckets) {
            if count > 0 {
                hist.add(bucket, u64::from(count));
            }
        }
        LockRow {
            start_ns,
            kind: kinds::kind(class),
            class: class_names::name(class),
            method,
            waits: hist.count(),
            total_ns: clock::ticks_to_ns(self.ticks),
            max_ns: clock::ticks_to_ns(self.max),
            hist,
        }
    }
}

/// By class and method.
static SUMS: Sharded<WaitSum> = Sharded::new();

/// Adds a wait; `false` if there is no memory.
pub(super) fn add(class: u32, method: MethodId, ticks: u64) -> bool {
    let key = u64::from(class) << 32 | u64::from(method.get());
    SUMS.change_or_insert(key, WaitSum::NONE, |sum| sum.add(ticks))
}

pub(super) fn clear() {
    SUMS.clear();
}

/// Takes the sums since the last call, by class and method.
pub(crate) fn take_sums() -> Vec<((u32, MethodId), WaitSum)> {
    let key = |(key, sum): (u64, WaitSum)| {
        let [class, method] = [key >> 32, key & 0xffff_ffff].map(|half| half.try_into().ok());
        // Methods that the `rewrite` command instrumented have no names.
        let method =
            method.filter(|method| *method < OFFLINE).map_or(MethodId::NONE, MethodId::new);
        Some(((class?, method), sum))
    };
    SUMS.take_all().into_iter().filter_map(key).collect()
}
