//! Reads one run: streams its files and keeps sums, the calls still open, and counts of what was
//! read. The result of a run stands on its own, so runs can be read in any order or in parallel.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use log_format::names::{Hour, Table};
use log_format::pattern::Pattern;
use log_format::rows::{CallRow, CounterRow, Exit, StatsRow};

use crate::aggregate::{Group, Totals};
use crate::call_tree::{CallTree, PathSums, Recursion};
use crate::hints::Nearest;
use crate::input::{DataFile, RunInput};
use crate::losses::{Losses, Thresholds};
use crate::minutes::Minutes;
use crate::names::{Callers, Method, Names, PathKind, Source};
use crate::options::{By, CallFilter, Format, Options};
use crate::problems::Problems;
use crate::recorded_time::RecordedTime;
use crate::slow_calls::{RecordedCall, SlowestByThread};
use crate::table::read_rows;
use crate::time_range::TimeRange;
use crate::tprofiler::OldCounts;
use crate::zone::Zone;

const NS_PER_MINUTE: u64 = 60_000_000_000;

/// Which rows count, and how they are grouped.
#[derive(Clone, Debug)]
pub struct Selection {
    /// When: totals by the start of their interval, records by their end.
    pub range: TimeRange,
    /// Which methods.
    pub method: Option<Pattern>,
    /// The groups.
    pub by: By,
    /// Which recorded calls.
    pub calls: CallFilter,
    /// Whether call paths are summed up.
    pub stacks: bool,
    /// Whether figures come from the records for the call paths' sake.
    pub figures_of_stacks: bool,
    /// Whether it is told what happened when, and which calls were the slowest.
    pub overview: bool,
    /// Whether open calls are among the records.
    pub open: bool,
    /// Whether sources are told.
    pub sources: bool,
    /// The zone whose hours are groups.
    pub zone: Zone,
}

impl Selection {
    /// What these options select, in the time `range`.
    #[must_use]
    pub fn new(options: &Options, range: TimeRange) -> Self {
        Self {
            range,
            method: options.method.clone(),
            by: options.by,
            calls: options.calls.clone(),
            stacks: options.needs_stacks() || options.format == Format::Html,
            figures_of_stacks: options.needs_stacks(),
            overview: options.has_overview(),
            open: options.open,
            zone: options.zone.clone(),
            sources: matches!(
                options.format,
                Format::Pprof | Format::Speedscope | Format::Tprofiler
            ),
        }
    }

    /// Whether figures come from the records: totals know no threads and no single calls.
    #[must_use]
    pub fn counts_records(&self) -> bool {
        self.by == By::Thread || !self.calls.is_everything() || self.figures_of_stacks
    }
}

/// What was read of one run.
#[derive(Debug, Default)]
pub struct RunData {
    /// Sums of the selected calls.
    pub totals: Totals<Method>,
    /// Selected calls that had not ended, each once.
    pub open: Vec<OpenCall>,
    /// Sums of the selected calls by call path.
    pub tree: CallTree,
    /// The methods that call themselves.
    pub recursion: HashMap<Method, Recursion>,
    /// Sums of the selected calls by minute.
    pub minutes: Minutes,
    /// The slowest of the selected calls, by thread.
    pub slow: Vec<Vec<RecordedCall>>,
    /// Where the sources of the run's methods are.
    pub sources: HashMap<Method, Source>,
    /// Names of the threads that are groups, by id.
    pub thread_names: HashMap<u32, String>,
    /// What the run lost.
    pub losses: Losses,
    /// The run's thresholds.
    pub thresholds: Thresholds,
    /// If the pattern names none of the run's methods: the names that are near it.
    pub nearest: Option<Nearest>,
    /// When the run recorded, whatever is selected.
    pub recorded: RecordedTime,
    /// What was read.
    pub counts: Counts,
    /// Whether there are rows to name, and no names of methods at all.
    pub lacks_methods_file: bool,
}

/// How much was read, and how much of it fell out of the selection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows of `calls.csv`.
    pub records: u64,
    /// Rows of `stats.csv`.
    pub stats_rows: u64,
    /// Those of the rows that the report is made from which lie in the selected time.
    pub rows_in_range: u64,
    /// Records counted by thread whose call path was not kept.
    pub records_without_path: u64,
    /// Methods that their run has no name for.
    pub unknown_methods: u64,
    /// The hours of the files read.
    pub hours: BTreeSet<Hour>,
    /// What TProfiler's own logs have of it.
    pub tprofiler: OldCounts,
}

impl Counts {
    /// Adds the counts of another run.
    pub fn merge(&mut self, other: &Self) {
        self.records = self.records.saturating_add(other.records);
        self.stats_rows = self.stats_rows.saturating_add(other.stats_rows);
        self.rows_in_range = self.rows_in_range.saturating_add(other.rows_in_range);
        self.records_without_path =
            self.records_without_path.saturating_add(other.records_without_path);
        self.unknown_methods = self.unknown_methods.saturating_add(other.unknown_methods);
        self.hours.extend(&other.hours);
        self.tprofiler.merge(&other.tprofiler);
    }
}

