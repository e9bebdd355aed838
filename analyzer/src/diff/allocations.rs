//! Sampled allocations before and after, by class and by site.

use std::collections::BTreeMap;

use crate::diff::sampled::is_no_chance;
use crate::report::allocations::AllocationReport;
use crate::stats::allocation_sums::Allocated;
use crate::stats::method::Method;

/// What allocations are summed up by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AllocationKey {
    /// Their class.
    Class(String),
    /// The method that allocates.
    Site(Method),
}

/// What was allocated of a class, or in a method, on both sides.
#[derive(Clone, Debug)]
pub struct AllocationChange {
    /// The class, or the method.
    pub of: AllocationKey,
    /// Bytes in an hour of recording, before and after.
    pub bytes_per_hour: [u64; 2],
    /// Samples before and after.
    pub samples: [u64; 2],
}

impl AllocationChange {
    /// How many more bytes there are in an hour; negative if there are fewer.
    #[must_use]
    pub fn more(&self) -> f64 {
        let [was, is] = self.bytes_per_hour;
        is as f64 - was as f64
    }

    /// The same in percent of those before; `None` if there were none.
    #[must_use]
    pub fn percent(&self) -> Option<f64> {
        let [was, _] = self.bytes_per_hour;
        (was > 0).then(|| self.more() / was as f64 * 100.0)
    }

    /// Whether chance does not explain it: samples of each side scatter with the root of their number.
    #[must_use]
    pub fn is_clear(&self) -> bool {
        is_no_chance(self.bytes_per_hour, self.samples)
    }
}

/// The changes of all classes and all sites, the largest first, whether more or less; none unless both sides have
/// samples. The functions scale bytes of a side to an hour.
pub(super) fn allocation_changes(
    before: &AllocationReport,
    after: &AllocationReport,
    hourly_before: impl Fn(u64) -> u64,
    hourly_after: impl Fn(u64) -> u64,
) -> Vec<AllocationChange> {
    if before.all.samples == 0 || after.all.samples == 0 {
        return Vec::new();
    }
    let mut sums: BTreeMap<AllocationKey, [Allocated; 2]> = BTreeMap::new();
    for (of, allocated) in rows(before) {
        sums.entry(of).or_default()[0] = allocated;
    }
    for (of, allocated) in rows(after) {
        sums.entry(of).or_default()[1] = allocated;
    }
    let changes = sums.into_iter().map(|(of, [was, is])| AllocationChange {
        of,
        bytes_per_hour: [hourly_before(was.bytes), hourly_after(is.bytes)],
        samples: [was.samples, is.samples],
    });
    let mut changes: Vec<AllocationChange> = changes.collect();
    changes.sort_by(|one, other| other.more().abs().total_cmp(&one.more().abs()));
    changes
}

fn rows(report: &AllocationReport) -> impl Iterator<Item = (AllocationKey, Allocated)> {
    let AllocationReport { classes, sites, .. } = report;
    let classes = classes.iter().map(|row| (AllocationKey::Class(row.of.clone()), row.allocated));
    let sites = sites.iter().map(|row| (AllocationKey::Site(row.of.clone()), row.allocated));
    classes.chain(sites)
}
