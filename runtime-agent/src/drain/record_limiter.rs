//! Decides which recorded calls of a slice are written, and adapts the threshold.
//!
//! Recorded calls wait for the end of their slice, half a second at most. If they need more bytes than the budget
//! allows, the slowest that fit are kept; the others are dropped and counted.
//!
//! If there are eight times too many, the threshold is also doubled, as often as at least four times too many stay
//! above it. So probes do not go on recording calls that will be dropped, and yet each slice has its slowest calls.
//! The threshold is halved again when half of the room is unused. So under constant load, a threshold that was just
//! doubled is not halved, and vice versa.
//!
//! The slowest dropped call of each method is held until the interval of method statistics ends. It is written then,
//! unless the log has a slower one by that time. So the log has the slowest call of each method that has slow calls,
//! however many other methods have. That takes at most as many rows as the statistics.
//!
//! Callers take at least as long as their callees: so the callers of a kept call are kept too, if they end in the
//! same slice.

use std::cmp::Reverse;
use std::collections::HashMap;

use log_format::ids::MethodId;
use log_format::rows::{CallRow, Exit};

use crate::log::budget::SLICE_NS;

/// Approximate bytes of a row of calls.csv.
const ROW_BYTES: u64 = 60;
/// Most recorded calls of a slice, even if the budget has room for more: they are kept in memory.
const MAX_ROWS: usize = 25_000;
/// With fewer recorded calls than this, none is dropped before the slice ends.
const LEAST_CUT: usize = 4_096;
/// The first threshold above 0 when a threshold of 0 is doubled.
const LEAST_RAISED_NS: u64 = 1_000;
/// The threshold is raised when there are this many times too many recorded calls, and so that fewer are left.
const TOO_MANY: usize = 8;
const STILL_MANY: usize = 4;
/// Slices in a row that leave room before the threshold is halved. One slice with next to no recorded calls is
/// enough.
const PATIENCE: u32 = 4;

/// The lowest threshold of all methods, and how far it is raised.
#[derive(Debug)]
pub(crate) struct Threshold {
    base_ns: u64,
    /// How often it has been doubled.
    level: u32,
    /// Slices in a row that left room.
    calm: u32,
}

impl Threshold {
    pub(crate) fn new(base_ns: u64) -> Self {
        Self { base_ns, level: 0, calm: 0 }
    }

    /// The raised value; 0 if it is not raised.
    pub(crate) fn raised_to_ns(&self) -> u64 {
        if self.level == 0 { 0 } else { self.at_level(self.level) }
    }

    fn at_level(&self, level: u32) -> u64 {
        if level == 0 {
            return self.base_ns;
        }
        let first = self.base_ns.max(LEAST_RAISED_NS / 2);
        1_u64.checked_shl(level).map_or(u64::MAX, |times| first.saturating_mul(times))
    }

    /// Doubles it as long as it stays at or under `least_ns`.
    fn raise_to(&mut self, least_ns: u64) {
        while self.level < 63 && self.at_level(self.level + 1) <= least_ns {
            self.level += 1;
        }
    }

    /// Adapts the threshold after a slice with `seen` recorded calls at or over it, and room for `most`.
    fn slice_ended(&mut self, seen: usize, most: usize) {
        self.calm = if seen <= most / 2 { self.calm + 1 } else { 0 };
        if seen == 0 {
            // The load is not the same as before.
            self.level = 0;
        } else if self.calm >= PATIENCE || seen <= most / 16 {
            self.level = self.level.saturating_sub(1);
            self.calm = 0;
        }
    }
}

/// The recorded calls of a slice, and those held for the interval.
#[derive(Debug, Default)]
pub(crate) struct PendingCalls {
    began_ns: u64,
    rows: Vec<CallRow>,
    /// How many were at or over the threshold, dropped ones included.
    seen: usize,
    /// The slowest dropped call of each method, if none was slower before it.
    held: HashMap<MethodId, CallRow>,
    newly_held: Vec<CallRow>,
}

/// Whether a call of a method, in nanoseconds, is slower than all its calls in the interval that the log has or will
/// have.
pub(crate) type IsSlower = fn(MethodId, u64) -> bool;

impl PendingCalls {
    /// Adds recorded calls, in the order of their ends. If there are far too many, drops the fastest at once and
    /// returns how many it dropped.
    pub(crate) fn add(
        &mut self,
        mut rows: Vec<CallRow>,
        allowance: Option<u64>,
        threshold: &mut Threshold,
        is_slower: IsSlower,
    ) -> u64 {
        let raised_to_ns = threshold.raised_to_ns();
        self.seen += rows.iter().filter(|row| row.total_ns >= raised_to_ns).count();
        self.rows.append(&mut rows);
        match allowance.map(rows_in) {
            Some(most) if self.rows.len() > (most * TOO_MANY).max(LEAST_CUT) => {
                self.cut_and_raise(most * STILL_MANY, threshold, is_slower)
            }
            _ => 0,
        }
    }

