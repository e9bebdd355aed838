//! Reads a run in the simplest way, line by line. The tests and the fuzzer compare the multithreaded reading with it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use log_format::file_names::{Hour, Table};
use log_format::ids::{MethodId, ThreadId};
use log_format::pattern::Pattern;
use log_format::rows::{CallRow, CounterRow, EventRow, Exit, StatsRow};

use crate::input::parallel::Pace;
use crate::input::problems::Problems;
use crate::input::runs::{RunInput, discover, is_of_calls};
use crate::input::table_rows::read_rows;
use crate::options::tasks::TaskOptions;
use crate::options::time_range::TimeRange;
use crate::options::{By, CallFilter, DataFilter, Format, Layout, Options, Output, TreeOrder};
use crate::render::stream;
use crate::render::{constructors, missing, render, render_tasks};
use crate::run::data::{RunData, UnfinishedCall, read_run_at, recorded_call};
use crate::run::muted::Muted;
use crate::run::names::Names;
use crate::run::read_counts::Counts;
use crate::run::recorded_time::RecordedTime;
use crate::run::selection::Selection;
use crate::run::throttled::Throttled;
use crate::stats::aggregate::{Figures, Group, Totals};
use crate::stats::allocated_calls::AllocatedSums;
use crate::stats::by_minute::Minutes;
use crate::stats::call_tree::PathSums;
use crate::stats::id_map::MAX_DENSE_ID;
use crate::stats::method::{Callers, PathKind};
use crate::stats::sketch::Sketch;
use crate::stats::slow_calls::SlowestByThread;
use crate::tasks::find::{Found, TaskInRun, find};
use clap::ValueEnum as _;

const S: u64 = 1_000_000_000;
/// 2026-11-20T14:00:00Z.
const T14: u64 = 1_795_183_200 * S;

/// All of a run's data as text, in a fixed order.
pub(crate) fn in_words(data: &RunData, problems: &Problems) -> String {
    let mut totals: Vec<String> = Vec::new();
    for (group, methods) in data.totals.clone().into_groups() {
        let of_group = methods.into_iter().map(|(method, f)| format!("{group:?} {method:?} {f:?}"));
        totals.extend(of_group);
    }
    totals.sort();
    let mut unfinished: Vec<String> =
        data.unfinished.iter().map(|call| format!("{call:?}")).collect();
    unfinished.sort();
    let threads: BTreeMap<_, _> = data.names.threads.iter().collect();
    let recursion: BTreeMap<_, _> = data.overview.recursion.iter().collect();
    format!(
        "{totals:#?}\n{unfinished:#?}\n{threads:?}\n{:?}\n{recursion:?}\n{:?}\n{:#?}\n{:?}\n{}\n{:#?}",
        data.tree.nodes(),
        data.overview.minutes.clone().finish(),
        data.overview.slow,
        data.overview.allocated.iter().collect::<BTreeMap<_, _>>(),
        told_counts(&data.counts, data.recorded.ns()),
        (problems.messages(), problems.torn_lines(), problems.bad_lines(), problems.all_unread()),
    )
}

fn told_counts(counts: &Counts, recorded_ns: u64) -> String {
    format!("{counts:?} {recorded_ns}")
}

/// The same data, read line by line.
pub(crate) fn reference(run: &RunInput, selection: &Selection) -> (RunData, Problems) {
    let mut problems = Problems::default();
    let names = Names::read(run, &mut problems);
    let has_rows = run.files.iter().any(|file| is_of_calls(file.table));
    if has_rows && !names.has_methods_file {
        problems.warn(&run.folder, "no methods.csv, its methods are shown by number");
    }
    let mut sums = Sums::new(&names, selection);
    sums.read_counters_and_events(run, &mut problems);
    sums.read_calls_and_stats(run, &mut problems);
    (sums.finish(&Arc::from(run.label.as_str())), problems)
}

