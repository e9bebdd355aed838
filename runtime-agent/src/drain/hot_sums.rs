//! Sums of events since the run began and of the last minute, for `top`.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;

use crate::drain::time_slices::{Period, TimeSlices};
use crate::instrument::methods::Method;
use crate::log::run_log::Now;

/// Most keys that are kept of a run, and of a slice. If there are more, the half with the greatest sums stays.
const MOST_KEYS: usize = 4_096;

/// How many events there were, and how much in all: time, bytes, or exceptions that began. A correction may come before
/// what it corrects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventSum {
    pub count: i64,
    pub amount: i64,
    /// Those of them that threw: of SQL statements.
    pub throws: i64,
}

impl EventSum {
    pub(super) fn add(&mut self, more: Self) {
        self.count = self.count.saturating_add(more.count);
        self.amount = self.amount.saturating_add(more.amount);
        self.throws = self.throws.saturating_add(more.throws);
    }
}

/// Events of a class, or executions of a statement, in a method if that is known, as `top` shows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HotEvent {
    pub class: String,
    pub method: Option<Method>,
    pub sum: EventSum,
}

/// What `top` shows besides methods, each with the greatest sum first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HotEvents {
    pub locks: Vec<HotEvent>,
    /// Seconds of the run in which waits were not counted.
    pub lock_seconds_skipped: u64,
    /// SQL statements, by text.
    pub statements: Vec<HotEvent>,
    pub allocations: Vec<HotEvent>,
    pub exceptions: Vec<HotEvent>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct HotSums<K> {
    run: HashMap<K, EventSum>,
    slices: TimeSlices<HashMap<K, EventSum>>,
}

impl<K: Copy + Eq + Ord + Hash> HotSums<K> {
    pub(super) fn new(now: Now) -> Self {
        Self { run: HashMap::new(), slices: TimeSlices::new(now) }
    }

    pub(super) fn add(&mut self, key: K, count: i64, amount: i64) {
        self.add_sum(key, EventSum { count, amount, throws: 0 });
    }

    pub(super) fn add_sum(&mut self, key: K, sum: EventSum) {
        for sums in [Some(&mut self.run), self.slices.current()].into_iter().flatten() {
            if sums.len() >= MOST_KEYS && !sums.contains_key(&key) {
                let mut amounts: Vec<i64> = sums.values().map(|sum| sum.amount).collect();
                let (_, median, _) = amounts.select_nth_unstable(MOST_KEYS / 2);
                let median = *median;
                sums.retain(|_, sum| sum.amount > median);
            }
            sums.entry(key).or_default().add(sum);
        }
    }

    /// The keys that have a sum of the run, or of the minute.
    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.run.keys().chain(self.slices.iter().flat_map(HashMap::keys))
    }

    /// Whether a key has a sum of the run.
    pub(super) fn has(&self, key: K) -> bool {
        self.run.contains_key(&key)
    }

    /// Approximate memory that it uses.
    pub(super) fn bytes(&self) -> usize {
        let keys = self.run.capacity() + self.slices.iter().map(HashMap::capacity).sum::<usize>();
        keys * size_of::<(K, EventSum)>()
    }

    /// Begins a slice of the minute.
    pub(super) fn next_slice(&mut self, now: Now) {
        self.slices.next(now);
    }

    /// The keys with the greatest sums, at most `count`.
    pub(super) fn hottest(&mut self, period: Period, count: usize, now: Now) -> Vec<(K, EventSum)> {
        self.slices.forget_old(now);
        let mut minute: HashMap<K, EventSum> = HashMap::new();
        let sums = match period {
            Period::Run => &self.run,
            Period::Minute => {
                for (key, sum) in self.slices.iter().flatten() {
                    minute.entry(*key).or_default().add(*sum);
                }
                &minute
            }
        };
        let mut sums: Vec<(K, EventSum)> = sums.iter().map(|(key, sum)| (*key, *sum)).collect();
        sums.retain(|(_, sum)| sum.amount > 0);
        sums.sort_unstable_by_key(|(key, sum)| (Reverse((sum.amount, sum.count)), *key));
        sums.truncate(count);
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_minute_is_distinguished_from_the_run() {
        let at = |second: u64| Now { unix_ns: second, monotonic_ns: second * 1_000_000_000 };
        let mut hot = HotSums::new(at(0));
        for second in 0..200 {
            if second % 15 == 0 {
                hot.next_slice(at(second));
            }
            hot.add(if second < 100 { "early" } else { "late" }, 2, 10);
            hot.add("rare", 1, 1);
        }
        let sum = |count, amount| EventSum { count, amount, throws: 0 };
        let run = [("early", sum(200, 1_000)), ("late", sum(200, 1_000)), ("rare", sum(200, 200))];
        assert_eq!(hot.hottest(Period::Run, 9, at(200)), run);
        assert_eq!(hot.hottest(Period::Run, 1, at(200)), run[..1]);
        let minute = hot.hottest(Period::Minute, 9, at(200));
        let (late, rare) = (minute[0].1, minute[1].1);
        assert_eq!((minute.len(), minute[0].0, minute[1].0), (2, "late", "rare"));
        assert!((60..=75).contains(&rare.count) && late == sum(2 * rare.count, 10 * rare.count));
        // Of very many keys, those with the greatest sums stay.
        let mut many = HotSums::new(at(0));
        for key in 0..10_000 {
            many.add(key, 1, if key == 7 { 5 } else { 1 });
        }
        many.add(9_999, 1, 9);
        let most: Vec<_> =
            many.hottest(Period::Run, 2, at(1)).iter().map(|(key, _)| *key).collect();
        assert_eq!((most, many.run.len() <= MOST_KEYS), (vec![9_999, 7], true));
        // What was taken back is not shown.
        hot.add("late", -200, -1_000);
        assert_eq!(hot.hottest(Period::Run, 9, at(200)).len(), 2);
    }
}
