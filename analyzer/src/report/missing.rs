//! What a report lacks.

use std::cmp::Reverse;

use crate::run::cut_short::CutInRun;
use crate::run::losses::{Losses, NotInstrumented, Raised, StatisticsLosses};
use crate::run::muted::MutedInRun;
use crate::run::postponed::PostponedInRun;
use crate::run::throttled::{ThrottledInRun, sort_by_missed};

/// What the report lacks.
#[derive(Debug, Default)]
pub struct Missing {
    /// Files and runs that could not be read, one message each.
    pub unread: Vec<String>,
    /// What the agent lost.
    pub losses: Losses,
    /// Runs that lack something at their end.
    pub cut: Vec<CutInRun>,
    /// When the threshold was raised, run by run.
    pub raised: Vec<RaisedInRun>,
    /// Throttled methods, those with most time missed first.
    pub throttled: Vec<ThrottledInRun>,
    /// Patterns whose methods were muted at some time.
    pub muted: Vec<MutedInRun>,
    /// Loaded classes that were not instrumented for some time.
    pub postponed: Vec<PostponedInRun>,
}

impl Missing {
    /// Forgets what only method statistics lack: the report has none.
    pub(crate) fn forget_statistics(&mut self) {
        self.losses.statistics = StatisticsLosses::default();
        self.losses.not_instrumented = NotInstrumented::default();
        self.raised.clear();
        self.throttled.clear();
        self.muted.clear();
        self.postponed.clear();
    }

    /// Sorts it: what matters most comes first.
    pub(crate) fn sort(&mut self) {
        sort_by_missed(&mut self.throttled);
        self.muted.sort_by_key(|MutedInRun { muted, .. }| Reverse(muted.muted_ns));
        // First the classes that were never instrumented, then by how long they were not.
        self.postponed.sort_by_key(|PostponedInRun { class, .. }| {
            Reverse(class.to_ns.map_or(u64::MAX, |to_ns| to_ns.saturating_sub(class.from_ns)))
        });
    }
}

/// The times in which a run recorded fewer calls than configured.
#[derive(Debug, PartialEq, Eq)]
pub struct RaisedInRun {
    /// Label of the run.
    pub run: String,
    /// The lowest threshold, in nanoseconds.
    pub base_ns: u64,
    /// When it was higher.
    pub times: Vec<Raised>,
}
