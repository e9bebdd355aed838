//! Changes thresholds, and writes the changes to the log.

use log_format::error::BadValue;
use log_format::pattern::Pattern;
use log_format::rows::{CounterRow, counter};

use super::Recorder;
use crate::drain::counter_rows::row;
use crate::drain::record_limiter::Threshold;
use crate::drain::thresholds_in_force::Thresholds;
use crate::probe;
use crate::sys::clock;

impl Recorder {
    /// Sets the threshold of the methods that a pattern names, or of all others. Returns how many methods the pattern
    /// names.
    ///
    /// # Errors
    /// There are too many patterns.
    pub(crate) fn set_threshold(
        &mut self,
        of: Option<Pattern>,
        ns: u64,
    ) -> Result<Option<usize>, BadValue> {
        let named = match of {
            Some(pattern) => {
                let methods = self.registry.methods.clone();
                Some(methods.change_threshold(pattern, ns, || self.round())?)
            }
            None => {
                self.threshold_ns = ns;
                probe::set_threshold_ns(ns);
                None
            }
        };
        // If too many recorded calls reach the new threshold, it is raised again.
        self.lowest = Threshold::new(probe::lowest_threshold_ns());
        probe::raise_thresholds(0);
        let now_ns = clock::unix_ns();
        self.log.add_counters(&self.threshold_rows(now_ns));
        self.tell_own_thresholds(now_ns);
        Ok(named)
    }

    /// The thresholds that the user set, and what they were raised to.
    pub(crate) fn thresholds(&self) -> Thresholds {
        let own = self.registry.methods.thresholds().into_iter();
        Thresholds {
            all_ns: self.threshold_ns,
            own: own.map(|own| (own.pattern, own.value)).collect(),
            raised_to_ns: self.raised_to_ns(),
        }
    }

    /// Which methods are traced, and one in how many of their calls.
    pub(crate) fn traces(&self) -> Vec<(Pattern, u64)> {
        let traces = self.registry.methods.traces().into_iter();
        traces.map(|own| (own.pattern, own.value)).collect()
    }

    /// The value to which the budget raised all thresholds, or 0.
    pub(super) fn raised_to_ns(&self) -> u64 {
        self.lowest.raised_to_ns()
    }

    /// If the raised threshold differs from `before`, puts it in force and into the log.
    pub(super) fn raised_since(&mut self, before: u64) {
        if self.raised_to_ns() != before {
            probe::raise_thresholds(self.raised_to_ns());
            self.log.add_counters(&[self.raised_row(clock::unix_ns())]);
        }
    }

    fn raised_row(&self, start_ns: u64) -> CounterRow {
        row(start_ns, counter::RAISED_TO_NS, self.raised_to_ns())
    }

    fn threshold_rows(&self, start_ns: u64) -> [CounterRow; 2] {
        [row(start_ns, counter::THRESHOLD_NS, self.threshold_ns), self.raised_row(start_ns)]
    }

    fn tell_own_thresholds(&mut self, now_ns: u64) {
        let rows = self.events.set_thresholds(&self.registry.methods.thresholds(), now_ns);
        self.log.add_events(&rows);
    }

    /// Writes the thresholds at the start of the interval, and how many methods are muted.
    pub(super) fn tell_thresholds(&mut self) {
        if !std::mem::replace(&mut self.are_thresholds_reported, true) {
            let start_ns = self.interval.start_ns;
            self.log.add_counters(&self.threshold_rows(start_ns));
            let muted = self.muted_methods.map(|n| row(start_ns, counter::MUTED_METHODS, n));
            self.log.add_counters(muted.as_slice());
            self.tell_own_thresholds(start_ns);
        }
    }
}
