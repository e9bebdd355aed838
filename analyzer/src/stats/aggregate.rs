//! Sums of calls, by group and method.
//!
//! Sums can be made anywhere and merged in any order with the same result, so files may be read in parallel. They
//! take memory for each method of each group, not for each row.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

use log_format::file_names::Hour;
use log_format::histogram::{Histogram, bucket_of, lower_bound_ns, nearest_rank};
use log_format::ids::ThreadId;
use log_format::rows::{CallRow, Exit, LockRow, SlowSqlRow, SqlRow, StatsRow};

use crate::stats::id_map::IdMap;
use crate::stats::method::PathKind;
use crate::stats::sketch::Sketch;

/// What a sum belongs to, besides its method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// The one group of a report without groups.
    All,
    /// An hour of UTC.
    Hour(Hour),
    /// The run at this index in the list of runs.
    Run(usize),
    /// A thread: its run's index in the list of runs, and its id there.
    Thread(usize, ThreadId),
    /// A minute, from the start of 1970.
    Minute(u64),
    /// A host, class or package: its index in the list of names.
    Named(usize),
}

/// The sums of one method in one group.
///
/// Sums saturate at 64 bits, and [`is_saturated`](Self::is_saturated) tells so. Only garbage in a log gets there: it
/// is 584 years of one method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Calls that ended.
    pub calls: u64,
    /// Calls that ended with an exception.
    pub throws: u64,
    /// Time in the method and its callees; of a recursion only the outermost call counts.
    pub total_ns: u64,
    /// Time in the method itself.
    pub self_ns: u64,
    /// The longest call.
    pub max_ns: u64,
    /// Durations of the calls.
    pub hist: Histogram,
    saturated: bool,
    /// Durations of the recorded calls, more exactly, in reports that have them.
    recorded: Option<Box<Recorded>>,
}

/// Durations of recorded calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Recorded {
    durations: Sketch,
    /// All calls of at least this duration were recorded, as far as the logs tell.
    complete_from_ns: Option<u64>,
}

impl Figures {
    /// Adds the method statistics of an interval.
    pub fn add_stats(&mut self, row: &StatsRow) {
        self.add(row.calls, row.throws, row.total_ns, row.self_ns, row.max_ns);
        self.hist.merge(&row.hist);
    }

    /// Adds the statistics of waits for monitors in an interval. A wait counts as a call, all of it self time.
    pub fn add_locks(&mut self, row: &LockRow) {
        self.add(row.waits, 0, row.total_ns, row.total_ns, row.max_ns);
        self.hist.merge(&row.hist);
    }

    /// Adds one wait for a monitor.
    pub fn add_lock_wait(&mut self, wait_ns: u64) {
        self.add(1, 0, wait_ns, wait_ns, wait_ns);
        self.hist.add(bucket_of(wait_ns), 1);
    }

    /// Adds the statistics of an SQL statement in an interval. An execution counts as a call, all of it self time.
    pub fn add_sql(&mut self, row: &SqlRow) {
        self.add(row.executions, row.throws, row.total_ns, row.total_ns, row.max_ns);
        self.hist.merge(&row.hist);
    }

    /// Adds one slow execution of an SQL statement that has ended.
    pub fn add_slow_sql(&mut self, row: &SlowSqlRow) {
        let throws = u64::from(row.exit == Exit::Throw);
        self.add(1, throws, row.total_ns, row.total_ns, row.total_ns);
        self.hist.add(bucket_of(row.total_ns), 1);
    }

    /// Adds one recorded call that has ended.
    #[inline]
    pub fn add_record(&mut self, row: &CallRow, path: PathKind) {
        self.add_sums(row, path);
        self.hist.add(bucket_of(row.total_ns), 1);
    }

    /// The same without its duration: all durations are added later, by [`Totals::add_durations_of`].
    #[inline]
    pub fn add_sums(&mut self, row: &CallRow, path: PathKind) {
        // The outermost call already contains its time.
        let total_ns = if path == PathKind::Recursive { 0 } else { row.total_ns };
        let throws = u64::from(row.exit == Exit::Throw);
        self.add(1, throws, total_ns, row.self_ns, row.total_ns);
    }

    /// Adds durations of recorded calls, for [`percentile_ns`](Self::percentile_ns): the calls themselves are in the
    /// other figures.
    fn add_durations(&mut self, durations: Sketch) {
        self.recorded.get_or_insert_default().durations.merge(durations);
    }

    /// Tells that all calls of at least this duration were recorded, as far as the logs tell.
    pub fn complete_from(&mut self, ns: u64) {
        if let Some(recorded) = &mut self.recorded {
            recorded.complete_from_ns = Some(ns);
        }
    }

