//! Sums up exceptions by method and class, and turns examples into rows.

use std::collections::{BTreeMap, HashMap};

use log_format::ids::{MethodId, ThreadId};
use log_format::rows::{ExceptionExampleRow, ExceptionRow, counter};

use crate::drain::hot_sums::HotSums;
use crate::drain::samples::{Context, Samples};
use crate::exceptions::{self, Example};
use crate::log::run_log::Now;
use crate::probe::ClassHash;
use crate::probe::method_totals::Added;
use crate::probe::throws::{self, Correction};
use crate::sampling::sampler::Sampler;

/// Most classes of a method that are counted in an interval. Exceptions of others count for [`OTHER`].
const MOST_CLASSES: usize = 100;
/// No class has this hash. Reports show it as `[other classes]`.
const OTHER: ClassHash = ClassHash::NONE;

/// See the module.
#[derive(Debug)]
pub(crate) struct Exceptions {
    sums: Sums,
    /// Calls that they ended and how many began, by class and method.
    pub(super) hot: HotSums<(ClassHash, MethodId)>,
    /// What was lost when the run began.
    lost_before: u64,
    dropped_before: u64,
    over_budget: u64,
    throws: u64,
}

/// What `status` says of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExceptionFigures {
    /// Calls that ended by an exception.
    pub throws: u64,
    /// Of these, calls that count for no class, for lack of memory.
    pub lost: u64,
    /// Examples that are not in the log.
    pub examples_dropped: u64,
}

/// By method and identity hash of the class. What is not written yet stays: a correction may come before the throw that
/// it corrects.
#[derive(Debug, Default)]
struct Sums(HashMap<MethodId, HashMap<ClassHash, Correction>>);

impl Sums {
    fn add(&mut self, method: MethodId, class: ClassHash, by: Correction) {
        // Nothing is written of these.
        if class == ClassHash::UNSEEN {
            return;
        }
        let classes = self.0.entry(method).or_default();
        let has_room = classes.len() < MOST_CLASSES || classes.contains_key(&class);
        let sum = classes.entry(if has_room { class } else { OTHER }).or_default();
        sum.thrown += by.thrown;
        sum.began += by.began;
    }

    /// Takes what can be written.
    fn take_rows(
        &mut self,
        start_ns: u64,
        name: impl Fn(ClassHash) -> String,
    ) -> Vec<ExceptionRow> {
        // Classes of different loaders may have one name.
        let mut named: BTreeMap<(MethodId, String), Correction> = BTreeMap::new();
        self.0.retain(|method, classes| {
            classes.retain(|class, sum| {
                let thrown = sum.thrown.max(0);
                let began = sum.began.clamp(0, thrown);
                if thrown > 0 {
                    let row = named.entry((*method, name(*class))).or_default();
                    row.thrown += thrown;
                    row.began += began;
                }
                sum.thrown -= thrown;
                sum.began -= began;
                *sum != Correction::default()
            });
            !classes.is_empty()
        });
        let row = |((method, class), sum): ((MethodId, String), Correction)| ExceptionRow {
            start_ns,
            method,
            class,
            thrown: sum.thrown.unsigned_abs(),
            began: sum.began.unsigned_abs(),
        };
        named.into_iter().map(row).collect()
    }
}

impl Exceptions {
    /// A run begins: what is left of the one before is not its own.
    pub(super) fn begin_run(now: Now) -> Self {
        drop((throws::take_corrections(), exceptions::take_examples()));
        exceptions::begin_interval();
        Self {
            sums: Sums::default(),
            hot: HotSums::new(now),
            lost_before: throws::lost(),
            dropped_before: exceptions::dropped(),
            over_budget: 0,
            throws: 0,
        }
    }

    /// Adds what a thread has thrown in a method; `true` if an example is wanted.
    pub(super) fn add(&mut self, method: MethodId, since: &Added) -> bool {
        self.throws += since.throws;
        if since.throws == 0 || !throws::are_counted() {
            return false;
        }
        let [thrown, began] =
            [since.throws, since.began].map(|count| i64::try_from(count).unwrap_or(i64::MAX));
        self.add_to_sums(method, since.class, Correction { thrown, began });
        began > 0
    }

    fn add_to_sums(&mut self, method: MethodId, class: ClassHash, by: Correction) {
        self.sums.add(method, class, by);
        // What only passes methods is many times as much.
        let key = (class, method);
        if class != ClassHash::UNSEEN && (by.began != 0 || self.hot.has(key)) {
            self.hot.add(key, by.thrown, by.began);
        }
    }

