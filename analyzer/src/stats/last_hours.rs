//! The last hour of the logs and the hour before it, to see what became more frequent.
//!
//! ```text
//! runs        |=====================|   |==============|
//!                 |===================================|
//! hours               |  hour before  |   last hour    |
//! ```

const MINUTE_NS: u64 = 60_000_000_000;
const HOUR_NS: u64 = 60 * MINUTE_NS;

/// Hours are compared if in each of them some run recorded for at least this long.
const LEAST_NS: u64 = 30 * MINUTE_NS;

/// A rise is at least this many times as much, and at least so many more: fewer are chance.
const TIMES: u128 = 2;
const MORE: u128 = 10;

/// The two hours, if they can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastHours {
    /// The end of the last hour.
    end_ns: u64,
    /// How long all runs together recorded in the hour before, and in the last one.
    recorded_ns: [u64; 2],
}

/// How often something happened in the two hours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InHours {
    /// In the hour before the last one.
    pub before: u64,
    /// In the last hour.
    pub last: u64,
}

impl LastHours {
    /// The last hours of these times, each from a moment until before another, in which a run recorded. `None` if
    /// less than half of an hour was recorded.
    #[must_use]
    pub fn of(times: &[(u64, u64)]) -> Option<Self> {
        let end_ns = times.iter().map(|(_, end_ns)| *end_ns).max()?;
        let middle_ns = end_ns.checked_sub(HOUR_NS)?;
        let start_ns = middle_ns.checked_sub(HOUR_NS)?;
        let hours = [(start_ns, middle_ns), (middle_ns, end_ns)];
        let [before, last] = hours.map(|hour| Recorded::within(times, hour));
        let are_whole = before.any_ns >= LEAST_NS && last.any_ns >= LEAST_NS;
        are_whole.then_some(Self { end_ns, recorded_ns: [before.sum_ns, last.sum_ns] })
    }

    /// Adds what happened so many times at a moment, if that lies in one of the hours.
    pub fn add(&self, at_ns: u64, times: u64, to: &mut InHours) {
        let sum = match self.end_ns.checked_sub(at_ns) {
            Some(1..=HOUR_NS) => &mut to.last,
            Some(ns) if ns > HOUR_NS && ns <= 2 * HOUR_NS => &mut to.before,
            _ => return,
        };
        *sum = sum.saturating_add(times);
    }

    /// Whether it happened clearly more often in the last hour. If that was recorded for longer, as after a start, so
    /// much more is no rise.
    #[must_use]
    pub fn rose(&self, InHours { before, last }: InHours) -> bool {
        let [before_ns, last_ns] = self.recorded_ns.map(u128::from);
        let [before, last] = [before, last].map(u128::from);
        let twice = before * TIMES;
        // Neither product exceeds 128 bits if the sums of times are no garbage.
        let is_faster = last.saturating_mul(before_ns) >= twice.saturating_mul(last_ns);
        last >= before + MORE && last >= twice && is_faster
    }
}

/// How long runs recorded within an hour.
struct Recorded {
    /// All runs together.
    sum_ns: u64,
    /// The time in which any of them did.
    any_ns: u64,
}

impl Recorded {
    fn within(times: &[(u64, u64)], (from_ns, to_ns): (u64, u64)) -> Self {
        let inside = times.iter().map(|(start, end)| (*start.max(&from_ns), *end.min(&to_ns)));
        let mut inside: Vec<(u64, u64)> = inside.filter(|(start, end)| start < end).collect();
        inside.sort_unstable();
        let mut recorded = Self { sum_ns: 0, any_ns: 0 };
        let mut until_ns = from_ns;
        for (start_ns, end_ns) in inside {
            recorded.sum_ns = recorded.sum_ns.saturating_add(end_ns - start_ns);
            recorded.any_ns += end_ns.saturating_sub(start_ns.max(until_ns));
            until_ns = until_ns.max(end_ns);
        }
        recorded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hours of runs that recorded from one minute until another.
    fn hours(minutes: &[(u64, u64)]) -> Option<LastHours> {
        let times = minutes.iter().map(|(from, to)| (from * MINUTE_NS, to * MINUTE_NS));
        LastHours::of(&times.collect::<Vec<_>>())
    }

    fn rose(hours: Option<LastHours>, before: u64, last: u64) -> bool {
        hours.unwrap().rose(InHours { before, last })
    }

    #[test]
    fn both_hours_are_recorded_at_least_by_half() {
        assert_eq!(hours(&[]), None);
        assert_eq!(hours(&[(0, 100)]), None);
        assert!(hours(&[(90, 180)]).is_some());
        assert_eq!(hours(&[(91, 180)]), None);
        // Many runs at the same time are no longer time; one after the other they are.
        assert_eq!(hours(&[(100, 180), (100, 170), (100, 160)]), None);
        assert!(hours(&[(80, 100), (100, 110), (150, 180)]).is_some());
        assert_eq!(hours(&[(60, 120), (151, 180)]), None);
    }

    #[test]
    fn moments_lie_in_the_hour_that_they_began_in() {
        let hours = hours(&[(0, 180)]).unwrap();
        let mut found = InHours::default();
        for (minute, times) in [(59, 1_000), (60, 1), (119, 2), (120, 10), (179, 20), (180, 4_000)]
        {
            hours.add(minute * MINUTE_NS, times, &mut found);
        }
        assert_eq!(found, InHours { before: 3, last: 30 });
    }

    #[test]
    fn a_rise_is_twice_as_much_and_ten_more() {
        let hours = hours(&[(0, 180)]);
        assert!(rose(hours, 0, 10) && rose(hours, 10, 20) && rose(hours, 100, 200));
        assert!(!rose(hours, 0, 9) && !rose(hours, 9, 18) && !rose(hours, 100, 199));
        assert!(!rose(hours, 0, 0) && !rose(hours, u64::MAX, u64::MAX));
    }

    #[test]
    fn after_a_start_as_many_a_minute_are_no_rise() {
        // A run that began in the hour before, or a second one in the last hour.
        for hours in [hours(&[(90, 180)]), hours(&[(0, 180), (120, 180)])] {
            assert!(!rose(hours, 100, 200) && !rose(hours, 100, 399) && rose(hours, 100, 400));
        }
    }
}