    /// Adds all calls of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.add(other.calls, other.throws, other.total_ns, other.self_ns, other.max_ns);
        self.hist.merge(&other.hist);
        if let Some(recorded) = &other.recorded {
            self.add_durations(recorded.durations.clone());
        }
        self.saturated |= other.saturated;
    }

    fn add(&mut self, calls: u64, throws: u64, total_ns: u64, self_ns: u64, max_ns: u64) {
        let sums = [
            (&mut self.calls, calls),
            (&mut self.throws, throws),
            (&mut self.total_ns, total_ns),
            (&mut self.self_ns, self_ns),
        ];
        for (sum, more) in sums {
            let added = sum.checked_add(more);
            self.saturated |= added.is_none();
            *sum = added.unwrap_or(u64::MAX);
        }
        self.max_ns = self.max_ns.max(max_ns);
    }

    /// Whether a sum saturated and so is too small.
    #[must_use]
    pub fn is_saturated(&self) -> bool {
        self.saturated
    }

    /// Whether calls were made within others of the same method: their durations together exceed the total, in which
    /// only the outermost calls count. If such calls are few or short, it is not seen here.
    #[must_use]
    pub fn has_inner_calls(&self) -> bool {
        let least = |(bucket, count)| u128::from(lower_bound_ns(bucket)) * u128::from(count);
        let least_ns: u128 = self.hist.buckets().map(least).sum();
        // The agent's buckets begin a clock tick off.
        !self.saturated && least_ns - least_ns / 50 > u128::from(self.total_ns)
    }

    /// Total time divided by calls, in whole nanoseconds, rounded down. `None` without calls. With recursion it is a
    /// lower bound of the mean duration: every call counts, but only the outermost one's time.
    #[must_use]
    pub fn avg_ns(&self) -> Option<u64> {
        self.total_ns.checked_div(self.calls)
    }

    /// The durations that 50, 95 and 99% of the calls do not exceed, in ascending order.
    #[must_use]
    pub fn percentiles_ns(&self) -> [Option<u64>; 3] {
        let [mut p50, mut p95, mut p99] =
            [50.0, 95.0, 99.0].map(|percent| self.percentile(percent));
        // If one is more exact than the other, the other is adjusted.
        in_order(&mut p95, &mut p99);
        in_order(&mut p50, &mut p95);
        in_order(&mut p95, &mut p99);
        [p50, p95, p99].map(|percentile| percentile.map(|percentile| percentile.ns))
    }

    /// The duration that `percent` (50 or more) of the calls do not exceed, in nanoseconds. It is within 2% if all
    /// calls of that duration are known to be recorded; else see [`Histogram::percentile_ns`] for its error.
    #[must_use]
    pub fn percentile_ns(&self, percent: f64) -> Option<u64> {
        self.percentile(percent).map(|percentile| percentile.ns)
    }

    fn percentile(&self, percent: f64) -> Option<Percentile> {
        let count = self.hist.count();
        let longer = count.checked_sub(nearest_rank(percent, count))?;
        if longer == 0 {
            return Some(Percentile { ns: self.max_ns, is_close: true });
        }
        if let Some(ns) = self.of_records_ns(longer) {
            return Some(Percentile { ns, is_close: true });
        }
        let of_all =
            self.of_one_bucket_ns().or_else(|| self.hist.percentile_ns(percent, self.max_ns));
        of_all.map(|ns| Percentile { ns, is_close: false })
    }

    /// The duration of the call that exactly `longer` calls exceed, from the recorded calls. The histogram tells its
    /// bucket and its rank there, if all calls of the bucket are recorded. If a JVM did not write its last
    /// statistics, there may be more recorded calls than counted ones: then it is one of several calls from that rank
    /// on, and they must have the same duration.
    fn of_records_ns(&self, longer: u64) -> Option<u64> {
        let recorded = self.recorded.as_deref()?;
        let complete_from_ns = recorded.complete_from_ns?;
        let bucket = self.hist.bucket_below(longer)?;
        let (calls, longer_calls) = self.hist.counts_from(bucket);
        let (records, longer_records) = recorded.durations.counts_from(bucket);
        let more = records.checked_sub(calls)?;
        let place = longer_records.saturating_add(longer.checked_sub(longer_calls)?);
        let ns = recorded.durations.ns_below(place)?;
        let is_sure = more == 0 || recorded.durations.ns_below(place.saturating_add(more))? == ns;
        (is_sure && lower_bound_ns(bucket) >= complete_from_ns).then_some(ns.min(self.max_ns))
    }

    /// A duration for all calls if they share a bucket: their average, because the bucket's middle may be far from
    /// it. It is raised if the longest call is so far above it that a percentile's error could exceed the promised
    /// one. A percentile from the median on cannot be that far below it.
    fn of_one_bucket_ns(&self) -> Option<u64> {
        let mut buckets = self.hist.buckets();
        let (Some((bucket, count)), None) = (buckets.next(), buckets.next()) else { return None };
        let avg_ns = self.avg_ns().filter(|_| count == self.calls)?;
        let is_inside = |ns| bucket_of(ns) == bucket;
        // With recursion, the average is too low; it need not lie in the bucket.
        (is_inside(avg_ns) && is_inside(self.max_ns) && avg_ns <= self.max_ns).then(|| {
            let least_ns = if lower_bound_ns(bucket) == 0 {
                self.max_ns.saturating_sub(32)
            } else {
                self.max_ns - self.max_ns / 4
            };
            avg_ns.max(least_ns)
        })
    }
}

