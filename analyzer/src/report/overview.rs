//! The overview: what happened when, the slowest calls, and recursion.

use std::collections::HashMap;

use crate::report::slowest::SlowCall;
use crate::stats::allocated_calls::AllocatedByCalls;
use crate::stats::by_minute::MinuteSums;
use crate::stats::call_tree::Recursion;
use crate::stats::method::Method;
use crate::stats::overview_sums::OverviewSums;
use crate::stats::slow_calls::RecordedCall;

/// What happened when, the slowest calls, and recursion.
#[derive(Debug)]
pub struct Overview {
    /// Sums by minute of all methods that were on all the time: when each minute began, in unix nanoseconds, and its
    /// sums.
    pub minutes: Vec<(u64, MinuteSums)>,
    /// Number of methods that are not in `minutes`: they were throttled or muted for part of the time.
    pub partial_methods: usize,
    /// The slowest calls of the threads that have the slowest, each thread's in order of their start.
    pub slow: Vec<Vec<RecordedCall>>,
    /// The slowest of them with what it called; only for a text.
    pub slowest: Option<SlowCall>,
    /// The methods that call themselves, those with most such calls first.
    pub recursion: Vec<(Method, Recursion)>,
    /// What recorded calls allocated, those with most of it first.
    pub allocated: Vec<(Method, AllocatedByCalls)>,
    /// Whether there were profile tasks.
    pub has_tasks: bool,
}

impl Overview {
    pub(crate) fn new(sums: OverviewSums) -> Self {
        let mut allocated: Vec<_> = sums.allocated.into_iter().collect();
        allocated.sort_by(|a, b| (b.1.bytes, &a.0).cmp(&(a.1.bytes, &b.0)));
        Self {
            minutes: sums.minutes.finish(),
            partial_methods: sums.partial.len(),
            slow: sums.slow,
            slowest: None,
            recursion: most_recursive_first(sums.recursion),
            allocated,
            has_tasks: false,
        }
    }
}

fn most_recursive_first(recursion: HashMap<Method, Recursion>) -> Vec<(Method, Recursion)> {
    let mut recursion: Vec<(Method, Recursion)> = recursion.into_iter().collect();
    recursion.sort_by(|a, b| (b.1.calls, &a.0).cmp(&(a.1.calls, &b.0)));
    recursion
}