/// The sums of the rows that were read so far.
struct Sums<'r> {
    names: &'r Names,
    selection: &'r Selection,
    /// Ids of the selected methods; `None` selects all.
    selected: Option<HashSet<MethodId>>,
    /// Ids of methods that were throttled or muted for part of the time.
    partial: HashSet<MethodId>,
    totals: Totals<MethodId>,
    paths: PathSums,
    sketches: HashMap<MethodId, Sketch>,
    counts: Counts,
    recorded: RecordedTime,
    /// Ids of methods without a name.
    unknown: HashSet<MethodId>,
    minutes: Minutes,
    slowest: SlowestByThread,
    allocated: AllocatedSums,
    /// By thread, start and method.
    unfinished: HashMap<(ThreadId, u64, MethodId), CallRow>,
}

impl<'r> Sums<'r> {
    fn new(names: &'r Names, selection: &'r Selection) -> Self {
        Self {
            names,
            selection,
            selected: selection.method.as_ref().map(|pattern| names.ids_named_by(pattern)),
            partial: HashSet::new(),
            totals: Totals::default(),
            paths: PathSums::default(),
            sketches: HashMap::new(),
            counts: Counts::default(),
            recorded: RecordedTime::default(),
            unknown: HashSet::new(),
            minutes: Minutes::default(),
            slowest: SlowestByThread::default(),
            allocated: AllocatedSums::default(),
            unfinished: HashMap::new(),
        }
    }

    fn read_counters_and_events(&mut self, run: &RunInput, problems: &mut Problems) {
        let (mut throttled, mut muted) = (Throttled::default(), Muted::default());
        for file in run.files.iter().filter(|file| !is_of_calls(file.table)) {
            if file.table == Table::Counters {
                self.counts.hours.insert(file.part.hour);
                read_rows(&file.path, file.len, problems, |row: CounterRow| {
                    self.recorded.add_counter(&row);
                    throttled.saw(row.start_ns);
                    muted.saw(row.start_ns);
                    Ok(())
                });
            } else if file.table == Table::Events {
                self.counts.hours.insert(file.part.hour);
                read_rows(&file.path, file.len, problems, |row: EventRow| {
                    throttled.add_event(&row);
                    muted.add_event(&row);
                    Ok(())
                });
            }
        }
        let range = self.selection.covered(0);
        self.partial = self.names.ids_of_partial(&throttled, &muted, &range);
    }

    fn read_calls_and_stats(&mut self, run: &RunInput, problems: &mut Problems) {
        for file in run.files.iter().filter(|file| is_of_calls(file.table)) {
            self.counts.hours.insert(file.part.hour);
            match file.table {
                Table::Calls => read_rows(&file.path, file.len, problems, |row: CallRow| {
                    self.add_call(row);
                    Ok(())
                }),
                Table::Stats => read_rows(&file.path, file.len, problems, |row: StatsRow| {
                    self.add_stats(&row);
                    Ok(())
                }),
                _ => {}
            }
        }
    }

    fn takes_method(&self, id: MethodId) -> bool {
        self.selected.as_ref().is_none_or(|ids| ids.contains(&id))
    }

    fn group(&self, at_ns: u64, thread: ThreadId) -> Group {
        match self.selection.by {
            By::Hour => Group::Hour(Hour::of_unix_ns(at_ns)),
            By::Minute => Group::Minute(at_ns / (60 * S)),
            By::Thread => Group::Thread(0, thread),
            _ => Group::All,
        }
    }

    fn see(&mut self, method: MethodId) {
        if self.names.method(method).is_none() {
            self.unknown.insert(method);
        }
    }

