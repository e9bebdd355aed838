//! What happened when: sums of all methods for each minute.
//!
//! Method statistics count for the minute in which their interval begins, a recorded call for the minute in which it
//! ended.

use std::collections::BTreeMap;

use log_format::rows::{CallRow, Exit, StatsRow};

use crate::options::zone::Zone;

const NS_PER_MINUTE: u64 = 60_000_000_000;

/// The sums of one or more minutes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MinuteSums {
    /// Calls that ended.
    pub calls: u64,
    /// Calls that ended with an exception.
    pub throws: u64,
    /// Time in the methods.
    pub self_ns: u64,
    /// Recorded calls.
    pub recorded: u64,
    /// The longest call.
    pub max_ns: u64,
    /// Bytes of sampled allocations, where these are added.
    pub allocated: u64,
}

impl MinuteSums {
    /// Adds other sums.
    pub fn add(&mut self, other: &Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.throws = self.throws.saturating_add(other.throws);
        self.self_ns = self.self_ns.saturating_add(other.self_ns);
        self.recorded = self.recorded.saturating_add(other.recorded);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.allocated = self.allocated.saturating_add(other.allocated);
    }
}

/// Sums by minute, counted from the start of 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Minutes {
    sums: BTreeMap<u64, MinuteSums>,
    /// The minute of the last rows: nearly always the next row is from the same one.
    last: Option<(u64, MinuteSums)>,
}

impl Minutes {
    /// Adds method statistics of an interval.
    pub fn add_stats(&mut self, row: &StatsRow) {
        let sums = MinuteSums {
            calls: row.calls,
            throws: row.throws,
            self_ns: row.self_ns,
            max_ns: row.max_ns,
            ..MinuteSums::default()
        };
        self.add(row.start_ns, &sums);
    }

    /// Adds a recorded call; `counted` if no method statistics contain it.
    pub fn add_record(&mut self, row: &CallRow, counted: bool) {
        let mut sums = MinuteSums { recorded: 1, max_ns: row.total_ns, ..MinuteSums::default() };
        if counted {
            sums.calls = 1;
            sums.throws = u64::from(row.exit == Exit::Throw);
            sums.self_ns = row.self_ns;
        }
        self.add(row.start_ns.saturating_add(row.total_ns), &sums);
    }

    fn add(&mut self, at_ns: u64, sums: &MinuteSums) {
        let minute = at_ns / NS_PER_MINUTE;
        match &mut self.last {
            Some((last, known)) if *last == minute => known.add(sums),
            _ => {
                self.keep_last();
                self.last = Some((minute, *sums));
            }
        }
    }

    fn keep_last(&mut self) {
        if let Some((minute, sums)) = self.last.take() {
            self.sums.entry(minute).or_default().add(&sums);
        }
    }

    /// Adds the sums of `other`.
    pub fn merge(&mut self, mut other: Self) {
        self.keep_last();
        other.keep_last();
        for (minute, sums) in &other.sums {
            self.sums.entry(*minute).or_default().add(sums);
        }
    }

    /// The minutes in order: the start of each, in unix nanoseconds, and its sums.
    pub fn finish(mut self) -> Vec<(u64, MinuteSums)> {
        self.keep_last();
        let start = |minute: u64| minute.saturating_mul(NS_PER_MINUTE);
        self.sums.into_iter().map(|(minute, sums)| (start(minute), sums)).collect()
    }
}

/// The sums of each hour, as clocks of the zone show it.
#[must_use]
pub fn hours(minutes: &[(u64, MinuteSums)], zone: &Zone) -> Vec<(u64, MinuteSums)> {
    let mut hours: Vec<(u64, MinuteSums)> = Vec::new();
    for (at, sums) in minutes {
        let hour = zone.hour_start_ns(*at);
        match hours.last_mut().filter(|(known, _)| *known == hour) {
            Some((_, known)) => known.add(sums),
            None => hours.push((hour, *sums)),
        }
    }
    hours
}

#[cfg(test)]
mod tests {
    use log_format::ids::{MethodId, StackId, ThreadId};

    use super::*;

    const MIN: u64 = NS_PER_MINUTE;

    fn record(start_ns: u64, total_ns: u64, exit: Exit) -> CallRow {
        CallRow {
            start_ns,
            thread: ThreadId::new(1),
            stack: StackId::new(1),
            method: MethodId::new(1),
            total_ns,
            self_ns: total_ns / 2,
            exit,
            allocated_bytes: None,
        }
    }

    #[test]
    fn a_call_counts_where_it_ended_and_once() {
        let row = StatsRow {
            start_ns: 3 * MIN,
            method: MethodId::new(1),
            calls: 10,
            throws: 2,
            total_ns: 99,
            self_ns: 50,
            max_ns: 40,
            hist: Default::default(),
        };
        let mut parts = [Minutes::default(), Minutes::default()];
        parts[0].add_stats(&row);
        parts[0].add_record(&record(2 * MIN, MIN, Exit::Return), false);
        parts[1].add_record(&record(2 * MIN, MIN - 1, Exit::Throw), true);
        let [mut minutes, other] = parts;
        minutes.merge(other);
        let third = MinuteSums {
            calls: 10,
            throws: 2,
            self_ns: 50,
            recorded: 1,
            max_ns: MIN,
            allocated: 0,
        };
        let second = MinuteSums {
            calls: 1,
            throws: 1,
            self_ns: (MIN - 1) / 2,
            recorded: 1,
            max_ns: MIN - 1,
            allocated: 0,
        };
        assert_eq!(minutes.finish(), [(2 * MIN, second), (3 * MIN, third)]);
    }
}
