//! Reads one run: streams its files, each with several threads, and keeps sums, unfinished calls, and counts of what
//! was read. Runs do not depend on each other, so they can be read in any order or in parallel.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use log_format::file_names::Table;
use log_format::ids::{MethodId, ThreadId};
use log_format::pattern::Pattern;
use log_format::rows::{CallRow, CounterRow, EventRow, StatsRow, counter};

use crate::input::parallel::{Pace, Unordered, read_blocks};
use crate::input::problems::Problems;
use crate::input::runs::{DataFile, RunInput, is_of_calls};
use crate::input::table_rows::{TablePart, read_rows};
use crate::options::time_range::TimeRange;
use crate::run::cut_short::CutShort;
use crate::run::history::AgentHistory;
use crate::run::losses::{Losses, ProbeCost};
use crate::run::names::Names;
use crate::run::nearest_names::Nearest;
use crate::run::read_counts::Counts;
use crate::run::recorded_time::RecordedTime;
use crate::run::row_sums::{RowSums, Scope, Worker};
use crate::run::selection::Selection;
use crate::run::unfinished_calls::UnfinishedCalls;
use crate::stats::aggregate::{Group, Totals};
use crate::stats::call_tree::CallTree;
use crate::stats::method::{Callers, Method, MethodName, Source};
use crate::stats::overview_sums::OverviewSums;
use crate::stats::slow_calls::{RecordedCall, order};

/// Length of a run's first interval: about ten seconds.
const FIRST_NS: Range<u64> = 8_000_000_000..13_000_000_000;

/// A method with fewer calls than this, which take longer than this on average, may be `main`, or a loop that takes
/// requests, and no entry method.
const FEW: u64 = 10;
const LONG_NS: u64 = 1_000_000_000;

/// What was read of one run.
#[derive(Debug, Default)]
pub struct RunData {
    /// Sums of the selected calls.
    pub totals: Totals<Method>,
    /// Selected calls that had not ended, each once.
    pub unfinished: Vec<UnfinishedCall>,
    /// Sums of the selected calls by call path.
    pub tree: CallTree,
    /// What the overview is made from.
    pub overview: OverviewSums,
    /// What the report takes from the run's names.
    pub names: ReportNames,
    /// What the run lost.
    pub losses: Losses,
    /// What the agent changed during the run.
    pub history: AgentHistory,
    /// Recorded calls that were written, by the counters.
    pub calls_written: u64,
    /// The agent wrote it, which leaves out no table.
    pub has_all_tables: bool,
    /// What its end lacks.
    pub cut: CutShort,
    /// When the run recorded, whatever is selected.
    pub recorded: RecordedTime,
    /// What was read.
    pub counts: Counts,
}

/// What the report takes from a run's names.
#[derive(Debug, Default)]
pub struct ReportNames {
    /// Names of the threads that are groups, by id.
    pub threads: HashMap<ThreadId, String>,
    /// Where the sources of the run's methods are.
    pub sources: HashMap<Method, Source>,
    /// If the pattern matches none of the run's methods: the nearest names.
    pub nearest: Option<Nearest>,
    /// Whether there are rows to name but no method names at all.
    pub lacks_methods_file: bool,
}

/// A call that had not ended when it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfinishedCall {
    /// The run's index in the list of runs.
    pub run: usize,
    /// The thread's name and id.
    pub thread: String,
    /// The method.
    pub method: Method,
    /// When it began, in unix nanoseconds.
    pub start_ns: u64,
    /// How long it had run when it was written last.
    pub running_ns: u64,
    /// Self time until then.
    pub self_ns: u64,
    /// Its callers.
    pub callers: Callers,
}

/// Reads a run, at index `place` in the list of runs.
pub fn read_run(
    run: &RunInput,
    place: usize,
    selection: &Selection,
    problems: &mut Problems,
) -> RunData {
    read_run_at(Pace::default(), run, place, selection, problems)
}