    fn add_call(&mut self, row: CallRow) {
        self.counts.records += 1;
        let end_ns = row.start_ns.saturating_add(row.total_ns);
        // What is unfinished says nothing of the last statistics: nothing may have been called since.
        if row.exit != Exit::Unfinished {
            self.counts.last_call_ns = self.counts.last_call_ns.max(Some(end_ns));
        }
        if !self.selection.range.contains(end_ns) {
            return;
        }
        let key = (row.thread, row.start_ns, row.method);
        if row.exit != Exit::Unfinished {
            self.unfinished.remove(&key);
            return self.add_ended(&row, end_ns);
        }
        let known = self.unfinished.entry(key).or_insert_with(|| row.clone());
        if known.total_ns < row.total_ns {
            *known = row;
        }
    }

    fn add_ended(&mut self, row: &CallRow, end_ns: u64) {
        let Selection { overview, sketches, stacks, .. } = *self.selection;
        let is_counted = self.selection.counts_records();
        if !is_counted && !self.selection.allocated && !sketches {
            return;
        }
        self.counts.rows_in_range += u64::from(is_counted);
        if !self.selection.calls.takes(row) {
            return;
        }
        if stacks || overview {
            self.paths.add(row);
        }
        self.see(row.method);
        if !self.takes_method(row.method) {
            return;
        }
        if self.selection.allocated {
            self.allocated.add(row);
        }
        if overview {
            if !self.partial.contains(&row.method) {
                self.minutes.add_record(row, is_counted);
            }
            self.slowest.add(row);
        }
        if is_counted {
            let path = self.names.path_kind(row.stack, row.method);
            self.counts.records_without_path += u64::from(path == PathKind::Unknown);
            let group = self.group(end_ns, row.thread);
            let figures: &mut Figures = self.totals.of(group, &row.method);
            figures.add_record(row, path);
        }
        let end = self.recorded.without_statistics_since().filter(|_| !is_counted);
        let is_sketched = end.is_none_or(|end| end_ns < end) && row.method.get() <= MAX_DENSE_ID;
        if sketches && is_sketched {
            self.sketches.entry(row.method).or_default().add(row.total_ns);
        }
    }

    fn add_stats(&mut self, row: &StatsRow) {
        self.recorded.add_stats(row.start_ns);
        self.counts.stats_rows += 1;
        let is_in_range = self.selection.statistics_of(0).contains(row.start_ns);
        if self.selection.counts_records() || !is_in_range {
            return;
        }
        self.counts.rows_in_range += 1;
        self.see(row.method);
        if self.takes_method(row.method) {
            let group = self.group(row.start_ns, ThreadId::NONE);
            self.totals.of(group, &row.method).add_stats(row);
            if self.selection.overview && !self.partial.contains(&row.method) {
                self.minutes.add_stats(row);
            }
        }
    }

    /// Takes the unfinished calls.
    fn take_unfinished(&mut self, label: &Arc<str>) -> Vec<UnfinishedCall> {
        let (names, selection) = (self.names, self.selection);
        let named = |id| names.method_or_unknown(id, label);
        let mut unfinished = Vec::new();
        let rows = std::mem::take(&mut self.unfinished).into_values();
        for row in rows.filter(|row| selection.calls.takes(row)) {
            if selection.unfinished {
                self.paths.add(&row);
            }
            self.see(row.method);
            if !self.takes_method(row.method) {
                continue;
            }
            let mut path = names.path(row.stack);
            let is_kept = path.next() == Some(row.method);
            let callers: Vec<MethodId> = path.filter(|_| is_kept).collect();
            unfinished.push(UnfinishedCall {
                run: 0,
                thread: names.thread(row.thread),
                method: named(row.method),
                start_ns: row.start_ns,
                running_ns: row.total_ns,
                self_ns: row.self_ns,
                callers: Callers {
                    has_more: !is_kept
                        || callers.last() == Some(&MethodId::NONE)
                        || callers.len() > 8,
                    methods: callers
                        .into_iter()
                        .take(8)
                        .filter(|id| !id.is_none())
                        .map(named)
                        .collect(),
                },
            });
        }
        unfinished
    }

