//! Turns sampled allocations into rows, summed up by second.

use log_format::ids::{SampledStackId, StackId, ThreadId};
use log_format::rows::{AllocationRow, counter};

use crate::allocations::{self, Allocation};
use crate::drain::hot_sums::HotSums;
use crate::drain::samples::{Context, Samples};
use crate::drain::second_sums::{SampleCounter, SampleCounts, Seconds};
use crate::jvm::class_names::{self, ClassNumber};
use crate::log::run_log::Now;
use crate::sampling::sampler::Sampler;
use crate::sys::clock::{self, as_u64};

/// A sample of a large object stands for little more than one: whole numbers would not do.
pub(super) const OBJECT_PARTS: i64 = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    thread: ThreadId,
    class: ClassNumber,
    stack: SampledStackId,
    path: StackId,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    bytes: f64,
    objects: f64,
    samples: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Allocations {
    seconds: Seconds<Key, Sum>,
    counter: SampleCounter,
    /// How long they were sampled before the run began.
    sampled_before_ns: u64,
    /// Parts of objects, and bytes, by class.
    pub(super) hot: HotSums<ClassNumber>,
}

impl Allocations {
    /// A run begins: what is left of the one before is not its own.
    pub(super) fn new(now: Now) -> Self {
        allocations::forget();
        let counter = SampleCounter::begin(allocations::dropped);
        let (sampled_before_ns, hot) = (allocations::sampled_ns(), HotSums::new(now));
        Self { seconds: Seconds::default(), counter, sampled_before_ns, hot }
    }

    /// Takes the samples since the last call. Returns when each was, and its thread, whose name must be written while
    /// it is known.
    pub(super) fn round(
        &mut self,
        samples: &mut Samples,
        sampler: &mut Sampler<'_>,
        context: &mut Context<'_>,
    ) -> Vec<(u64, ThreadId)> {
        let taken = allocations::take();
        self.counter.take(taken.len());
        taken.iter().map(|allocation| self.add(allocation, samples, sampler, context)).collect()
    }

    fn add(
        &mut self,
        allocation: &Allocation,
        samples: &mut Samples,
        sampler: &mut Sampler<'_>,
        context: &mut Context<'_>,
    ) -> (u64, ThreadId) {
        let Allocation { at_ticks, os_id, virtual_thread, class, objects, bytes, stack } =
            allocation;
        let at_ns = context.anchors.unix_ns(*at_ticks);
        let parts = [objects * OBJECT_PARTS as f64, *bytes].map(|of| as_u64(of.round()));
        let [of_objects, of_bytes] = parts.map(u64::cast_signed);
        self.hot.add(*class, of_objects, of_bytes);
        let key = Key {
            thread: match virtual_thread {
                Some(number) => (context.virtual_thread)(number.get()),
                None => samples.thread(*os_id, true, sampler, context),
            },
            class: *class,
            stack: samples.stack_of_own(*os_id, stack, sampler),
            path: samples.path_of(&stack.shadow, context.paths),
        };
        let sum = self.seconds.sum(at_ns, key);
        sum.bytes += bytes;
        sum.objects += objects;
        sum.samples += 1;
        (at_ns, key.thread)
    }

    /// Rows of the seconds that are over by now; with `all`, of all.
    pub(super) fn take_rows(&mut self, all: bool) -> Vec<AllocationRow> {
        let row = |(start_ns, key, sum): (u64, Key, Sum)| AllocationRow {
            start_ns,
            thread: key.thread,
            class: class_names::name(key.class),
            bytes: as_u64(sum.bytes.round()),
            objects: as_u64(sum.objects.round()),
            samples: sum.samples,
            sampled_stack: key.stack,
            stack: key.path,
        };
        self.seconds.take(clock::unix_ns(), all).into_iter().map(row).collect()
    }

    /// Counts samples that are not written, to leave the hour's budget to recorded calls.
    pub(super) fn add_over_budget(&mut self, rows: &[AllocationRow]) {
        self.counter.add_over_budget(rows.iter().map(|row| row.samples).sum());
    }

    /// What was counted since the run began, up to now.
    pub(super) fn counts(&self) -> SampleCounts {
        let SampleCounts { samples, dropped } = self.counter.counts();
        SampleCounts { samples: samples + allocations::waiting(), dropped }
    }

    pub(super) fn counters(&self) -> [(&'static str, u64); 3] {
        let SampleCounts { samples, dropped } = self.counter.counts();
        let sampled_ns = allocations::sampled_ns().saturating_sub(self.sampled_before_ns);
        [
            (counter::ALLOCATION_SAMPLES, samples),
            (counter::ALLOCATION_SAMPLES_DROPPED, dropped),
            (counter::ALLOCATION_NS, sampled_ns),
        ]
    }
}
