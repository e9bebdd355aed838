//! CPU time and waiting of methods before and after, by samples.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::diff::change::Change;
use crate::report::cpu::CpuReport;
use crate::report::off_cpu::OffCpuReport;
use crate::stats::method::Method;
use crate::stats::sampled_stacks::{CpuFigures, SampledTime};

/// How many standard errors a change must have to be no chance.
const CLEAR: f64 = 3.0;

/// The least change of waiting that matters, in nanoseconds per second: a thousandth of a thread's time.
const LEAST_WAITING_NS: u64 = 1_000_000;

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
    pub fn is_clear(&self) -> bool {
        is_no_chance(self.change.both_ns(), self.samples)
    }
}

/// How long threads waited in a method in one way, on both sides.
#[derive(Clone, Debug)]
pub struct WaitChange {
    /// The innermost method outside the JDK, if there is one.
    pub method: Method,
    /// What threads did: `blocked`, `parked` and so on.
    pub state: String,
    /// The time of all threads in a second of recording.
    pub change: Change,
    /// Samples before and after.
    pub samples: [u64; 2],
}

impl WaitChange {
    /// Whether chance does not explain it, and it is not too small to matter.
    #[must_use]
    pub fn is_clear(&self) -> bool {
        self.change.cost_ns().unsigned_abs() >= LEAST_WAITING_NS
            && is_no_chance(self.change.both_ns(), self.samples)
    }
}

/// Whether chance does not explain how sums of this many samples differ.
#[allow(clippy::cast_precision_loss)] // Far below the 52 bits that are exact.
pub(super) fn is_no_chance([was, is]: [u64; 2], [was_samples, is_samples]: [u64; 2]) -> bool {
    let error = |sum: u64, samples: u64| sum as f64 / (samples.max(1) as f64).sqrt();
    let [was_error, is_error] = [error(was, was_samples), error(is, is_samples)];
    was.abs_diff(is) as f64 > CLEAR * was_error.hypot(is_error)
}

/// The changes of all waits, the largest first, whether more or less; none unless both sides have waiting. The
/// functions turn the time of a side into that of a second.
pub(super) fn wait_changes(
    before: &OffCpuReport,
    after: &OffCpuReport,
    was_ns: impl Fn(u64) -> u64,
    is_ns: impl Fn(u64) -> u64,
) -> Vec<WaitChange> {
    if before.total_ns == 0 || after.total_ns == 0 {
        return Vec::new();
    }
    let mut waits: BTreeMap<(&Method, &str), [SampledTime; 2]> = BTreeMap::new();
    for wait in &before.waits {
        waits.entry((&wait.method, &wait.state)).or_default()[0] = wait.time;
    }
    for wait in &after.waits {
        waits.entry((&wait.method, &wait.state)).or_default()[1] = wait.time;
    }
    let changes = waits.into_iter().map(|((method, state), [was, is])| WaitChange {
        method: method.clone(),
        state: state.to_owned(),
        change: Change { was_ns: was_ns(was.ns), is_ns: is_ns(is.ns) },
        samples: [was.samples, is.samples],
    });
    let mut changes: Vec<WaitChange> = changes.collect();
    changes.sort_by_key(|changed| Reverse(changed.change.cost_ns().unsigned_abs()));
    changes
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
    changes.sort_by_key(|changed| Reverse(changed.change.cost_ns()));
    changes
}
