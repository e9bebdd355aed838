//! The time of which a log says something.

use crate::options::time_range::TimeRange;

/// From the first counter to the last row: a log's oldest hours may be deleted, and what is in force at its end was so
/// until then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KnownTime {
    first_ns: Option<u64>,
    last_ns: u64,
}

impl KnownTime {
    /// The log has figures of this moment.
    pub(super) fn saw(&mut self, ns: u64) {
        self.reaches(ns);
        self.first_ns = Some(self.first_ns.map_or(ns, |first| first.min(ns)));
    }

    /// The log has a row of this moment, which may be of an earlier hour.
    pub(super) fn reaches(&mut self, ns: u64) {
        self.last_ns = self.last_ns.max(ns);
    }

    /// The part of `range` that is known.
    pub(super) fn within(&self, range: &TimeRange) -> TimeRange {
        TimeRange {
            from_ns: range.from_ns.max(self.first_ns),
            to_ns: Some(range.to_ns.map_or(self.last_ns, |to_ns| to_ns.min(self.last_ns))),
        }
    }
}

/// How much of the time from `from_ns` to `to_ns` is in `range`, in nanoseconds.
pub(super) fn overlap_ns(range: &TimeRange, from_ns: u64, to_ns: Option<u64>) -> u64 {
    let from_ns = from_ns.max(range.from_ns.unwrap_or(0));
    let to_ns = to_ns.unwrap_or(u64::MAX).min(range.to_ns.unwrap_or(u64::MAX));
    to_ns.saturating_sub(from_ns)
}
