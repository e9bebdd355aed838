//! Method statistics since the run began and of the last minute, for `top`, and since the last reading, for the
//! overhead budget.
//!
//! The log's intervals do not serve: they end with the minute, or later, or at any flush. So this module has its own
//! time slices and keeps a minute's worth of them.

use std::cmp::Reverse;
use std::collections::HashMap;

use log_format::ids::MethodId;

use crate::drain::hot_samples::HotSampled;
use crate::drain::hot_sums::HotEvents;
use crate::drain::time_slices::{MINUTE_NS, Period, TimeSlices};
use crate::log::run_log::Now;
use crate::probe::method_totals::Added;

/// Statistics of one method over some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub calls: u64,
    pub throws: u64,
    pub total_ticks: u64,
    pub self_ticks: u64,
    pub max_ticks: u64,
}

/// The methods with the most self time, most first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hottest {
    /// When the period began, in unix nanoseconds.
    pub since_ns: u64,
    /// How long ago that was.
    pub covers_ns: u64,
    /// Whether it is shorter than requested because the run began within it.
    pub is_short: bool,
    /// Methods that were called in it.
    pub called: usize,
    pub methods: Vec<(MethodId, Sum)>,
    /// What samples say of it, if there are any.
    pub sampled: Option<HotSampled>,
    /// Lock waits, allocations and exceptions of it.
    pub events: HotEvents,
}

impl Hottest {
    /// The SQL statements of it.
    pub(crate) fn only_sql(self) -> Self {
        let statements = self.events.statements;
        let events = HotEvents { statements, ..HotEvents::default() };
        Self { methods: Vec::new(), sampled: None, events, ..self }
    }
}

/// What a method did since the last reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recent {
    pub calls: u64,
    pub total_ticks: u64,
    pub self_ticks: u64,
    /// Time of the calls that were slow enough to be recorded.
    pub slow_ns: u64,
}

/// Statistics by method, updated as readings come in.
#[derive(Debug)]
pub(crate) struct HotMethods {
    began: Now,
    /// `None` until somebody asks for it.
    recent: Option<HashMap<MethodId, Recent>>,
    run: HashMap<MethodId, Sum>,
    slices: TimeSlices<HashMap<MethodId, Sum>>,
}

impl Sum {
    pub(crate) fn of(since: &Added) -> Self {
        Self {
            calls: since.calls,
            throws: since.throws,
            total_ticks: since.total_ticks,
            self_ticks: since.self_ticks,
            max_ticks: since.max_ticks,
        }
    }

    pub(crate) fn add(&mut self, more: &Self) {
        self.calls += more.calls;
        self.throws += more.throws;
        self.total_ticks = self.total_ticks.saturating_add(more.total_ticks);
        self.self_ticks = self.self_ticks.saturating_add(more.self_ticks);
        self.max_ticks = self.max_ticks.max(more.max_ticks);
    }
}

impl HotMethods {
    pub(crate) fn new(now: Now) -> Self {
        Self { began: now, recent: None, run: HashMap::new(), slices: TimeSlices::new(now) }
    }

    /// Adds what a method did since it was last read.
    pub(crate) fn add(&mut self, method: MethodId, since: &Added) {
        let sum = Sum::of(since);
        self.run.entry(method).or_default().add(&sum);
        if let Some(slice) = self.slices.current() {
            slice.entry(method).or_default().add(&sum);
        }
        if let Some(recent) = &mut self.recent {
            let recent = recent.entry(method).or_default();
            recent.calls += sum.calls;
            recent.total_ticks = recent.total_ticks.saturating_add(sum.total_ticks);
            recent.self_ticks = recent.self_ticks.saturating_add(sum.self_ticks);
        }
    }

    /// Adds a call that was slow enough to be recorded.
    pub(crate) fn add_slow(&mut self, method: MethodId, total_ns: u64) {
        if let Some(recent) = &mut self.recent {
            let recent = recent.entry(method).or_default();
            recent.slow_ns = recent.slow_ns.saturating_add(total_ns);
        }
    }

    /// What methods did since the last call; nothing the first time.
    pub(crate) fn take_recent(&mut self) -> HashMap<MethodId, Recent> {
        let room = self.recent.as_ref().map_or(0, HashMap::len);
        self.recent.replace(HashMap::with_capacity(room)).unwrap_or_default()
    }

