//! Times before and after, by exact statistics: of waits for locks, or of SQL statements.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::diff::change::Change;
use crate::stats::aggregate::Figures;

/// The time of something on both sides.
#[derive(Clone, Debug)]
pub struct TimeChange<K> {
    /// What it is of.
    pub of: K,
    /// The figures before, if there were any; each wait or execution counts as a call, all of it self time.
    pub before: Option<Figures>,
    /// The figures after.
    pub after: Option<Figures>,
    /// The time in an hour of recording.
    pub change: Change,
}

/// All changes, the largest first, whether more or less. Figures of the same thing on a side add up. The functions
/// scale times of a side to an hour.
pub(super) fn time_changes<'r, K: Ord>(
    before: impl Iterator<Item = (K, &'r Figures)>,
    after: impl Iterator<Item = (K, &'r Figures)>,
    hourly_before: impl Fn(u64) -> u64,
    hourly_after: impl Fn(u64) -> u64,
) -> Vec<TimeChange<K>> {
    let mut sides: BTreeMap<K, [Option<Figures>; 2]> = BTreeMap::new();
    for (of, figures) in before {
        let [was, _] = sides.entry(of).or_default();
        was.get_or_insert_default().merge(figures);
    }
    for (of, figures) in after {
        let [_, is] = sides.entry(of).or_default();
        is.get_or_insert_default().merge(figures);
    }
    let total_ns = |figures: &Option<Figures>| figures.as_ref().map_or(0, |f| f.total_ns);
    let changes = sides.into_iter().map(|(of, [before, after])| TimeChange {
        of,
        change: Change {
            was_ns: hourly_before(total_ns(&before)),
            is_ns: hourly_after(total_ns(&after)),
        },
        before,
        after,
    });
    let mut changes: Vec<TimeChange<K>> = changes.collect();
    changes.sort_by_key(|changed| Reverse(changed.change.cost_ns().unsigned_abs()));
    changes
}
