//! Finds callers and callees in TProfiler's rows, to compute a caller's self time.
//!
//! The rows of a thread are the calls of one of its recording periods, the one that ended last first: a caller comes
//! before its callees. A row has its call's depth and duration, but not its start. TProfiler takes every row one
//! level deeper as a callee, which can be wrong: a call that a callee's exception passed through has no row, and all
//! later depths of the period are too large by one.
//!
//! ```text
//! depth  time
//!   1     10     a: later than all below
//!   2      4     b: within a, of which 6 are left
//!   2     30     c: cannot be within a. Its caller has no row
//! ```
//!
//! Callees together never take longer than their caller. So a row belongs to the nearest earlier row that is less
//! deep and has that much time left. A row that does not fit began before that caller did, and so did all rows after
//! it. That way, no self time is negative.

use std::collections::HashMap;

use log_format::ids::MethodId;

/// A row of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallRow {
    /// Instrumented callers, as TProfiler counted them.
    pub depth: u64,
    /// Method number.
    pub method: MethodId,
    /// Duration.
    pub total_ns: u64,
}

/// A call with all of its callees known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Method number.
    pub method: MethodId,
    /// Duration.
    pub total_ns: u64,
    /// Duration less the time in callees that have rows.
    pub self_ns: u64,
    /// Whether the method is among its own callers.
    pub is_recursive: bool,
    /// Whether its caller, or one between it and the nearest known one, has no row.
    pub lacks_caller: bool,
}

/// The calls of a thread that may get more callees, each the caller of the next.
#[derive(Debug, Default)]
pub struct Callers {
    callers: Vec<(u64, Call)>,
    /// How often each method is among them.
    methods: HashMap<MethodId, u32>,
}

impl Callers {
    /// Adds the next row of the thread, and passes on the calls that it is not within.
    pub fn add(&mut self, row: CallRow, mut each: impl FnMut(Call)) {
        let is_caller =
            |(depth, call): &(u64, Call)| *depth < row.depth && call.self_ns >= row.total_ns;
        while self.callers.last().is_some_and(|last| !is_caller(last)) {
            self.pop(&mut each);
        }
        let lacks_caller = match self.callers.last_mut() {
            Some((depth, caller)) => {
                caller.self_ns -= row.total_ns;
                row.depth - *depth > 1
            }
            None => row.depth > 0,
        };
        let times = self.methods.entry(row.method).or_default();
        let call = Call {
            method: row.method,
            total_ns: row.total_ns,
            self_ns: row.total_ns,
            is_recursive: *times > 0,
            lacks_caller,
        };
        *times += 1;
        self.callers.push((row.depth, call));
    }

    /// Passes on the remaining calls at the end of a thread's rows.
    pub fn finish(&mut self, mut each: impl FnMut(Call)) {
        while !self.callers.is_empty() {
            self.pop(&mut each);
        }
    }

    fn pop(&mut self, each: &mut impl FnMut(Call)) {
        let Some((_, call)) = self.callers.pop() else { return };
        if let Some(times) = self.methods.get_mut(&call.method) {
            *times -= 1;
        }
        each(call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of depth, method and time. The result is method, self time, and `r` or `!` for a call that is recursive
    /// or lacks its caller, ordered by method.
    fn calls(rows: &[(u64, u32, u64)]) -> Vec<String> {
        let mut callers = Callers::default();
        let mut calls = Vec::new();
        for (depth, method, total_ns) in rows {
            let row =
                CallRow { depth: *depth, method: MethodId::new(*method), total_ns: *total_ns };
            callers.add(row, |call| calls.push(call));
        }
        callers.finish(|call| calls.push(call));
        assert_eq!(calls.len(), rows.len());
        let total: u64 = rows.iter().map(|row| row.2).sum();
        assert_eq!(calls.iter().map(|call| call.total_ns).sum::<u64>(), total);
        calls.sort_by_key(|call| call.method);
        let text = |call: &Call| {
            let recursive = if call.is_recursive { "r" } else { "" };
            let lacks = if call.lacks_caller { "!" } else { "" };
            format!("{} {}{recursive}{lacks}", call.method, call.self_ns)
        };
        calls.iter().map(text).collect()
    }

    #[test]
    fn callees_come_after_their_caller_and_are_taken_off() {
        // 1 { 2 { 3 } 4 } and after it 5
        assert_eq!(
            calls(&[(0, 5, 7), (0, 1, 100), (1, 4, 20), (1, 2, 50), (2, 3, 50)]),
            ["1 30", "2 0", "3 50", "4 20", "5 7"]
        );
    }

    #[test]
    fn what_does_not_fit_is_no_callee() {
        assert_eq!(calls(&[(1, 1, 10), (2, 2, 4), (2, 3, 30)]), ["1 6!", "2 4", "3 30!"]);
        // Later rows began earlier still, however well they would fit.
        let rows = [(1, 1, 10), (2, 2, 4), (2, 3, 30), (2, 4, 1)];
        assert_eq!(calls(&rows), ["1 6!", "2 4", "3 30!", "4 1!"]);
        // It may be within the caller of the row that it does not fit into.
        assert_eq!(calls(&[(0, 1, 100), (1, 2, 10), (2, 3, 30)]), ["1 60", "2 10", "3 30!"]);
    }

    #[test]
    fn callees_of_a_lost_call_are_its_caller_s() {
        assert_eq!(calls(&[(0, 1, 100), (2, 3, 30)]), ["1 70", "3 30!"]);
    }

    #[test]
    fn a_call_within_one_of_its_own_method_is_recursive() {
        assert_eq!(
            calls(&[(0, 1, 100), (1, 2, 60), (2, 1, 50), (0, 3, 5), (1, 1, 2)]),
            ["1 50r", "1 40", "1 2", "2 10", "3 3"]
        );
    }
}
