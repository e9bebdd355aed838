//! Histogram of durations with two buckets per octave. The probe keeps it, and `stats.csv` contains it.
//!
//! ```text
//! bucket 0            durations under 64 ns
//! bucket 2(h-6)+1     2^h       <= ns < 1.5 * 2^h        h = floor(log2 ns), h >= 6
//! bucket 2(h-6)+2     1.5 * 2^h <= ns < 2^(h+1)
//! ```
//!
//! A percentile is reported as the middle of its bucket, which lies within 25% of the true value (within 32 ns below
//! 64 ns). It is never above the largest known duration.

use std::cmp::Ordering;
use std::fmt::{self, Write as _};

use crate::counts::Counts;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Smallest power of two that has buckets of its own: everything under 2^6 = 64 ns is bucket 0.
const FIRST_OCTAVE: u32 = 6;

/// Number of buckets, enough for every `u64` of nanoseconds.
pub const BUCKETS: usize = 2 * (64 - FIRST_OCTAVE as usize) + 1;

const _: () = assert!(bucket_of(63) == 0 && bucket_of(64) == 1 && bucket_of(96) == 2);
const _: () = assert!(bucket_of(u64::MAX) as usize == BUCKETS - 1);

/// Bucket of a duration in nanoseconds.
#[inline]
#[must_use]
pub const fn bucket_of(ns: u64) -> u8 {
    if ns < 1 << FIRST_OCTAVE {
        return 0;
    }
    let octave = 63 - ns.leading_zeros();
    // 2 in the octave's lower half, 3 in the upper.
    let first_bits = ns >> (octave - 1);
    // At most 2 * 57 + 2 = 116.
    #[allow(clippy::cast_possible_truncation)]
    let bucket = (2 * (octave - FIRST_OCTAVE) + first_bits as u32 - 1) as u8;
    bucket
}

/// Smallest duration of a bucket, in nanoseconds. Buckets past the last one saturate.
#[must_use]
pub const fn lower_bound_ns(bucket: u8) -> u64 {
    if bucket == 0 {
        return 0;
    }
    let octave = FIRST_OCTAVE + (bucket as u32 - 1) / 2;
    if octave > 63 {
        return u64::MAX;
    }
    let half = (bucket as u64 - 1) & 1;
    (1 << octave) + half * (1 << (octave - 1))
}

/// Middle of a bucket, in nanoseconds: represents every duration in it.
#[must_use]
pub const fn middle_ns(bucket: u8) -> u64 {
    let low = lower_bound_ns(bucket);
    low + (lower_bound_ns(bucket.saturating_add(1)) - low) / 2
}

/// Counts by bucket. In CSV and JSON it is the text `bucket:count;bucket:count`, in rising order, without empty
/// buckets.
#[derive(Clone, Default)]
pub struct Histogram(Counts<4>);

impl Histogram {
    /// Adds `count` durations to `bucket`. Returns `false` if that bucket does not exist.
    #[inline]
    pub fn add(&mut self, bucket: u8, count: u64) -> bool {
        let exists = usize::from(bucket) < BUCKETS;
        if exists {
            self.0.add(bucket.into(), count);
        }
        exists
    }

    /// Adds all counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, count) in other.buckets() {
            self.add(bucket, count);
        }
    }

    /// Number of durations in all buckets.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets().fold(0, |sum, (_, n)| sum.saturating_add(n))
    }

    /// The buckets in use with their counts, in rising order.
    pub fn buckets(&self) -> impl Iterator<Item = (u8, u64)> + '_ {
        self.0.buckets().map(|(bucket, count)| (u8::try_from(bucket).unwrap_or(u8::MAX), count))
    }

    /// The bucket of the duration that `longer` others equal or exceed; `None` if there are no more than those.
    #[must_use]
    pub fn bucket_below(&self, longer: u64) -> Option<u8> {
        self.0.bucket_below(longer).and_then(|bucket| u8::try_from(bucket).ok())
    }

    /// How many durations there are in a bucket, and how many in higher ones.
    #[must_use]
    pub fn counts_from(&self, bucket: u8) -> (u64, u64) {
        self.buckets().fold((0, 0), |(inside, above): (u64, u64), (of, count)| {
            match of.cmp(&bucket) {
                Ordering::Less => (inside, above),
                Ordering::Equal => (inside.saturating_add(count), above),
                Ordering::Greater => (inside, above.saturating_add(count)),
            }
        })
    }

    /// The duration at or below which `percent` of all durations lie, in nanoseconds: the middle of its bucket, or
    /// `max_ns` if that is less. `None` without durations.
    #[must_use]
    pub fn percentile_ns(&self, percent: f64, max_ns: u64) -> Option<u64> {
        let total = self.count();
        if total == 0 {
            return None;
        }
        let rank = nearest_rank(percent, total);
        let mut seen = 0u64;
        for (bucket, count) in self.buckets() {
            seen = seen.saturating_add(count);
            if seen >= rank {
                return Some(middle_ns(bucket).min(max_ns));
            }
        }
        None
    }

    /// The text form; see the type.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::new();
        for (bucket, count) in self.buckets() {
            if !text.is_empty() {
                text.push(';');
            }
            // Writing to a String cannot fail.
            let _ = write!(text, "{bucket}:{count}");
        }
        text
    }

    /// Reads the text form. `None` for anything that [`encode`](Self::encode) could not have
    /// written, apart from the order of the buckets.
    #[must_use]
    pub fn decode(text: &str) -> Option<Self> {
        let mut histogram = Self::default();
        if text.is_empty() {
            return Some(histogram);
        }
        for part in text.split(';') {
            let (bucket, count) = part.split_once(':')?;
            if !histogram.add(bucket.parse().ok()?, count.parse().ok()?) {
                return None;
            }
        }
        Some(histogram)
    }
}

