//! Sums up exceptions by class and method, and turns examples into rows.

use std::collections::{BTreeMap, HashMap};

use log_format::ids::{MethodId, ThreadId};
use log_format::rows::{ExceptionExampleRow, ExceptionRow, counter};

use crate::drain::samples::{Context, Samples};
use crate::exceptions::{self, Example};
use crate::probe::throws::{self, Correction};
use crate::probe::totals::{Added, UNSEEN};
use crate::sampling::sampler::Sampler;

/// Pairs of class and method that are told apart. Others are of the class 0.
const MOST: usize = 10_000;

/// See the module.
#[derive(Debug)]
pub(crate) struct Exceptions {
    /// By the identity hash of the class, and the method. A correction may come before what it corrects.
    sums: HashMap<(u32, MethodId), Correction>,
    /// What was lost when the run began.
    lost_before: u64,
    dropped_before: u64,
    over_budget: u64,
}

impl Exceptions {
    /// A run begins: what is left of the one before is not its own.
    pub(super) fn new() -> Self {
        drop((throws::take_corrections(), exceptions::take_examples()));
        exceptions::begin_interval();
        Self {
            sums: HashMap::new(),
            lost_before: throws::lost(),
            dropped_before: exceptions::dropped(),
            over_budget: 0,
        }
    }

    /// Adds what a thread has thrown in a method; `true` if an example is wanted.
    pub(super) fn add(&mut self, method: MethodId, since: &Added) -> bool {
        if since.throws == 0 || !exceptions::are_counted() {
            return false;
        }
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let [thrown, began] = [since.throws, since.began].map(signed);
        self.change(since.class, method, Correction { thrown, began });
        began > 0
    }

    fn change(&mut self, class: u32, method: MethodId, by: Correction) {
        let has_room = self.sums.len() < MOST || self.sums.contains_key(&(class, method));
        let sum = self.sums.entry((if has_room { class } else { 0 }, method)).or_default();
        sum.thrown += by.thrown;
        sum.began += by.began;
    }

    /// The rows of an interval that ends now.
    pub(super) fn take_rows(&mut self, start_ns: u64) -> Vec<ExceptionRow> {
        exceptions::begin_interval();
        for (class, method, correction) in throws::take_corrections() {
            if exceptions::are_counted() {
                self.change(class, method, correction);
            }
        }
        // Classes of different loaders may have one name.
        let mut named: BTreeMap<(MethodId, String), (u64, u64)> = BTreeMap::new();
        self.sums.retain(|(class, method), sum| {
            let Ok(thrown) = u64::try_from(sum.thrown) else { return true };
            if *class != UNSEEN && thrown > 0 {
                let began = u64::try_from(sum.began).unwrap_or(0).min(thrown);
                let counted = named.entry((*method, exceptions::name(*class))).or_default();
                *counted = (counted.0 + thrown, counted.1 + began);
            }
            false
        });
        let row = |((method, class), (thrown, began))| ExceptionRow {
            start_ns,
            method,
            class,
            thrown,
            began,
        };
        named.into_iter().map(row).collect()
    }

    /// Counts examples that are not written, to leave the hour's budget to recorded calls.
    pub(super) fn add_over_budget(&mut self, rows: &[ExceptionExampleRow]) {
        self.over_budget += rows.len() as u64;
    }

    pub(super) fn counters(&self) -> [(&'static str, u64); 2] {
        let lost = throws::lost().saturating_sub(self.lost_before);
        let dropped = exceptions::dropped().saturating_sub(self.dropped_before);
        [
            (counter::EXCEPTIONS_LOST, lost),
            (counter::EXCEPTION_EXAMPLES_DROPPED, dropped + self.over_budget),
        ]
    }
}

/// The row of an example.
pub(super) fn row(
    example: Example,
    samples: &mut Samples,
    sampler: &mut Sampler<'_>,
    context: &mut Context<'_>,
) -> ExceptionExampleRow {
    let Example { at, os_id, virtual_thread, class, message, stack } = example;
    let thread: ThreadId = match virtual_thread {
        Some(number) => (context.virtual_thread)(number.get()),
        None => samples.thread(os_id, true, sampler, context),
    };
    ExceptionExampleRow {
        start_ns: context.anchors.unix_ns(at),
        thread,
        class: exceptions::name(class),
        message,
        sampled_stack: samples.stack_of_own(os_id, &stack, sampler),
        stack: samples.path_of(&stack.shadow, context.paths),
    }
}
