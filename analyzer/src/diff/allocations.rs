//! Sampled allocations before and after, by class and by site.

use crate::diff::sum_change::{Sampled, SumChange, changes};
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

/// The bytes that were allocated of a class, or in a method, on both sides.
pub type AllocationChange = SumChange<AllocationKey>;

/// The changes of all classes and all sites; none unless both sides have samples. The functions scale bytes of a side
/// to an hour.
pub(super) fn allocation_changes(
    before: &AllocationReport,
    after: &AllocationReport,
    hourly_before: impl Fn(u64) -> u64,
    hourly_after: impl Fn(u64) -> u64,
) -> Vec<AllocationChange> {
    if before.all.samples == 0 || after.all.samples == 0 {
        return Vec::new();
    }
    changes(rows(before), rows(after), hourly_before, hourly_after)
}

fn rows(report: &AllocationReport) -> impl Iterator<Item = (AllocationKey, Sampled)> {
    let sampled = |Allocated { bytes, samples, .. }: Allocated| (bytes, samples);
    let AllocationReport { classes, sites, .. } = report;
    let class = |of: &String| AllocationKey::Class(of.clone());
    let classes = classes.iter().map(move |row| (class(&row.of), sampled(row.allocated)));
    let sites = sites.iter();
    let sites = sites.map(move |row| (AllocationKey::Site(row.of.clone()), sampled(row.allocated)));
    classes.chain(sites)
}