    /// Memory that the recorded calls use.
    pub(crate) fn bytes(&self) -> usize {
        (self.rows.capacity() + self.held.capacity()) * size_of::<CallRow>()
    }

    /// Whether it is time to end the slice.
    pub(crate) fn is_over(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.began_ns) >= SLICE_NS
    }

    /// Ends the slice: returns the calls to write, in order, and how many were dropped.
    pub(crate) fn end(
        &mut self,
        allowance: Option<u64>,
        threshold: &mut Threshold,
        is_slower: IsSlower,
        now_ns: u64,
    ) -> (Vec<CallRow>, u64) {
        let mut cut = 0;
        if let Some(most) = allowance.map(rows_in) {
            if self.seen > most * TOO_MANY {
                cut = self.cut_and_raise(most * STILL_MANY, threshold, is_slower);
            }
            cut += self.cut(most, is_slower);
            // A slice that was ended early says nothing about the load.
            if self.is_over(now_ns) {
                threshold.slice_ended(self.seen, most);
            }
        }
        self.began_ns = now_ns;
        self.seen = 0;
        (std::mem::take(&mut self.rows), cut)
    }

    /// The calls held since the last call of this function: add their names to the log while these are known.
    pub(crate) fn take_newly_held(&mut self) -> Vec<CallRow> {
        let mut held = std::mem::take(&mut self.newly_held);
        held.retain(|row| self.held.get(&row.method) == Some(row));
        held
    }

    /// Notes that a call is written, and releases the method's held call unless that is slower.
    pub(crate) fn is_written(&mut self, row: &CallRow) {
        if self.held.get(&row.method).is_some_and(|held| held.total_ns <= row.total_ns) {
            self.held.remove(&row.method);
        }
    }

    /// Ends the interval: returns the slowest dropped call of each method, in the order of their ends.
    pub(crate) fn take_held(&mut self) -> Vec<CallRow> {
        let mut held: Vec<CallRow> = std::mem::take(&mut self.held).into_values().collect();
        held.sort_by_key(|row| row.start_ns.saturating_add(row.total_ns));
        held
    }

    /// Keeps the slowest `most` recorded calls, and raises the threshold to what they are over. Unfinished calls say
    /// nothing about the calls to come, so they do not count for the threshold.
    fn cut_and_raise(
        &mut self,
        most: usize,
        threshold: &mut Threshold,
        is_slower: IsSlower,
    ) -> u64 {
        let cut = self.cut(most, is_slower);
        let ended = self.rows.iter().filter(|row| row.exit != Exit::Unfinished);
        threshold.raise_to(ended.map(|row| row.total_ns).min().unwrap_or(0));
        cut
    }

    fn cut(&mut self, most: usize, is_slower: IsSlower) -> u64 {
        let cut = keep_slowest(&mut self.rows, most);
        for row in &cut {
            let held_ns = self.held.get(&row.method).map_or(0, |held| held.total_ns);
            if row.total_ns > held_ns && is_slower(row.method, row.total_ns) {
                self.held.insert(row.method, row.clone());
                self.newly_held.push(row.clone());
            }
        }
        cut.len() as u64
    }
}

/// How many recorded calls fit in so many bytes; at least one.
fn rows_in(bytes: u64) -> usize {
    usize::try_from(bytes / ROW_BYTES).unwrap_or(usize::MAX).clamp(1, MAX_ROWS)
}

/// Keeps the slowest `most` of `rows`, in order. Of those as fast as the last that fits, it keeps the first. Returns
/// the others.
fn keep_slowest(rows: &mut Vec<CallRow>, most: usize) -> Vec<CallRow> {
    if rows.len() <= most {
        return Vec::new();
    }
    let mut order: Vec<(Reverse<u64>, usize)> =
        rows.iter().enumerate().map(|(place, row)| (Reverse(row.total_ns), place)).collect();
    order.select_nth_unstable(most);
    let mut cut: Vec<usize> = order.drain(most..).map(|(_, place)| place).collect();
    cut.sort_unstable();
    let (mut cut, mut place) = (cut.into_iter().peekable(), 0..);
    rows.extract_if(.., |_| cut.next_if_eq(&place.next().unwrap_or(0)).is_some()).collect()
}

#[cfg(test)]
mod tests {
    use log_format::file_names::Hour;
    use log_format::ids::{StackId, ThreadId};

    use super::*;

    fn in_force_ns(threshold: &Threshold) -> u64 {
        threshold.at_level(threshold.level)
    }
    use crate::log::budget::Budget;

