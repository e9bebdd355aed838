//! Reads the exceptions of a run that left instrumented methods: their exact counts, and examples.

use std::collections::HashMap;
use std::sync::Arc;

use log_format::file_names::Table;
use log_format::ids::{MethodId, SampledStackId, ThreadId};
use log_format::rows::{ExceptionExampleRow, ExceptionRow};

use crate::input::problems::Problems;
use crate::input::runs::RunInput;
use crate::options::By;
use crate::run::cpu_samples::SampleNames;
use crate::run::names::Names;
use crate::run::selected_rows::{each_row, each_selected, has_table};
use crate::run::selection::Selection;
use crate::stats::aggregate::Group;
use crate::stats::exception_sums::{Example, ExceptionSite, ExceptionSums, throw_frame};
use crate::stats::last_hours::LastHours;
use crate::stats::method::Method;
use crate::stats::sampled_stacks::{SampledStacks, is_part_of_caller};

/// Adds the selected exceptions of the run at index `place` in the list of runs, each to its group. `hours` are the
/// last ones of all runs, if they can be compared. Returns the names of their threads if these are groups.
pub fn read_exceptions(
    run: &RunInput,
    place: usize,
    selection: &Selection,
    group: impl Fn(u64, ThreadId) -> Group,
    hours: Option<&LastHours>,
    problems: &mut Problems,
    sums: &mut ExceptionSums,
) -> HashMap<ThreadId, String> {
    let mut threads = HashMap::new();
    if !has_exceptions(run) {
        return threads;
    }
    // Problems with these names are reported where all names are read.
    let names = Names::read(run, &mut Problems::default());
    let sites = Sites { names: &names, label: run.label.as_str().into(), selection };
    if !selection.counts_single_events() {
        let intervals = selection.statistics_of(place);
        each_row(run, selection, problems, |row: ExceptionRow| {
            if intervals.contains(row.start_ns)
                && let Some(site) = sites.of(&row.class, sites.method(row.method))
            {
                let group = selection.group_without_thread(&group, row.start_ns);
                sums.add(group, site, &row, hours);
            }
        });
    }
    if !has_examples(run) {
        return threads;
    }
    let sampled = SampleNames::read(run, problems);
    let mut stacks = Stacks { names: &sampled, known: HashMap::new() };
    each_example(run, selection, &names, problems, |row| {
        let method = sites.method_of_example(&row, &sampled);
        let Some(site) = sites.of(&row.class, method) else { return };
        let stack = sums.stacks.as_mut().map(|to| stacks.of(&row, to));
        if selection.by == By::Thread {
            threads.entry(row.thread).or_insert_with(|| names.thread(row.thread));
        }
        let group = group(row.start_ns, row.thread);
        let examples = sums.example(group, site);
        if let Some(stack) = stack {
            *examples.by_stack.entry(stack).or_default() += 1;
        }
        examples.add(row.start_ns, || Example {
            run: place,
            start_ns: row.start_ns,
            thread: names.thread(row.thread),
            message: row.message,
            stack: java_frames(row.sampled_stack, &sampled).cloned().collect(),
        });
    });
    threads
}

/// Passes each example of a run to `each` whose time and thread are selected, in the order of the files.
pub fn each_example(
    run: &RunInput,
    selection: &Selection,
    names: &Names,
    problems: &mut Problems,
    each: impl FnMut(ExceptionExampleRow),
) {
    each_selected(run, selection, names, problems, |row| (row.start_ns, row.thread), each);
}

/// Whether a run has exceptions.
pub fn has_exceptions(run: &RunInput) -> bool {
    has_examples(run) || has_table(run, Table::Exceptions)
}

/// Whether a run has examples of exceptions.
pub fn has_examples(run: &RunInput) -> bool {
    has_table(run, Table::ExceptionExamples)
}

/// The frames of a stack from the top, without probes.
fn java_frames(id: SampledStackId, sampled: &SampleNames) -> impl Iterator<Item = &Method> {
    sampled.frames(id).into_iter().filter(|frame| !is_part_of_caller(frame))
}

/// The selected sites of a run.
struct Sites<'n> {
    names: &'n Names,
    label: Arc<str>,
    selection: &'n Selection,
}

impl Sites<'_> {
    /// The site of exceptions of this class in a method; `None` if it is not selected.
    fn of(&self, class: &str, method: Method) -> Option<ExceptionSite> {
        let pattern = self.selection.method.as_ref();
        let is_selected = pattern.is_none_or(|pattern| {
            let (class, name, _) = method.parts();
            pattern.method(class, &name)
        });
        is_selected.then(|| ExceptionSite { class: class.to_owned(), method })
    }

    fn method(&self, id: MethodId) -> Method {
        self.names.method_or_unknown(id, &self.label)
    }

    /// The method that an example left: the innermost one of its call path or, if that was not kept, of its stack.
    fn method_of_example(&self, row: &ExceptionExampleRow, sampled: &SampleNames) -> Method {
        let measured = self.names.path(row.stack).next().filter(|id| !id.is_none());
        let missing = || Method::named("", "[missing]", "");
        measured.map_or_else(
            || java_frames(row.sampled_stack, sampled).next().cloned().unwrap_or_else(missing),
            |id| self.method(id),
        )
    }
}

/// The stacks of a run's examples that are known among those of all runs.
struct Stacks<'n> {
    names: &'n SampleNames,
    known: HashMap<(String, SampledStackId), usize>,
}

impl Stacks<'_> {
    /// The stack of an example, with its class on top.
    fn of(&mut self, row: &ExceptionExampleRow, to: &mut SampledStacks) -> usize {
        let key = (row.class.clone(), row.sampled_stack);
        *self.known.entry(key).or_insert_with(|| {
            let below = self.names.add_stack(row.sampled_stack, to);
            to.stack(below, &throw_frame(&row.class))
        })
    }
}
