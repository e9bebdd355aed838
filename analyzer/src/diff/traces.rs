//! Calls of traced methods before and after, by caller.

use std::collections::BTreeSet;

use crate::diff::sum_change::{Sampled, SumChange, changes};
use crate::report::traces::TraceReport;
use crate::stats::method::Method;

/// A traced method, and a method that called it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallerOf {
    /// The traced method.
    pub method: Method,
    /// Its caller.
    pub caller: Method,
}

/// The calls of a traced method from a caller, on both sides.
pub type TraceChange = SumChange<CallerOf>;

/// The changes of all callers, of the methods that were traced on both sides. The functions scale calls of a side to an
/// hour.
pub(super) fn trace_changes(
    before: &TraceReport,
    after: &TraceReport,
    hourly_before: impl Fn(u64) -> u64,
    hourly_after: impl Fn(u64) -> u64,
) -> Vec<TraceChange> {
    let [was, is] = [before, after].map(methods);
    let both: BTreeSet<&Method> = was.intersection(&is).copied().collect();
    changes(rows(before, &both), rows(after, &both), hourly_before, hourly_after)
}

fn methods(report: &TraceReport) -> BTreeSet<&Method> {
    report.methods.iter().map(|of| &of.method).collect()
}

fn rows<'r>(
    report: &'r TraceReport,
    of: &'r BTreeSet<&Method>,
) -> impl Iterator<Item = (CallerOf, Sampled)> + 'r {
    let traced = report.methods.iter().filter(|traced| of.contains(&traced.method));
    traced.flat_map(|traced| {
        traced.callers.iter().map(|(caller, calls)| {
            let (share, _) = traced.share(*calls);
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let samples = (share * traced.effective_samples).round() as u64;
            let of = CallerOf { method: traced.method.clone(), caller: caller.clone() };
            (of, (*calls, samples))
        })
    })
}
