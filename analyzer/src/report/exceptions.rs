//! Exceptions that left instrumented methods, by their class and the method where they began to leave instrumented
//! code.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::report::not_counted::NotCounted;
use crate::stats::aggregate::Group;
use crate::stats::exception_sums::{
    Example, Examples, ExceptionSite, ExceptionSums, Thrown, throw_frame,
};
use crate::stats::group_sums::GroupRow;
use crate::stats::last_hours::{InHours, LastHours};
use crate::stats::method::Method;
use crate::stats::sampled_stacks::SampledStacks;

/// See the module.
#[derive(Debug, Default)]
pub struct ExceptionReport {
    /// How many began to leave instrumented code.
    pub began: u64,
    /// Whether counts are of the examples alone.
    pub of_examples: bool,
    /// Where they began, most first.
    pub sites: Vec<ExceptionsAt>,
    /// All methods that they left, with the calls that they ended, most first. Empty if only examples count.
    pub exits: Vec<(ExceptionSite, u64)>,
    /// Those of each group: calls that they ended, and how many began. Of examples alone, if `groups_of_examples`.
    pub groups_of_examples: bool,
    /// See above.
    pub groups: Vec<GroupRow<ExceptionSite>>,
    /// How many began, by stack; the frame on top is the class. Empty if the report does not show them.
    pub stacks: SampledStacks,
}

/// The exceptions of a class that began in a method.
#[derive(Debug)]
pub struct ExceptionsAt {
    /// The class, and the method.
    pub site: ExceptionSite,
    /// How many there are.
    pub began: u64,
    /// Calls of the method that exceptions of the class ended; `None` if only examples count.
    pub thrown: Option<u64>,
    /// All calls of the method, if there are statistics of it.
    pub calls: Option<u64>,
    /// How long the method was throttled or muted: more exceptions may have begun there.
    pub not_counted: NotCounted,
    /// How many began in the last hours, if these can be compared.
    pub recent: Option<Recent>,
    /// Some of them, the newest first.
    pub examples: Vec<Example>,
}

/// The last hour, and the hour before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recent {
    /// How many began.
    pub began: InHours,
    /// Whether they became clearly more.
    pub rose: bool,
}

/// What counts of exceptions are of, in CSV and JSON.
pub(crate) fn figures_of(of_examples: bool) -> &'static str {
    if of_examples { "examples" } else { "statistics" }
}

impl ExceptionReport {
    /// The report of these exceptions. Without statistics, or if only examples have what is selected, it is of the
    /// examples. `calls_of` is asked for the calls of a method, `not_counted` how long they were not counted.
    pub(crate) fn new(
        mut sums: ExceptionSums,
        hours: Option<&LastHours>,
        calls_of: impl Fn(&Method) -> Option<u64>,
        not_counted: impl Fn(&Method) -> NotCounted,
        label: impl Fn(Group) -> Option<String>,
    ) -> Self {
        let of_examples = sums.statistics.is_empty() && !sums.examples.is_empty();
        if of_examples {
            let counts = sums.examples.iter().map(|(site, examples)| {
                (site.clone(), Thrown { began: examples.count, ..Thrown::default() })
            });
            sums.statistics = counts.collect();
        }
        // Statistics have no threads.
        let groups_of_examples = of_examples || sums.groups.is_empty();
        let of = if groups_of_examples { &mut sums.example_groups } else { &mut sums.groups };
        let groups = std::mem::take(of).rows(label);
        let stacks = sums.stacks.take().map(|stacks| weighted(stacks, &sums)).unwrap_or_default();
        let ExceptionSums { statistics, mut examples, .. } = sums;
        let mut exits = Vec::new();
        let mut sites = Vec::new();
        for (site, Thrown { thrown, began, in_hours }) in statistics {
            if !of_examples && thrown > 0 {
                exits.push((site.clone(), thrown));
            }
            if began > 0 {
                let recent =
                    |hours: &LastHours| Recent { began: in_hours, rose: hours.rose(in_hours) };
                sites.push(ExceptionsAt {
                    began,
                    thrown: (!of_examples).then_some(thrown),
                    calls: calls_of(&site.method).filter(|_| !of_examples),
                    not_counted: not_counted(&site.method),
                    recent: hours.filter(|_| !of_examples).map(recent),
                    examples: examples.remove(&site).unwrap_or_default().newest,
                    site,
                });
            }
        }
        exits.sort_by(|one, other| (Reverse(one.1), &one.0).cmp(&(Reverse(other.1), &other.0)));
        sites.sort_by(|one, other| {
            (Reverse(one.began), &one.site).cmp(&(Reverse(other.began), &other.site))
        });
        let began = sites.iter().fold(0, |sum: u64, at| sum.saturating_add(at.began));
        Self { began, of_examples, sites, exits, groups_of_examples, groups, stacks }
    }

