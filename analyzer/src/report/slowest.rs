//! The slowest calls, each with everything that was recorded below it.
//!
//! A call within one of the slowest does not count on its own, or a slow request would fill the list. Rows of a
//! thread are in the order of their ends, callees before callers. So the calls of a thread wait, by the depth of
//! their paths, until a row with a smaller depth comes: either it made them, or their caller was not recorded and
//! they count on their own.
//!
//! ```text
//! depth 3   call, call      wait
//! depth 2   call            made those that began after it; the others count on their own
//! ```
//!
//! At each depth, only as many wait as are to be shown. Their trees come from a second reading, see `slow_tree`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use log_format::file_names::Table;
use log_format::ids::{MethodId, StackId, ThreadId};
use log_format::rows::{CallRow, Exit};

use crate::input::problems::Problems;
use crate::input::runs::RunInput;
use crate::report::slow_tree::{OpenTree, add_events};
use crate::report::spans::end;
use crate::run::names::Names;
use crate::run::recorded_calls::{RecordFilter, read_records};
use crate::run::selection::Selection;
use crate::stats::call_tree::{CallTree, Frame};
use crate::stats::method::{Callers, Method};

/// One of the slowest calls.
#[derive(Debug)]
pub struct SlowCall {
    /// The run's index in the list of runs.
    pub run: usize,
    /// The thread's name and id.
    pub thread: String,
    /// The method.
    pub method: Method,
    /// When it began, in unix nanoseconds.
    pub start_ns: u64,
    /// How long it took.
    pub total_ns: u64,
    /// How it ended.
    pub exit: Exit,
    /// What its thread allocated in it, if that is known.
    pub allocated_bytes: Option<u64>,
    /// Its callers.
    pub callers: Callers,
    /// The recorded calls from this one down.
    pub tree: CallTree,
}

impl SlowCall {
    /// Every method of its tree.
    pub fn methods(&self) -> impl Iterator<Item = &Method> {
        self.tree.nodes().iter().filter_map(|node| match &node.frame {
            Frame::Method(method) => Some(method),
            _ => None,
        })
    }
}

/// Finds the `count` slowest calls of all runs, the slowest first.
pub fn find(
    runs: &[RunInput],
    selection: &Selection,
    count: usize,
    problems: &mut Problems,
) -> Vec<SlowCall> {
    let mut slowest: Vec<(usize, CallRow)> = Vec::new();
    selection.progress.expect(runs, &[Table::Calls]);
    for (place, run) in runs.iter().enumerate() {
        let names = Names::read(run, problems);
        let of_run = slowest_of_run(run, &names, selection, count, problems);
        slowest.extend(of_run.into_iter().map(|row| (place, row)));
        slowest.sort_by_key(|(run, row)| (order(row), *run));
        slowest.truncate(count);
    }
    let mut calls: Vec<SlowCall> = Vec::new();
    for (place, run) in runs.iter().enumerate() {
        let of_run = slowest.iter().filter(|(run, _)| *run == place);
        let rows: Vec<&CallRow> = of_run.map(|(_, row)| row).collect();
        if !rows.is_empty() {
            calls.extend(with_trees(run, place, &rows, selection));
        }
    }
    calls.sort_by_cached_key(|call| {
        (Reverse(call.total_ns), call.start_ns, call.run, call.thread.clone(), call.method.clone())
    });
    calls
}

/// The slowest first; of calls with the same duration, the earliest.
fn order(row: &CallRow) -> (Reverse<u64>, u64, ThreadId, MethodId) {
    (Reverse(row.total_ns), row.start_ns, row.thread, row.method)
}