    const MS: u64 = 1_000_000;

    fn row(start_ns: u64, total_ns: u64) -> CallRow {
        let (stack, method) = (StackId::new(1), MethodId::new(1));
        CallRow {
            start_ns,
            thread: ThreadId::new(1),
            stack,
            method,
            total_ns,
            self_ns: 0,
            exit: Exit::Return,
            allocated_bytes: None,
        }
    }

    fn durations(rows: &[CallRow]) -> Vec<u64> {
        rows.iter().map(|row| row.total_ns).collect()
    }

    #[test]
    fn the_slowest_are_kept_in_their_order() {
        for (given, most, kept) in [
            (vec![5, 9, 7], 3, vec![5, 9, 7]),
            (vec![5, 9, 7, 1], 2, vec![9, 7]),
            (vec![5, 5, 5, 5], 3, vec![5, 5, 5]),
            (vec![5, 9, 5, 9, 5], 3, vec![5, 9, 9]),
            (vec![3, 1], 1, vec![3]),
        ] {
            let mut rows: Vec<CallRow> = given.iter().map(|ns| row(0, *ns)).collect();
            let cut = keep_slowest(&mut rows, most);
            assert_eq!(cut.len(), given.len() - kept.len());
            assert_eq!(durations(&rows), kept);
        }
    }

    #[test]
    fn of_dropped_calls_the_slowest_of_each_method_is_held() {
        let of = |method, total_ns| CallRow { method: MethodId::new(method), ..row(0, total_ns) };
        let mut pending = PendingCalls::default();
        let mut threshold = Threshold::new(MS);
        // The log has a call of method 3 that took as long.
        let is_slower: IsSlower = |method, ns| method != MethodId::new(3) || ns > 1;
        let mut end = |rows: &[CallRow]| {
            pending.add(rows.to_vec(), Some(ROW_BYTES), &mut threshold, is_slower);
            let (rows, cut) = pending.end(Some(ROW_BYTES), &mut threshold, is_slower, 1);
            rows.iter().for_each(|row| pending.is_written(row));
            (durations(&rows), cut, durations(&pending.take_newly_held()))
        };
        assert_eq!(end(&[of(1, 90), of(2, 5), of(1, 80), of(3, 1)]), (vec![90], 3, vec![5]));
        assert_eq!(end(&[of(2, 6), of(1, 95), of(2, 7), of(4, 70)]), (vec![95], 3, vec![7, 70]));
        assert_eq!(end(&[of(4, 9)]), (vec![9], 0, vec![]));
        let mut held = durations(&pending.take_held());
        held.sort_unstable();
        // Of methods 1 and 4, a written call is slower than the held one, or not.
        assert_eq!(held, [7, 70]);
        assert!(pending.take_held().is_empty());
    }

    #[test]
    fn calls_that_have_not_ended_raise_nothing() {
        let mut threshold = Threshold::new(MS);
        let mut pending = PendingCalls::default();
        let open = |ms: u64| CallRow { exit: Exit::Unfinished, ..row(0, ms * MS) };
        let rows: Vec<CallRow> = (1..200).map(|i| open(10_000 + i)).collect();
        pending.add(rows, Some(ROW_BYTES), &mut threshold, |_, _| true);
        let (rows, cut) = pending.end(Some(ROW_BYTES), &mut threshold, |_, _| true, 1);
        assert_eq!((durations(&rows), cut), (vec![10_199 * MS], 198));
        assert_eq!(threshold.raised_to_ns(), 0);
    }

    #[test]
    fn the_threshold_stays_at_or_under_what_was_kept() {
        let mut threshold = Threshold::new(MS);
        threshold.raise_to(MS + MS / 2);
        assert_eq!(in_force_ns(&threshold), MS);
        threshold.raise_to(9 * MS);
        assert_eq!(in_force_ns(&threshold), 8 * MS);
        threshold.raise_to(2 * MS);
        assert_eq!(in_force_ns(&threshold), 8 * MS);
        threshold.raise_to(u64::MAX);
        assert!(in_force_ns(&threshold) > u64::MAX / 4);
        let mut from_nothing = Threshold::new(0);
        assert_eq!(in_force_ns(&from_nothing), 0);
        from_nothing.raise_to(2_500);
        assert_eq!(in_force_ns(&from_nothing), 2_000);
    }

