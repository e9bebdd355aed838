//! Waits for locks, summed up by the lock's class and the method that waited: exact statistics of all waits, and
//! the recorded waits, which have threads and owners.

use std::cmp::Reverse;
use std::collections::HashMap;

use log_format::rows::{LockKind, LockRow, LockWaitRow};

use crate::stats::aggregate::{Figures, Group};
use crate::stats::group_sums::GroupSums;
use crate::stats::longest::Longest;
use crate::stats::method::Method;
use crate::stats::sampled_stacks::SampledStacks;

/// Where threads wait: a lock's class, and the innermost instrumented method in progress.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockSite {
    /// What they wait for.
    pub kind: LockKind,
    /// Class of the lock's object.
    pub class: String,
    /// The method; `None` if no instrumented method was in progress.
    pub method: Option<Method>,
}

/// A recorded wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockWait {
    /// The run's index in the list of runs.
    pub run: usize,
    /// Name and id of the thread that waited.
    pub thread: String,
    /// Name and id of a thread that had the lock meanwhile, if it is known.
    pub owner: Option<String>,
    /// Where that thread was: its innermost methods outside the JDK, the innermost first; empty if that is not known.
    pub held_in: Vec<Method>,
    /// Class of the lock's object.
    pub class: String,
    /// When the wait began, in unix nanoseconds.
    pub start_ns: u64,
    /// How long it took.
    pub wait_ns: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct LockSums {
    /// Statistics of all waits; each wait counts as a call.
    pub all: HashMap<LockSite, Figures>,
    /// The same of the recorded waits alone.
    pub recorded: HashMap<LockSite, Figures>,
    /// The waits of each group and their time, of all and of the recorded ones.
    pub groups: GroupSums<LockSite>,
    /// See `groups`.
    pub recorded_groups: GroupSums<LockSite>,
    /// The time of recorded waits by the owner's name, where it is known.
    owners: HashMap<LockSite, HashMap<String, u64>>,
    /// The same by the innermost method that the owner was in, and by it and its callers.
    held_in: HashMap<LockSite, HashMap<Method, HashMap<Vec<Method>, u64>>>,
    /// The longest recorded waits.
    pub longest: Longest<LockWait>,
    /// Time of the recorded waits by stack; the frame on top is the lock. Empty if the report does not show them.
    pub stacks: SampledStacks,
}

impl LockSums {
    /// Adds the statistics of an interval.
    pub fn add_statistics(&mut self, group: Group, site: LockSite, row: &LockRow) {
        self.groups.add(group, &site, row.waits, row.total_ns);
        self.all.entry(site).or_default().add_locks(row);
    }

    /// Adds a recorded wait, its owner's name, and where the owner was.
    pub fn add_recorded(
        &mut self,
        group: Group,
        site: LockSite,
        row: &LockWaitRow,
        owner: Option<String>,
        held_in: &[Method],
    ) {
        self.recorded_groups.add(group, &site, 1, row.wait_ns);
        if let Some(innermost) = held_in.first() {
            let of_site = self.held_in.entry(site.clone()).or_default();
            let paths = of_site.entry(innermost.clone()).or_default();
            let sum = paths.entry(held_in.to_vec()).or_default();
            *sum = sum.saturating_add(row.wait_ns);
        }
        if let Some(owner) = owner {
            let of_site = self.owners.entry(site.clone()).or_default();
            let sum = of_site.entry(owner).or_default();
            *sum = sum.saturating_add(row.wait_ns);
        }
        self.recorded.entry(site).or_default().add_lock_wait(row.wait_ns);
    }

    /// The time of recorded waits at this site of which the owner is known.
    #[must_use]
    pub fn known_ns(&self, site: &LockSite) -> u64 {
        let owners = self.owners.get(site).into_iter().flat_map(HashMap::values);
        owners.fold(0, |sum: u64, ns| sum.saturating_add(*ns))
    }

    /// The owner that recorded waits at this site were longest for.
    #[must_use]
    pub fn longest_holder(&self, site: &LockSite) -> Option<String> {
        let owners = self.owners.get(site)?.iter();
        owners.max_by_key(|(name, ns)| (**ns, Reverse(*name))).map(|(name, _)| name.clone())
    }

