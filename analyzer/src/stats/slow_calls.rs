//! The slowest recorded calls of each thread, found in one pass over the recorded calls.
//!
//! Of each thread, [`OF_A_THREAD`] calls are kept. A call is never shorter than one that it made, so all recorded
//! callers of a kept call are kept too. So the kept calls alone show which of them are within others.

use std::cmp::Reverse;

use log_format::ids::ThreadId;
use log_format::rows::{CallRow, Exit};

use crate::stats::id_map::IdMap;
use crate::stats::method::{Callers, Method};

/// Calls kept for each thread.
pub const OF_A_THREAD: usize = 200;

/// Calls kept for all threads: they take 20 MB.
const MOST: usize = 500_000;

/// Threads in a report.
pub const THREADS: usize = 60;

/// One recorded call of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedCall {
    /// The run's index in the list of runs.
    pub run: usize,
    /// The thread's name and id.
    pub thread: String,
    /// The method.
    pub method: Method,
    /// When it began, in unix nanoseconds.
    pub start_ns: u64,
    /// How long it took.
    pub total_ns: u64,
    /// Its self time.
    pub self_ns: u64,
    /// How it ended.
    pub exit: Exit,
    /// Its callers.
    pub callers: Callers,
    /// Whether it is within another call of the list.
    pub is_inner: bool,
}

/// The slowest first; among equally slow ones, the one that began first; of a caller and its callee the caller, whose
/// row comes later.
pub fn order(row: &CallRow) -> (Reverse<u64>, u64, Reverse<u64>) {
    (Reverse(row.total_ns), row.start_ns, Reverse(row.total_ns.saturating_sub(row.self_ns)))
}

/// The slowest calls of one run, by thread id.
///
/// If thousands of threads have calls, those whose slowest call is shorter than that of half of the others are
/// dropped. If such a thread comes back later, its earlier calls are missing.
#[derive(Debug, Default)]
pub struct SlowestByThread {
    threads: IdMap<ThreadId, Slowest>,
    /// Number of calls of all threads.
    count: usize,
}

#[derive(Debug, Default)]
struct Slowest {
    rows: Vec<CallRow>,
    /// Shorter calls are not among the slowest.
    least_ns: u64,
}

impl SlowestByThread {
    /// Adds a call that has ended.
    pub fn add(&mut self, row: &CallRow) {
        let slowest = self.threads.entry(row.thread).or_default();
        if row.total_ns < slowest.least_ns {
            return;
        }
        slowest.rows.push(row.clone());
        self.count += 1;
        if slowest.rows.len() >= 2 * OF_A_THREAD {
            self.count -= slowest.cut();
        }
        if self.count > MOST {
            self.leave_out();
        }
    }

    /// How many calls are kept.
    pub fn count(&self) -> usize {
        self.count
    }

    fn leave_out(&mut self) {
        self.threads.values_mut().for_each(|slowest| {
            slowest.cut();
        });
        self.count = self.threads.values().map(|slowest| slowest.rows.len()).sum();
        if self.count <= MOST / 4 * 3 {
            return;
        }
        let longest = |slowest: &Slowest| slowest.rows.iter().map(|row| row.total_ns).max();
        let mut all: Vec<(Option<u64>, ThreadId)> =
            self.threads.iter().map(|(thread, slowest)| (longest(slowest), *thread)).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        let keep = (all.len() / 2).max(THREADS);
        for (_, thread) in all.into_iter().skip(keep) {
            self.threads.remove(&thread);
        }
        self.count = self.threads.values().map(|slowest| slowest.rows.len()).sum();
    }

    /// Adds the calls of `other`.
    pub fn merge(&mut self, other: Self) {
        for (thread, more) in other.threads {
            let slowest = self.threads.entry(thread).or_default();
            self.count += more.rows.len();
            slowest.rows.extend(more.rows);
            self.count -= slowest.cut();
        }
        if self.count > MOST {
            self.leave_out();
        }
    }

    /// The calls of the threads that have the slowest ones, by thread, each thread's in the order of their start.
    /// With each call: whether it is within another one.
    pub fn finish(self) -> Vec<Vec<(CallRow, bool)>> {
        let mut threads: Vec<Vec<CallRow>> = self
            .threads
            .into_values()
            .map(|mut slowest| {
                slowest.cut();
                slowest.rows
            })
            .collect();
        threads.sort_by_key(|rows| rows.first().map(|row| (order(row), row.thread)));
        threads.truncate(THREADS);
        threads.into_iter().map(with_inner).collect()
    }
}

impl Slowest {
    /// Keeps only the slowest rows, in their order. Returns how many were dropped.
    fn cut(&mut self) -> usize {
        let before = self.rows.len();
        // By all fields of a row: rows that were read twice may differ in any field.
        let key = |row: &CallRow| {
            (order(row), row.stack, row.method, row.self_ns, row.exit == Exit::Throw)
        };
        self.rows.sort_by_key(key);
        self.rows.truncate(OF_A_THREAD);
        if let (OF_A_THREAD, Some(last)) = (self.rows.len(), self.rows.last()) {
            self.least_ns = last.total_ns;
        }
        before - self.rows.len()
    }
}

