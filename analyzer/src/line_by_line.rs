//! Reads a run in the simplest way, line by line. The tests and the fuzzer compare the multithreaded reading with it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use log_format::names::Table;
use log_format::pattern::Pattern;
use log_format::rows::{CallRow, CounterRow, EventRow, Exit, StatsRow};

use crate::input::parallel::Pace;
use crate::input::problems::Problems;
use crate::input::runs::{RunInput, discover, is_of_calls};
use crate::input::table_rows::read_rows;
use crate::options::time_range::TimeRange;
use crate::options::{By, CallFilter, Format, Options, TreeOrder};
use crate::render::trace;
use crate::render::{constructors, remarks, render};
use crate::run::counts::Counts;
use crate::run::data::{RunData, UnfinishedCall, read_run_at, recorded_call};
use crate::run::muted::Muted;
use crate::run::names::Names;
use crate::run::recorded_time::RecordedTime;
use crate::run::selection::Selection;
use crate::run::throttled::Throttled;
use crate::stats::aggregate::{Figures, Group, Totals};
use crate::stats::by_minute::Minutes;
use crate::stats::call_tree::PathSums;
use crate::stats::id_map::MAX_DENSE_ID;
use crate::stats::method::{Callers, PathKind};
use crate::stats::sketch::Sketch;
use crate::stats::slow_calls::{RecordedCall, SlowestByThread};
use clap::ValueEnum as _;

const S: u64 = 1_000_000_000;
/// 2026-11-20T14:00:00Z.
const T14: u64 = 1_795_183_200 * S;