#[derive(Clone, Copy)]
struct Percentile {
    ns: u64,
    /// Within 2%.
    is_close: bool,
}

/// Keeps a percentile from exceeding a higher one: of two, the more exact one stays.
fn in_order(lower: &mut Option<Percentile>, higher: &mut Option<Percentile>) {
    let (Some(lower), Some(higher)) = (lower, higher) else { return };
    if lower.ns > higher.ns {
        if lower.is_close && !higher.is_close {
            higher.ns = lower.ns;
        } else {
            lower.ns = higher.ns;
        }
    }
}

/// Figures by group and method. `M` is a method's id within a run, or a method of a report.
///
/// Methods have internal numbers here, so that the figures, which take most of the memory, stay in place when ids
/// become names.
#[derive(Clone, Debug)]
pub struct Totals<M> {
    methods: Vec<M>,
    numbers: IdMap<M, u32>,
    groups: IdMap<Group, IdMap<u32, Figures>>,
}

impl<M> Default for Totals<M> {
    fn default() -> Self {
        Self { methods: Vec::new(), numbers: IdMap::default(), groups: IdMap::default() }
    }
}

impl<M: Clone + Eq + Hash> Totals<M> {
    /// The figures of a method in a group, for adding to them.
    pub fn of(&mut self, group: Group, method: &M) -> &mut Figures {
        let number = self.number(method);
        self.groups.entry(group).or_default().entry(number).or_default()
    }

    fn number(&mut self, method: &M) -> u32 {
        if let Some(number) = self.numbers.get(method) {
            return *number;
        }
        // There are no more methods than ids, which are 32 bits too.
        let number = u32::try_from(self.methods.len()).unwrap_or(u32::MAX);
        self.methods.push(method.clone());
        self.numbers.insert(method.clone(), number);
        number
    }

    /// Adds figures of a method in a group.
    pub fn add(&mut self, group: Group, method: &M, figures: Figures) {
        let number = self.number(method);
        add(self.groups.entry(group).or_default(), number, figures);
    }

    /// Adds the durations of a method's recorded calls in the only group, for percentiles. If `are_all`, no other
    /// calls are counted there, and its histogram is made from them. A method without figures, because its method
    /// statistics are missing, gets none.
    pub fn add_durations_of(&mut self, method: &M, durations: Sketch, are_all: bool) {
        debug_assert!(self.groups.len() < 2, "durations know no groups");
        let number = self.numbers.get(method);
        let of_group = self.groups.values_mut().next().zip(number);
        let Some(figures) = of_group.and_then(|(all, number)| all.get_mut(number)) else { return };
        if are_all {
            for (bucket, count) in durations.buckets() {
                figures.hist.add(bucket, count);
            }
        }
        figures.add_durations(durations);
    }

    /// A method's calls and their time, in all groups.
    #[must_use]
    pub fn calls_of(&self, method: &M) -> (u64, u64) {
        let Some(number) = self.numbers.get(method) else { return (0, 0) };
        let figures = self.groups.values().filter_map(|all| all.get(number));
        figures.fold((0, 0), |(calls, ns): (u64, u64), figures| {
            (calls.saturating_add(figures.calls), ns.saturating_add(figures.total_ns))
        })
    }