fn with_inner(mut rows: Vec<CallRow>) -> Vec<(CallRow, bool)> {
    let end = |row: &CallRow| row.start_ns.saturating_add(row.total_ns);
    rows.sort_by_key(|row| (row.start_ns, order(row)));
    let mut until_ns = None;
    let calls = rows.into_iter().map(|row| {
        // Calls of a thread are nested or disjoint.
        let is_inner = until_ns.is_some_and(|until_ns| end(&row) <= until_ns);
        if !is_inner {
            until_ns = Some(end(&row));
        }
        (row, is_inner)
    });
    calls.collect()
}

/// The calls of several runs: those of the threads that have the slowest ones, by thread.
#[must_use]
pub fn of_runs(mut threads: Vec<Vec<RecordedCall>>) -> Vec<Vec<RecordedCall>> {
    let slowest = |calls: &Vec<RecordedCall>| calls.iter().map(|call| call.total_ns).max();
    threads.retain(|calls| !calls.is_empty());
    threads.sort_by_cached_key(|calls| {
        let of = calls.first().map(|call| (call.run, call.thread.clone()));
        (Reverse(slowest(calls)), of)
    });
    threads.truncate(THREADS);
    threads
}

#[cfg(test)]
mod tests {
    use log_format::ids::{MethodId, StackId};

    use super::*;

    fn call(thread: u32, start_ns: u64, total_ns: u64) -> CallRow {
        let exit = Exit::Return;
        CallRow {
            start_ns,
            thread: ThreadId::new(thread),
            stack: StackId::new(1),
            method: MethodId::new(1),
            total_ns,
            self_ns: total_ns,
            exit,
            allocated_bytes: None,
        }
    }

    fn found(threads: Vec<Vec<(CallRow, bool)>>) -> Vec<Vec<(u64, u64, bool)>> {
        let call = |(row, is_inner): (CallRow, bool)| (row.start_ns, row.total_ns, is_inner);
        threads.into_iter().map(|rows| rows.into_iter().map(call).collect()).collect()
    }

    #[test]
    fn the_slowest_of_each_thread_in_any_order_and_parts() {
        let rows: Vec<CallRow> = (0..3_000)
            .map(|i| call(i % 3, u64::from(i) * 10_000, u64::from(i * 7_919 % 2_999)))
            .collect();
        let mut whole = SlowestByThread::default();
        rows.iter().for_each(|row| whole.add(row));
        let mut parts = SlowestByThread::default();
        for rows in rows.rchunks(77) {
            let mut part = SlowestByThread::default();
            rows.iter().for_each(|row| part.add(row));
            parts.merge(part);
        }
        let whole = found(whole.finish());
        assert_eq!(whole, found(parts.finish()));
        assert_eq!(whole.len(), 3);
        for thread in 0..3 {
            let of_thread = rows.iter().filter(|row| row.thread.get() == thread);
            let mut of_thread: Vec<u64> = of_thread.map(|row| row.total_ns).collect();
            of_thread.sort_unstable();
            let expected = &of_thread[of_thread.len() - OF_A_THREAD..];
            let found = whole.iter().any(|calls| {
                let mut times: Vec<u64> = calls.iter().map(|call| call.1).collect();
                times.sort_unstable();
                times == expected
            });
            assert!(found, "thread {thread}");
        }
    }

    #[test]
    fn calls_within_others_are_reported() {
        let mut slowest = SlowestByThread::default();
        // Rows come in the order of their ends.
        for (start, total) in [(10, 20), (10, 30), (5, 100), (200, 7), (200, 7)] {
            slowest.add(&call(1, start, total));
        }
        let expected =
            vec![(5, 100, false), (10, 30, true), (10, 20, true), (200, 7, false), (200, 7, true)];
        assert_eq!(found(slowest.finish()), [expected]);
    }

    #[test]
    fn of_thousands_of_threads_those_with_short_calls_go() {
        let mut slowest = SlowestByThread::default();
        for i in 0..250 {
            for thread in 0..3_000 {
                slowest.add(&call(thread, i * 100_000, i + u64::from(thread)));
            }
            assert!(slowest.count() <= MOST);
        }
        // Each of these threads was kept all the time: its longest calls are longer than those of most.
        let calls = found(slowest.finish());
        assert_eq!((calls.len(), calls[0].len()), (THREADS, OF_A_THREAD));
        assert!(calls.iter().flatten().all(|call| call.1 >= 2_900), "{:?}", calls[THREADS - 1]);
    }

    #[test]
    fn of_many_threads_those_with_the_slowest_calls() {
        let mut slowest = SlowestByThread::default();
        for thread in 0..1_000 {
            slowest.add(&call(thread, 0, u64::from(thread)));
        }
        let calls = found(slowest.finish());
        assert_eq!(calls.len(), THREADS);
        assert_eq!((calls[0][0].1, calls[THREADS - 1][0].1), (999, 940));
    }
}
