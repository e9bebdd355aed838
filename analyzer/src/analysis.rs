//! Finds the runs and the selected data in them, reads them, and makes a report.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::NoReport;
use crate::input::problems::Problems;
use crate::input::progress::Progress;
use crate::input::runs::{RunInput, discover};
use crate::options::glob::Glob;
use crate::options::time_range::TimeRange;
use crate::options::{Flame, Format, Options};
use crate::report::collector::Collector;
use crate::report::{Report, SampleReport, slowest};
use crate::run::allocations::has_allocations;
use crate::run::cpu_samples::{has_samples, look_at_sampled};
use crate::run::data::{RunData, read_run};
use crate::run::exceptions::has_exceptions;
use crate::run::lock_waits::has_lock_waits;
use crate::run::names::Names;
use crate::run::selected_rows::has_table;
use crate::run::selection::{RecordsBecause, Selection};
use crate::run::short_names::ShortName;
use crate::run::traces::has_traces;
use crate::run::window::Touched;
use crate::tprofiler;
use crate::tprofiler::OldLog;
use log_format::error::BadValue;
use log_format::file_names::Table;
use log_format::pattern::Pattern;

/// A report and the problems met while reading.
#[derive(Debug)]
pub struct Analysis {
    /// The report.
    pub report: Report,
    /// What could not be read.
    pub problems: Problems,
}

/// Reads the logs and makes a report. Figures come from the method statistics where possible, else from the recorded
/// calls: see [`RecordsBecause`].
///
/// # Errors
/// There is nothing to report: no run can be read, no time lies between `from` and `to`, or a format that has only call
/// paths or samples would have none.
pub fn analyze(options: &Options, progress: &Arc<Progress>) -> Result<Analysis, NoReport> {
    let mut problems = Problems::default();
    let (selected, options) = select(options, progress, &mut problems)?;
    let has_samples = selected.runs.iter().any(has_samples);
    let has_lock_waits = selected.runs.iter().any(has_lock_waits);
    let has_allocations = selected.runs.iter().any(has_allocations);
    let has_traces = selected.runs.iter().any(has_traces);
    let has_exceptions = selected.runs.iter().any(has_exceptions);
    let has_dumps = selected.has_dumps();
    let analysis = analyze_selected(&options, selected, &problems)?;
    let report = &analysis.report;
    let SampleReport { cpu, off_cpu, .. } = &report.samples;
    let nothing = match options.output.flame {
        Flame::Cpu => cpu.no_samples(has_samples, report.missing.losses.timers_refused),
        Flame::Wall => off_cpu.no_waiting(has_samples || has_dumps),
        Flame::Lock => report.events.locks.no_waits(has_lock_waits),
        Flame::Alloc => report.events.allocations.no_allocations(has_allocations),
        Flame::Trace => report.events.traces.no_traces(has_traces),
        Flame::Exceptions => report.events.exceptions.no_exceptions(has_exceptions),
        Flame::Calls if options.output.format.is_of_stacks() => report.no_stacks(),
        Flame::Calls => None,
    };
    match nothing {
        Some(reason) => Err(NoReport::nothing(&analysis.problems, reason)),
        None => Ok(analysis),
    }
}

fn analyze_selected(
    options: &Options,
    mut selected: Selected,
    problems: &Problems,
) -> Result<Analysis, NoReport> {
    let is_short = selected.widen();
    let selection = &selected.selection;
    // If there are no rows of one kind, there may be some of the other.
    let ways: &[Option<RecordsBecause>] = match is_short {
        _ if selection.asks_for_records() || options.layout.slowest.is_some() => &[None],
        _ if options.layout.states => &[None],
        true => &[Some(RecordsBecause::ShortTime), None],
        false if options.output.format.has_notes() => &[None, Some(RecordsBecause::NoStatistics)],
        false => &[None],
    };
    let mut first = None;
    for way in ways {
        selected.selection = selected.selection.of_records(options, *way);
        let analysis = read(options, &selected, problems.clone());
        let report = &analysis.report;
        // Statistics of methods other than those selected are enough for a report; recorded calls are not.
        let has_rows = way.is_none() && report.read.counts.rows_in_range > 0;
        if has_rows || !report.methods.groups.is_empty() {
            return Ok(analysis);
        }
        first = first.or(Some(analysis));
    }
    first.ok_or(NoReport::NothingRead(Vec::new()))
}

