//! Exceptions that left instrumented methods, summed up by their class and the method: exact counts, and examples,
//! which have threads, messages and stacks.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use log_format::rows::ExceptionRow;

use crate::stats::aggregate::Group;
use crate::stats::group_sums::GroupSums;
use crate::stats::last_hours::{InHours, LastHours};
use crate::stats::method::Method;
use crate::stats::sampled_stacks::SampledStacks;

/// Examples of a class and method that are kept, the newest ones.
const EXAMPLES: usize = 5;

/// What exceptions are summed up by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExceptionSite {
    /// Class of the exceptions.
    pub class: String,
    /// A method that they left.
    pub method: Method,
}

/// Exact counts of exceptions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thrown {
    /// Calls that they ended.
    pub thrown: u64,
    /// Of these, calls whose exception had not left another instrumented call before.
    pub began: u64,
    /// How many began in the last hours.
    pub in_hours: InHours,
}

/// One exception that began to leave instrumented calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// The run's index in the list of runs.
    pub run: usize,
    /// When it left the method, in unix nanoseconds.
    pub start_ns: u64,
    /// Name and id of its thread.
    pub thread: String,
    /// Its message; empty if it has none, or if it was not recorded.
    pub message: String,
    /// The method that it left, and its callers.
    pub stack: Vec<Method>,
}

/// The examples of a class and method.
#[derive(Debug, Default)]
pub struct Examples {
    /// How many there are.
    pub count: u64,
    /// Some of them, the newest first.
    pub newest: Vec<Example>,
    /// How many there are of each stack, by its number in [`ExceptionSums::stacks`].
    pub by_stack: BTreeMap<usize, u64>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct ExceptionSums {
    /// Exact counts.
    pub statistics: HashMap<ExceptionSite, Thrown>,
    /// Examples.
    pub examples: HashMap<ExceptionSite, Examples>,
    /// Those of each group: calls that they ended, and how many began.
    pub groups: GroupSums<ExceptionSite>,
    /// Examples of each group.
    pub example_groups: GroupSums<ExceptionSite>,
    /// The stacks of examples, without times; the frame on top is the class. `None` if the report does not show them.
    pub stacks: Option<SampledStacks>,
}

impl ExceptionSums {
    /// Adds the counts of an interval. `hours` are the last ones, if they can be compared.
    pub fn add(
        &mut self,
        group: Group,
        site: ExceptionSite,
        row: &ExceptionRow,
        hours: Option<&LastHours>,
    ) {
        self.groups.add(group, &site, row.thrown, row.began);
        let sum = self.statistics.entry(site).or_default();
        sum.thrown = sum.thrown.saturating_add(row.thrown);
        sum.began = sum.began.saturating_add(row.began);
        if let Some(hours) = hours {
            hours.add(row.start_ns, row.began, &mut sum.in_hours);
        }
    }

    /// The examples of a class and method, to add one.
    pub fn example(&mut self, group: Group, site: ExceptionSite) -> &mut Examples {
        self.example_groups.add(group, &site, 0, 1);
        self.examples.entry(site).or_default()
    }
}

impl Examples {
    /// Counts an example, which `example` describes: that is asked only of those that are kept.
    pub fn add(&mut self, start_ns: u64, example: impl FnOnce() -> Example) {
        self.count = self.count.saturating_add(1);
        let is_new = self.newest.last().is_none_or(|oldest| start_ns > oldest.start_ns);
        if is_new || self.newest.len() < EXAMPLES {
            let key = |example: &Example| (Reverse(example.start_ns), example.run);
            let example = example();
            let place = self.newest.partition_point(|known| key(known) <= key(&example));
            self.newest.insert(place, example);
            self.newest.truncate(EXAMPLES);
        }
    }
}

/// The frame on top of the stacks of a class's exceptions.
#[must_use]
pub fn throw_frame(class: &str) -> Method {
    Method::named("", &format!("[throw {class}]"), "")
}

#[cfg(test)]
mod tests {
    use log_format::ids::MethodId;

    use super::*;

    fn site(class: &str) -> ExceptionSite {
        ExceptionSite { class: class.into(), method: Method::named("a.Shop", "pay", "()V") }
    }

    #[test]
    fn counts_of_intervals_add_up() {
        const HOUR_NS: u64 = 3_600_000_000_000;
        let hours = LastHours::of(&[(0, 3 * HOUR_NS)]);
        let mut sums = ExceptionSums::default();
        for (hour, thrown, began) in [(0, 1, 1), (1, 20, 10), (2, 400, 0), (2, u64::MAX, 300)] {
            let class = String::new();
            let start_ns = hour * HOUR_NS;
            let row = ExceptionRow { start_ns, method: MethodId::new(1), class, thrown, began };
            sums.add(Group::All, site("A"), &row, hours.as_ref());
            sums.add(Group::All, site("B"), &row, None);
        }
        let in_hours = InHours { before: 10, last: 300 };
        let expected = Thrown { thrown: u64::MAX, began: 311, in_hours };
        assert_eq!(sums.statistics[&site("A")], expected);
        let expected = Thrown { in_hours: InHours::default(), ..expected };
        assert_eq!(sums.statistics[&site("B")], expected);
    }

    #[test]
    fn the_newest_examples_are_kept() {
        let mut examples = Examples::default();
        let example = |start_ns| Example {
            run: 0,
            start_ns,
            thread: String::new(),
            message: String::new(),
            stack: Vec::new(),
        };
        for start_ns in [3, 9, 1, 7, 5, 8, 2] {
            examples.add(start_ns, || example(start_ns));
        }
        examples.add(3, || panic!("older than those that are kept"));
        let kept: Vec<u64> = examples.newest.iter().map(|example| example.start_ns).collect();
        assert_eq!((examples.count, kept), (8, vec![9, 8, 7, 5, 3]));
    }
}
