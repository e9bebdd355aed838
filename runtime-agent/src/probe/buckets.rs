//! The bucket of the histogram for a duration in ticks.
//!
//! A probe finds it by walking from bucket to bucket. That is one comparison for a call of less than 64 ns, and cheap
//! beside a longer one. It must not be computed from the duration: processors read their counter only once they know
//! the addresses of all earlier stores (measured on an AMD EPYC), so the next probe would wait for the computation.
//! They predict the number of loop iterations instead.

use std::sync::atomic::{AtomicU64, Ordering};

use log_format::histogram::lower_bound_ns;

use crate::sys::clock;

/// Buckets kept for a method: durations of 2^45 ns (ten hours) and more share the last one.
pub(crate) const KEPT_BUCKETS: usize = 80;

/// The bucket of the shortest calls.
pub(super) const SHORTEST: usize = 0;

/// The end of each bucket but the last, in ticks.
struct Ends([AtomicU64; KEPT_BUCKETS - 1]);

static ENDS: Ends = Ends::of_nanoseconds();

#[allow(clippy::cast_possible_truncation)] // There are fewer.
const fn end_ns(bucket: usize) -> u64 {
    lower_bound_ns(bucket as u8 + 1)
}

impl Ends {
    /// Before the clock is calibrated, a tick is a nanosecond.
    #[allow(clippy::indexing_slicing)] // As the value of a static, it would not compile.
    const fn of_nanoseconds() -> Self {
        let mut ends = [const { AtomicU64::new(0) }; KEPT_BUCKETS - 1];
        let mut bucket = 0;
        while bucket < ends.len() {
            ends[bucket] = AtomicU64::new(end_ns(bucket));
            bucket += 1;
        }
        Self(ends)
    }

    #[inline]
    fn bucket_of(&self, ticks: u64) -> usize {
        let is_before = |end: &AtomicU64| ticks < end.load(Ordering::Relaxed);
        self.0.iter().position(is_before).unwrap_or(KEPT_BUCKETS - 1)
    }
}

/// The bucket of a duration in ticks.
pub(crate) fn bucket_of(ticks: u64) -> usize {
    ENDS.bucket_of(ticks)
}

/// Recomputes the ends of buckets; the length of a tick may have changed.
pub(super) fn renew() {
    for (bucket, end) in ENDS.0.iter().enumerate() {
        end.store(clock::ns_to_ticks(end_ns(bucket)), Ordering::Relaxed);
    }
}

/// The end of the bucket of the shortest calls, in ticks.
pub(super) fn shortest_end() -> u64 {
    ENDS.0[SHORTEST].load(Ordering::Relaxed)
}

/// The bucket of a duration.
#[inline]
pub(super) fn of_ticks(ticks: u64) -> usize {
    ENDS.bucket_of(ticks)
}

#[cfg(test)]
mod tests {
    use log_format::histogram::bucket_of;

    use super::*;

    #[test]
    fn buckets_are_those_of_the_log_but_that_the_last_has_no_end() {
        let ends = Ends::of_nanoseconds();
        for bucket in 1..KEPT_BUCKETS {
            let low = end_ns(bucket - 1);
            assert_eq!(ends.bucket_of(low), bucket);
            assert_eq!(ends.bucket_of(low - 1), bucket - 1);
            assert_eq!(usize::from(bucket_of(low)), bucket);
        }
        assert_eq!(ends.bucket_of(0), SHORTEST);
        assert_eq!(ends.bucket_of(1 << 60), KEPT_BUCKETS - 1);
        assert_eq!(ends.bucket_of(u64::MAX), KEPT_BUCKETS - 1);
    }
}
