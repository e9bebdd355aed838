//! Sizes batches of work that stops all threads, by how long the earlier batches took.
//!
//! Even a small batch takes some time, tens of milliseconds with thousands of threads: the median of the latest small
//! batches. The time that a batch took beyond that says how much larger the next may be. On a busy machine both vary
//! by much more than a class adds. Then sizes wander, but rather up than down: small batches stop threads for longest.

use std::collections::VecDeque;
use std::time::Duration;

/// How long a batch should take at most.
const TARGET: Duration = Duration::from_millis(34);
/// If even a small batch takes longer than that, a batch may take this many times as long as a small one.
const MORE_THAN_SMALL: f64 = 1.3;
/// No batch should take longer than this.
const MOST: Duration = Duration::from_millis(150);
/// After this many batches a size that took too long is tried again.
const PATIENCE: u32 = 16;
/// Batches up to this size are small.
const SMALL: usize = 4;
/// How many small batches are remembered.
const LATEST: usize = 8;
/// How much smaller the next batch may be, and how much larger.
const GROWTH: (f64, f64) = (0.5, 4.0);

/// How many classes, or stacks, go into a batch.
#[derive(Debug)]
pub(super) struct BatchSize {
    next: usize,
    /// The largest size to try, and how many batches ago a larger one took too long.
    largest: (usize, u32),
    /// What the latest small batches took.
    small: VecDeque<Duration>,
    /// The very first batch discards compiled code, and says nothing about others.
    is_first: bool,
}

impl Default for BatchSize {
    fn default() -> Self {
        let small = VecDeque::with_capacity(LATEST);
        Self { next: 1, largest: (usize::MAX, 0), small, is_first: true }
    }
}

impl BatchSize {
    /// The size of the next batch.
    pub(super) fn next(&self) -> usize {
        self.next
    }

    /// Learns from a batch of this size that `took` so long.
    pub(super) fn add(&mut self, size: usize, took: Duration) {
        if std::mem::take(&mut self.is_first) {
            return;
        }
        if size <= SMALL {
            self.small.truncate(LATEST - 1);
            self.small.push_front(took);
        }
        self.largest = match self.largest {
            _ if took > MOST => ((size / 2).max(1), 0),
            (largest, PATIENCE) => (largest.saturating_mul(2), 0),
            (largest, ago) => (largest, ago + 1),
        };
        // A batch that is only the rest of a list does not count, unless it took too long.
        if size >= self.next || took > MOST {
            self.next = self.after(size, took).clamp(1, self.largest.0);
        }
    }

    fn after(&self, size: usize, took: Duration) -> usize {
        let mut small: Vec<Duration> = self.small.iter().copied().collect();
        small.sort_unstable();
        let small = small.get(small.len().saturating_sub(1) / 2).copied().unwrap_or_default();
        let most = TARGET.max(small.mul_f64(MORE_THAN_SMALL)).min(MOST);
        let room = most.saturating_sub(small).as_secs_f64();
        let beyond = took.saturating_sub(small).as_secs_f64().max(f64::MIN_POSITIVE);
        let (least_growth, most_growth) = GROWTH;
        // A single one may take that long by itself: a batch of two shows.
        let most_growth = if size == 1 && took > TARGET / 2 { 2.0 } else { most_growth };
        let growth = (room / beyond).clamp(least_growth, most_growth);
        // No batch has more than the JVM has classes.
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss
        )]
        let next = (size as f64 * growth) as usize;
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Sizes and durations of batches that each take `fixed`, and `each` more a class.
    fn batches(size: &mut BatchSize, fixed: Duration, each: Duration) -> Vec<(usize, Duration)> {
        let next = |_| {
            let now = size.next();
            let took = fixed + each * u32::try_from(now).unwrap();
            size.add(now, took);
            (now, took)
        };
        (0..30).map(next).collect()
    }

    #[test]
    fn batches_grow_until_they_take_the_target() {
        let batches = batches(&mut BatchSize::default(), 2 * MS, MS / 10);
        assert_eq!([0, 1, 2, 3].map(|n| batches[n].0), [1, 1, 4, 16]);
        assert!(batches[7..].iter().all(|(_, took)| *took >= 33 * MS && *took <= TARGET));
    }

    #[test]
    fn slow_classes_go_alone() {
        let batches = batches(&mut BatchSize::default(), MS, 100 * MS);
        // A batch of two shows that it is the classes.
        assert_eq!(batches[2].0, 2);
        // They are tried again only much later.
        let alone = batches.iter().filter(|(size, _)| *size == 1).count();
        assert!(alone >= 28 && batches.iter().all(|(size, _)| *size <= 2), "{batches:?}");
    }

    /// With thousands of threads every batch takes long. Small batches would stop them for longer in all.
    #[test]
    fn what_every_batch_costs_does_not_make_them_small() {
        for (fixed, most) in [(35, 46), (60, 79), (110, 144), (140, 150)] {
            let batches = batches(&mut BatchSize::default(), fixed * MS, MS / 20);
            let late = &batches[8..];
            assert!(late.iter().all(|(size, _)| *size >= 100), "{fixed}: {batches:?}");
            assert!(late.iter().all(|(_, took)| *took <= most * MS), "{fixed}: {batches:?}");
        }
    }

    /// The durations of batches vary by much more than a class adds.
    #[test]
    fn noise_does_not_make_batches_small() {
        for (most_noise_ms, least) in [(10, 60), (60, 60), (120, 25)] {
            let mut size = BatchSize::default();
            let (mut seed, mut sizes) = (7u64, Vec::new());
            for _ in 0..200 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let noise =
                    MS * most_noise_ms / 1_000 * u32::try_from((seed >> 33) % 1_000).unwrap();
                let now = size.next();
                size.add(now, 28 * MS + noise + MS / 16 * u32::try_from(now).unwrap());
                sizes.push(now);
            }
            let late: usize = sizes[20..].iter().sum();
            assert!(late / 180 > least, "{most_noise_ms}: {sizes:?}");
        }
    }

    /// When a JVM becomes slower, batches become smaller.
    #[test]
    fn batches_shrink_when_classes_get_slower() {
        let mut size = BatchSize::default();
        let before = batches(&mut size, 2 * MS, MS / 20).pop().unwrap();
        let after = batches(&mut size, 2 * MS, MS).pop().unwrap();
        assert!(before.0 > 500 && after.0 <= 40 && after.1 <= TARGET, "{before:?} {after:?}");
    }
}