    fn finish(mut self, label: &Arc<str>) -> RunData {
        let (names, selection) = (self.names, self.selection);
        let named = |id| names.method_or_unknown(id, label);
        let mut data = RunData { unfinished: self.take_unfinished(label), ..RunData::default() };
        self.counts.unknown_methods = self.unknown.len() as u64;
        let thread = |group| match group {
            Group::Thread(_, id) => Some((id, names.thread(id))),
            _ => None,
        };
        data.names.threads = self.totals.groups().filter_map(thread).collect();
        if selection.overview {
            let recursion = self.paths.recursion(|stack| names.path(stack)).into_iter();
            let recursion = recursion.filter(|(id, _)| self.takes_method(*id));
            data.overview.recursion = recursion.map(|(id, found)| (named(id), found)).collect();
        }
        if selection.stacks {
            data.tree = self.paths.into_tree(|stack| names.path(stack), named);
        }
        let call = |call: &(CallRow, bool)| recorded_call(call, 0, names, label);
        let calls = |calls: Vec<(CallRow, bool)>| calls.iter().map(call).collect::<Vec<_>>();
        data.overview.slow = self.slowest.finish().into_iter().map(calls).collect();
        for (id, durations) in self.sketches {
            self.totals.add_durations_of(&id, durations, false);
        }
        data.totals = self.totals.named(|id| named(*id));
        data.overview.minutes = self.minutes;
        data.overview.allocated = self.allocated.named(named);
        RunData { recorded: self.recorded, counts: self.counts, ..data }
    }
}

pub(crate) fn selections() -> Vec<Selection> {
    let of = |options: Options, range| Selection::new(&options, range, &Arc::default());
    let all = TimeRange::default();
    let part = TimeRange { from_ns: Some(T14 + 60 * S), to_ns: Some(T14 + 3_700 * S) };
    let above = |ns| DataFilter {
        calls: CallFilter { above_ns: Some(ns), ..CallFilter::default() },
        ..DataFilter::default()
    };
    let method = Some(Pattern::parse("com.shop.C1").unwrap());
    let of_method = DataFilter { method, ..above(1_000) };
    let by = |by| Layout { by, ..Layout::default() };
    let output = Output { format: Format::Csv, ..Output::default() };
    let csv = Options { output, ..Options::default() };
    let mut of_paths = of(Options { unfinished: true, ..Options::default() }, all);
    (of_paths.stacks, of_paths.figures_of_stacks) = (true, true);
    vec![
        of(Options::default(), all),
        of(Options { layout: by(By::Hour), ..Options::default() }, part),
        of(Options { layout: by(By::Thread), ..Options::default() }, all),
        of(Options { layout: by(By::Minute), filter: above(0), ..Options::default() }, part),
        of(Options { filter: of_method, ..Options::default() }, all),
        of_paths,
        of(csv, all),
    ]
}

/// Files that a fuzzer's input may contain: each begins with a line `@` and its name.
const NAMES: [&str; 20] = [
    "run.json",
    "20261120T14Z.calls.csv",
    "20261120T15Z.calls.csv",
    "20261120T14Z.stats.csv",
    "20261120T15Z.stats.csv",
    "20261120T14Z.methods.csv",
    "20261120T14Z.threads.csv",
    "20261120T14Z.stacks.csv",
    "20261120T14Z.counters.csv",
    "20261120T14Z.events.csv",
    "20261120T14Z.locks.csv",
    "20261120T14Z.lock_waits.csv",
    "20261120T14Z.statements.csv",
    "20261120T14Z.sql.csv",
    "20261120T14Z.slow_sql.csv",
    "20261120T14Z.tasks.csv",
    "20261120T14Z.task_requests.csv",
    "20261120T14Z.task_calls.csv",
    "tprofiler.log",
    "tmethod.log",
];