/// The smallest rank, from 1 on, with at least `percent` of `count` at or below it.
#[must_use]
pub fn nearest_rank(percent: f64, count: u64) -> u64 {
    let fraction = (percent / 100.0).clamp(0.0, 1.0);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    let rank = (fraction * count as f64).ceil() as u64;
    rank.clamp(1, count.max(1))
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        self.buckets().eq(other.buckets())
    }
}

impl Eq for Histogram {}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Histogram({})", self.encode())
    }
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.encode())
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::decode(&text).ok_or_else(|| de::Error::custom("not a histogram"))
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_begins_where_the_one_before_ends() {
        for bucket in 1..BUCKETS as u8 {
            let low = lower_bound_ns(bucket);
            assert_eq!(bucket_of(low), bucket, "lower bound of {bucket}");
            assert_eq!(bucket_of(low - 1), bucket - 1, "just under {bucket}");
        }
    }

    #[test]
    fn percentiles_stay_within_the_documented_error() {
        // Exact percentiles of a known list against those of its histogram.
        let mut durations: Vec<u64> = (0..10_000u64).map(|i| 50 + i * i % 7_654_321).collect();
        let mut histogram = Histogram::default();
        for ns in &durations {
            assert!(histogram.add(bucket_of(*ns), 1));
        }
        durations.sort_unstable();
        let max = *durations.last().unwrap();
        for percent in [1.0, 25.0, 50.0, 90.0, 95.0, 99.0, 99.9, 100.0] {
            let rank = ((percent / 100.0 * durations.len() as f64).ceil() as usize).max(1);
            let exact = durations[rank - 1];
            let estimate = histogram.percentile_ns(percent, max).unwrap();
            let bound = (exact / 4).max(32);
            assert!(estimate.abs_diff(exact) <= bound, "p{percent}: {estimate} for {exact}");
        }
    }

    #[test]
    fn text_form_round_trips_and_refuses_rubbish() {
        let mut histogram = Histogram::default();
        histogram.add(0, 7);
        histogram.add(116, 1);
        assert_eq!(histogram.encode(), "0:7;116:1");
        assert_eq!(Histogram::decode("0:7;116:1"), Some(histogram));
        assert_eq!(Histogram::decode(""), Some(Histogram::default()));
        for bad in ["x", "1", "1:", ":1", "1:2;", "117:1", "300:1", "1:-1"] {
            assert_eq!(Histogram::decode(bad), None, "{bad}");
        }
    }

    #[test]
    fn counts_of_every_size_and_order_are_kept() {
        let mut counts = [0u64; BUCKETS];
        let mut histogram = Histogram::default();
        let mut random = 1u64;
        for step in 0..20_000u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step | 1);
            let bucket = 40 + (random >> 33) % 30 * (random >> 60) / 9;
            let bucket = (bucket as usize).min(BUCKETS - 1);
            let count = (random >> 20) % [1, 2, 60_000, 1 << 40][(random >> 50) as usize % 4];
            counts[bucket] += count;
            assert!(histogram.add(bucket as u8, count));
        }
        let expected: Vec<(u8, u64)> =
            (0u8..).zip(counts).filter(|(_, count)| *count > 0).collect();
        assert_eq!(histogram.buckets().collect::<Vec<_>>(), expected);
        let mut doubled = Histogram::default();
        for (bucket, count) in expected.iter().rev() {
            doubled.add(*bucket, *count);
        }
        assert_eq!(doubled, histogram);
        doubled.merge(&histogram);
        assert_ne!(doubled, histogram);
        assert_eq!(doubled.count(), 2 * histogram.count());
        doubled.add(3, u64::MAX);
        doubled.add(3, 1);
        assert_eq!(doubled.buckets().next(), Some((3, u64::MAX)));
        assert!(!doubled.add(BUCKETS as u8, 1));
    }

    #[test]
    fn no_durations_have_no_percentile() {
        assert_eq!(Histogram::default().percentile_ns(50.0, 1), None);
    }
}
