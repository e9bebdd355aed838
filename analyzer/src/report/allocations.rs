//! What was allocated, by samples.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use crate::options::zone::Zone;
use crate::stats::aggregate::Group;
use crate::stats::allocation_sums::{Allocated, AllocationSums};
use crate::stats::method::Method;
use crate::stats::sampled_stacks::SampledStacks;

const HOUR_NS: u64 = 3_600_000_000_000;

/// See the module.
#[derive(Debug, Default)]
pub struct AllocationReport {
    /// All of it.
    pub all: Allocated,
    /// How long it was sampled, in nanoseconds, summed over the runs.
    pub sampled_ns: u64,
    /// By group and class, each group's with most bytes first.
    pub classes: Vec<Row<String, Method>>,
    /// By group and the method that allocates.
    pub sites: Vec<Row<Method, String>>,
    /// By group, class and the method that allocates, each group's with most bytes first.
    pub pairs: Vec<Row<String, Method>>,
    /// Minutes in which something was allocated: when each began, in unix nanoseconds, and its bytes.
    pub minutes: Vec<(u64, u64)>,
    /// The same by hour, as clocks of the report's zone show it.
    pub hours: Vec<AllocatedInHour>,
    /// Bytes by stack; the frame on top is the class.
    pub stacks: SampledStacks,
}

/// What was allocated in an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocatedInHour {
    /// When the hour began, in unix nanoseconds.
    pub start_ns: u64,
    /// The bytes.
    pub bytes: u64,
    /// How long the runs sampled allocations in it, summed.
    pub sampled_ns: u64,
}

impl AllocatedInHour {
    /// Bytes in a second; `None` if it is not known how long that was.
    #[must_use]
    pub fn per_second(&self) -> Option<f64> {
        let ns = self.sampled_ns;
        (ns > 0).then(|| self.bytes as f64 * 1e9 / ns as f64)
    }
}

/// A class or a method.
#[derive(Debug)]
pub struct Row<T, O> {
    /// Its group's label; `None` without groups.
    pub label: Option<String>,
    /// It.
    pub of: T,
    /// What was allocated of it, or in it.
    pub allocated: Allocated,
    /// The method that allocates most of the class, or the class of which the method allocates most.
    pub most: O,
}

impl AllocationReport {
    /// `sampled` has when each run sampled allocations.
    pub(crate) fn new(
        mut sums: AllocationSums,
        sampled: &[(u64, u64)],
        zone: &Zone,
        label: impl Fn(Group) -> Option<String>,
    ) -> Self {
        let mut all = Allocated::default();
        sums.all().for_each(|(.., allocated)| all.add(allocated));
        let classes = sums.all().map(|(group, class, site, sum)| {
            let key = (group, class.to_owned());
            (key, site.clone(), sum)
        });
        let classes = rows(classes, &label);
        let sites = sums.all().map(|(group, class, site, sum)| {
            let key = (group, site.clone());
            (key, class.to_owned(), sum)
        });
        let sites = rows(sites, &label);
        let pairs = pairs(&sums, &label);
        let minutes: Vec<(u64, u64)> = std::mem::take(&mut sums.minutes).into_iter().collect();
        let hours = hours(&minutes, &sums.seconds, sampled, zone);
        let sampled_ns = hours.iter().map(|hour| hour.sampled_ns).sum();
        let stacks = std::mem::take(&mut sums.stacks);
        Self { all, sampled_ns, classes, sites, pairs, minutes, hours, stacks }
    }

    /// Why there are no stacks to show, if there are none; `in_logs` if the runs have some, not selected.
    #[must_use]
    pub fn no_allocations(&self, in_logs: bool) -> Option<String> {
        let none = "no sampled allocations in these logs; start the agent with alloc=512k and cpu";
        let not_selected = "no sampled allocations are selected";
        self.stacks.is_empty().then(|| if in_logs { not_selected } else { none }.to_owned())
    }
}