/// Writes the files of `input` into `folder`. Returns its first byte.
fn unpack(input: &[u8], folder: &Path) -> u8 {
    let (choice, mut rest) = input.split_first().map_or((0, input), |(first, rest)| (*first, rest));
    let mut name = "run.json";
    let mut content: Vec<u8> = br#"{"format_version": 1, "host": "web"}"#.to_vec();
    while !rest.is_empty() {
        let line_end = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1);
        let (line, after) = rest.split_at(line_end);
        let named =
            |known: &&&str| line.strip_prefix(b"@") == Some(format!("{known}\n").as_bytes());
        if let Some(next) = NAMES.iter().find(named) {
            fs::write(folder.join(name), &content).unwrap();
            (name, content) = (next, Vec::new());
        } else {
            content.extend_from_slice(line);
        }
        rest = after;
    }
    fs::write(folder.join(name), &content).unwrap();
    choice
}

/// Checks what a fuzzer asks for: whatever is in the files, no panic, the sums of the simplest reading, and every
/// report format. Returns the number of rows and tasks.
///
/// # Panics
/// If one of these does not hold.
pub fn check(input: &[u8]) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let choice = usize::from(unpack(input, folder.path()));
    let selections = selections();
    let selection = &selections[choice % selections.len()];
    let mut rows = 0;
    for run in discover(&[folder.path().to_owned()], |_| false, &mut Problems::default()) {
        let (data, problems) = reference(&run, selection);
        rows += data.counts.records + data.counts.stats_rows;
        let expected = in_words(&data, &problems);
        for (workers, block_bytes) in [(1, 1 << 18), (2, 50)] {
            let mut problems = Problems::default();
            let pace = Pace { workers, block_bytes };
            let in_words =
                in_words(&read_run_at(pace, &run, 0, selection, &mut problems), &problems);
            assert!(in_words == expected, "{pace:?}:\n{in_words}\ninstead of\n{expected}");
        }
    }
    rows + report(folder.path(), choice / selections.len())
}

/// Makes a report in one format. Returns the number of tasks.
fn report(folder: &Path, choice: usize) -> u64 {
    let formats = Format::value_variants();
    let format = formats[choice % formats.len()];
    let options = Options {
        paths: vec![folder.to_owned()],
        layout: Layout {
            tree: (format == Format::Text && choice.is_multiple_of(3))
                .then_some(TreeOrder::TopDown),
            slowest: (format == Format::Text && choice % 3 == 1).then_some(3),
            states: matches!(format, Format::Text | Format::Csv | Format::Json) && choice % 3 == 2,
            ..Layout::default()
        },
        output: Output { format, ..Output::default() },
        ..Options::default()
    };
    let mut out = Vec::new();
    let tasks = tasks(folder, format, &mut out);
    if format.is_of_events() {
        // Or the reason why there is nothing to write.
        let _ = stream(&options, &Arc::default(), &mut out);
    } else if let Ok(analysis) = crate::analyze(&options, &Arc::default()) {
        render(&analysis.report, &options, &mut out).expect("memory can be written to");
        constructors(&analysis.report, &mut out).expect("memory can be written to");
        let _ = missing(&analysis.report, &options.output);
    }
    tasks
}

/// Lists the tasks, and makes a report on each. Returns their number.
fn tasks(folder: &Path, format: Format, out: &mut Vec<u8>) -> u64 {
    let of = |id| TaskOptions {
        paths: vec![folder.to_owned()],
        id,
        format: if format.is_of_tasks() { format } else { Format::Text },
        ..TaskOptions::default()
    };
    let problems = &mut Problems::default();
    let all = of(None);
    let Ok(found) = find(&all, problems) else { return 0 };
    render_tasks(&found, &all, out).expect("memory can be written to");
    let Found::All(found) = found else { unreachable!("all were asked for") };
    let count = found.len() as u64;
    for TaskInRun { task, .. } in found {
        let one = of(Some(task.id));
        if let Ok(found) = find(&one, problems) {
            render_tasks(&found, &one, out).expect("memory can be written to");
        }
    }
    count
}
