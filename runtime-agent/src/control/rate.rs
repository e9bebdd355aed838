//! Rate limits with bursts.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The longest wait for a turn.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(1);

/// A limit that several clients share. Turns are given first come, first served.
#[derive(Debug)]
pub(super) struct RateLimit {
    per_second: u32,
    began: Instant,
    turns: Mutex<Turns>,
}

impl RateLimit {
    pub(super) fn new(per_second: u32, at_once: u32) -> Self {
        let turns = Mutex::new(Turns::new(per_second, at_once));
        Self { per_second, began: Instant::now(), turns }
    }

    pub(super) fn per_second(&self) -> u32 {
        self.per_second
    }

    /// Takes a turn and returns how long to wait for it. If that is longer than [`MAX_WAIT`], takes none
    /// and returns `None`.
    pub(super) fn take(&self) -> Option<Duration> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner).take(self.began.elapsed())
    }
}

/// The limit itself, without a clock.
#[derive(Debug)]
struct Turns {
    /// Time between two turns.
    interval: Duration,
    /// How far ahead turns can be taken without waiting.
    at_once: Duration,
    /// When the last turn taken is over, if each takes one interval.
    end: Duration,
}

impl Turns {
    fn new(per_second: u32, at_once: u32) -> Self {
        let interval = Duration::from_secs(1) / per_second.max(1);
        Self { interval, at_once: interval * at_once, end: Duration::ZERO }
    }

    fn take(&mut self, now: Duration) -> Option<Duration> {
        let end = self.end.max(now) + self.interval;
        let wait = end.saturating_sub(now + self.at_once);
        if wait > MAX_WAIT {
            return None;
        }
        self.end = end;
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_burst_then_one_turn_an_interval_then_none() {
        let mut turns = Turns::new(10, 20);
        let now = 5_000 * MS;
        for _ in 0..20 {
            assert_eq!(turns.take(now), Some(Duration::ZERO));
        }
        for n in 1..=10 {
            assert_eq!(turns.take(now), Some(n * 100 * MS));
        }
        assert_eq!(turns.take(now), None);
        assert_eq!(turns.take(now + 99 * MS), None);
        assert_eq!(turns.take(now + 100 * MS), Some(MAX_WAIT));
    }

    #[test]
    fn idle_time_allows_one_burst_however_long_it_is() {
        let mut turns = Turns::new(50, 100);
        let mut now = Duration::ZERO;
        for quiet in [MS, 10_000 * MS, 3_600_000 * MS] {
            now += quiet;
            let free = (0..1_000).take_while(|_| turns.take(now) == Some(Duration::ZERO)).count();
            assert!(free <= 100, "{free} after {quiet:?}");
        }
    }

    #[test]
    fn a_minute_of_flood_gets_the_rate_and_one_burst() {
        let mut turns = Turns::new(10, 20);
        let tries = (0..60_000).filter_map(|ms| turns.take(ms * MS)).count();
        // The last ones wait beyond the minute.
        assert!((610..=20 + 600 + 10).contains(&tries), "{tries}");
    }
}
