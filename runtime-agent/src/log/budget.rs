//! How much of the log may be written in an hour, and how that is spread over the hour.
//!
//! ```text
//! line     a minute's share at once, then evenly; it ends a minute's share below the budget
//! balance  line - bytes of all files of the hour
//! slice    half a second: its recorded calls may take the slice's share and half of the balance.
//!          Below the line they take less, but never less than a quarter of the share
//! ```
//! So what was not used is there for a burst, and every slice of the hour has room for its slowest calls, whatever
//! came before. Method statistics always go on: they take what they need. If that is more than a third of the budget,
//! their intervals grow.
//!
//! Time is CLOCK_MONOTONIC: setting the clock does not affect the budget.

use log_format::file_names::Hour;

const NS_PER_S: u64 = 1_000_000_000;
const SLICES_PER_HOUR: u64 = 7_200;
/// Length of a slice.
pub(crate) const SLICE_NS: u64 = 3_600 * NS_PER_S / SLICES_PER_HOUR;

/// Lengths of an interval of method statistics, in minutes. Each divides an hour.
const INTERVALS: [u64; 3] = [1, 5, 60];

/// The hour's budget.
#[derive(Debug)]
pub(crate) struct Budget {
    /// `None` for no limit.
    hour_bytes: Option<u64>,
    hour: Option<Hour>,
    /// When the hour began, or the run if that was later.
    since_ns: u64,
    spent: u64,
}

impl Budget {
    pub(crate) fn new(hour_bytes: Option<u64>) -> Self {
        Self { hour_bytes, hour: None, since_ns: 0, spent: 0 }
    }

    /// The hour's budget in bytes, if there is one.
    pub(crate) fn hour_bytes(&self) -> Option<u64> {
        self.hour_bytes
    }

    /// Bytes spent in this hour.
    pub(crate) fn spent(&self) -> u64 {
        self.spent
    }

    /// Sets the current hour. A new hour begins with its own budget.
    pub(crate) fn set_hour(&mut self, hour: Hour, now_ns: u64) {
        if self.hour != Some(hour) {
            *self = Self { hour: Some(hour), since_ns: now_ns, ..Self::new(self.hour_bytes) };
        }
    }

    /// Counts bytes that were added to the log.
    pub(crate) fn spend(&mut self, bytes: u64) {
        self.spent = self.spent.saturating_add(bytes);
    }

    /// Bytes that the recorded calls of a slice ending at `now_ns` may take; `None` for no limit.
    pub(crate) fn allowance(&self, now_ns: u64) -> Option<u64> {
        let hour_bytes = self.hour_bytes?;
        let minute_share = hour_bytes / 60;
        let slice_share = (hour_bytes - 2 * minute_share) / SLICES_PER_HOUR;
        let slices = now_ns.saturating_sub(self.since_ns) / SLICE_NS;
        let line = minute_share.saturating_add(slices.saturating_mul(slice_share));
        Some(match line.checked_sub(self.spent) {
            Some(balance) => slice_share + balance / 2,
            None => {
                // The overspent bytes are saved within the next minute or so.
                let overspent = (self.spent - line) / 120;
                slice_share.saturating_sub(overspent).max(slice_share / 4)
            }
        })
    }

