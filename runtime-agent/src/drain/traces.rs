//! Turns calls of traced methods into rows, summed up by second.

use log_format::ids::{MethodId, SampledStackId, StackId, ThreadId};
use log_format::rows::{TraceRow, counter};

use crate::drain::samples::{Context, Samples};
use crate::drain::second_sums::{SampleCounter, SampleCounts, Seconds};
use crate::sampling::sampler::Sampler;
use crate::sys::clock;
use crate::traces::{self, TracedCall};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    thread: ThreadId,
    method: MethodId,
    stack: SampledStackId,
    path: StackId,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    calls: u64,
    samples: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Traces {
    seconds: Seconds<Key, Sum>,
    counter: SampleCounter,
}

impl Traces {
    /// A run begins: what is left of the one before is not its own.
    pub(super) fn begin_run() -> Self {
        drop(traces::take());
        Self { seconds: Seconds::default(), counter: SampleCounter::begin(traces::dropped) }
    }

    /// Takes the calls since the last round. Returns when each began, and its thread, whose name must be written while
    /// it is known.
    pub(super) fn round(
        &mut self,
        samples: &mut Samples,
        sampler: &mut Sampler<'_>,
        context: &mut Context<'_>,
    ) -> Vec<(u64, ThreadId)> {
        let taken = traces::take();
        self.counter.take(taken.len());
        let add = |call| {
            let TracedCall { at_ticks, os_id, virtual_thread, method, calls, stack } = call;
            let at_ns = context.anchors.unix_ns(at_ticks);
            let key = Key {
                thread: match virtual_thread {
                    Some(number) => (context.virtual_thread)(number.get()),
                    None => samples.thread(os_id, true, sampler, context),
                },
                method,
                stack: samples.stack_of_own(os_id, &stack, sampler),
                path: samples.path_of(&stack.shadow, context.paths),
            };
            let sum = self.seconds.sum(at_ns, key);
            sum.calls += calls;
            sum.samples += 1;
            (at_ns, key.thread)
        };
        taken.into_iter().map(add).collect()
    }

    /// Rows of the seconds that are over by now; with `all`, of all.
    pub(super) fn take_rows(&mut self, all: bool) -> Vec<TraceRow> {
        let row = |(start_ns, key, sum): (u64, Key, Sum)| TraceRow {
            start_ns,
            thread: key.thread,
            method: key.method,
            calls: sum.calls,
            samples: sum.samples,
            sampled_stack: key.stack,
            stack: key.path,
        };
        self.seconds.take(clock::unix_ns(), all).into_iter().map(row).collect()
    }

    /// Counts samples that are not written, to leave the hour's budget to recorded calls.
    pub(super) fn add_over_budget(&mut self, rows: &[TraceRow]) {
        self.counter.add_over_budget(rows.iter().map(|row| row.samples).sum());
    }

    /// What was counted since the run began, up to now.
    pub(super) fn counts(&self) -> SampleCounts {
        let SampleCounts { samples, dropped } = self.counter.counts();
        SampleCounts { samples: samples + traces::waiting(), dropped }
    }

    pub(super) fn counters(&self) -> [(&'static str, u64); 2] {
        let SampleCounts { samples, dropped } = self.counter.counts();
        [(counter::TRACE_SAMPLES, samples), (counter::TRACE_SAMPLES_DROPPED, dropped)]
    }
}