/// A call that had not ended when it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCall {
    /// The run's place in the list of runs.
    pub run: usize,
    /// The thread's name and id.
    pub thread: String,
    /// The method.
    pub method: Method,
    /// When it began, in unix nanoseconds.
    pub start_ns: u64,
    /// How long it had run when it was written last.
    pub running_ns: u64,
    /// Time in the method itself until then.
    pub self_ns: u64,
    /// Its callers.
    pub callers: Callers,
}

/// Reads a run, which stands at `place` in the list of runs.
pub fn read_run(
    run: &RunInput,
    place: usize,
    selection: &Selection,
    problems: &mut Problems,
) -> RunData {
    let names = Names::read(run, problems);
    let is_needed = run.files.iter().any(|file| file.table != Table::Counters);
    let lacks_methods_file = is_needed && !names.has_methods_file;
    if lacks_methods_file {
        problems.warn(&run.folder, "no methods.csv, its methods are shown by number");
    }
    let selected = selection.method.as_ref().map(|pattern| names.ids_named_by(pattern));
    let threads = selection.calls.thread.as_ref().map(|pattern| names.threads_named_by(pattern));
    let nearest = match (&selection.method, &selected) {
        (Some(pattern), Some(ids)) if ids.is_empty() => {
            Some(Nearest::to(pattern.as_str(), names.methods()))
        }
        _ => None,
    };
    let mut reader = RunReader {
        names,
        place,
        selection,
        selected,
        threads,
        totals: Totals::default(),
        paths: PathSums::default(),
        slowest: SlowestByThread::default(),
        open: HashMap::new(),
        path_kinds: HashMap::new(),
        unknown_methods: HashSet::new(),
        data: RunData { lacks_methods_file, nearest, ..RunData::default() },
    };
    for file in &run.files {
        reader.read_file(file, problems);
    }
    reader.finish(&Arc::from(run.label.as_str()))
}

/// A thread's call of a method that began at a moment: what makes two open records the same call.
type OpenKey = (u32, u64, u32);

struct RunReader<'s> {
    names: Names,
    place: usize,
    selection: &'s Selection,
    /// Ids of the selected methods; `None` selects all.
    selected: Option<HashSet<u32>>,
    /// Ids of the selected threads; `None` selects all.
    threads: Option<HashSet<u32>>,
    totals: Totals<u32>,
    paths: PathSums,
    slowest: SlowestByThread,
    open: HashMap<OpenKey, CallRow>,
    /// By call path; what it says holds for the method that it ends in.
    path_kinds: HashMap<u32, (u32, PathKind)>,
    unknown_methods: HashSet<u32>,
    data: RunData,
}

