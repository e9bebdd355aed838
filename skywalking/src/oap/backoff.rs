//! How long to wait before the next attempt.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// Waits that double from a second to a minute, each shortened at random by up to half, so that programs that lost
/// the same server do not return all at once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Counts a failure, and returns how long to wait.
    pub(crate) fn next(&mut self) -> Duration {
        let random = RandomState::new().hash_one(self.failures);
        self.next_with(f64::from(u32::try_from(random >> 32).unwrap_or(0)) / f64::from(u32::MAX))
    }

    /// The same with a random number from 0 to 1.
    fn next_with(&mut self, random: f64) -> Duration {
        let longest = FIRST.saturating_mul(1 << self.failures.min(16)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        longest.mul_f64(1.0 - random / 2.0).max(FIRST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_from_a_second_to_a_minute() {
        let waits = |random| {
            let mut backoff = Backoff::default();
            (0..9).map(|_| backoff.next_with(random).as_millis()).collect::<Vec<_>>()
        };
        assert_eq!(waits(0.0), [1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000, 60000]);
        assert_eq!(waits(1.0), [1000, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000]);
        let mut backoff = Backoff { failures: u32::MAX };
        for _ in 0..100 {
            let wait = backoff.next().as_secs_f64();
            assert!((30.0..=60.0).contains(&wait), "{wait}");
        }
    }
}