/// Reads the runs.
fn read(options: &Options, selected: &Selected, mut problems: Problems) -> Analysis {
    let Selected { runs, old_logs, selection } = selected;
    selection.progress.expect(runs, &[Table::Calls, Table::Stats]);
    if options.shows_cpu() {
        selection.progress.expect(runs, &[Table::Samples]);
    }
    let mut collector = Collector::default();
    for (place, (run, old_log)) in runs.iter().zip(old_logs).enumerate() {
        let data = match old_log {
            None => read_run(run, place, selection, &mut problems),
            // The time of dumps is not that of calls.
            Some(_) if options.output.flame != Flame::Calls => RunData::default(),
            Some(log) if options.needs_stacks() || options.layout.slowest.is_some() => {
                tprofiler::leave_out(log, "of single calls and call paths", &mut problems)
            }
            Some(log) => {
                let unit = options.tprofiler_unit;
                tprofiler::read(log, place, selection, unit, &mut problems)
            }
        };
        collector.add(run, place, data, selection);
    }
    let slowest = options.layout.slowest.map(|count| {
        // The first reading has reported the problems.
        slowest::find(runs, selection, count, &mut Problems::default())
    });
    if options.shows_cpu() {
        for (place, (run, old_log)) in runs.iter().zip(old_logs).enumerate() {
            match old_log {
                None => collector.add_samples(run, place, selection, &mut problems),
                Some(log) => collector.add_dumps(run, log, place, selection, &mut problems),
            }
        }
    }
    read_besides_calls(options, selected, &mut collector, &mut problems);
    let of_overview = collector.slowest().filter(|_| options.output.format == Format::Text);
    let mut report = collector.finish(runs, options, selection, &problems);
    report.overview.slowest = of_overview.and_then(|(place, row)| {
        runs.get(place).and_then(|run| slowest::with_tree(run, place, &row, selection))
    });
    report.overview.has_tasks = runs.iter().any(|run| has_table(run, Table::Tasks));
    report.slowest = slowest;
    if options.output.flame != Flame::Calls {
        // Whether there are recorded calls makes no difference.
        report.empty = None;
    }
    if options.output.format.is_of_stacks() && options.output.flame.has_all_methods() {
        report.missing.forget_statistics();
    }
    Analysis { report, problems }
}

/// Reads what the report shows besides calls and samples.
fn read_besides_calls(
    options: &Options,
    selected: &Selected,
    collector: &mut Collector,
    problems: &mut Problems,
) {
    let Selected { runs, selection, .. } = selected;
    let has_stacks_of = |flame| options.output.flame == flame;
    if options.shows_locks() {
        selection.progress.expect(runs, &[Table::Locks, Table::LockWaits]);
        for (place, run) in runs.iter().enumerate() {
            collector.add_locks(run, place, selection, has_stacks_of(Flame::Lock), problems);
        }
    }
    if options.shows_allocations() {
        selection.progress.expect(runs, &[Table::Allocations]);
        for (place, run) in runs.iter().enumerate() {
            let with_stacks = has_stacks_of(Flame::Alloc);
            collector.add_allocations(run, place, selection, with_stacks, problems);
        }
    }
    if options.shows_traces() {
        selection.progress.expect(runs, &[Table::Traces]);
        for (place, run) in runs.iter().enumerate() {
            collector.add_traces(run, place, selection, has_stacks_of(Flame::Trace), problems);
        }
    }
    if options.shows_exceptions() {
        selection.progress.expect(runs, &[Table::Exceptions, Table::ExceptionExamples]);
        collector.add_exceptions(runs, selection, has_stacks_of(Flame::Exceptions), problems);
    }
    if options.shows_sql() {
        selection.progress.expect(runs, &[Table::Sql, Table::SlowSql]);
        for (place, run) in runs.iter().enumerate() {
            collector.add_sql(run, place, selection, problems);
        }
    }
}

/// The runs to read, and what is selected in them.
pub(crate) struct Selected {
    pub runs: Vec<RunInput>,
    /// For each run, its TProfiler log, if it is one.
    pub old_logs: Vec<Option<OldLog>>,
    pub selection: Selection,
}

impl Selected {
    /// Whether a log of TProfiler's has thread dumps, selected or not.
    fn has_dumps(&self) -> bool {
        self.old_logs.iter().flatten().any(|log| log.dumps_path().is_some())
    }

    /// Widens the selected time to whole intervals, for the statistics. Returns whether it is shorter than one of
    /// them in each run.
    fn widen(&mut self) -> bool {
        let range = self.selection.range;
        if range.is_everything() {
            return false;
        }
        let touched: Vec<_> = self.runs.iter().map(|run| Touched::of(run, &range)).collect();
        self.selection.statistics = touched.iter().map(|run| run.statistics).collect();
        touched.iter().any(|run| run.is_shorter)
            && touched.iter().all(|run| run.is_shorter || !run.is_any)
    }
}