    #[test]
    fn it_comes_down_when_there_is_room() {
        let mut threshold = Threshold::new(MS);
        threshold.raise_to(8 * MS);
        let slices = |threshold: &mut Threshold, seen| {
            let before = in_force_ns(threshold);
            (1..100)
                .find(|_| {
                    threshold.slice_ended(seen, 100);
                    in_force_ns(threshold) < before
                })
                .unwrap_or(0)
        };
        assert_eq!(slices(&mut threshold, 51), 0);
        assert_eq!(slices(&mut threshold, 50), 4);
        assert_eq!(slices(&mut threshold, 6), 1);
        assert_eq!(in_force_ns(&threshold), 2 * MS);
        threshold.raise_to(800 * MS);
        assert_eq!(slices(&mut threshold, 0), 1);
        assert_eq!((slices(&mut threshold, 0), in_force_ns(&threshold)), (0, MS));
    }

    #[test]
    fn a_slice_without_recorded_calls_does_not_raise() {
        let mut threshold = Threshold::new(MS);
        let (rows, cut) = PendingCalls::default().end(Some(0), &mut threshold, |_, _| false, 1);
        assert_eq!((rows.len(), cut, in_force_ns(&threshold)), (0, 0, MS));
    }

    #[test]
    fn too_many_recorded_calls_are_dropped_before_the_slice_ends() {
        let mut threshold = Threshold::new(MS);
        let mut pending = PendingCalls::default();
        let mut cut = 0;
        for round in 0..10 {
            let rows = (0..2_000).map(|i| row(0, MS + round * 2_000 + i)).collect();
            cut += pending.add(rows, Some(100 * ROW_BYTES), &mut threshold, |_, _| false);
            assert!(pending.rows.len() <= 4_096);
        }
        let (rows, more) = pending.end(Some(100 * ROW_BYTES), &mut threshold, |_, _| false, 1);
        assert_eq!(durations(&rows), (MS + 19_900..MS + 20_000).collect::<Vec<_>>());
        assert_eq!(cut + more, 20_000 - 100);
        // A slice that was ended early does not change the threshold.
        let before = in_force_ns(&threshold);
        assert_eq!(
            pending.end(Some(100 * ROW_BYTES), &mut threshold, |_, _| false, 1),
            (Vec::new(), 0)
        );
        assert_eq!(in_force_ns(&threshold), before);
        assert!(
            pending.rows.is_empty() && !pending.is_over(SLICE_NS) && pending.is_over(SLICE_NS + 1)
        );
    }

    /// An hour of a service with 1,000 requests a second, each with ten calls over 1 ms, and ten times that for two
    /// minutes: 100 MB hold it, and every second has its slowest call.
    #[test]
    fn every_second_of_an_hour_has_its_slowest_call() {
        let mut budget = Budget::new(Some(100_000_000));
        budget.set_hour(Hour::of_unix_ns(0), 0);
        let (mut threshold, mut pending) = (Threshold::new(MS), PendingCalls::default());
        let mut random = 1_u64;
        let mut kept_of_second = vec![0_u64; 3_600];
        let (mut cut, mut seen, mut changes) = (0, 0_u64, 0);
        let (mut slowest_of_second, mut slowest_kept) = (vec![0; 3_600], vec![0; 3_600]);
        for round in 0..7_200_u64 * 10 {
            let now = round * SLICE_NS / 10;
            let second = usize::try_from(now / 1_000_000_000).unwrap();
            let calls = if (1_200..1_320).contains(&second) { 5_000 } else { 500 };
            let mut rows = Vec::new();
            for _ in 0..calls {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                // Half as many take twice as long.
                let ns = MS * 1_000 / (1 + random % 1_000);
                seen += 1;
                slowest_of_second[second] = slowest_of_second[second].max(ns);
                if ns >= in_force_ns(&threshold) {
                    rows.push(row(now, ns));
                }
            }
            let allowance = budget.allowance(now);
            cut += pending.add(rows, allowance, &mut threshold, |_, _| false);
            if pending.is_over(now) {
                let before = in_force_ns(&threshold);
                let (rows, more) = pending.end(allowance, &mut threshold, |_, _| false, now);
                changes += u32::from(in_force_ns(&threshold) != before);
                cut += more;
                budget.spend(rows.len() as u64 * ROW_BYTES);
                for row in rows {
                    let second = usize::try_from(row.start_ns / 1_000_000_000).unwrap();
                    kept_of_second[second] += 1;
                    slowest_kept[second] = slowest_kept[second].max(row.total_ns);
                }
            }
        }
        // The last slice of the hour has not ended.
        for second in 0..3_599 {
            assert!(kept_of_second[second] >= 50, "{second}: {}", kept_of_second[second]);
            assert_eq!(slowest_kept[second], slowest_of_second[second], "{second}");
        }
        assert!(budget.spent() <= 100_000_000, "{}", budget.spent());
        assert!(budget.spent() >= 50_000_000, "{}", budget.spent());
        assert!(cut > 0 && cut < seen / 2, "{cut} of {seen}");
        assert!(changes < 3_600, "{changes}");
    }
}
