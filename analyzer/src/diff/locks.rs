//! Waits for locks before and after, by exact statistics.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::diff::change::Change;
use crate::report::locks::LockReport;
use crate::stats::aggregate::Figures;
use crate::stats::lock_sums::LockSite;

/// The waits for locks of a class in a method, on both sides.
#[derive(Clone, Debug)]
pub struct LockChange {
    /// The class, and the method.
    pub site: LockSite,
    /// The waits before, if there were any; each counts as a call, all of it self time.
    pub before: Option<Figures>,
    /// The waits after.
    pub after: Option<Figures>,
    /// Their time in an hour of recording.
    pub change: Change,
}

/// The changes of all waits, the largest first, whether more or less. The functions scale times of a side to an hour.
pub(super) fn lock_changes(
    before: &LockReport,
    after: &LockReport,
    hourly_before: impl Fn(u64) -> u64,
    hourly_after: impl Fn(u64) -> u64,
) -> Vec<LockChange> {
    let mut sites: BTreeMap<&LockSite, [Option<&Figures>; 2]> = BTreeMap::new();
    for lock in &before.locks {
        sites.entry(&lock.site).or_default()[0] = Some(&lock.figures);
    }
    for lock in &after.locks {
        sites.entry(&lock.site).or_default()[1] = Some(&lock.figures);
    }
    let total_ns = |figures: Option<&Figures>| figures.map_or(0, |figures| figures.total_ns);
    let changes = sites.into_iter().map(|(site, [was, is])| LockChange {
        site: site.clone(),
        before: was.cloned(),
        after: is.cloned(),
        change: Change { was_ns: hourly_before(total_ns(was)), is_ns: hourly_after(total_ns(is)) },
    });
    let mut changes: Vec<LockChange> = changes.collect();
    changes.sort_by_key(|changed| Reverse(changed.change.cost_ns().unsigned_abs()));
    changes
}