/// Like `read_run`, with this number of threads and length of blocks; neither changes the result.
pub(crate) fn read_run_at(
    pace: Pace,
    run: &RunInput,
    place: usize,
    selection: &Selection,
    problems: &mut Problems,
) -> RunData {
    let names = Names::read(run, problems);
    let is_needed = run.files.iter().any(|file| is_of_calls(file.table));
    let lacks_methods_file = is_needed && !names.has_methods_file;
    if lacks_methods_file {
        problems.warn(&run.folder, "no methods.csv, its methods are shown by number");
    }
    let mut data =
        RunData { has_all_tables: !run.about.agent_version.is_empty(), ..RunData::default() };
    data.names.lacks_methods_file = lacks_methods_file;
    let statistics = selection.statistics_of(place);
    let mut early = BTreeMap::new();
    for file in &run.files {
        match file.table {
            Table::Counters => data.read_counters(run, file, &statistics, &mut early, problems),
            Table::Events => data.read_events(file, problems),
            _ => {}
        }
    }
    let is_of = |name: &MethodName, own: &Pattern| own.method(&name.class, &name.method);
    data.history.thresholds.keep_own(|own| names.methods().any(|name| is_of(name, own)));
    // If the first interval was cut short by a full minute or a flush, it says little.
    let first = data.recorded.intervals().next();
    if let (Some((start_ns, end_ns)), Some((early_ns, first))) = (first, early.first_key_value())
        && start_ns == *early_ns
        && statistics.contains(start_ns)
        && FIRST_NS.contains(&(end_ns - start_ns))
    {
        data.losses.probe_cost.merge(first);
    }
    let mut scope = Scope::new(&names, place, selection);
    scope.end_statistics(data.recorded.without_statistics_since().unwrap_or(u64::MAX));
    if selection.overview {
        let AgentHistory { throttled, muted, .. } = &data.history;
        scope.set_partial(names.ids_of_partial(throttled, muted, &selection.covered(place)));
    }
    data.names.nearest = match &selection.method {
        Some(pattern) if scope.selects_none() => {
            Some(Nearest::to(pattern.as_str(), names.methods()))
        }
        _ => None,
    };
    let sums = Mutex::new(RowSums::default());
    let workers = pace.workers.max(1);
    let mut reader = RunReader {
        pace,
        scope: &scope,
        crew: (0..workers).map(|_| Worker::new(&scope, &sums, workers)).collect(),
        unfinished: UnfinishedCalls::default(),
        data,
    };
    for file in run.files.iter().filter(|file| is_of_calls(file.table)) {
        reader.read_file(file, problems);
    }
    let RunReader { unfinished, data, .. } = reader;
    let sums = sums.into_inner().unwrap_or_else(PoisonError::into_inner);
    finish(data, sums, unfinished, &scope, &Arc::from(run.label.as_str()))
}

impl RunData {
    /// Reads counters; those of an interval count if it begins in `statistics`.
    fn read_counters(
        &mut self,
        run: &RunInput,
        file: &DataFile,
        statistics: &TimeRange,
        early: &mut BTreeMap<u64, ProbeCost>,
        problems: &mut Problems,
    ) {
        self.counts.hours.insert(file.part.hour);
        read_rows(&file.path, file.len, problems, |row: CounterRow| {
            self.losses.add(&row, statistics);
            if run.about.start_ns.abs_diff(row.start_ns) < FIRST_NS.start {
                early.entry(row.start_ns).or_default().add_first(&row);
            }
            self.history.add_counter(&row);
            self.recorded.add_counter(&row);
            if row.name == counter::RECORDED_CALLS {
                self.calls_written = self.calls_written.saturating_add(row.value);
            }
            Ok(())
        });
    }

    fn read_events(&mut self, file: &DataFile, problems: &mut Problems) {
        self.counts.hours.insert(file.part.hour);
        read_rows(&file.path, file.len, problems, |row: EventRow| {
            self.history.add_event(&row);
            Ok(())
        });
    }
}

struct RunReader<'r> {
    pace: Pace,
    scope: &'r Scope<'r>,
    crew: Vec<Worker<'r>>,
    unfinished: UnfinishedCalls,
    data: RunData,
}

impl RunReader<'_> {
    fn read_file(&mut self, file: &DataFile, problems: &mut Problems) {
        self.data.counts.hours.insert(file.part.hour);
        let (selection, block_bytes) = (self.scope.selection, self.pace.block_bytes);
        let part =
            TablePart { path: &file.path, len: file.len, progress: Some(&selection.progress) };
        let crew = self.crew.as_mut_slice();
        match file.table {
            Table::Calls => {
                read_blocks::<CallRow, _, _>(
                    part,
                    block_bytes,
                    crew,
                    &mut self.unfinished,
                    problems,
                );
            }
            Table::Stats => {
                read_blocks::<StatsRow, _, _>(part, block_bytes, crew, &mut Unordered, problems);
            }
            _ => {}
        }
        for worker in &mut self.crew {
            worker.end_file();
        }
    }
}

