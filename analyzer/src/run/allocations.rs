//! Reads the sampled allocations of a run.

use std::collections::{HashMap, HashSet};

use log_format::file_names::Table;
use log_format::ids::{SampledStackId, ThreadId};
use log_format::rows::AllocationRow;

use crate::input::problems::Problems;
use crate::input::runs::RunInput;
use crate::options::By;
use crate::run::cpu_samples::SampleNames;
use crate::run::names::Names;
use crate::run::selected_rows::{each_selected, has_table};
use crate::run::selection::Selection;
use crate::stats::aggregate::Group;
use crate::stats::allocation_sums::AllocationSums;
use crate::stats::method::Method;

/// Adds the selected allocations of a run, each to its group; `with_stacks` if their stacks are needed too. Returns the
/// names of their threads if these are groups.
pub fn read_allocations(
    run: &RunInput,
    selection: &Selection,
    group: impl Fn(u64, ThreadId) -> Group,
    with_stacks: bool,
    problems: &mut Problems,
    sums: &mut AllocationSums,
) -> HashMap<ThreadId, String> {
    let mut threads = HashMap::new();
    if !has_allocations(run) {
        return threads;
    }
    // Problems with these names are reported where all names are read.
    let names = Names::read(run, &mut Problems::default());
    let sampled = SampleNames::read(run, problems);
    let mut sites: HashMap<SampledStackId, Method> = HashMap::new();
    let mut known: HashMap<(String, SampledStackId), usize> = HashMap::new();
    let mut seconds = HashSet::new();
    each_allocation(run, selection, &names, problems, |row| {
        let site = sites
            .entry(row.sampled_stack)
            .or_insert_with(|| sampled.outside_jdk(row.sampled_stack));
        let (class, method, _) = site.parts();
        let is_selected = selection.method.as_ref().is_none_or(|of| of.method(class, &method));
        if !is_selected {
            return;
        }
        if seconds.insert(row.start_ns) {
            sums.add_second(row.start_ns);
        }
        sums.add(group(row.start_ns, row.thread), &row, site);
        if selection.by == By::Thread {
            threads.entry(row.thread).or_insert_with(|| names.thread(row.thread));
        }
        if with_stacks {
            let key = (row.class.clone(), row.sampled_stack);
            let stack = *known.entry(key).or_insert_with(|| {
                let below = sampled.add_stack(row.sampled_stack, &mut sums.stacks);
                sums.stacks.stack(below, &Method::named("", &format!("[new {}]", row.class), ""))
            });
            sums.stacks.add(Group::All, stack, row.bytes, row.samples);
        }
    });
    threads
}

/// Passes each allocation of a run to `each` whose time and thread are selected, in the order of the files.
pub fn each_allocation(
    run: &RunInput,
    selection: &Selection,
    names: &Names,
    problems: &mut Problems,
    each: impl FnMut(AllocationRow),
) {
    each_selected(run, selection, names, problems, |row| (row.start_ns, row.thread), each);
}

/// Whether a run has sampled allocations.
pub fn has_allocations(run: &RunInput) -> bool {
    has_table(run, Table::Allocations)
}
