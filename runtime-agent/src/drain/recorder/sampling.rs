//! Takes samples into the log, within their part of the hour's budget.

use std::cell::RefCell;

use log_format::file_names::Hour;
use log_format::ids::{JavaThreadId, MethodId, ThreadId};
use log_format::rows::{ExceptionExampleRow, LockWaitRow, SlowSqlRow};

use super::Recorder;
use super::sampled_bytes::SampledBytes;
use crate::drain::method_waits::Waits;
use crate::drain::registry::Registry;
use crate::drain::run_sums::SampledProbes;
use crate::drain::samples::{Context, EventCounts, SamplingFigures};
use crate::drain::{self, lock_waits};
use crate::exceptions;
use crate::locks;
use crate::log::run_log::RunLog;
use crate::log::sampled_row::SampledRow;
use crate::sampling::sampler::Sampler;
use crate::statements;
use crate::sys::clock;

/// The part of the hour's budget that samples may take.
const SAMPLES_PART: u64 = 4;
/// The part that waits for locks may take, and sampled allocations, traced calls, examples of exceptions, and requests
/// of tasks.
const OTHERS_PART: u64 = 8;

impl Recorder {
    /// What `status` says of CPU samples.
    pub(crate) fn sampling_figures(&mut self, sampler: &Sampler<'_>) -> SamplingFigures {
        self.statements.collect(&mut self.registry.statements);
        let Self { registry, lock_waits, allocations, traces, statements, .. } = self;
        let counts = EventCounts {
            lock_waits: lock_waits.counts(),
            allocations: allocations.counts(),
            traces: traces.counts(),
            statements: statements.figures(),
        };
        registry.samples.figures(sampler, counts)
    }

    /// CPU time in probes by samples, so far.
    pub(crate) fn sampled_probes(&self) -> SampledProbes {
        self.registry.samples.probes()
    }

    /// How long threads have waited in methods of these since the last call.
    pub(crate) fn take_waited(
        &mut self,
        ids: impl Iterator<Item = MethodId>,
    ) -> Vec<(MethodId, Waits)> {
        let methods = &self.registry.methods;
        let ids = ids.filter_map(|id| Some((id, methods.get(id)?)));
        self.registry.samples.take_waited(ids)
    }

    /// Takes what was sampled since the last call, and writes the seconds that are over; with `all`, all.
    pub(crate) fn take_samples(&mut self, sampler: &mut Sampler<'_>, all: bool) {
        let hour = Hour::of_unix_ns(clock::unix_ns());
        let clears = hour != self.sampled.hour && self.registry.samples.stacks().are_many();
        self.write_samples(sampler, all || clears);
        if clears {
            self.registry.samples.clear_stacks();
        }
        if all || clears {
            // All waits have ended.
            sampler.tell_again();
        }
        if hour != self.sampled.hour {
            self.sampled = SampledBytes::of(hour);
        }
    }

    fn write_samples(&mut self, sampler: &mut Sampler<'_>, all: bool) {
        let Self { registry, clock, own_os_id, .. } = self;
        let Registry { ids, paths, by_os_id, samples, statements: statement_ids, .. } = registry;
        let ids = RefCell::new(ids);
        let mut context = Context {
            anchors: &clock.anchors,
            paths,
            own_os_id: *own_os_id,
            known: &|number| by_os_id.get(&number).copied(),
            virtual_thread: &mut |number| {
                ids.borrow_mut().of(JavaThreadId::new(number), ThreadId::NONE)
            },
            next_thread: &mut || ids.borrow_mut().next(),
        };
        let mut new = samples.round(sampler, &mut context, all);
        sampler.events.find_owners();
        let waits: Vec<LockWaitRow> = locks::take_long_waits()
            .iter()
            .map(|wait| lock_waits::row(wait, samples, sampler, &mut context))
            .collect();
        let slow: Vec<SlowSqlRow> = statements::take_slow()
            .iter()
            .map(|slow| drain::statements::row(slow, statement_ids, samples, sampler, &mut context))
            .collect();
        new.extend(self.allocations.round(samples, sampler, &mut context));
        new.extend(self.traces.round(samples, sampler, &mut context));
        let examples: Vec<ExceptionExampleRow> = exceptions::take_examples()
            .into_iter()
            .map(|example| drain::exceptions::row(example, samples, sampler, &mut context))
            .collect();
        for (start_ns, thread) in new {
            self.log.name_thread(Hour::of_unix_ns(start_ns), thread, &self.registry);
        }
        let (samples, others) = (self.part(SAMPLES_PART), self.part(OTHERS_PART));
        let Self { log, registry, sampled, .. } = self;
        let rows = registry.samples.take_rows(clock::unix_ns(), all);
        if !add_within(log, registry, &mut sampled.samples, samples, &rows) {
            registry.samples.add_over_budget(&rows);
        }
        if !add_within(log, registry, &mut sampled.lock_waits, others, &waits) {
            self.lock_waits.add_over_budget(&waits);
        }
        if !add_within(log, registry, &mut sampled.slow_sql, others, &slow) {
            self.statements.add_over_budget(&slow);
        }
        let allocations = self.allocations.take_rows(all);
        if !add_within(log, registry, &mut sampled.allocations, others, &allocations) {
            self.allocations.add_over_budget(&allocations);
        }
        let traces = self.traces.take_rows(all);
        if !add_within(log, registry, &mut sampled.traces, others, &traces) {
            self.traces.add_over_budget(&traces);
        }
        if !add_within(log, registry, &mut sampled.examples, others, &examples) {
            self.exceptions.add_over_budget(&examples);
        }
    }

    /// The bytes that the requests of tasks may take of the hour's budget.
    pub(super) fn part_of_others(&self) -> u64 {
        self.part(OTHERS_PART)
    }

    /// The bytes of one of so many parts of the hour's budget.
    fn part(&self, parts: u64) -> u64 {
        self.budget.hour_bytes().map_or(u64::MAX, |bytes| bytes / parts)
    }
}

/// Adds rows, if those before took no more than `most` bytes of the hour's budget; `false` if they did.
fn add_within<R: SampledRow>(
    log: &mut RunLog,
    names: &Registry,
    bytes: &mut u64,
    most: u64,
    rows: &[R],
) -> bool {
    let has_room = *bytes <= most;
    if has_room {
        *bytes += log.add_sampled(rows, names);
    }
    has_room
}