    /// How many minutes the next interval of method statistics takes, if those of an interval of `minutes` took
    /// `bytes`. `is_whole` means that it was not ended early.
    pub(crate) fn next_interval(&self, minutes: u64, bytes: u64, is_whole: bool) -> u64 {
        let Some(hour_bytes) = self.hour_bytes else { return minutes };
        let fits = |minutes: u64| bytes <= (hour_bytes / 180).saturating_mul(minutes);
        let place = INTERVALS.iter().position(|m| *m == minutes).unwrap_or(0);
        let neighbour = if !fits(minutes) {
            INTERVALS.get(place + 1)
        } else {
            // A shorter interval has no more rows than this one had.
            place.checked_sub(1).and_then(|p| INTERVALS.get(p)).filter(|m| is_whole && fits(**m))
        };
        neighbour.copied().unwrap_or(minutes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_NS: u64 = 3_600 * NS_PER_S;
    const MB: u64 = 1_000_000;

    fn budget(bytes: u64) -> Budget {
        let mut budget = Budget::new(Some(bytes));
        budget.set_hour(Hour::of_unix_ns(0), 7);
        budget
    }

    #[test]
    fn records_that_take_all_they_may_stay_within_the_hour() {
        for hour_bytes in [MB, 100 * MB, 100_000 * MB] {
            let mut budget = budget(hour_bytes);
            let mut least = u64::MAX;
            for slice in 1..=SLICES_PER_HOUR {
                let allowance = budget.allowance(7 + slice * SLICE_NS).unwrap();
                least = least.min(allowance);
                budget.spend(allowance);
            }
            assert!(budget.spent() <= hour_bytes, "{} of {hour_bytes}", budget.spent());
            assert!(budget.spent() > hour_bytes / 100 * 96, "{} of {hour_bytes}", budget.spent());
            assert!(least >= hour_bytes / SLICES_PER_HOUR * 9 / 10, "{least}");
        }
    }

    #[test]
    fn what_is_not_used_is_there_for_a_burst_and_every_slice_has_its_share() {
        let mut budget = budget(100 * MB);
        // Half an hour without a recorded call, then as many as allowed.
        let mut now = HOUR_NS / 2;
        assert!(budget.allowance(now).unwrap() > 20 * MB);
        let share = 100 * MB / SLICES_PER_HOUR;
        while now < HOUR_NS {
            now += SLICE_NS;
            let allowance = budget.allowance(now).unwrap();
            assert!(allowance >= share * 9 / 10, "{allowance} of {share}");
            budget.spend(allowance);
        }
        assert!(budget.spent() <= 100 * MB);
    }

    #[test]
    fn method_statistics_take_room_from_recorded_calls_and_the_hour_is_kept() {
        let mut budget = budget(100 * MB);
        let share = 100 * MB / SLICES_PER_HOUR;
        for slice in 1..=SLICES_PER_HOUR {
            if slice % 120 == 0 {
                budget.spend(100 * MB / 180);
            }
            let allowance = budget.allowance(7 + slice * SLICE_NS).unwrap();
            assert!(allowance >= share / 4);
            budget.spend(allowance);
        }
        assert!(budget.spent() <= 100 * MB, "{}", budget.spent());
    }

    #[test]
    fn each_hour_has_a_new_budget_and_no_limit_is_none() {
        let mut budget = budget(MB);
        budget.spend(5 * MB);
        assert!(budget.allowance(HOUR_NS).unwrap() < 100);
        budget.set_hour(Hour::of_unix_ns(0), HOUR_NS);
        assert_eq!(budget.spent(), 5 * MB);
        budget.set_hour(Hour::of_unix_ns(HOUR_NS), HOUR_NS);
        assert_eq!(budget.spent(), 0);
        assert!(budget.allowance(HOUR_NS).unwrap() > MB / 120);
        assert_eq!(Budget::new(None).allowance(1), None);
    }

    #[test]
    fn intervals_grow_when_totals_need_a_third_and_shrink_again() {
        let budget = budget(180 * MB);
        assert_eq!(budget.next_interval(1, MB, true), 1);
        assert_eq!(budget.next_interval(1, MB + 1, true), 5);
        assert_eq!(budget.next_interval(5, 5 * MB + 1, true), 60);
        assert_eq!(budget.next_interval(60, 100 * MB, true), 60);
        assert_eq!(budget.next_interval(60, 5 * MB, true), 5);
        assert_eq!(budget.next_interval(5, MB + 1, true), 5);
        assert_eq!(budget.next_interval(5, MB, true), 1);
        // Too few rows to judge by.
        assert_eq!(budget.next_interval(5, 10, false), 5);
        assert_eq!(Budget::new(None).next_interval(1, u64::MAX, true), 1);
    }
}
