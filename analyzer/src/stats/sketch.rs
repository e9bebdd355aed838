//! Durations of recorded calls, exact enough for percentiles within 2%.
//!
//! A [`Sketch`] counts by bucket, like the histogram of the logs, but with 32 buckets per octave instead of two, and
//! 64 buckets of a nanosecond each at the bottom. A bucket's middle is within 1.6% of everything in it. Each bucket
//! lies within one bucket of the histogram, so a rank among the calls of that bucket is a rank among its recorded
//! calls, if all of them were recorded.

use std::cmp::Ordering;
use std::fmt;

use log_format::counts::Counts;
use log_format::histogram::bucket_of;
use log_format::ids::MethodId;

use crate::stats::id_map::MAX_DENSE_ID;

/// Durations below this have a bucket each; above, an octave has half as many buckets.
const EXACT_NS: u64 = 64;

/// Buckets per octave, as a power of two.
const OCTAVE_BITS: u32 = 5;

/// Counts of durations. Sketches can be merged in any order with the same result.
#[derive(Clone, Default)]
pub struct Sketch(Counts<16>);

impl Sketch {
    /// Adds a duration.
    #[inline]
    pub fn add(&mut self, ns: u64) {
        self.0.add(place_of(ns), 1);
    }

    /// Adds all durations of `other`.
    pub fn merge(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
            return;
        }
        for (place, count) in other.0.buckets() {
            self.0.add(place, count);
        }
    }

    /// Whether there are no durations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The counts by the buckets of the histogram; a bucket may come more than once.
    pub fn buckets(&self) -> impl Iterator<Item = (u8, u64)> + '_ {
        self.0.buckets().map(|(place, count)| (bucket_of(lowest_ns(place)), count))
    }

    /// The duration that `longer` others reach or exceed; `None` if there are no more than that.
    #[must_use]
    pub fn ns_below(&self, longer: u64) -> Option<u64> {
        self.0.bucket_below(longer).map(middle_ns)
    }

    /// How many durations are in this bucket of the histogram, and how many in higher ones.
    #[must_use]
    pub fn counts_from(&self, bucket: u8) -> (u64, u64) {
        let (mut inside, mut above) = (0u64, 0u64);
        for (place, count) in self.0.buckets().rev() {
            match bucket_of(lowest_ns(place)).cmp(&bucket) {
                Ordering::Greater => above = above.saturating_add(count),
                Ordering::Equal => inside = inside.saturating_add(count),
                Ordering::Less => break,
            }
        }
        (inside, above)
    }
}

/// Sketches by method id. They are looked up for each row, so they have an array of their own.
#[derive(Default)]
pub struct Sketches {
    by_method: Vec<Sketch>,
    used: usize,
}

impl Sketches {
    /// Adds a duration. Returns `false` if the id is too large for an array.
    #[inline]
    pub fn add(&mut self, method: MethodId, ns: u64) -> bool {
        let index = method.index();
        if method.get() > MAX_DENSE_ID {
            return false;
        }
        if self.by_method.len() <= index {
            self.by_method.resize_with(index + 1, Sketch::default);
        }
        if let Some(sketch) = self.by_method.get_mut(index) {
            self.used += usize::from(sketch.is_empty());
            sketch.add(ns);
        }
        true
    }

    /// How many methods have a sketch.
    #[must_use]
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether no method has a sketch.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Adds all durations of `other`.
    pub fn merge(&mut self, other: Self) {
        if self.by_method.len() < other.by_method.len() {
            self.by_method.resize_with(other.by_method.len(), Sketch::default);
        }
        for (ours, theirs) in self.by_method.iter_mut().zip(other.by_method) {
            self.used += usize::from(ours.is_empty() && !theirs.is_empty());
            ours.merge(theirs);
        }
    }

    /// The methods with a sketch.
    pub fn into_methods(self) -> impl Iterator<Item = (MethodId, Sketch)> {
        (0..).map(MethodId::new).zip(self.by_method).filter(|(_, sketch)| !sketch.is_empty())
    }
}