fn slowest_of_run(
    run: &RunInput,
    names: &Names,
    selection: &Selection,
    count: usize,
    problems: &mut Problems,
) -> Vec<CallRow> {
    let mut waiting: HashMap<ThreadId, BTreeMap<usize, Vec<CallRow>>> = HashMap::new();
    let mut alone: Vec<CallRow> = Vec::new();
    let mut depths: HashMap<StackId, usize> = HashMap::new();
    let filter = RecordFilter::new(selection, names);
    read_records(run, &filter, problems, |row| {
        let depth = *depths.entry(row.stack).or_insert_with(|| depth(names, &row));
        let of_thread = waiting.entry(row.thread).or_default();
        for (_, calls) in of_thread.split_off(&depth.saturating_add(1)) {
            // The row of a method's slowest call may come at the end of its interval, after later calls.
            let is_outside = |call: &CallRow| call.start_ns < row.start_ns || end(call) > end(&row);
            alone.extend(calls.into_iter().filter(is_outside));
        }
        keep(&mut alone, count);
        let beside = of_thread.entry(depth).or_default();
        beside.push(row);
        keep(beside, count);
    });
    alone.extend(waiting.into_values().flat_map(BTreeMap::into_values).flatten());
    keep(&mut alone, count);
    let is_within = |call: &CallRow, other: &CallRow| {
        let (inner, outer) = ((call.start_ns, end(call)), (other.start_ns, end(other)));
        call.thread == other.thread && inner != outer && outer.0 <= inner.0 && inner.1 <= outer.1
    };
    let all = alone.clone();
    alone.retain(|call| !all.iter().any(|other| is_within(call, other)));
    alone
}

/// The length of a call's path. A call whose path was not kept may be anywhere, so it says nothing about others.
fn depth(names: &Names, row: &CallRow) -> usize {
    let mut path = names.path(row.stack);
    if path.next() == Some(row.method) { 1 + path.count() } else { usize::MAX }
}

fn keep(calls: &mut Vec<CallRow>, count: usize) {
    if calls.len() > count {
        calls.sort_by_key(order);
        calls.truncate(count);
    }
}

/// A call with what it called, for which the run is read once more. `place` is the run's index in the list of runs.
pub fn with_tree(
    run: &RunInput,
    place: usize,
    row: &CallRow,
    selection: &Selection,
) -> Option<SlowCall> {
    with_trees(run, place, &[row], selection).pop()
}

/// Reads the run again, for the callees of these calls.
fn with_trees(
    run: &RunInput,
    place: usize,
    rows: &[&CallRow],
    selection: &Selection,
) -> Vec<SlowCall> {
    // The first reading has reported the problems.
    let mut problems = Problems::default();
    let names = Names::read(run, &mut problems);
    let label: Arc<str> = Arc::from(run.label.as_str());
    let named = |id| names.method_or_unknown(id, &label);
    let mut trees: HashMap<ThreadId, Vec<OpenTree>> = HashMap::new();
    for call in rows {
        trees.entry(call.thread).or_default().push(OpenTree::new(call));
    }
    let begin_ns = rows.iter().map(|row| row.start_ns).min().unwrap_or(0);
    let end_ns = rows.iter().map(|row| end(row)).max().unwrap_or(0);
    add_events(run, (begin_ns, end_ns), &names, &mut problems, &mut trees);
    let filter = RecordFilter::everything(selection.unfinished, &selection.progress)
        .within(begin_ns, end_ns);
    selection.progress.expect_files(filter.files(run));
    read_records(run, &filter, &mut problems, |row| {
        trees
            .get_mut(&row.thread)
            .into_iter()
            .flatten()
            .for_each(|tree| tree.add(&row, &names, named));
    });
    let with_tree = trees.into_values().flatten().map(|open| {
        let row = open.call();
        SlowCall {
            run: place,
            thread: names.thread(row.thread),
            method: named(row.method),
            start_ns: row.start_ns,
            total_ns: row.total_ns,
            exit: row.exit,
            allocated_bytes: row.allocated_bytes,
            callers: names.callers(row.stack, row.method, &label),
            tree: open.finish(&names, named),
        }
    });
    with_tree.collect()
}
