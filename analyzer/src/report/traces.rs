//! Calls of traced methods, by samples.

use std::cmp::Reverse;

use crate::stats::aggregate::Group;
use crate::stats::group_sums::GroupRow;
use crate::stats::method::Method;
use crate::stats::sampled_stacks::SampledStacks;
use crate::stats::trace_sums::{TraceSums, Traced};

/// See the module.
#[derive(Debug, Default)]
pub struct TraceReport {
    /// Those with most calls first.
    pub methods: Vec<TracedMethod>,
    /// Samples and calls of each group by method.
    pub groups: Vec<GroupRow<Method>>,
    /// Calls by stack.
    pub stacks: SampledStacks,
}

/// A traced method.
#[derive(Debug)]
pub struct TracedMethod {
    /// It.
    pub method: Method,
    /// The calls that its samples stand for.
    pub calls: u64,
    /// How many samples there are.
    pub samples: u64,
    /// How many samples that all stand for as many calls would say as much.
    pub effective_samples: f64,
    /// How often it was called in a second, from the first second with calls to the last one.
    pub per_second: f64,
    /// The calls from each caller, the most first.
    pub callers: Vec<(Method, u64)>,
    /// Minutes with calls: when each began, in unix nanoseconds, and how many there were.
    pub minutes: Vec<(u64, u64)>,
}

impl TracedMethod {
    /// The share of calls that come from a caller with so many, and its 95% interval to either side; both are parts of
    /// 1.
    #[must_use]
    pub fn share(&self, calls: u64) -> (f64, f64) {
        let share = calls as f64 / self.calls.max(1) as f64;
        // Of each call, nothing is left to chance.
        let is_all = self.samples >= self.calls;
        let error = (share * (1.0 - share) / self.effective_samples.max(1.0)).sqrt();
        (share, if is_all { 0.0 } else { 1.96 * error })
    }
}

impl TraceReport {
    pub(crate) fn new(sums: TraceSums, label: impl Fn(Group) -> Option<String>) -> Self {
        let method = |(method, traced): (Method, Traced)| {
            let (per_second, effective_samples) = (traced.per_second(), traced.effective_samples());
            let mut callers: Vec<(Method, u64)> = traced.callers.into_iter().collect();
            callers.sort_by(|(one, calls), (other, others)| others.cmp(calls).then(one.cmp(other)));
            TracedMethod {
                method,
                calls: traced.calls,
                samples: traced.samples,
                effective_samples,
                per_second,
                callers,
                minutes: traced.minutes.into_iter().collect(),
            }
        };
        let mut methods: Vec<TracedMethod> = sums.methods.into_iter().map(method).collect();
        methods.sort_by(|one, other| {
            Reverse(one.calls)
                .cmp(&Reverse(other.calls))
                .then_with(|| one.method.cmp(&other.method))
        });
        Self { methods, groups: sums.groups.rows(label), stacks: sums.stacks }
    }

    /// Why there are no stacks to show, if there are none; `in_logs` if the runs have some, not selected.
    #[must_use]
    pub fn no_traces(&self, in_logs: bool) -> Option<String> {
        let none = "no traced calls in these logs; trace a method by tprofiler trace com.shop.Order.pay 100";
        let not_selected = "no traced calls are selected";
        self.stacks.is_empty().then(|| if in_logs { not_selected } else { none }.to_owned())
    }
}