/// All of a run's data as text, in a fixed order.
pub(crate) fn told(data: &RunData, problems: &Problems) -> String {
    let mut totals: Vec<String> = Vec::new();
    for (group, methods) in data.totals.clone().into_groups() {
        let of_group = methods.into_iter().map(|(method, f)| format!("{group:?} {method:?} {f:?}"));
        totals.extend(of_group);
    }
    totals.sort();
    let mut unfinished: Vec<String> =
        data.unfinished.iter().map(|call| format!("{call:?}")).collect();
    unfinished.sort();
    let threads: BTreeMap<_, _> = data.thread_names.iter().collect();
    let recursion: BTreeMap<_, _> = data.recursion.iter().collect();
    format!(
        "{totals:#?}\n{unfinished:#?}\n{threads:?}\n{:?}\n{recursion:?}\n{:?}\n{:#?}\n{}\n{:#?}",
        data.tree.nodes(),
        data.minutes.clone().finish(),
        data.slow,
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
    let selected = selection.method.as_ref().map(|pattern| names.ids_named_by(pattern));
    let (mut totals, mut paths) = (Totals::<u32>::default(), PathSums::default());
    let mut sketches: HashMap<u32, Sketch> = HashMap::new();
    let mut counts = Counts::default();
    let mut recorded = RecordedTime::default();
    let mut unknown = HashSet::new();
    let (mut minutes, mut slowest) = (Minutes::default(), SlowestByThread::default());
    let mut unfinished: HashMap<(u32, u64, u32), CallRow> = HashMap::new();
    let takes_method = |id| selected.as_ref().is_none_or(|ids| ids.contains(&id));
    let group = |at_ns: u64, thread| match selection.by {
        By::Hour => Group::Hour(log_format::names::Hour::of_unix_ns(at_ns)),
        By::Minute => Group::Minute(at_ns / (60 * S)),
        By::Thread => Group::Thread(0, thread),
        _ => Group::All,
    };
    let (mut throttled, mut muted) = (Throttled::default(), Muted::default());
    for file in run.files.iter().filter(|file| !is_of_calls(file.table)) {
        counts.hours.insert(file.part.hour);
        if file.table == Table::Counters {
            read_rows(&file.path, file.len, &mut problems, |row: CounterRow| {
                recorded.add_counter(&row);
                throttled.saw(row.start_ns);
                Ok(())
            });
        } else {
            read_rows(&file.path, file.len, &mut problems, |row: EventRow| {
                throttled.add_event(&row);
                muted.add_event(&row);
                Ok(())
            });
        }
    }
    let partial = names.ids_of_partial(&throttled, &muted, &selection.statistics_of(0));
    for file in run.files.iter().filter(|file| is_of_calls(file.table)) {
        counts.hours.insert(file.part.hour);
        match file.table {
            Table::Calls => read_rows(&file.path, file.len, &mut problems, |row: CallRow| {
                counts.records += 1;
                let end_ns = row.start_ns.saturating_add(row.total_ns);
                let key = (row.thread, row.start_ns, row.method);
                if !selection.range.contains(end_ns) {
                } else if row.exit == Exit::Unfinished {
                    let known = unfinished.entry(key).or_insert_with(|| row.clone());
                    if known.total_ns < row.total_ns {
                        *known = row;
                    }
                } else {
                    unfinished.remove(&key);
                    let is_counted = selection.counts_records();
                    if is_counted || selection.overview || selection.sketches {
                        counts.rows_in_range += u64::from(is_counted);
                        if !selection.calls.takes(&row) {
                            return Ok(());
                        }
                        if selection.stacks || selection.overview {
                            paths.add(&row);
                        }
                        if names.method(row.method).is_none() {
                            unknown.insert(row.method);
                        }
                        if takes_method(row.method) && selection.overview {
                            if !partial.contains(&row.method) {
                                minutes.add_record(&row, is_counted);
                            }
                            slowest.add(&row);
                        }
                        if takes_method(row.method) && is_counted {
                            let path = names.path_kind(row.stack, row.method);
                            counts.records_without_path += u64::from(path == PathKind::Unknown);
                            let figures: &mut Figures =
                                totals.of(group(end_ns, row.thread), &row.method);
                            figures.add_record(&row, path);
                        }
                        let has_sketch = selection.sketches && row.method <= MAX_DENSE_ID;
                        if takes_method(row.method) && has_sketch {
                            sketches.entry(row.method).or_default().add(row.total_ns);
                        }
                    }
                }
                Ok(())
            }),
            Table::Stats => read_rows(&file.path, file.len, &mut problems, |row: StatsRow| {
                recorded.add_stats(row.start_ns);
                counts.stats_rows += 1;
                if !selection.counts_records() && selection.statistics_of(0).contains(row.start_ns)
                {
                    counts.rows_in_range += 1;
                    if names.method(row.method).is_none() {
                        unknown.insert(row.method);
                    }
                    if takes_method(row.method) {
                        totals.of(group(row.start_ns, 0), &row.method).add_stats(&row);
                        if selection.overview && !partial.contains(&row.method) {
                            minutes.add_stats(&row);
                        }
                    }
                }
                Ok(())
            }),
            _ => {}
        }
    }
    let label: Arc<str> = Arc::from(run.label.as_str());
    let named = |id| names.method_or_unknown(id, &label);
    let mut data = RunData { recorded, ..RunData::default() };
    for row in unfinished.into_values().filter(|row| selection.calls.takes(row)) {
        if selection.unfinished {
            paths.add(&row);
        }
        if names.method(row.method).is_none() {
            unknown.insert(row.method);
        }
        if !takes_method(row.method) {
            continue;
        }
        let mut path = names.path(row.stack);
        let is_kept = path.next() == Some(row.method);
        let callers: Vec<u32> = path.filter(|_| is_kept).collect();
        data.unfinished.push(UnfinishedCall {
            run: 0,
            thread: names.thread(row.thread),
            method: named(row.method),
            start_ns: row.start_ns,
            running_ns: row.total_ns,
            self_ns: row.self_ns,
            callers: Callers {
                has_more: !is_kept || callers.last() == Some(&0) || callers.len() > 8,
                methods: callers.into_iter().take(8).filter(|id| *id != 0).map(named).collect(),
            },
        });
    }
    counts.unknown_methods = unknown.len() as u64;
    data.thread_names = totals
        .groups()
        .filter_map(|group| match group {
            Group::Thread(_, id) => Some((id, names.thread(id))),
            _ => None,
        })
        .collect();
    if selection.overview {
        let recursion = paths.recursion(|stack| names.path(stack)).into_iter();
        let recursion = recursion.filter(|(id, _)| takes_method(*id));
        data.recursion = recursion.map(|(id, found)| (named(id), found)).collect();
    }
    if selection.stacks {
        data.tree = paths.into_tree(|stack| names.path(stack), named);
    }
    data.minutes = minutes;
    let calls = |calls: Vec<(CallRow, bool)>| -> Vec<RecordedCall> {
        let call = |call: &(CallRow, bool)| recorded_call(call, 0, &names, &label);
        calls.iter().map(call).collect()
    };
    data.slow = slowest.finish().into_iter().map(calls).collect();
    for (id, durations) in sketches {
        totals.add_durations_of(&id, durations, false);
    }
    data.totals = totals.named(|id| named(*id));
    data.counts = counts;
    (data, problems)
}

pub(crate) fn selections() -> Vec<Selection> {
    let of = |options: Options, range| Selection::new(&options, range, &Arc::default());
    let all = TimeRange::default();
    let part = TimeRange { from_ns: Some(T14 + 60 * S), to_ns: Some(T14 + 3_700 * S) };
    let above = |ns| CallFilter { above_ns: Some(ns), ..CallFilter::default() };
    let method = Some(Pattern::parse("com.shop.C1").unwrap());
    let csv = Options { format: Format::Csv, ..Options::default() };
    let mut of_paths = of(Options { unfinished: true, ..Options::default() }, all);
    (of_paths.stacks, of_paths.figures_of_stacks) = (true, true);
    vec![
        of(Options::default(), all),
        of(Options { by: By::Hour, ..Options::default() }, part),
        of(Options { by: By::Thread, ..Options::default() }, all),
        of(Options { by: By::Minute, calls: above(0), ..Options::default() }, part),
        of(Options { calls: above(1_000), method, ..Options::default() }, all),
        of_paths,
        of(csv, all),
    ]
}

/// Files that a fuzzer's input may contain: each begins with a line `@` and its name.
const NAMES: [&str; 12] = [
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
/// report format. Returns the number of rows.
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
        let expected = told(&data, &problems);
        for (workers, block_bytes) in [(1, 1 << 18), (2, 50)] {
            let mut problems = Problems::default();
            let pace = Pace { workers, block_bytes };
            let told = told(&read_run_at(pace, &run, 0, selection, &mut problems), &problems);
            assert!(told == expected, "{pace:?}:\n{told}\ninstead of\n{expected}");
        }
    }
    report(folder.path(), choice / selections.len());
    rows
}

/// Makes a report in one format.
fn report(folder: &Path, choice: usize) {
    let forms = Format::value_variants();
    let format = forms[choice % forms.len()];
    let options = Options {
        paths: vec![folder.to_owned()],
        format,
        tree: (format == Format::Text && choice.is_multiple_of(3)).then_some(TreeOrder::TopDown),
        slowest: (format == Format::Text && choice % 3 == 1).then_some(3),
        ..Options::default()
    };
    let mut out = Vec::new();
    if format == Format::ChromeTrace {
        // Or the reason why there is no trace.
        let _ = trace::write(&options, &Arc::default(), &mut out);
    } else if let Ok(analysis) = crate::analyze(&options, &Arc::default()) {
        render(&analysis.report, &options, &mut out).expect("memory can be written to");
        constructors(&analysis.report, &mut out).expect("memory can be written to");
        let _ = remarks(&analysis.report, format);
    }
}