    /// Why there are no stacks to show, if there are none; `in_logs` if the runs have some, not selected.
    #[must_use]
    pub fn no_exceptions(&self, in_logs: bool) -> Option<String> {
        let none = "no exceptions in these logs; none left an instrumented method, or the agent ran with exceptions=off";
        let not_selected = "no exceptions are selected";
        // Without examples there are no samples.
        let has_none = self.stacks.total_ns() == 0;
        has_none.then(|| if in_logs { not_selected } else { none }.to_owned())
    }
}

/// How many exceptions began, by stack. Those of a class and method are shared out equally to their examples; without
/// one, the stack has the method alone.
fn weighted(mut stacks: SampledStacks, sums: &ExceptionSums) -> SampledStacks {
    let examples: &HashMap<ExceptionSite, Examples> = &sums.examples;
    for (site, Thrown { began, .. }) in &sums.statistics {
        let Some(Examples { count, by_stack, .. }) = examples.get(site) else {
            let method = stacks.stack(0, &site.method);
            let stack = stacks.stack(method, &throw_frame(&site.class));
            stacks.add(Group::All, stack, *began, 0);
            continue;
        };
        // The first has what is left of the division.
        let mut rest = began.checked_rem(*count).unwrap_or(0);
        for (stack, examples) in by_stack {
            let share = (began / count.max(&1)).saturating_mul(*examples);
            let share = share.saturating_add(std::mem::take(&mut rest));
            stacks.add(Group::All, *stack, share, *examples);
        }
    }
    stacks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(class: &str, method: &str) -> ExceptionSite {
        ExceptionSite { class: class.into(), method: Method::named("a.Shop", method, "") }
    }

    #[test]
    fn examples_share_what_began_where_they_did() {
        let mut stacks = SampledStacks::default();
        let mut stack = |callers: &[&str]| {
            let methods = callers.iter().map(|name| Method::named("a.Shop", name, ""));
            let below = methods.fold(0, |below, method| stacks.stack(below, &method));
            stacks.stack(below, &throw_frame("A"))
        };
        let (first, second) = (stack(&["main", "pay"]), stack(&["pay"]));
        let mut sums = ExceptionSums { stacks: Some(stacks), ..ExceptionSums::default() };
        for (class, began) in [("A", 17), ("B", 5), ("C", 0)] {
            let thrown = Thrown { thrown: 20, began, ..Thrown::default() };
            sums.statistics.insert(site(class, "pay"), thrown);
        }
        let examples = sums.example(Group::All, site("A", "pay"));
        (examples.count, examples.by_stack) = (3, [(first, 1), (second, 2)].into());
        let report =
            ExceptionReport::new(sums, None, |_| None, |_| NotCounted::default(), |_| None);
        assert_eq!(
            report.stacks.lines(),
            [
                "a.Shop.main;a.Shop.pay;[throw A] 7",
                "a.Shop.pay;[throw A] 10",
                "a.Shop.pay;[throw B] 5"
            ]
        );
        assert_eq!((report.stacks.total_ns(), report.stacks.samples()), (22, 3));
        assert_eq!((report.began, report.sites.len(), report.exits.len()), (22, 2, 3));
    }
}