/// Finds what to read. Also returns the options, with short names replaced by full ones.
pub(crate) fn select(
    options: &Options,
    progress: &Arc<Progress>,
    problems: &mut Problems,
) -> Result<(Selected, Options), NoReport> {
    let (logs, paths) = tprofiler::discover(&options.paths, problems);
    let runs = discover(&paths, has_old_logs, problems).into_iter().map(|run| (run, None));
    let old_runs = tprofiler::as_runs(&logs);
    let mut found: Vec<(RunInput, Option<OldLog>)> =
        runs.chain(old_runs.into_iter().zip(logs.into_iter().map(Some))).collect();
    if found.is_empty() {
        for path in tprofiler::exports_in(&options.paths) {
            problems
                .warn(&path, "written from samples, skipped in a folder; name the file to read it");
        }
        return Err(NoReport::NothingRead(problems.messages()));
    }
    let count = found.len();
    let shows_cpu = options.shows_cpu();
    let takes = |pattern: &Option<Glob>, name: &str| {
        pattern.as_ref().is_none_or(|pattern| pattern.matches(name))
    };
    let mut options = options.clone();
    let filter = &mut options.filter;
    found.retain(|(run, _)| takes(&filter.host, &run.about.host) && takes(&filter.run, &run.label));
    if found.is_empty() {
        return Err(NoReport::NoSuchRun(count));
    }
    let (runs, old_logs): (Vec<RunInput>, Vec<Option<OldLog>>) = found.into_iter().unzip();
    for (option, pattern) in [("--method", &mut filter.method), ("--root", &mut filter.root)] {
        let with_sampled = shows_cpu && option == "--method";
        let full = |pattern| full_name(pattern, &runs, &old_logs, with_sampled);
        let full = pattern.as_ref().map(full).transpose();
        *pattern = full.map_err(|error| error.of(option))?.flatten().or_else(|| pattern.take());
    }
    // Without any file there is no time of day to refer to, and nothing to select.
    let newest = runs.iter().flat_map(|run| &run.files).map(|file| file.part.hour).max();
    let has_times = filter.from.is_some() || filter.to.is_some();
    let range = match newest {
        Some(hour) => TimeRange::in_zone(filter.from, filter.to, hour, &options.layout.zone)?,
        None if has_times && old_logs.iter().any(Option::is_some) => return Err(NoReport::NoTimes),
        None => TimeRange::default(),
    };
    let selection = Selection::new(&options, range, progress);
    Ok((Selected { runs, old_logs, selection }, options))
}

/// The method that a short name stands for in all of these logs; `None` if the pattern is not a short name.
///
/// # Errors
/// There are several candidates, which the error names.
pub(crate) fn full_name_in(
    pattern: &Pattern,
    paths: &[PathBuf],
) -> Result<Option<Pattern>, BadValue> {
    // The reading after this one reports the problems.
    let problems = &mut Problems::default();
    let (logs, paths) = tprofiler::discover(paths, problems);
    let mut runs = discover(&paths, has_old_logs, problems);
    let mut old_logs = vec![None; runs.len()];
    runs.extend(tprofiler::as_runs(&logs));
    old_logs.extend(logs.into_iter().map(Some));
    full_name(pattern, &runs, &old_logs, false)
}

/// The method that a short name stands for; `None` if the pattern is not a short name. Methods that were only sampled
/// count if no instrumented one has the name.
fn full_name(
    pattern: &Pattern,
    runs: &[RunInput],
    old_logs: &[Option<OldLog>],
    with_sampled: bool,
) -> Result<Option<Pattern>, BadValue> {
    let mut short = ShortName::new(pattern);
    // The reading after this one reports the problems.
    let problems = &mut Problems::default();
    for (run, old_log) in runs.iter().zip(old_logs) {
        if short.is_done() {
            break;
        }
        match old_log {
            None => {
                Names::read_methods_of(run, problems).methods().for_each(|name| short.look_at(name))
            }
            Some(log) => {
                let names = tprofiler::method_names(log, problems);
                names.values().for_each(|name| short.look_at(name));
            }
        }
    }
    if with_sampled && !short.has_found() {
        runs.iter().for_each(|run| look_at_sampled(run, |name| short.look_at(name)));
        let old_logs = old_logs.iter().flatten();
        old_logs.for_each(|log| tprofiler::look_at_dumped(log, |name| short.look_at(name)));
    }
    short.finish()
}

fn has_old_logs(folder: &Path) -> bool {
    !tprofiler::logs_in(folder).is_empty()
}
