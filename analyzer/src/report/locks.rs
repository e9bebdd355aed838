//! Waits for locks that other threads had, and other parks.

use crate::run::lock_waits::is_for_a_lock;
use crate::stats::aggregate::{Figures, Group};
use crate::stats::group_sums::GroupRow;
use crate::stats::lock_sums::{LockSite, LockSums, LockWait};
use crate::stats::method::Method;
use crate::stats::sampled_stacks::SampledStacks;

/// Waits for locks.
#[derive(Debug, Default)]
pub struct LockReport {
    /// The time of all waits, in nanoseconds.
    pub total_ns: u64,
    /// How many there are.
    pub waits: u64,
    /// Whether figures are of the recorded waits alone.
    pub of_recorded: bool,
    /// Seconds in which waits were not counted, because there were too many.
    pub seconds_skipped: u64,
    /// The locks and where threads wait for them, those with most time first.
    pub locks: Vec<LockTimes>,
    /// Where threads parked in instrumented methods for something else, those with most time first.
    pub parks: Vec<LockTimes>,
    /// Waits of each group by lock or other park and method: how many, and their time. Of recorded waits alone, if
    /// `groups_of_recorded`.
    pub groups_of_recorded: bool,
    /// See above.
    pub groups: Vec<GroupRow<LockSite>>,
    /// The longest recorded waits for locks, the longest first.
    pub longest: Vec<LockWait>,
    /// The time of recorded waits by stack; the frame on top is the lock.
    pub stacks: SampledStacks,
}

/// The waits for locks of a class in a method.
#[derive(Debug)]
pub struct LockTimes {
    /// The class, and the method.
    pub site: LockSite,
    /// The waits; each counts as a call.
    pub figures: Figures,
    /// The name of the thread that recorded waits were longest for; `None` if no owner is known.
    pub longest_holder: Option<String>,
    /// The methods in which owners were for most of the recorded waits, the innermost first; empty if it is not known.
    pub held_in: Vec<Method>,
    /// The time of waits of which the owner is known.
    pub known_ns: u64,
}

impl LockReport {
    /// What the figures lack, for a heading; empty if they have all waits.
    #[must_use]
    pub fn lacks(&self) -> String {
        let recorded = if self.of_recorded { ", recorded ones alone" } else { "" };
        match self.seconds_skipped {
            0 => recorded.to_owned(),
            seconds => format!("{recorded}, not counted in {seconds} s"),
        }
    }

    /// The report of these waits. Without statistics, or if only recorded waits have what is selected, figures are of
    /// the recorded waits.
    pub(crate) fn new(
        mut sums: LockSums,
        seconds_skipped: u64,
        label: impl Fn(Group) -> Option<String>,
    ) -> Self {
        let of_recorded = sums.all.is_empty() && !sums.recorded.is_empty();
        let figures = std::mem::take(if of_recorded { &mut sums.recorded } else { &mut sums.all });
        // Statistics have no threads.
        let groups_of_recorded = of_recorded || sums.groups.is_empty();
        let of = if groups_of_recorded { &mut sums.recorded_groups } else { &mut sums.groups };
        let mut groups = std::mem::take(of).rows(label);
        groups.retain(|row| is_for_a_lock(row.of.kind) || row.of.method.is_some());
        let locks = figures.into_iter().map(|(site, figures)| LockTimes {
            longest_holder: sums.longest_holder(&site),
            held_in: sums.held_in(&site),
            known_ns: sums.known_ns(&site),
            site,
            figures,
        });
        let mut all: Vec<LockTimes> = locks.collect();
        all.sort_by(|one, other| {
            let by_time = other.figures.total_ns.cmp(&one.figures.total_ns);
            by_time.then_with(|| one.site.cmp(&other.site))
        });
        let (locks, mut parks): (Vec<LockTimes>, _) =
            all.into_iter().partition(|lock| is_for_a_lock(lock.site.kind));
        // Idle threads of pools.
        parks.retain(|park| park.site.method.is_some());
        Self {
            total_ns: sum(&locks, |figures| figures.total_ns),
            waits: sum(&locks, |figures| figures.calls),
            parks,
            of_recorded,
            seconds_skipped,
            groups_of_recorded,
            groups,
            longest: sums.longest.into_vec(),
            stacks: sums.stacks,
            locks,
        }
    }

    /// Why there are no stacks of waits to show, if there are none; `in_logs` if the runs have some, not selected.
    #[must_use]
    pub fn no_waits(&self, in_logs: bool) -> Option<String> {
        let none = "no recorded lock waits in these logs; start the agent with lock=1ms and cpu";
        let not_selected = "no recorded lock waits are selected";
        self.stacks.is_empty().then(|| if in_logs { not_selected } else { none }.to_owned())
    }
}

/// A sum over locks.
#[must_use]
pub fn sum(locks: &[LockTimes], of: fn(&Figures) -> u64) -> u64 {
    locks.iter().fold(0, |sum, lock| sum.saturating_add(of(&lock.figures)))
}
