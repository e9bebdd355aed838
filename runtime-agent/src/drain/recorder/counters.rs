//! The counters of an interval.

use log_format::rows::{CounterRow, counter};

use super::Recorder;
use crate::allocations;
use crate::drain::counter_rows::row;
use crate::drain::exceptions::ExceptionFigures;
use crate::log::run_log::Now;
use crate::probe::lost_calls;
use crate::probe::mute::{self, Cause};

impl Recorder {
    /// How long recording has been on so far.
    pub(super) fn recorded_ns(&self) -> u64 {
        self.sums.recorded_ns + self.recording_since.map_or(0, |since| Now::read().since(since))
    }

    /// Calls not counted for lack of memory, as far as method statistics have been read.
    pub(crate) fn lost_calls(&self) -> u64 {
        self.sums.calls.lost + lost_calls::calls()
    }

    /// What `status` says of exceptions, as far as method statistics have been read.
    pub(crate) fn exception_figures(&self) -> ExceptionFigures {
        self.exceptions.figures()
    }

    /// The counters of an interval.
    pub(super) fn counters(&mut self, start_ns: u64) -> Vec<CounterRow> {
        let calls = self.sums.calls;
        let values = [
            (counter::RECORDED_CALLS_DROPPED, calls.recorded_dropped),
            (counter::LOST_CALLS, self.lost_calls()),
            (counter::UNSEEN_ENDS, calls.unseen_ends),
            (counter::MUTED_CALLS, mute::dropped_calls(Cause::User)),
            (counter::THROTTLED_CALLS, mute::dropped_calls(Cause::Agent)),
            (counter::CLASSES, self.class_counts.classes()),
            (counter::METHODS, self.class_counts.methods()),
            (counter::NOT_INSTRUMENTED, self.class_counts.not_instrumented()),
            (counter::LEAVES, self.class_counts.leaves()),
            (counter::UNREADABLE, self.class_counts.unreadable()),
            (counter::RECORDED_CALLS, calls.recorded),
            (counter::RECORDED_CALLS_OVER_BUDGET, calls.recorded_over_budget),
            (counter::BYTES, self.log.bytes),
            (counter::IO_ERRORS, self.log.io_errors),
            (counter::ROWS_DROPPED, self.log.rows_dropped),
            (counter::RECORDED_NS, self.recorded_ns()),
            (counter::PROBE_NS, self.sums.probe_ns),
            (counter::CPU_NS, self.sums.cpu_ns),
            (counter::CLOCK_JUMPS, self.clock.jumps()),
        ];
        let mut rows = Vec::new();
        if self.recorded_ns() == 0 {
            // Else an interval without calls would count as recorded.
            rows.push(row(start_ns, counter::RECORDED_NS, 0));
        }
        if self.log.deleted_hours() > 0 {
            rows.push(row(start_ns, counter::DELETED_HOURS, self.log.deleted_hours()));
        }
        if self.sums.probe_call_ns > 0 {
            rows.push(row(start_ns, counter::PROBE_CALL_NS, self.sums.probe_call_ns));
        }
        let sample_interval_ns = self.registry.samples.interval_in_force_ns();
        if sample_interval_ns > 0 {
            rows.push(row(start_ns, counter::SAMPLE_INTERVAL_NS, sample_interval_ns));
        }
        if let Some(bytes) = allocations::last_interval() {
            rows.push(row(start_ns, counter::ALLOCATION_INTERVAL, bytes));
        }
        rows.extend(self.written.increases(start_ns, values));
        rows.extend(self.written.increases(start_ns, self.registry.samples.counters()));
        rows.extend(self.written.increases(start_ns, self.lock_waits.counters()));
        rows.extend(self.written.increases(start_ns, self.statements.counters()));
        rows.extend(self.written.increases(start_ns, self.allocations.counters()));
        rows.extend(self.written.increases(start_ns, self.traces.counters()));
        rows.extend(self.written.increases(start_ns, self.exceptions.counters()));
        rows
    }
}