    /// How often a method was called since the run began.
    pub(crate) fn calls(&self, method: MethodId) -> u64 {
        self.run.get(&method).map_or(0, |sum| sum.calls)
    }

    /// Whether the current slice is over. Then add everything up to now and call [`next_slice`](Self::next_slice).
    pub(crate) fn is_slice_over(&self, now: Now) -> bool {
        self.slices.is_over(now)
    }

    pub(crate) fn next_slice(&mut self, now: Now) {
        self.slices.next(now);
    }

    /// The methods with the most self time, at most `count`.
    pub(crate) fn hottest(&mut self, period: Period, count: usize, now: Now) -> Hottest {
        self.slices.forget_old(now);
        let mut minute = HashMap::new();
        let (began, sums) = match period {
            Period::Run => (self.began, &self.run),
            Period::Minute => {
                for slice in self.slices.iter() {
                    for (method, sum) in slice {
                        minute.entry(*method).or_insert_with(Sum::default).add(sum);
                    }
                }
                (self.slices.began().unwrap_or(now), &minute)
            }
        };
        let mut methods: Vec<(MethodId, Sum)> = sums.iter().map(|(id, sum)| (*id, *sum)).collect();
        methods.sort_unstable_by_key(|(id, sum)| (Reverse((sum.self_ticks, sum.calls)), *id));
        let called = methods.len();
        methods.truncate(count);
        let covers_ns = now.since(began);
        let is_short = period == Period::Minute && covers_ns < MINUTE_NS;
        let since_ns = began.unix_ns;
        let events = HotEvents::default();
        Hottest { since_ns, covers_ns, is_short, called, methods, sampled: None, events }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Now {
        Now {
            unix_ns: 1_000_000_000 * (1_000_000 + seconds),
            monotonic_ns: 1_000_000_000 * seconds,
        }
    }

    fn reading(calls: u64, self_ticks: u64) -> Added {
        let (total_ticks, max_ticks) = (2 * self_ticks, self_ticks);
        Added { calls, self_ticks, total_ticks, max_ticks, ..Added::default() }
    }

    #[test]
    fn the_hottest_of_the_run_come_first() {
        let mut hot = HotMethods::new(at(0));
        hot.add(MethodId::new(1), &reading(5, 10));
        hot.add(MethodId::new(2), &reading(1, 30));
        hot.add(MethodId::new(1), &reading(7, 15));
        hot.add(MethodId::new(3), &reading(9, 1));
        let top = hot.hottest(Period::Run, 2, at(1));
        assert_eq!((top.since_ns, top.called), (at(0).unix_ns, 3));
        let sums: Vec<_> = top.methods.iter().map(|(id, sum)| (id.get(), sum.calls)).collect();
        assert_eq!(sums, [(2, 1), (1, 12)]);
        assert_eq!((top.methods[1].1.total_ticks, top.methods[1].1.max_ticks), (50, 15));
    }

    #[test]
    fn the_last_minute_is_a_minute_and_at_most_a_quarter_more() {
        let mut hot = HotMethods::new(at(0));
        for second in 0..300 {
            if hot.is_slice_over(at(second)) {
                hot.next_slice(at(second));
            }
            hot.add(MethodId::new(1), &reading(1, 1));
            let top = hot.hottest(Period::Minute, 10, at(second));
            let length_s = (at(second).unix_ns - top.since_ns) / 1_000_000_000;
            let least = second.min(60);
            assert!((least..=75).contains(&length_s), "{length_s} s at {second}");
            assert_eq!(top.covers_ns, length_s * 1_000_000_000);
            assert_eq!(top.is_short, second < 60, "at {second}");
            assert_eq!(top.methods[0].1.calls, length_s + 1);
            assert!(hot.slices.len() <= 6);
        }
        assert_eq!(hot.hottest(Period::Run, 10, at(300)).methods[0].1.calls, 300);
        // No calls for hours, and no query.
        assert_eq!(hot.hottest(Period::Minute, 10, at(9_000)).methods.len(), 1);
        hot.next_slice(at(9_000));
        assert!(hot.hottest(Period::Minute, 10, at(9_060)).methods.is_empty());
    }
}
