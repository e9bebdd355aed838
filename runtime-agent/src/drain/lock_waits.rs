//! Sums up waits for locks, and turns them into rows.

use std::collections::HashMap;

use log_format::ids::{MethodId, ThreadId};
use log_format::rows::{LockRow, LockWaitRow, counter};

use crate::drain::hot_sums::HotSums;
use crate::drain::samples::{Context, Samples};
use crate::jvm::class_names::{self, ClassNumber};
use crate::locks::{self, Counts, LongWait, Owner};
use crate::log::run_log::Now;
use crate::probe::time_sum::TimeSum;
use crate::sampling::sampler::Sampler;
use crate::sys::clock;

/// What was counted, and what was not written.
#[derive(Debug)]
pub(super) struct LockWaits {
    /// What was counted when the run began.
    before: Counts,
    over_budget: u64,
    /// All waits of the interval, by the lock's class and the method.
    sums: HashMap<(ClassNumber, MethodId), TimeSum>,
    /// Those for locks: how many, and their time.
    pub(super) hot: HotSums<(ClassNumber, MethodId)>,
}

impl LockWaits {
    /// A run begins: what is left of the one before is not its own.
    pub(super) fn new(now: Now) -> Self {
        locks::forget();
        let (before, hot) = (Counts::now(), HotSums::new(now));
        Self { before, over_budget: 0, sums: HashMap::new(), hot }
    }

    /// Adds the waits that have ended since the last call.
    pub(super) fn collect(&mut self) {
        for (key, sum) in locks::take_sums() {
            self.sums.entry(key).or_insert(TimeSum::NONE).merge(&sum);
            if locks::may_have_owner(key.0) {
                self.hot.add(key, sum.count().cast_signed(), sum.total_ns().cast_signed());
            }
        }
    }

    /// The rows of an interval that ends now.
    pub(super) fn take_rows(&mut self, start_ns: u64) -> Vec<LockRow> {
        self.collect();
        let mut sums: Vec<_> = std::mem::take(&mut self.sums).into_iter().collect();
        sums.sort_unstable_by_key(|(key, _)| *key);
        let row = |((class, method), sum): &_| locks::sum_row(start_ns, *class, *method, sum);
        sums.iter().map(row).collect()
    }

    /// Approximate memory that they use.
    pub(super) fn bytes(&self) -> usize {
        self.sums.capacity() * size_of::<((ClassNumber, MethodId), TimeSum)>() + self.hot.bytes()
    }

    /// Counts waits that are not written, to leave the hour's budget to recorded calls.
    pub(super) fn add_over_budget(&mut self, rows: &[LockWaitRow]) {
        self.over_budget += rows.len() as u64;
    }

    /// What was counted since the run began.
    pub(super) fn counts(&self) -> Counts {
        let Counts { waits, other_parks, dropped, lost, seconds_skipped } = Counts::now();
        Counts {
            waits: waits.saturating_sub(self.before.waits),
            other_parks: other_parks.saturating_sub(self.before.other_parks),
            dropped: dropped.saturating_sub(self.before.dropped) + self.over_budget,
            lost: lost.saturating_sub(self.before.lost),
            seconds_skipped: seconds_skipped.saturating_sub(self.before.seconds_skipped),
        }
    }

    pub(super) fn counters(&self) -> [(&'static str, u64); 4] {
        let Counts { waits, dropped, lost, seconds_skipped, .. } = self.counts();
        [
            (counter::LOCK_WAITS, waits),
            (counter::LOCK_WAITS_DROPPED, dropped),
            (counter::LOCK_WAITS_LOST, lost),
            (counter::LOCK_SECONDS_SKIPPED, seconds_skipped),
        ]
    }
}

/// The row of a wait.
pub(super) fn row(
    wait: &LongWait,
    samples: &mut Samples,
    sampler: &mut Sampler<'_>,
    context: &mut Context<'_>,
) -> LockWaitRow {
    let thread = match wait.key.virtual_thread() {
        Some(number) => (context.virtual_thread)(number.get()),
        None => samples.thread(wait.os_id, true, sampler, context),
    };
    let owner = match wait.owner {
        Owner::NotAsked | Owner::Unknown => ThreadId::NONE,
        Owner::Platform(os_id) => samples.thread(os_id, true, sampler, context),
        Owner::Virtual(number) => (context.virtual_thread)(number.get()),
    };
    let owner_stack = sampler.events.take_owner_stack(wait.key, wait.began);
    LockWaitRow {
        start_ns: context.anchors.unix_ns(wait.began),
        thread,
        kind: locks::kind(wait.class),
        class: class_names::name(wait.class),
        wait_ns: clock::ticks_to_ns(wait.ticks),
        owner,
        sampled_stack: samples.stack_of_own(wait.os_id, &wait.stack, sampler),
        stack: samples.path_of(&wait.stack.shadow, context.paths),
        owner_stack: owner_stack
            .filter(|stack| !stack.frames.is_empty())
            .map(|stack| samples.stack_of_own(wait.os_id, &stack, sampler)),
    }
}
