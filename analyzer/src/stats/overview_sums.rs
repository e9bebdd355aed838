//! What an overview is made from: the sums by minute, the slowest calls, and how methods call each other.

use std::collections::{HashMap, HashSet};

use log_format::rows::CallRow;

use crate::stats::allocated_calls::AllocatedByCalls;
use crate::stats::by_minute::Minutes;
use crate::stats::call_tree::Recursion;
use crate::stats::method::Method;
use crate::stats::slow_calls::{RecordedCall, of_runs, order};

/// What the overview of one run or several is made from; empty if the report has none.
#[derive(Debug, Default)]
pub struct OverviewSums {
    /// Sums of the selected calls by minute.
    pub minutes: Minutes,
    /// Methods missing from `minutes`: they were throttled or muted for part of the selected time.
    pub partial: HashSet<Method>,
    /// The methods at which recorded calls enter instrumented code.
    pub entries: HashSet<Method>,
    /// The methods that call themselves.
    pub recursion: HashMap<Method, Recursion>,
    /// The slowest of the selected calls, by thread.
    pub slow: Vec<Vec<RecordedCall>>,
    /// The slowest of all of them, and the index of its run in the list of runs.
    pub slowest: Option<(usize, CallRow)>,
    /// What recorded calls allocated.
    pub allocated: HashMap<Method, AllocatedByCalls>,
}

impl OverviewSums {
    /// Adds those of another run.
    pub fn merge(&mut self, other: Self) {
        self.minutes.merge(other.minutes);
        self.partial.extend(other.partial);
        self.entries.extend(other.entries);
        for (method, found) in other.recursion {
            self.recursion.entry(method).or_default().add(&found);
        }
        for (method, allocated) in other.allocated {
            self.allocated.entry(method).or_default().add(&allocated);
        }
        self.slow.extend(other.slow);
        self.slow = of_runs(std::mem::take(&mut self.slow));
        let slowest = self.slowest.take().into_iter().chain(other.slowest);
        self.slowest = slowest.min_by_key(|(_, row)| order(row));
    }
}
