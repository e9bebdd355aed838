//! Waits and SQL statements of a slow call, in the order of their start, and which of them are within a statement.
//!
//! Statements nest: a trigger's or a rewriting wrapper's is within the one that caused it. Each knows the innermost
//! statement around it. So what is around a time is found from the last statement that began before it, outwards:
//!
//! ```text
//! A   |====================|      around t: C is not, nor is B; A is
//! B      |=========|
//! C         |==|
//! t                  ^
//! ```

use std::cmp::Reverse;
use std::iter::successors;

use log_format::ids::StackId;
use log_format::rows::CallRow;

use crate::stats::call_tree::{Frame, PathFigures};

/// Deeper statements are garbage, and have the last of these around them.
const MAX_DEPTH: usize = 64;

/// A wait or a statement.
pub(super) struct Span {
    pub start_ns: u64,
    pub ns: u64,
    pub throws: u64,
    /// Its call path.
    pub stack: StackId,
    pub frame: Frame,
    /// The innermost recorded call around it.
    pub call: Option<CallRow>,
    /// The place of the innermost statement around it.
    pub statement: Option<usize>,
}

impl Span {
    pub(super) fn new(start_ns: u64, ns: u64, stack: StackId, frame: Frame) -> Self {
        Self { start_ns, ns, throws: 0, stack, frame, call: None, statement: None }
    }

    fn end(&self) -> u64 {
        self.start_ns.saturating_add(self.ns)
    }

    fn contains(&self, start_ns: u64, end_ns: u64) -> bool {
        self.start_ns <= start_ns && end_ns <= self.end()
    }

    /// Whether the call around it ran it, not a callee that was not recorded: then their paths are the same.
    pub(super) fn is_of_call(&self) -> bool {
        let path = self.call.as_ref().map(|call| call.stack);
        self.stack.is_none() || path == Some(self.stack)
    }

    /// Its figures, of which so much time is in calls within it.
    pub(super) fn figures(&self, inner_ns: u64) -> PathFigures {
        let self_ns = self.ns.saturating_sub(inner_ns);
        PathFigures { calls: 1, throws: self.throws, total_ns: self.ns, self_ns }
    }
}

/// Sorts both, callers first, and finds the statement around each. They come in the order of their ends.
pub(super) fn nest(statements: &mut [Span], waits: &mut [Span]) {
    // Of two with the same times, the inner one comes first.
    statements.reverse();
    statements.sort_by_key(|of| (of.start_ns, Reverse(of.ns)));
    let mut open: Vec<(usize, u64)> = Vec::new();
    for (place, statement) in statements.iter_mut().enumerate() {
        while open.pop_if(|(_, end_ns)| *end_ns < statement.end()).is_some() {}
        statement.statement = open.last().map(|(place, _)| *place);
        if open.len() < MAX_DEPTH {
            open.push((place, statement.end()));
        }
    }
    waits.sort_by_key(|wait| wait.start_ns);
    for wait in waits {
        wait.statement = around(statements, wait.start_ns, wait.end()).next();
    }
}

/// The places of the statements around a time, the innermost first.
pub(super) fn around(
    statements: &[Span],
    start_ns: u64,
    end_ns: u64,
) -> impl Iterator<Item = usize> {
    let last = statements.partition_point(|of| of.start_ns <= start_ns).checked_sub(1);
    outwards(statements, last)
        .filter(move |(_, of)| of.contains(start_ns, end_ns))
        .map(|(place, _)| place)
}

/// A statement and those around it.
pub(super) fn outwards(
    statements: &[Span],
    first: Option<usize>,
) -> impl Iterator<Item = (usize, &Span)> {
    let at = |place: usize| statements.get(place).map(|of| (place, of));
    successors(first.and_then(at), move |(_, of)| of.statement.and_then(at))
}

/// Tells spans, in the order of their start, of a recorded call that may be around them.
pub(super) fn put_around(row: &CallRow, spans: &mut [Span]) {
    let first = spans.partition_point(|span| span.start_ns < row.start_ns);
    let from_first = spans.iter_mut().skip(first);
    for span in from_first.take_while(|span| span.start_ns <= end(row)) {
        let is_inner = span.call.as_ref().is_none_or(|known| row.total_ns < known.total_ns);
        if is_inner && span.end() <= end(row) {
            span.call = Some(row.clone());
        }
    }
}

/// When a call ended.
pub(super) fn end(row: &CallRow) -> u64 {
    row.start_ns.saturating_add(row.total_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(times: &[(u64, u64)]) -> Vec<Span> {
        let span = |(begin, end): &(u64, u64)| {
            Span::new(*begin, end - begin, StackId::NONE, Frame::Wait("".into()))
        };
        times.iter().map(span).collect()
    }

    #[test]
    fn statements_have_the_innermost_one_around_them() {
        let mut nested = spans(&[(10, 50), (20, 30), (60, 90), (70, 80), (0, 100), (200, 300)]);
        let mut waits = spans(&[(25, 30), (25, 31), (55, 58), (85, 95), (150, 160), (200, 300)]);
        nest(&mut nested, &mut waits);
        let begins: Vec<u64> = nested.iter().map(|of| of.start_ns).collect();
        assert_eq!(begins, [0, 10, 20, 60, 70, 200]);
        let outer = |spans: &[Span]| spans.iter().map(|of| of.statement).collect::<Vec<_>>();
        assert_eq!(outer(&nested), [None, Some(0), Some(1), Some(0), Some(3), None]);
        assert_eq!(outer(&waits), [Some(2), Some(1), Some(0), Some(0), None, Some(5)]);
    }

    /// As by trying each pair, whatever the times: statements that overlap too.
    #[test]
    fn what_is_around_a_time_is_found() {
        let mut seed = 1_u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for _ in 0..500 {
            let mut time = |_| {
                let begin = next(20);
                (begin, begin + next(20))
            };
            let times: Vec<(u64, u64)> = (0..8).map(&mut time).collect();
            let mut statements = spans(&times);
            nest(&mut statements, &mut []);
            for (begin, end) in (0..20).flat_map(|begin| (begin..40).map(move |end| (begin, end))) {
                let expected = statements.iter().rposition(|of| of.contains(begin, end));
                assert_eq!(around(&statements, begin, end).next(), expected, "{times:?}");
            }
        }
    }

    #[test]
    fn equal_and_very_deep_statements_are_no_problem() {
        let mut nested = spans(&[(5, 9); 1_000]);
        nest(&mut nested, &mut []);
        assert_eq!(around(&nested, 5, 9).count(), MAX_DEPTH + 1);
    }
}
