//! Sums of samples in an hour of recording, before and after: of allocated bytes, or of calls.

use std::collections::BTreeMap;

use crate::diff::sampled::is_no_chance;

/// A sum on both sides.
#[derive(Clone, Debug)]
pub struct SumChange<K> {
    /// What it is of.
    pub of: K,
    /// The sum in an hour of recording, before and after.
    pub per_hour: [u64; 2],
    /// Samples before and after.
    pub samples: [u64; 2],
}

impl<K> SumChange<K> {
    /// How much more there is in an hour; negative if there is less.
    #[must_use]
    pub fn more(&self) -> f64 {
        let [was, is] = self.per_hour;
        is as f64 - was as f64
    }

    /// The same in percent of what was before; `None` if there was nothing.
    #[must_use]
    pub fn percent(&self) -> Option<f64> {
        let [was, _] = self.per_hour;
        (was > 0).then(|| self.more() / was as f64 * 100.0)
    }

    /// Whether chance does not explain it: samples of each side scatter with the root of their number.
    #[must_use]
    pub fn is_clear(&self) -> bool {
        is_no_chance(self.per_hour, self.samples)
    }
}

/// A sum, and how many samples it is of.
pub(super) type Sampled = (u64, u64);

/// The changes of all, the largest first, whether more or less. The functions scale a sum of a side to an hour.
pub(super) fn changes<K: Ord>(
    before: impl Iterator<Item = (K, Sampled)>,
    after: impl Iterator<Item = (K, Sampled)>,
    hourly_before: impl Fn(u64) -> u64,
    hourly_after: impl Fn(u64) -> u64,
) -> Vec<SumChange<K>> {
    let mut sums: BTreeMap<K, [Sampled; 2]> = BTreeMap::new();
    for (of, sum) in before {
        sums.entry(of).or_default()[0] = sum;
    }
    for (of, sum) in after {
        sums.entry(of).or_default()[1] = sum;
    }
    let changes = sums.into_iter().map(|(of, [(was, samples), (is, later)])| SumChange {
        of,
        per_hour: [hourly_before(was), hourly_after(is)],
        samples: [samples, later],
    });
    let mut changes: Vec<SumChange<K>> = changes.collect();
    changes.sort_by(|one, other| other.more().abs().total_cmp(&one.more().abs()));
    changes
}