fn finish(
    mut data: RunData,
    mut sums: RowSums,
    unfinished: UnfinishedCalls,
    scope: &Scope,
    label: &Arc<str>,
) -> RunData {
    let (names, selection) = (scope.names, scope.selection);
    // Unselected calls were needed too, to see which of them ended.
    let mut unfinished: Vec<CallRow> =
        unfinished.into_rows().filter(|row| scope.takes(row)).collect();
    if selection.unfinished {
        unfinished.iter().for_each(|row| sums.paths.add(row));
    }
    unfinished.retain(|row| sums.selects(row.method, scope));
    data.recorded.merge(&sums.recorded);
    let named = |id| names.method_or_unknown(id, label);
    let slow = std::mem::take(&mut sums.slowest).finish();
    let mut slowest = None;
    if selection.overview {
        let recursion = sums.paths.recursion(|stack| names.path(stack)).into_iter();
        let recursion = recursion.filter(|(id, _)| scope.is_selected(*id));
        data.overview.recursion = recursion.map(|(id, found)| (named(id), found)).collect();
        let entries = entries(&sums, names, data.recorded.ns());
        slowest = slowest_entry(&slow, |id| entries.contains(&id));
        data.overview.entries = entries.into_iter().map(named).collect();
    }
    if selection.stacks {
        data.tree = sums.paths.into_tree(|stack| names.path(stack), named);
    }
    let recorded = |call| recorded_call(call, scope.place, names, label);
    data.overview.slow = slow.iter().map(|calls| calls.iter().map(recorded).collect()).collect();
    data.overview.slowest = slowest.map(|row| (scope.place, row));
    data.overview.minutes = sums.minutes;
    data.overview.allocated = sums.allocated.named(named);
    data.overview.partial = scope.partial().map(named).collect();
    if selection.sources {
        let of_names = names.sources();
        let of_methods = of_names.map(|(n, at)| (Method::Named(Arc::clone(n)), at.clone()));
        data.names.sources = of_methods.collect();
    }
    for (id, durations) in std::mem::take(&mut sums.sketches).into_methods() {
        sums.totals.add_durations_of(&id, durations, selection.counts_records());
    }
    data.totals = sums.totals.named(|id| named(*id));
    data.unfinished =
        unfinished.iter().map(|row| unfinished_call(row, scope.place, names, label)).collect();
    data.counts.merge(&sums.counts);
    data.counts.unknown_methods = u64::try_from(sums.unknown_methods.len()).unwrap_or(u64::MAX);
    let groups = data.totals.groups();
    let threads = groups.filter_map(|group| match group {
        Group::Thread(_, id) => Some((id, names.thread(id))),
        _ => None,
    });
    data.names.threads = threads.collect();
    if data.losses.log.deleted_hours == 0 {
        data.cut = CutShort::of(
            &data.counts,
            &data.recorded,
            (data.calls_written, data.has_all_tables),
            selection,
        );
    }
    data
}

/// The methods that requests enter.
fn entries(sums: &RowSums, names: &Names, recorded_ns: u64) -> HashSet<MethodId> {
    let callees = sums.paths.direct_callees(|stack| names.path(stack));
    let is_one = |id| {
        let (calls, total_ns) = sums.totals.calls_of(&id);
        let callees = callees.get(&id).copied().unwrap_or(0);
        calls > 0 && !takes_requests(calls, total_ns / calls, callees, recorded_ns)
    };
    sums.paths.entries(|stack| names.path(stack), is_one)
}

/// Whether a method is `main` or a loop that takes requests: its few calls last for nearly all of the recording, or for
/// long and call others again and again. A request that hangs does neither.
fn takes_requests(calls: u64, mean_ns: u64, callees: u64, recorded_ns: u64) -> bool {
    let is_whole = mean_ns >= recorded_ns / 5 * 4;
    let is_loop = callees >= FEW.saturating_mul(calls) && mean_ns >= recorded_ns / 10;
    calls < FEW && mean_ns >= LONG_NS && (is_whole || is_loop)
}

/// The slowest call of a method that requests enter; without one, the slowest of all. `main` and loops that take
/// requests last for as long as the service.
fn slowest_entry(
    slow: &[Vec<(CallRow, bool)>],
    is_entry: impl Fn(MethodId) -> bool,
) -> Option<CallRow> {
    let outermost = || slow.iter().flatten().filter(|(_, is_inner)| !is_inner).map(|(row, _)| row);
    let entries = outermost().filter(|row| is_entry(row.method));
    let slowest = entries.min_by_key(|row| order(row));
    slowest.or_else(|| outermost().min_by_key(|row| order(row))).cloned()
}

pub(crate) fn recorded_call(
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

fn unfinished_call(row: &CallRow, place: usize, names: &Names, label: &Arc<str>) -> UnfinishedCall {
    UnfinishedCall {
        run: place,
        thread: names.thread(row.thread),
        method: names.method_or_unknown(row.method, label),
        start_ns: row.start_ns,
        running_ns: row.total_ns,
        self_ns: row.self_ns,
        callers: names.callers(row.stack, row.method, label),
    }
}
