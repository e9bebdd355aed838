//! Counts by bucket number, in little memory: reports hold some for each method of each hour.

/// Counts of buckets from the lowest in use to the highest, two bytes each, and another word for each count of 65,536
/// or more. `STEP` buckets are allocated together, so that not every new bucket makes it grow.
#[derive(Clone, Default)]
pub struct Counts<const STEP: u16> {
    /// The number of the first bucket, a multiple of `STEP`, and the counts of the buckets from it on. Empty without
    /// buckets.
    low: Box<[u16]>,
    /// What does not fit into the `low` of a bucket is here at the same index: the count is the sum of both.
    high: Option<Box<High>>,
}

/// Large counts by bucket, in no order.
#[derive(Clone, Default)]
struct High(Vec<(u16, u64)>);

impl<const STEP: u16> Counts<STEP> {
    /// Adds `count` to a bucket.
    #[inline]
    pub fn add(&mut self, bucket: u16, count: u64) {
        if !self.add_low(bucket, count) {
            self.add_rest(bucket, count);
        }
    }

    /// Whether nothing was ever added.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.low.is_empty()
    }

    /// The first bucket, and the counts from it on.
    #[inline]
    fn low(&self) -> (u16, &[u16]) {
        self.low.split_first().map_or((0, &[]), |(first, counts)| (*first, counts))
    }

    #[inline]
    fn slot(&mut self, bucket: u16) -> Option<&mut u16> {
        let (first, counts) = self.low.split_first_mut()?;
        counts.get_mut(usize::from(bucket.checked_sub(*first)?))
    }

    #[inline]
    fn add_low(&mut self, bucket: u16, count: u64) -> bool {
        let Some(slot) = self.slot(bucket) else { return false };
        let sum = u16::try_from(count).ok().and_then(|count| slot.checked_add(count));
        if let Some(sum) = sum {
            *slot = sum;
        }
        sum.is_some()
    }

    #[cold]
    fn add_rest(&mut self, bucket: u16, count: u64) {
        self.reach(bucket);
        if self.add_low(bucket, count) {
            return;
        }
        let low = self.slot(bucket).map_or(0, std::mem::take);
        let more = count.saturating_add(low.into());
        let High(high) = self.high.get_or_insert_default().as_mut();
        match high.iter_mut().find(|(of, _)| *of == bucket) {
            Some((_, sum)) => *sum = sum.saturating_add(more),
            None => high.push((bucket, more)),
        }
    }

    /// Makes room for a bucket.
    fn reach(&mut self, bucket: u16) {
        let step = bucket - bucket % STEP;
        let (known_first, counts) = self.low();
        let len = counts.len();
        let (mut first, mut buckets) = (step, usize::from(STEP));
        if len > 0 {
            first = step.min(known_first);
            let end = (usize::from(known_first) + len).max(usize::from(step) + buckets);
            buckets = end - usize::from(first);
        }
        if buckets == len {
            return;
        }
        let mut low = Vec::with_capacity(1 + buckets);
        low.push(first);
        low.resize(1 + usize::from(known_first.saturating_sub(first)), 0);
        low.extend_from_slice(counts);
        low.resize(1 + buckets, 0);
        self.low = low.into();
    }

    /// The bucket of the value that `more` others equal or exceed; `None` if there are no more than those.
    #[must_use]
    pub fn bucket_below(&self, more: u64) -> Option<u16> {
        let mut seen = 0u64;
        let mut highest_first = self.buckets().rev();
        let found = highest_first.find(|(_, count)| {
            seen = seen.saturating_add(*count);
            seen > more
        });
        found.map(|(bucket, _)| bucket)
    }

    /// The buckets in use with their counts, in rising order.
    pub fn buckets(&self) -> impl DoubleEndedIterator<Item = (u16, u64)> + '_ {
        let high = self.high.as_deref();
        let (first, counts) = self.low();
        let of_place = move |(place, low): (usize, &u16)| {
            let bucket = first.saturating_add(u16::try_from(place).unwrap_or(u16::MAX));
            let of_bucket = |high: &High| high.0.iter().find(|(of, _)| *of == bucket).copied();
            let (_, more) = high.and_then(of_bucket).unwrap_or((bucket, 0));
            (bucket, more.saturating_add(u64::from(*low)))
        };
        counts.iter().enumerate().map(of_place).filter(|(_, count)| *count > 0)
    }
}
