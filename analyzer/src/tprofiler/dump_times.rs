//! Which threads of `tsampler.log` were dumped together, and how long it took until the next dump.

use std::collections::{BTreeMap, HashSet};

use log_format::ids::JavaThreadId;

/// A dump of many threads may reach into the next second.
const LONGEST_DUMP_S: u64 = 1;

/// Longer times between dumps are no interval: the JVM was stopped.
const LONGEST_INTERVAL_S: u64 = 24 * 3_600;

const NS_PER_S: u64 = 1_000_000_000;

/// Counts dumps, and the times between them.
#[derive(Debug, Default)]
pub(super) struct DumpTimes {
    start_s: Option<i64>,
    /// The threads of the dump so far: none is in a dump twice.
    threads: HashSet<JavaThreadId>,
    dumps: u64,
    /// How often the next dump began after so many seconds.
    intervals_s: BTreeMap<u64, u64>,
}

impl DumpTimes {
    /// Adds the next thread, and the time that its line shows.
    pub(super) fn add(&mut self, thread: JavaThreadId, shown_s: i64) {
        let since_s = self.start_s.map(|start_s| shown_s.saturating_sub(start_s));
        let is_same_dump = match since_s.map(i64::unsigned_abs) {
            None => false,
            Some(0) => true,
            Some(later_s) => later_s <= LONGEST_DUMP_S && !self.threads.contains(&thread),
        };
        if !is_same_dump {
            // A clock that was set back says nothing.
            let interval_s = since_s.and_then(|since_s| u64::try_from(since_s).ok());
            if let Some(s) = interval_s.filter(|s| *s <= LONGEST_INTERVAL_S) {
                *self.intervals_s.entry(s).or_default() += 1;
            }
            self.start_s = Some(shown_s);
            self.threads.clear();
            self.dumps += 1;
        }
        self.threads.insert(thread);
    }

    pub(super) fn dumps(&self) -> u64 {
        self.dumps
    }

    /// The median of the times between two dumps; `None` if there is only one dump.
    pub(super) fn interval_ns(&self) -> Option<u64> {
        let half = self.intervals_s.values().sum::<u64>().div_ceil(2);
        let mut so_far = 0;
        let median = self.intervals_s.iter().find(|(_, times)| {
            so_far += **times;
            so_far >= half
        });
        median.map(|(s, _)| s * NS_PER_S)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(lines: &[(u64, i64)]) -> (u64, Option<u64>) {
        let mut times = DumpTimes::default();
        lines.iter().for_each(|(thread, at_s)| times.add(JavaThreadId::new(*thread), *at_s));
        (times.dumps(), times.interval_ns().map(|ns| ns / NS_PER_S))
    }

    #[test]
    fn a_dump_ends_where_a_thread_comes_again_or_time_goes_by() {
        assert_eq!(times(&[]), (0, None));
        assert_eq!(times(&[(1, 5), (2, 5), (3, 6)]), (1, None));
        assert_eq!(times(&[(1, 5), (2, 6), (1, 6), (2, 6), (1, 7)]), (3, Some(1)));
        // Of a thread with several stacks in a second.
        assert_eq!(times(&[(1, 5), (1, 5), (2, 5)]), (1, None));
        // A stop of an hour, and a clock that is set back, are no interval.
        let at = [0, 20, 40, 4_000, 4_020, 1_000, 1_020, 200_000, 200_020];
        assert_eq!(times(&at.map(|at_s| (1, at_s))), (9, Some(20)));
        assert_eq!(times(&[(1, i64::MIN), (1, i64::MAX), (1, i64::MIN)]), (3, None));
    }
}