/// The hours in which something was allocated or sampled. The last interval of a run that goes on is not told yet, so
/// an hour has at least the seconds with allocations.
fn hours(
    minutes: &[(u64, u64)],
    seconds: &BTreeMap<u64, u64>,
    sampled: &[(u64, u64)],
    zone: &Zone,
) -> Vec<AllocatedInHour> {
    let mut hours: BTreeMap<u64, AllocatedInHour> = BTreeMap::new();
    let mut hour = |at: u64, change: &dyn Fn(&mut AllocatedInHour)| {
        let start_ns = zone.hour_start_ns(at);
        let none = AllocatedInHour { start_ns, bytes: 0, sampled_ns: 0 };
        change(hours.entry(start_ns).or_insert(none));
    };
    for (from_ns, to_ns) in sampled {
        let mut from_ns = *from_ns;
        while from_ns < *to_ns {
            let end_ns = zone.hour_start_ns(from_ns).saturating_add(HOUR_NS).min(*to_ns);
            let ns = end_ns - from_ns;
            hour(from_ns, &|hour| hour.sampled_ns = hour.sampled_ns.saturating_add(ns));
            from_ns = end_ns;
        }
    }
    let mut seen: BTreeMap<u64, u64> = BTreeMap::new();
    for (at, count) in seconds {
        *seen.entry(zone.hour_start_ns(*at)).or_default() += count;
    }
    for (at, count) in seen {
        let ns = count.saturating_mul(1_000_000_000);
        hour(at, &|hour| hour.sampled_ns = hour.sampled_ns.max(ns));
    }
    for (at, bytes) in minutes {
        hour(*at, &|hour| hour.bytes = hour.bytes.saturating_add(*bytes));
    }
    hours.into_values().collect()
}

/// The sums themselves, as rows.
fn pairs(
    sums: &AllocationSums,
    label: impl Fn(Group) -> Option<String>,
) -> Vec<Row<String, Method>> {
    let row = |(group, class, site, sum): (Group, &str, &Method, &Allocated)| Row {
        label: label(group),
        of: class.to_owned(),
        allocated: *sum,
        most: site.clone(),
    };
    let mut pairs: Vec<_> = sums.all().map(row).collect();
    pairs.sort_by(|one, other| {
        let by_bytes = || other.allocated.bytes.cmp(&one.allocated.bytes);
        let by_name = || (&one.of, &one.most).cmp(&(&other.of, &other.most));
        one.label.cmp(&other.label).then_with(by_bytes).then_with(by_name)
    });
    pairs
}

/// Sums by the first of each pair, with the second that has most of it.
fn rows<'s, T: Eq + Hash + Ord + Clone, O: Ord>(
    pairs: impl Iterator<Item = ((Group, T), O, &'s Allocated)>,
    label: impl Fn(Group) -> Option<String>,
) -> Vec<Row<T, O>> {
    let mut rows: HashMap<(Group, T), (Row<T, O>, u64)> = HashMap::new();
    for (key, other, sum) in pairs {
        match rows.get_mut(&key) {
            Some((row, most)) => {
                row.allocated.add(sum);
                // Of two with the same bytes, the first by name.
                if sum.bytes > *most || sum.bytes == *most && other < row.most {
                    (row.most, *most) = (other, sum.bytes);
                }
            }
            None => {
                let (group, of) = key.clone();
                let row = Row { label: label(group), of, allocated: *sum, most: other };
                rows.insert(key, (row, sum.bytes));
            }
        }
    }
    let mut rows: Vec<Row<T, O>> = rows.into_values().map(|(row, _)| row).collect();
    rows.sort_by(|one, other| {
        let by_bytes = other.allocated.bytes.cmp(&one.allocated.bytes);
        one.label.cmp(&other.label).then(by_bytes).then_with(|| one.of.cmp(&other.of))
    });
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_have_what_was_sampled_in_them() {
        const MIN: u64 = 60_000_000_000;
        let minutes = [(59 * MIN, 600), (60 * MIN, 1_200), (61 * MIN, 1_200), (200 * MIN, 7)];
        // Two runs, and one of which the log does not tell yet how long it sampled.
        let sampled = [(30 * MIN, 70 * MIN), (50 * MIN, 130 * MIN)];
        let seconds = BTreeMap::from([(59 * MIN, 1), (60 * MIN, 60), (200 * MIN, 14)]);
        let hours = hours(&minutes, &seconds, &sampled, &Zone::default());
        let hour = |hour: u64, bytes, seconds: u64| AllocatedInHour {
            start_ns: hour * 60 * MIN,
            bytes,
            sampled_ns: seconds * MIN / 60,
        };
        let expected =
            [hour(0, 600, 2_400), hour(1, 2_400, 4_200), hour(2, 0, 600), hour(3, 7, 14)];
        assert_eq!(hours, expected);
        assert_eq!((hours[0].per_second(), hours[3].per_second()), (Some(0.25), Some(0.5)));
    }
}
