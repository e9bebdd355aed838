//! Exceptions before and after, by exact counts.

use std::collections::BTreeMap;

use crate::report::exceptions::ExceptionReport;
use crate::stats::exception_sums::ExceptionSite;

/// The exceptions of a class that began to leave instrumented code in a method, on both sides.
#[derive(Clone, Debug)]
pub struct ExceptionChange {
    /// The class, and the method.
    pub site: ExceptionSite,
    /// How many there were before and after.
    pub began: [u64; 2],
    /// The same in an hour of recording.
    pub per_hour: [f64; 2],
}

impl ExceptionChange {
    /// How many more there are in an hour; negative if there are fewer.
    #[must_use]
    pub fn more(&self) -> f64 {
        let [was, is] = self.per_hour;
        is - was
    }

    /// The same in percent of those before; `None` if there were none.
    #[must_use]
    pub fn percent(&self) -> Option<f64> {
        let [was, _] = self.per_hour;
        (was > 0.0).then(|| self.more() / was * 100.0)
    }
}

/// All exceptions, the largest change first, whether more or fewer. The functions scale a count of a side to an hour.
/// Examples are too few to compare.
pub(super) fn exception_changes(
    before: &ExceptionReport,
    after: &ExceptionReport,
    hourly_before: impl Fn(u64) -> f64,
    hourly_after: impl Fn(u64) -> f64,
) -> Vec<ExceptionChange> {
    let mut sites: BTreeMap<&ExceptionSite, [u64; 2]> = BTreeMap::new();
    for at in before.sites.iter().filter(|_| !before.of_examples) {
        sites.entry(&at.site).or_default()[0] = at.began;
    }
    for at in after.sites.iter().filter(|_| !after.of_examples) {
        sites.entry(&at.site).or_default()[1] = at.began;
    }
    let changes = sites.into_iter().map(|(site, began)| {
        let [was, is] = began;
        let per_hour = [hourly_before(was), hourly_after(is)];
        ExceptionChange { site: site.clone(), began, per_hour }
    });
    let mut changes: Vec<ExceptionChange> = changes.collect();
    changes.sort_by(|one, other| other.more().abs().total_cmp(&one.more().abs()));
    changes
}
