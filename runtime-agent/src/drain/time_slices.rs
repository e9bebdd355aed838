//! Slices of time, of which a minute's worth is kept.

use std::collections::VecDeque;

use crate::log::run_log::Now;

const SLICE_NS: u64 = 15_000_000_000;
pub(super) const MINUTE_NS: u64 = 60_000_000_000;

/// The period that `top` covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Period {
    /// Since the run began.
    Run,
    /// The last minute, or up to a quarter longer.
    Minute,
}

/// What belongs to each of the last slices.
#[derive(Debug)]
pub(super) struct TimeSlices<S> {
    /// The last is the current one; never empty.
    slices: VecDeque<(Now, S)>,
}

impl<S: Default> TimeSlices<S> {
    pub(super) fn new(now: Now) -> Self {
        Self { slices: VecDeque::from([(now, S::default())]) }
    }

    /// What belongs to the current slice.
    pub(super) fn current(&mut self) -> Option<&mut S> {
        self.slices.back_mut().map(|(_, slice)| slice)
    }

    /// Whether the current slice is over. Then add everything up to now and call [`next`](Self::next).
    pub(super) fn is_over(&self, now: Now) -> bool {
        self.slices.back().is_none_or(|(began, _)| now.since(*began) >= SLICE_NS)
    }

    pub(super) fn next(&mut self, now: Now) {
        self.slices.push_back((now, S::default()));
        self.forget_old(now);
    }

    /// Forgets slices that ended more than a minute ago.
    pub(super) fn forget_old(&mut self, now: Now) {
        while self.slices.get(1).is_some_and(|(next, _)| now.since(*next) >= MINUTE_NS) {
            self.slices.pop_front();
        }
    }

    /// When the first slice began.
    pub(super) fn began(&self) -> Option<Now> {
        self.slices.front().map(|(began, _)| *began)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &S> {
        self.slices.iter().map(|(_, slice)| slice)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.slices.len()
    }
}
