//! CPU time of methods before and after, by samples.

use std::collections::BTreeMap;

use super::change::scaled;
use super::{Change, Per, Side};
use crate::stats::method::Method;
use crate::stats::sampled_stacks::CpuFigures;

/// How many standard errors a change must have to be no chance.
const CLEAR: f64 = 3.0;

/// The CPU time of a method's own on both sides.
#[derive(Clone, Debug)]
pub struct CpuChange {
    /// The method, or what else used CPU time.
    pub method: Method,
    /// Its CPU time.
    pub change: Change,
    /// Its samples before and after.
    pub samples: [u64; 2],
}

impl CpuChange {
    /// Whether chance does not explain it: samples of each side scatter with the root of their number.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // Far below the 52 bits that are exact.
    pub fn is_clear(&self) -> bool {
        let Self { change, samples: [was, is], .. } = self;
        let error = |ns: u64, samples: u64| ns as f64 / (samples.max(1) as f64).sqrt();
        let [was_error, is_error] = [error(change.was_ns, *was), error(change.is_ns, *is)];
        change.cost_ns().unsigned_abs() as f64 > CLEAR * was_error.hypot(is_error)
    }
}

/// The changes of all sampled methods, the largest cost first; none unless both sides have samples.
pub(super) fn cpu_changes(per: Per, before: &Side, after: &Side) -> Vec<CpuChange> {
    let [all_before, all_after] = [before, after].map(|side| side.report.samples.cpu.total_ns);
    if all_before == 0 || all_after == 0 {
        return Vec::new();
    }
    let mut methods: BTreeMap<&Method, (CpuFigures, CpuFigures)> = BTreeMap::new();
    for sampled in &before.report.samples.cpu.methods {
        methods.entry(&sampled.method).or_default().0 = sampled.cpu;
    }
    for sampled in &after.report.samples.cpu.methods {
        methods.entry(&sampled.method).or_default().1 = sampled.cpu;
    }
    let was_ns = |figures: CpuFigures| match per {
        Per::Hour => before.per_hour(figures.self_ns),
        // As much CPU time in all, so that only shares differ.
        Per::Call => after.per_hour(scaled(figures.self_ns.into(), all_after, all_before)),
    };
    let mut changes: Vec<CpuChange> = methods
        .into_iter()
        .map(|(method, (was, is))| CpuChange {
            method: method.clone(),
            change: Change { was_ns: was_ns(was), is_ns: after.per_hour(is.self_ns) },
            samples: [was.samples, is.samples],
        })
        .collect();
    changes.sort_by_key(|changed| std::cmp::Reverse(changed.change.cost_ns()));
    changes
}
