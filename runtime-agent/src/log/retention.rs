//! Decides which closed parts of hours are deleted when the run's log is too large or they are too old. It knows only
//! parts that this run has written and closed, so nothing else can be deleted.
//!
//! Age is time on CLOCK_MONOTONIC since a part was closed, and the oldest part is the one closed first: a clock that
//! is set wrong deletes nothing.

use std::collections::VecDeque;
use std::time::Duration;

use log_format::file_names::Part;

/// The limits that the options set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Most bytes of the run.
    pub max_bytes: Option<u64>,
    /// Greatest age of a part.
    pub keep: Option<Duration>,
}

/// The closed parts that exist.
#[derive(Debug)]
pub(crate) struct Retention {
    limits: Limits,
    /// In the order in which they were closed.
    parts: VecDeque<ClosedPart>,
    deleted: u64,
}

#[derive(Debug)]
struct ClosedPart {
    part: Part,
    closed_ns: u64,
    bytes: u64,
}

impl Retention {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, parts: VecDeque::new(), deleted: 0 }
    }

    /// Adds a part that was closed.
    pub(crate) fn add(&mut self, part: Part, bytes: u64, now_ns: u64) {
        self.parts.push_back(ClosedPart { part, closed_ns: now_ns, bytes });
    }

    /// Notes that a part's files take fewer bytes now.
    pub(crate) fn shrink(&mut self, part: Part, saved: u64) {
        if let Some(closed) = self.parts.iter_mut().find(|closed| closed.part == part) {
            closed.bytes = closed.bytes.saturating_sub(saved);
        }
    }

    /// Whether an open part should be closed, so that it can be deleted in time. A user who flushes all the time can
    /// make a part large, and no budget prevents that.
    pub(crate) fn is_too_large(&self, bytes: u64) -> bool {
        self.limits.max_bytes.is_some_and(|max| bytes > max / 4)
    }

    /// Parts deleted so far.
    pub(crate) fn deleted(&self) -> u64 {
        self.deleted
    }

    /// The next part to delete, if the open files take `open_bytes`.
    pub(crate) fn next_to_delete(&mut self, open_bytes: u64, now_ns: u64) -> Option<Part> {
        let oldest = self.parts.front()?;
        let age = Duration::from_nanos(now_ns.saturating_sub(oldest.closed_ns));
        let closed_bytes: u64 = self.parts.iter().map(|closed| closed.bytes).sum();
        let is_too_old = self.limits.keep.is_some_and(|keep| age > keep);
        let is_too_much = self.limits.max_bytes.is_some_and(|max| open_bytes + closed_bytes > max);
        if !is_too_old && !is_too_much {
            return None;
        }
        self.deleted += 1;
        self.parts.pop_front().map(|closed| closed.part)
    }
}

#[cfg(test)]
mod tests {
    use log_format::file_names::Hour;

    use super::*;

    const HOUR_NS: u64 = 3_600_000_000_000;

    fn part(hour: u64) -> Part {
        Part { hour: Hour::of_unix_ns(hour * HOUR_NS), number: 1 }
    }

    #[test]
    fn the_part_closed_first_goes_when_the_run_is_too_large() {
        let mut retention = Retention::new(Limits { max_bytes: Some(100), keep: None });
        // The clock was set back in between.
        for (hour, now) in [(5, 1), (6, 2), (3, 3)] {
            retention.add(part(hour), 30, now);
        }
        assert_eq!(retention.next_to_delete(10, u64::MAX), None);
        assert_eq!(retention.next_to_delete(11, 4), Some(part(5)));
        assert_eq!(retention.next_to_delete(11, 4), None);
        retention.shrink(part(6), 20);
        assert_eq!(retention.next_to_delete(60, 4), None);
        // The open hour is never deleted, however large it is.
        assert_eq!(retention.next_to_delete(1_000, 4), Some(part(6)));
        assert_eq!(retention.next_to_delete(1_000, 4), Some(part(3)));
        assert_eq!(retention.next_to_delete(1_000, 4), None);
        assert_eq!(retention.deleted(), 3);
    }

    #[test]
    fn parts_go_when_they_are_too_old() {
        let keep = Some(Duration::from_hours(72));
        let mut retention = Retention::new(Limits { max_bytes: None, keep });
        for hour in 0..100 {
            retention.add(part(hour), 1 << 40, hour * HOUR_NS);
        }
        let now = 99 * HOUR_NS;
        let mut deleted = Vec::new();
        while let Some(part) = retention.next_to_delete(0, now) {
            deleted.push(part);
        }
        assert_eq!(deleted, (0..27).map(part).collect::<Vec<_>>());
    }
}