    /// Where owners were in most of the recorded waits at this site, by their time; empty if that is not known.
    #[must_use]
    pub fn held_in(&self, site: &LockSite) -> Vec<Method> {
        let sum = |paths: &HashMap<Vec<Method>, u64>| {
            paths.values().fold(0, |sum: u64, ns| sum.saturating_add(*ns))
        };
        let methods = self.held_in.get(site).into_iter().flatten();
        let most = methods.max_by_key(|(method, paths)| (sum(paths), Reverse(*method)));
        let paths = most.into_iter().flat_map(|(_, paths)| paths);
        let path = paths.max_by_key(|(path, ns)| (**ns, Reverse(*path)));
        path.map(|(path, _)| path.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use log_format::histogram::{Histogram, bucket_of};
    use log_format::ids::{MethodId, SampledStackId, StackId, ThreadId};

    use super::*;

    fn site(class: &str) -> LockSite {
        let method = Some(Method::named("a.Shop", "pay", "()V"));
        LockSite { kind: LockKind::Monitor, class: class.into(), method }
    }

    fn wait(start_ns: u64, wait_ns: u64) -> LockWaitRow {
        LockWaitRow {
            start_ns,
            thread: ThreadId::new(1),
            kind: LockKind::Monitor,
            class: "a.Stock".into(),
            wait_ns,
            owner: ThreadId::NONE,
            sampled_stack: SampledStackId::NONE,
            stack: StackId::NONE,
            owner_stack: None,
        }
    }

    #[test]
    fn statistics_of_intervals_add_up() {
        let mut sums = LockSums::default();
        for (waits, total_ns, max_ns) in [(3, 3_000, 1_500), (1, 9_000, 9_000)] {
            let mut hist = Histogram::default();
            hist.add(bucket_of(max_ns), 1);
            hist.add(bucket_of(750), waits - 1);
            let (class, method) = ("a.Stock".into(), MethodId::NONE);
            let (start_ns, kind) = (0, LockKind::Monitor);
            let row = LockRow { start_ns, kind, class, method, waits, total_ns, max_ns, hist };
            sums.add_statistics(Group::All, site("a.Stock"), &row);
        }
        let figures = &sums.all[&site("a.Stock")];
        assert_eq!((figures.calls, figures.total_ns, figures.max_ns), (4, 12_000, 9_000));
        // 750, 750, 1500 and 9000: percentiles are the middles of their buckets, and never above the longest.
        assert_eq!(figures.percentiles_ns(), [Some(640), Some(9_000), Some(9_000)]);
    }

    #[test]
    fn the_longest_holder_has_most_time_not_most_waits() {
        let mut sums = LockSums::default();
        let [sell, audit] = ["sell", "audit"].map(|name| Method::named("a.Stock", name, "()V"));
        for (owner, at, ns) in [
            (Some("b"), vec![sell.clone()], 40),
            (Some("b"), vec![sell.clone()], 40),
            (Some("a"), vec![audit.clone(), sell.clone()], 90),
            (Some("c"), vec![sell.clone()], 90),
            (None, vec![], 500),
        ] {
            let owner = owner.map(str::to_owned);
            sums.add_recorded(Group::All, site("a.Stock"), &wait(0, ns), owner, &at);
        }
        sums.add_recorded(Group::All, site("a.Log"), &wait(0, 7), None, &[]);
        // Three owners were in `sell` for 170 ns of 260.
        assert_eq!(sums.held_in(&site("a.Stock")), [sell]);
        assert_eq!(sums.held_in(&site("a.Log")), []);
        // Of two with the same time, the first by name.
        assert_eq!(sums.longest_holder(&site("a.Stock")).as_deref(), Some("a"));
        assert_eq!(sums.longest_holder(&site("a.Log")), None);
        let figures = &sums.recorded[&site("a.Stock")];
        assert_eq!((figures.calls, figures.total_ns, figures.max_ns), (5, 760, 500));
    }
}
