//! Sums by second, until the second is over and no more samples of it come; and how many samples there are.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

const SECOND_NS: u64 = 1_000_000_000;
/// Samples of a second that is over may come so much later.
const LATE_NS: u64 = SECOND_NS / 2;

/// See the module.
#[derive(Debug)]
pub(super) struct Seconds<K, S>(BTreeMap<u64, HashMap<K, S>>);

impl<K, S> Default for Seconds<K, S> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Copy + Ord + Hash, S: Copy + Default> Seconds<K, S> {
    /// The sum of a key in the second of this moment.
    pub(super) fn sum(&mut self, at_ns: u64, key: K) -> &mut S {
        self.0.entry(at_ns - at_ns % SECOND_NS).or_default().entry(key).or_default()
    }

    /// Takes the seconds that are over; with `all`, all. Each sum has the start of its second.
    pub(super) fn take(&mut self, now_ns: u64, all: bool) -> Vec<(u64, K, S)> {
        let mut taken = Vec::new();
        while let Some(second) = self.0.first_entry() {
            let start_ns = *second.key();
            if !all && now_ns < start_ns + SECOND_NS + LATE_NS {
                break;
            }
            let mut sums: Vec<(K, S)> = second.remove().into_iter().collect();
            sums.sort_unstable_by_key(|(key, _)| *key);
            taken.extend(sums.into_iter().map(|(key, sum)| (start_ns, key, sum)));
        }
        taken
    }
}

/// Samples of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SampleCounts {
    pub samples: u64,
    /// Those of them that are not in the log: too many at once, no memory, or the hour's budget.
    pub dropped: u64,
}

/// Counts samples of a kind since the run began.
#[derive(Debug)]
pub(super) struct SampleCounter {
    /// Those that were taken from the threads, and those that were not written then.
    taken: u64,
    over_budget: u64,
    /// What threads had dropped when the run began, and how much that is now.
    dropped_before: u64,
    dropped: fn() -> u64,
}

impl SampleCounter {
    pub(super) fn begin(dropped: fn() -> u64) -> Self {
        Self { taken: 0, over_budget: 0, dropped_before: dropped(), dropped }
    }

    pub(super) fn take(&mut self, samples: usize) {
        self.taken += samples as u64;
    }

    pub(super) fn add_over_budget(&mut self, samples: u64) {
        self.over_budget += samples;
    }

    /// As far as samples were taken.
    pub(super) fn counts(&self) -> SampleCounts {
        let lost = (self.dropped)().saturating_sub(self.dropped_before);
        SampleCounts { samples: self.taken + lost, dropped: lost + self.over_budget }
    }
}
