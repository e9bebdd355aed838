//! Calls of traced methods, summed up by method and caller, and by minute.

use std::collections::{BTreeMap, HashMap};

use log_format::rows::TraceRow;

use crate::stats::aggregate::Group;
use crate::stats::group_sums::GroupSums;
use crate::stats::method::Method;
use crate::stats::sampled_stacks::SampledStacks;

const SECOND_NS: u64 = 1_000_000_000;
const MINUTE_NS: u64 = 60 * SECOND_NS;

/// The calls of a traced method.
#[derive(Debug, Default)]
pub struct Traced {
    /// The calls that its samples stand for.
    pub calls: u64,
    /// How many samples there are.
    pub samples: u64,
    /// The sum of the squares of the calls that each stands for.
    squares: f64,
    /// The calls from each caller.
    pub callers: HashMap<Method, u64>,
    /// The calls by the start of their minute, in unix nanoseconds.
    pub minutes: BTreeMap<u64, u64>,
    /// The first second with calls, and the end of the last one.
    times: Option<(u64, u64)>,
}

impl Traced {
    /// How many samples that all stand for as many calls would say as much: fewer, if the agent took fewer for a time.
    #[must_use]
    pub fn effective_samples(&self) -> f64 {
        let calls = self.calls as f64;
        if self.squares > 0.0 { calls * calls / self.squares } else { 0.0 }
    }

    /// How often it was called in a second, from the first second with calls to the last one.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        let (from_ns, to_ns) = self.times.unwrap_or_default();
        self.calls as f64 * 1e9 / to_ns.saturating_sub(from_ns).max(SECOND_NS) as f64
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct TraceSums {
    /// By method.
    pub methods: HashMap<Method, Traced>,
    /// Samples and calls of each group by method.
    pub groups: GroupSums<Method>,
    /// Calls by stack, with the method on top. Empty if the report does not show them.
    pub stacks: SampledStacks,
}

impl TraceSums {
    /// Adds a row of a method that this one called.
    pub fn add(&mut self, group: Group, row: &TraceRow, method: &Method, caller: Method) {
        self.groups.add(group, method, row.samples, row.calls);
        let of = self.methods.entry(method.clone()).or_default();
        of.calls = of.calls.saturating_add(row.calls);
        of.samples = of.samples.saturating_add(row.samples);
        of.squares += row.calls as f64 * row.calls as f64 / row.samples.max(1) as f64;
        let second = (row.start_ns, row.start_ns.saturating_add(SECOND_NS));
        let (from_ns, to_ns) = of.times.unwrap_or(second);
        of.times = Some((from_ns.min(second.0), to_ns.max(second.1)));
        let minute = of.minutes.entry(row.start_ns - row.start_ns % MINUTE_NS).or_default();
        for sum in [minute, of.callers.entry(caller).or_default()] {
            *sum = sum.saturating_add(row.calls);
        }
    }
}