    /// How many figures there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.groups.values().map(HashMap::len).sum()
    }

    /// Whether there are no figures.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds all figures of `other`, freeing its memory group by group.
    pub fn merge(&mut self, other: Self) {
        if self.methods.is_empty() {
            *self = other;
        } else {
            self.merge_by(other, |group, _| group);
        }
    }

    /// The same, with `ours` mapping the other's groups to ours.
    pub fn merge_by(&mut self, other: Self, mut ours: impl FnMut(Group, &M) -> Group) {
        for (group, figures) in other.groups {
            for (number, figures) in figures {
                let place = usize::try_from(number).ok();
                if let Some(method) = place.and_then(|place| other.methods.get(place)) {
                    self.add(ours(group, method), method, figures);
                }
            }
        }
    }

    /// The same figures with renamed methods. Methods that get the same name are added up.
    #[must_use]
    pub fn named<N: Clone + Eq + Hash>(self, name: impl Fn(&M) -> N) -> Totals<N> {
        let mut named = Totals::default();
        let numbers: Vec<u32> =
            self.methods.iter().map(|method| named.number(&name(method))).collect();
        named.groups = self.groups;
        if named.methods.len() < numbers.len() {
            for group in named.groups.values_mut() {
                for (number, figures) in std::mem::take(group) {
                    let place = usize::try_from(number).unwrap_or(usize::MAX);
                    add(group, numbers.get(place).copied().unwrap_or(number), figures);
                }
            }
        }
        named
    }

    /// The groups that have figures.
    pub fn groups(&self) -> impl Iterator<Item = Group> + '_ {
        self.groups.keys().copied()
    }

    /// The groups, sorted, each with its methods unordered. Memory is freed group by group.
    pub fn into_groups(self) -> impl Iterator<Item = (Group, Vec<(M, Figures)>)> {
        let mut groups: Vec<_> = self.groups.into_iter().collect();
        groups.sort_unstable_by_key(|(group, _)| *group);
        let methods = self.methods;
        groups.into_iter().map(move |(group, figures)| {
            let method = |number| methods.get(usize::try_from(number).ok()?).cloned();
            let named = figures.into_iter().filter_map(|(n, figures)| Some((method(n)?, figures)));
            (group, named.collect())
        })
    }
}

fn add(sums: &mut IdMap<u32, Figures>, number: u32, figures: Figures) {
    match sums.entry(number) {
        Entry::Vacant(entry) => {
            entry.insert(figures);
        }
        Entry::Occupied(entry) => entry.into_mut().merge(&figures),
    }
}

#[cfg(test)]
mod tests {
    use log_format::ids::{MethodId, StackId};

    use super::*;

    fn call(total_ns: u64, exit: Exit) -> CallRow {
        CallRow {
            start_ns: 0,
            thread: ThreadId::new(1),
            stack: StackId::new(1),
            method: MethodId::new(1),
            total_ns,
            self_ns: 1,
            exit,
            allocated_bytes: None,
        }
    }

    #[test]
    fn a_recursive_call_counts_without_its_time() {
        let mut figures = Figures::default();
        figures.add_record(&call(100, Exit::Return), PathKind::Recursive);
        figures.add_record(&call(300, Exit::Throw), PathKind::Outermost);
        figures.add_record(&call(200, Exit::Return), PathKind::Unknown);
        assert_eq!((figures.calls, figures.throws), (3, 1));
        assert_eq!((figures.total_ns, figures.self_ns, figures.max_ns), (500, 3, 300));
        assert_eq!(figures.hist.count(), 3);
        assert_eq!(figures.avg_ns(), Some(166));
    }

    #[test]
    fn sums_stop_at_the_largest_number_and_say_so() {
        let mut figures = Figures::default();
        figures.add_record(&call(u64::MAX, Exit::Return), PathKind::Outermost);
        assert!(!figures.is_saturated());
        figures.add_record(&call(1, Exit::Return), PathKind::Outermost);
        assert!(figures.is_saturated());
        assert_eq!(figures.total_ns, u64::MAX);
        let mut other = Figures::default();
        other.merge(&figures);
        assert!(other.is_saturated());
    }

    fn sorted<M: Clone + Eq + Hash + Ord>(totals: Totals<M>) -> Vec<(Group, Vec<(M, Figures)>)> {
        let mut groups: Vec<_> = totals.into_groups().collect();
        groups.iter_mut().for_each(|(_, methods)| methods.sort_by(|a, b| a.0.cmp(&b.0)));
        groups
    }

