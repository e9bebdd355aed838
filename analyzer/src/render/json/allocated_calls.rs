//! What recorded calls allocated.

use serde::Serialize;

use super::rows::Name;
use crate::report::Report;
use crate::stats::allocated_calls::AllocatedByCalls;

/// A method of which recorded calls say what they allocated.
#[derive(Serialize)]
pub(super) struct JsonAllocated<'r> {
    #[serde(flatten)]
    method: Name<'r>,
    calls: u64,
    allocated_bytes: u64,
    max_allocated_bytes: u64,
}

impl<'r> JsonAllocated<'r> {
    /// Those with most of it first, as many as there are rows of methods.
    pub(super) fn all(report: &'r Report) -> Vec<Self> {
        let methods = report.overview.allocated.iter();
        let shown = methods.take(report.layout.top.unwrap_or(usize::MAX));
        let row = |(method, of): &'r (_, AllocatedByCalls)| Self {
            method: Name::new(method),
            calls: of.calls,
            allocated_bytes: of.bytes,
            max_allocated_bytes: of.max_bytes,
        };
        shown.map(row).collect()
    }
}