impl RunReader<'_> {
    fn read_file(&mut self, file: &DataFile, problems: &mut Problems) {
        self.data.counts.hours.insert(file.part.hour);
        let (path, len) = (&file.path, file.len);
        match file.table {
            Table::Calls => read_rows(path, len, problems, |row| {
                self.add_record(row);
                Ok(())
            }),
            Table::Stats => read_rows(path, len, problems, |row| {
                self.add_stats(&row);
                Ok(())
            }),
            Table::Counters => read_rows(path, len, problems, |row: CounterRow| {
                self.data.losses.add(&row, &self.selection.range);
                self.data.thresholds.add(&row);
                self.data.recorded.add_counter(&row);
                Ok(())
            }),
            Table::Methods | Table::Threads | Table::Stacks => {}
        }
    }

    fn add_stats(&mut self, row: &StatsRow) {
        self.data.recorded.add_stats(row.start_ns);
        let counts = &mut self.data.counts;
        counts.stats_rows = counts.stats_rows.saturating_add(1);
        if self.selection.counts_records() {
            return;
        }
        let group = self.group(row.start_ns, 0);
        if !self.selection.range.contains(row.start_ns) {
            return;
        }
        let counts = &mut self.data.counts;
        counts.rows_in_range = counts.rows_in_range.saturating_add(1);
        if self.selects(row.method) {
            self.totals.of(group, row.method).add_stats(row);
            if self.selection.overview {
                self.data.minutes.add_stats(row);
            }
        }
    }

    fn add_record(&mut self, row: CallRow) {
        let counts = &mut self.data.counts;
        counts.records = counts.records.saturating_add(1);
        let end_ns = row.start_ns.saturating_add(row.total_ns);
        if !self.selection.range.contains(end_ns) {
            return;
        }
        let key = (row.thread, row.start_ns, row.method);
        if row.exit == Exit::Open {
            // It is written again each time that recording stops; the last time is the longest.
            let known = self.open.entry(key).or_insert_with(|| row.clone());
            if known.total_ns < row.total_ns {
                *known = row;
            }
            return;
        }
        // A call that was open when recording stopped may still be seen to end.
        if !self.open.is_empty() {
            self.open.remove(&key);
        }
        let is_counted = self.selection.counts_records();
        if !is_counted && !self.selection.overview {
            return;
        }
        counts.rows_in_range = counts.rows_in_range.saturating_add(u64::from(is_counted));
        if !self.takes(&row) {
            return;
        }
        if self.selection.stacks || self.selection.overview {
            self.paths.add(&row);
        }
        if !self.selects(row.method) {
            return;
        }
        if self.selection.overview {
            self.slowest.add(&row);
            self.data.minutes.add_record(&row, is_counted);
        }
        if !is_counted {
            return;
        }
        let path = self.path_kind(row.stack, row.method);
        if path == PathKind::Unknown {
            let counts = &mut self.data.counts;
            counts.records_without_path = counts.records_without_path.saturating_add(1);
        }
        let group = self.group(end_ns, row.thread);
        self.totals.of(group, row.method).add_record(&row, path);
    }

    /// The group of a call or of totals. Hosts and packages become groups when all runs are there.
    fn group(&self, at_ns: u64, thread: u32) -> Group {
        match self.selection.by {
            By::Nothing | By::Class | By::Package => Group::All,
            By::Hour if !self.selection.zone.is_utc() => {
                Group::Minute(self.selection.zone.hour_start_ns(at_ns) / NS_PER_MINUTE)
            }
            By::Hour => Group::Hour(Hour::of_unix_ns(at_ns)),
            By::Minute => Group::Minute(at_ns / NS_PER_MINUTE),
            By::Run | By::Host => Group::Run(self.place),
            By::Thread => Group::Thread(self.place, thread),
        }
    }

    /// Whether the filter of calls takes this one.
    fn takes(&self, row: &CallRow) -> bool {
        self.selection.calls.takes(row)
            && self.threads.as_ref().is_none_or(|ids| ids.contains(&row.thread))
    }

    fn selects(&mut self, method: u32) -> bool {
        let is_selected = self.selected.as_ref().is_none_or(|ids| ids.contains(&method));
        if self.names.method(method).is_none() {
            self.unknown_methods.insert(method);
        }
        is_selected
    }

    fn path_kind(&mut self, stack: u32, method: u32) -> PathKind {
        match self.path_kinds.get(&stack) {
            Some((of_method, kind)) if *of_method == method => *kind,
            _ => {
                let kind = self.names.path_kind(stack, method);
                self.path_kinds.insert(stack, (method, kind));
                kind
            }
        }
    }

    fn finish(mut self, label: &Arc<str>) -> RunData {
        // Those that the selection leaves out were needed to see which of them ended.
        let open: Vec<CallRow> = std::mem::take(&mut self.open).into_values().collect();
        let mut open: Vec<CallRow> = open.into_iter().filter(|row| self.takes(row)).collect();
        if self.selection.open {
            open.iter().for_each(|row| self.paths.add(row));
        }
        open.retain(|row| self.selects(row.method));
        let named = |id| self.names.method_or_unknown(id, label);
        if self.selection.overview {
            let recursion = self.paths.recursion(|stack| self.names.path(stack)).into_iter();
            let selects = |id: &u32| self.selected.as_ref().is_none_or(|ids| ids.contains(id));
            let recursion = recursion.filter(|(id, _)| selects(id));
            self.data.recursion = recursion.map(|(id, found)| (named(id), found)).collect();
        }
        if self.selection.stacks {
            self.data.tree = self.paths.into_tree(|stack| self.names.path(stack), named);
        }
        if self.selection.sources {
            let of_names = self.names.sources();
            let of_methods = of_names.map(|(n, at)| (Method::Named(Arc::clone(n)), at.clone()));
            self.data.sources = of_methods.collect();
        }
        self.data.totals.merge(self.totals, |group, id| (group, named(id)));
        let recorded = |call| recorded_call(call, self.place, &self.names, label);
        let slow = self.slowest.finish();
        self.data.slow = slow.iter().map(|calls| calls.iter().map(recorded).collect()).collect();
        self.data.open =
            open.iter().map(|row| open_call(row, self.place, &self.names, label)).collect();
        self.data.counts.unknown_methods =
            u64::try_from(self.unknown_methods.len()).unwrap_or(u64::MAX);
        self.data.thread_names = self
            .data
            .totals
            .groups()
            .filter_map(|group| match group {
                Group::Thread(_, id) => Some((id, self.names.thread(id))),
                _ => None,
            })
            .collect();
        self.data
    }
}

fn recorded_call(
    (row, is_inner): &(CallRow, bool),
    place: usize,
    names: &Names,
    label: &Arc<str>,
) -> RecordedCall {
    RecordedCall {
        run: place,
        thread: names.thread(row.thread),
        method: names.method_or_unknown(row.method, label),
        start_ns: row.start_ns,
        total_ns: row.total_ns,
        self_ns: row.self_ns,
        exit: row.exit,
        callers: names.callers(row.stack, row.method, label),
        is_inner: *is_inner,
    }
}

fn open_call(row: &CallRow, place: usize, names: &Names, label: &Arc<str>) -> OpenCall {
    OpenCall {
        run: place,
        thread: names.thread(row.thread),
        method: names.method_or_unknown(row.method, label),
        start_ns: row.start_ns,
        running_ns: row.total_ns,
        self_ns: row.self_ns,
        callers: names.callers(row.stack, row.method, label),
    }
}