    #[test]
    fn methods_that_have_one_name_are_one() {
        let mut totals = Totals::default();
        for (group, id, ns) in [(1, 1, 5), (2, 1, 6), (1, 2, 7), (1, 3, 8), (2, 3, 9)] {
            let figures: &mut Figures = totals.of(Group::Minute(group), &id);
            figures.add_record(&call(ns, Exit::Return), PathKind::Outermost);
        }
        let found = |totals: Totals<&'static str>| -> Vec<(Group, &str, u64)> {
            let groups = sorted(totals).into_iter();
            let of_group = |(group, methods): (Group, Vec<(&'static str, Figures)>)| {
                methods.into_iter().map(move |(method, f)| (group, method, f.total_ns))
            };
            groups.flat_map(of_group).collect()
        };
        let (one, two) = (Group::Minute(1), Group::Minute(2));
        let names = ["", "a", "b", "c"];
        assert_eq!(
            found(totals.clone().named(|id| names[*id as usize])),
            [(one, "a", 5), (one, "b", 7), (one, "c", 8), (two, "a", 6), (two, "c", 9)]
        );
        let names = ["", "a", "b", "a"];
        assert_eq!(
            found(totals.named(|id| names[*id as usize])),
            [(one, "a", 13), (one, "b", 7), (two, "a", 15)]
        );
    }

    #[test]
    fn merging_parts_is_reading_the_whole() {
        let rows = [(1, 500), (2, 70), (1, 90), (1, 10), (2, 10_000)];
        let rows = rows.map(|(method, ns)| (MethodId::new(method), ns));
        let totals = |rows: &[(MethodId, u64)]| {
            let mut totals = Totals::default();
            for (method, ns) in rows {
                totals
                    .of(Group::All, method)
                    .add_record(&call(*ns, Exit::Return), PathKind::Outermost);
            }
            totals
        };
        let whole = totals(&rows);
        for cut in 0..=rows.len() {
            let mut merged = totals(&rows[cut..]);
            merged.merge(totals(&rows[..cut]));
            assert_eq!(sorted(merged), sorted(whole.clone()), "cut at {cut}");
        }
    }

    /// From a JVM that was killed before it wrote its last statistics: more recorded calls than counted ones.
    #[test]
    fn a_close_percentile_stays_as_it_is() {
        let mut figures = Figures::default();
        let mut durations = Sketch::default();
        for (calls, records, ns) in [(1, 1, 70), (99, 104, 90_000), (0, 5, 98_000)] {
            for _ in 0..calls {
                figures.add(1, 0, ns, ns, 98_000);
                figures.hist.add(bucket_of(ns), 1);
            }
            (0..records).for_each(|_| durations.add(ns));
        }
        figures.add_durations(durations);
        figures.complete_from(0);
        let [p50, p95, p99] = figures.percentiles_ns().map(|ns| ns.unwrap());
        assert!(p50 <= p95 && p95 <= p99, "{p50} {p95} {p99}");
        for ns in [p50, p95] {
            assert!(ns.abs_diff(90_000) < 1_800, "{p50} {p95} {p99}");
        }
    }

    #[test]
    fn calls_of_one_bucket_are_distinguished_by_their_average() {
        let of = |durations: &[u64]| {
            let mut figures = Figures::default();
            for ns in durations {
                let max_ns = figures.max_ns.max(*ns);
                figures.add(1, 0, *ns, *ns, max_ns);
                figures.hist.add(bucket_of(*ns), 1);
            }
            figures
        };
        assert_eq!(of(&[100_000]).percentile_ns(50.0), Some(100_000));
        assert_eq!(of(&[100_000, 110_000]).percentile_ns(50.0), Some(105_000));
        assert_eq!(of(&[100_000, 110_000]).percentile_ns(99.0), Some(110_000));
        assert_eq!(of(&[]).percentile_ns(50.0), None);
        // Within the promised error for every mixture of durations that a bucket can hold.
        for bucket in [0, 1, 2, 21, 22] {
            let (low, next) = (lower_bound_ns(bucket), lower_bound_ns(bucket + 1));
            for high in [low, (low + next) / 2, next - 1] {
                for highs in 0..=100 {
                    let mut durations = vec![low; 100];
                    durations[100 - highs..].fill(high);
                    let figures = of(&durations);
                    for (percent, rank) in [(50.0, 49), (95.0, 94), (99.0, 98)] {
                        let (exact, found) =
                            (durations[rank], figures.percentile_ns(percent).unwrap());
                        let bound = (exact / 4 + 1).max(32);
                        assert!(
                            found.abs_diff(exact) <= bound,
                            "{found} for {exact}, {highs} of {high}"
                        );
                    }
                }
            }
        }
        // With recursion, the average is not a duration: the bucket's middle counts, up to the maximum.
        let mut recursive = of(&[120_000, 120_000]);
        recursive.total_ns = 120_000;
        assert_eq!(recursive.percentile_ns(50.0), Some(114_688));
    }
}