    /// Adds what was found out later.
    pub(super) fn correct(&mut self) {
        for (class, method, correction) in throws::take_corrections() {
            self.add_to_sums(method, class, correction);
        }
    }

    /// The rows of an interval that ends now.
    pub(super) fn take_rows(&mut self, start_ns: u64) -> Vec<ExceptionRow> {
        exceptions::begin_interval();
        self.correct();
        self.sums.take_rows(start_ns, exceptions::name)
    }

    /// Counts examples that are not written, to leave the hour's budget to recorded calls.
    pub(super) fn add_over_budget(&mut self, rows: &[ExceptionExampleRow]) {
        self.over_budget += rows.len() as u64;
    }

    /// What was counted since the run began.
    pub(super) fn figures(&self) -> ExceptionFigures {
        let dropped = exceptions::dropped().saturating_sub(self.dropped_before);
        ExceptionFigures {
            throws: self.throws,
            lost: throws::lost().saturating_sub(self.lost_before),
            examples_dropped: dropped + self.over_budget,
        }
    }

    pub(super) fn counters(&self) -> [(&'static str, u64); 2] {
        let ExceptionFigures { lost, examples_dropped, .. } = self.figures();
        [(counter::EXCEPTIONS_LOST, lost), (counter::EXCEPTION_EXAMPLES_DROPPED, examples_dropped)]
    }
}

/// The row of an example.
pub(super) fn row(
    example: Example,
    samples: &mut Samples,
    sampler: &mut Sampler<'_>,
    context: &mut Context<'_>,
) -> ExceptionExampleRow {
    let Example { at_ticks, os_id, virtual_thread, class, message, stack } = example;
    let thread: ThreadId = match virtual_thread {
        Some(number) => (context.virtual_thread)(number.get()),
        None => samples.thread(os_id, true, sampler, context),
    };
    ExceptionExampleRow {
        start_ns: context.anchors.unix_ns(at_ticks),
        thread,
        class: exceptions::name(class),
        message,
        sampled_stack: samples.stack_of_own(os_id, &stack, sampler),
        stack: samples.path_of(&stack.shadow, context.paths),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METHOD: MethodId = MethodId::new(3);

    fn rows(sums: &mut Sums) -> Vec<(String, u64, u64)> {
        // Two classes have one name.
        let name =
            |class: ClassHash| format!("C{}", if class.bits() == 9 { 8 } else { class.bits() });
        let rows = sums.take_rows(70, name).into_iter();
        rows.map(|row| (row.class, row.thrown, row.began)).collect()
    }

    fn row(class: &str, thrown: u64, began: u64) -> (String, u64, u64) {
        (class.to_owned(), thrown, began)
    }

    #[test]
    fn a_correction_may_come_before_what_it_corrects() {
        let mut sums = Sums::default();
        let by = |thrown, began| Correction { thrown, began };
        sums.add(METHOD, ClassHash::new(7), by(5, 0));
        // One more throw is of the class 8, and not counted for 7 yet.
        sums.add(METHOD, ClassHash::new(7), by(-1, -1));
        sums.add(METHOD, ClassHash::new(8), by(1, 1));
        sums.add(METHOD, ClassHash::new(9), by(2, 0));
        assert_eq!(rows(&mut sums), [row("C7", 4, 0), row("C8", 3, 1)]);
        sums.add(METHOD, ClassHash::new(7), by(1, 1));
        assert_eq!(rows(&mut sums), [row("C7", 1, 0)]);
        // None was counted at all.
        sums.add(METHOD, ClassHash::new(7), by(-2, -1));
        sums.add(METHOD, ClassHash::UNSEEN, by(4, 0));
        assert_eq!(rows(&mut sums), []);
        sums.add(METHOD, ClassHash::new(7), by(2, 1));
        assert_eq!(rows(&mut sums), []);
        assert!(sums.0.is_empty(), "{sums:?}");
    }

    #[test]
    fn a_method_with_many_classes_leaves_those_of_others_alone() {
        let mut sums = Sums::default();
        let one = Correction { thrown: 1, began: 1 };
        for class in 10..310 {
            sums.add(METHOD, ClassHash::new(class), one);
        }
        sums.add(MethodId::new(4), ClassHash::new(5_000), one);
        let rows = rows(&mut sums);
        assert_eq!(rows.len(), 102);
        assert!(rows.contains(&row("C0", 200, 200)) && rows.contains(&row("C5000", 1, 1)));
    }
}