impl PartialEq for Sketch {
    fn eq(&self, other: &Self) -> bool {
        self.0.buckets().eq(other.0.buckets())
    }
}

impl Eq for Sketch {}

impl fmt::Debug for Sketch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.buckets().map(|(place, n)| (middle_ns(place), n))).finish()
    }
}

/// The bucket of a duration.
#[inline]
#[allow(clippy::cast_possible_truncation)] // There are fewer than 2,000.
fn place_of(ns: u64) -> u16 {
    if ns < EXACT_NS {
        return ns as u16;
    }
    let octave = ns.ilog2();
    let within = (ns >> (octave - OCTAVE_BITS)) & ((1 << OCTAVE_BITS) - 1);
    EXACT_NS as u16 + (((octave - EXACT_NS.ilog2()) << OCTAVE_BITS) + within as u32) as u16
}

/// The shortest duration of a bucket, and its width in nanoseconds.
fn span_ns(place: u16) -> (u64, u64) {
    let place = u64::from(place);
    if place < EXACT_NS {
        return (place, 1);
    }
    let above = place - EXACT_NS;
    let step_bits =
        EXACT_NS.ilog2() - OCTAVE_BITS + u32::try_from(above >> OCTAVE_BITS).unwrap_or(0);
    let within = (above & ((1 << OCTAVE_BITS) - 1)) + (1 << OCTAVE_BITS);
    (within << step_bits, 1 << step_bits)
}

fn lowest_ns(place: u16) -> u64 {
    span_ns(place).0
}

fn middle_ns(place: u16) -> u64 {
    let (lowest, span) = span_ns(place);
    lowest + span / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_middle_is_near_everything_in_its_bucket() {
        let edges = (0..64).flat_map(|bit| {
            (0..100u64).map(move |part| (1u64 << bit).saturating_add(((1 << bit) / 100) * part))
        });
        let mut last = 0;
        for ns in (0..5000).chain(edges).chain([u64::MAX]) {
            let place = place_of(ns);
            let (lowest, span) = span_ns(place);
            assert!(lowest <= ns && ns - lowest < span, "{ns}: {lowest} and {span}");
            assert!(middle_ns(place).abs_diff(ns) as f64 <= ns as f64 / 64.0, "{ns}");
            // Nested in the histogram's buckets.
            assert_eq!(bucket_of(lowest), bucket_of(ns));
            assert_eq!(bucket_of(lowest + (span - 1)), bucket_of(ns));
            last = last.max(place);
        }
        assert_eq!(last, 64 + 58 * 32 - 1);
    }

    #[test]
    fn the_order_makes_no_difference() {
        let durations: Vec<u64> = (0..2000u64).map(|i| i * i * i % 70_000_019).collect();
        let sketch = |durations: &mut dyn Iterator<Item = &u64>| {
            let mut sketch = Sketch::default();
            durations.for_each(|ns| sketch.add(*ns));
            sketch
        };
        let whole = sketch(&mut durations.iter());
        assert_eq!(sketch(&mut durations.iter().rev()), whole);
        for cut in [0, 1, 777, 2000] {
            let mut merged = sketch(&mut durations[cut..].iter());
            merged.merge(sketch(&mut durations[..cut].iter()));
            assert_eq!(merged, whole);
        }
        let mut sorted = durations.clone();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        for longer in [0, 1, 1000, 1999] {
            let (stated, exact) = (whole.ns_below(longer as u64).unwrap(), sorted[longer]);
            assert!(stated.abs_diff(exact) as f64 <= exact as f64 / 64.0, "{stated} for {exact}");
        }
        assert_eq!(whole.ns_below(2000), None);
        for bucket in 0..50 {
            let count = |is: fn(&u8, &u8) -> bool| {
                durations.iter().filter(|ns| is(&bucket_of(**ns), &bucket)).count() as u64
            };
            assert_eq!(whole.counts_from(bucket), (count(u8::eq), count(u8::gt)));
        }
    }
}
