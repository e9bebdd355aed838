//! CPU time of methods before and after, by samples.

use std::collections::BTreeMap;

use crate::diff::change::Change;
use crate::report::cpu::CpuReport;
use crate::stats::method::Method;
use crate::stats::sampled_stacks::CpuFigures;

/// How many standard errors a change must have to be no chance.
const CLEAR: f64 = 3.0;

/// The CPU time of a method and of the JDK's code that it calls, on both sides: where the JDK's time is in detail, the
/// JIT's inlining decides, and that differs from run to run.
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

/// The changes of all sampled methods, the largest cost first; none unless both sides have samples. The functions make
/// times of the two sides comparable.
pub(super) fn cpu_changes(
    before: &CpuReport,
    after: &CpuReport,
    was_ns: impl Fn(u64) -> u64,
    is_ns: impl Fn(u64) -> u64,
) -> Vec<CpuChange> {
    if before.total_ns == 0 || after.total_ns == 0 {
        return Vec::new();
    }
    let mut methods: BTreeMap<&Method, (CpuFigures, CpuFigures)> = BTreeMap::new();
    for sampled in &before.methods {
        methods.entry(&sampled.method).or_default().0 = sampled.cpu;
    }
    for sampled in &after.methods {
        methods.entry(&sampled.method).or_default().1 = sampled.cpu;
    }
    let mut changes: Vec<CpuChange> = methods
        .into_iter()
        .filter(|(_, (was, is))| was.with_jdk_samples + is.with_jdk_samples > 0)
        .map(|(method, (was, is))| CpuChange {
            method: method.clone(),
            change: Change { was_ns: was_ns(was.with_jdk_ns), is_ns: is_ns(is.with_jdk_ns) },
            samples: [was.with_jdk_samples, is.with_jdk_samples],
        })
        .collect();
    changes.sort_by_key(|changed| std::cmp::Reverse(changed.change.cost_ns()));
    changes
}
