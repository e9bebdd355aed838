//! Reads the calls of traced methods of a run.

use std::collections::HashMap;

use log_format::file_names::Table;
use log_format::ids::{SampledStackId, ThreadId};
use log_format::rows::TraceRow;

use crate::input::problems::Problems;
use crate::input::runs::RunInput;
use crate::options::By;
use crate::run::cpu_samples::SampleNames;
use crate::run::names::Names;
use crate::run::selected_rows::{each_selected, has_table};
use crate::run::selection::Selection;
use crate::stats::aggregate::Group;
use crate::stats::method::Method;
use crate::stats::sampled_stacks::is_part_of_caller;
use crate::stats::trace_sums::TraceSums;

/// Adds the selected calls of a run, each to its group; `with_stacks` if their stacks are needed too. Returns the names
/// of their threads if these are groups.
pub fn read_traces(
    run: &RunInput,
    selection: &Selection,
    group: impl Fn(u64, ThreadId) -> Group,
    with_stacks: bool,
    problems: &mut Problems,
    sums: &mut TraceSums,
) -> HashMap<ThreadId, String> {
    let mut threads = HashMap::new();
    if !has_traces(run) {
        return threads;
    }
    // Problems with these names are reported where all names are read.
    let names = Names::read(run, &mut Problems::default());
    let sampled = SampleNames::read(run, problems);
    let label = run.label.as_str().into();
    let mut known: HashMap<SampledStackId, usize> = HashMap::new();
    let at = |row: &TraceRow| (row.start_ns, row.thread);
    each_selected(run, selection, &names, problems, at, |row| {
        let method = names.method_or_unknown(row.method, &label);
        let (class, name, _) = method.parts();
        if selection.method.as_ref().is_some_and(|of| !of.method(class, &name)) {
            return;
        }
        let frames = sampled.frames(row.sampled_stack).into_iter();
        let caller = frames.filter(|frame| !is_part_of_caller(frame)).nth(1).cloned();
        // If the stack is missing, the call path is not.
        let measured = || names.path(row.stack).nth(1).filter(|id| !id.is_none());
        let caller = caller.or_else(|| Some(names.method_or_unknown(measured()?, &label)));
        if selection.by == By::Thread {
            threads.entry(row.thread).or_insert_with(|| names.thread(row.thread));
        }
        let group = group(row.start_ns, row.thread);
        sums.add(
            group,
            &row,
            &method,
            caller.unwrap_or_else(|| Method::named("", "[no caller]", "")),
        );
        if with_stacks {
            let stack = *known
                .entry(row.sampled_stack)
                .or_insert_with(|| sampled.add_stack(row.sampled_stack, &mut sums.stacks));
            sums.stacks.add(Group::All, stack, row.calls, row.samples);
        }
    });
    threads
}

/// Whether a run has calls of traced methods.
pub fn has_traces(run: &RunInput) -> bool {
    has_table(run, Table::Traces)
}
