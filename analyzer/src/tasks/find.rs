//! Finds the tasks that a report shows, and reads what it shows of them.

use std::path::Path;

use log_format::error::BadValue;
use log_format::file_names::Table;
use log_format::pattern::Pattern;
use log_format::rows::EventRow;
use log_format::writer::one_line;

use crate::error::NoReport;
use crate::input::problems::Problems;
use crate::input::runs::{RunInput, discover};
use crate::input::table_rows::read_rows;
use crate::options::glob::Glob;
use crate::options::tasks::{Offsets, TaskOptions};
use crate::options::time_range::TimeRange;
use crate::run::muted::Muted;
use crate::run::throttled::{Throttled, ThrottledInRun, sort_by_missed};
use crate::tasks::code_names::CodeNames;
use crate::tasks::exact::{ExactCalls, exact};
use crate::tasks::read::{list, read};
use crate::tasks::samples::read_samples;
use crate::tasks::snapshots::{Snapshot, snapshots};
use crate::tasks::task::{Request, Task};
use crate::tasks::trees::{MsRange, Part, Tree, analyze};

const MS: u64 = 1_000_000;

/// Ids and runs that an error names.
const NAMES_SHOWN: usize = 20;

/// A task and its run.
#[derive(Debug)]
pub struct TaskInRun {
    /// Label of the run.
    pub run: String,
    /// The task.
    pub task: Task,
}

/// A report on one task.
#[derive(Debug)]
pub struct TaskReport {
    /// Label of its run.
    pub run: String,
    /// The task, without its requests.
    pub task: Task,
    /// How many requests the log has of it.
    pub requests_in_log: usize,
    /// The requests that are shown.
    pub requests: Vec<CutRequest>,
    /// The times of each request that are shown; empty if all are.
    pub ranges: Vec<Offsets>,
    /// Their recorded calls, with exact times; empty if only some times are shown.
    pub exact: Vec<ExactCalls>,
    /// Their trees.
    pub trees: Vec<Tree>,
    /// Methods that were throttled while it ran, those with the most missed time first.
    pub throttled: Vec<ThrottledInRun>,
    /// Patterns that were muted meanwhile.
    pub muted: Vec<Pattern>,
}

/// A request, cut into snapshots.
#[derive(Debug)]
pub struct CutRequest {
    /// The request.
    pub request: Request,
    /// Name and id of its thread.
    pub thread: String,
    /// Its snapshots.
    pub snapshots: Vec<Snapshot>,
}

/// What a report is on.
#[derive(Debug)]
pub enum Found {
    /// All tasks.
    All(Vec<TaskInRun>),
    /// The task with the id of the options.
    One(Box<TaskReport>),
}

/// Finds and reads what the options ask for.
///
/// # Errors
/// Nothing can be read; no run is selected; there is no such task, or there are several; or it has no such request.
pub fn find(options: &TaskOptions, problems: &mut Problems) -> Result<Found, NoReport> {
    match &options.id {
        None => Ok(Found::All(find_all(options, problems)?)),
        Some(id) => Ok(Found::One(Box::new(find_one(options, id, problems)?))),
    }
}

fn find_all(options: &TaskOptions, problems: &mut Problems) -> Result<Vec<TaskInRun>, NoReport> {
    let mut found = Vec::new();
    for run in runs(options, problems)? {
        let tasks = list(&run, problems).into_iter();
        found.extend(tasks.map(|task| TaskInRun { run: run.label.clone(), task }));
    }
    Ok(found)
}

fn find_one(
    options: &TaskOptions,
    id: &str,
    problems: &mut Problems,
) -> Result<TaskReport, NoReport> {
    let runs = runs(options, problems)?;
    // If the task is found, its reading reports these problems.
    let mut of_lists = Problems::default();
    let mut ids: Vec<(&RunInput, String)> = Vec::new();
    for run in &runs {
        ids.extend(list(run, &mut of_lists).into_iter().map(|task| (run, task.id)));
    }
    let mut found = ids.iter().filter(|(_, known)| known == id).map(|(run, _)| *run);
    let run = match (found.next(), found.next()) {
        (Some(run), None) => run,
        (Some(_), Some(_)) => {
            let runs: Vec<&str> =
                ids.iter().filter(|(_, of)| of == id).map(|(run, _)| &*run.label).collect();
            return Err(several(id, &runs).into());
        }
        (None, _) => {
            let ids: Vec<&str> = ids.iter().map(|(_, id)| id.as_str()).collect();
            problems.merge(of_lists);
            return Err(NoReport::nothing(problems, unknown(id, &ids).to_string()));
        }
    };
    let task = read(run, id, problems).ok_or_else(|| unknown(id, &[]))?;
    report(options, run, task, problems)
}

fn runs(options: &TaskOptions, problems: &mut Problems) -> Result<Vec<RunInput>, NoReport> {
    let mut runs = discover(&options.paths, |_: &Path| false, problems);
    if runs.is_empty() {
        return Err(NoReport::NothingRead(problems.messages()));
    }
    let count = runs.len();
    let takes = |pattern: &Option<Glob>, name: &str| {
        pattern.as_ref().is_none_or(|pattern| pattern.matches(name))
    };
    runs.retain(|run| takes(&options.host, &run.about.host) && takes(&options.run, &run.label));
    if runs.is_empty() { Err(NoReport::NoSuchRun(count)) } else { Ok(runs) }
}

fn unknown(id: &str, ids: &[&str]) -> BadValue {
    let reason = match ids {
        [] => "is not a task of these logs; they have none".to_owned(),
        _ => format!("is not a task of these logs; they have {}", some_of(ids)),
    };
    BadValue::new(one_line(id), reason).of("--task")
}

fn several(id: &str, runs: &[&str]) -> BadValue {
    let reason = format!("is a task of several runs, choose one with --run: {}", some_of(runs));
    BadValue::new(one_line(id), reason).of("--task")
}

fn some_of(names: &[&str]) -> String {
    let shown: Vec<_> = names.iter().take(NAMES_SHOWN).map(|name| one_line(name)).collect();
    let rest = names.len().saturating_sub(NAMES_SHOWN);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

fn report(
    options: &TaskOptions,
    run: &RunInput,
    mut task: Task,
    problems: &mut Problems,
) -> Result<TaskReport, NoReport> {
    let mut requests = std::mem::take(&mut task.requests);
    let requests_in_log = requests.len();
    if let Some(number) = options.request {
        let known: Vec<String> = requests.iter().map(|r| r.number.to_string()).collect();
        requests.retain(|request| request.number == number);
        if requests.is_empty() {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let has = if known.is_empty() { "none".to_owned() } else { some_of(&known) };
            let reason = format!("is not a request of the task; the log has {has}");
            return Err(BadValue::new(number.to_string(), reason).of("--request").into());
        }
    }
    let names = CodeNames::read(run, problems);
    let samples = read_samples(run, &requests.iter().collect::<Vec<_>>(), &names, problems);
    let cut = |(request, samples): (Request, _)| {
        let snapshots = snapshots(&request, task.dump_period_ns, &names, &samples);
        CutRequest { thread: names.thread(request.thread), snapshots, request }
    };
    let requests: Vec<CutRequest> = requests.into_iter().zip(samples).map(cut).collect();
    let all: Vec<&Request> = requests.iter().map(|cut| &cut.request).collect();
    let exact =
        if options.ranges.is_empty() { exact(run, &all, &names, problems) } else { Vec::new() };
    let trees = trees(&requests, &options.ranges);
    let has_time = trees.iter().flat_map(|tree| &tree.elements).any(|of| of.self_ms > 0);
    if options.format.is_of_stacks() && !has_time {
        let reason = "no call was in two snapshots, so there is no time to show".to_owned();
        return Err(NoReport::nothing(problems, reason));
    }
    let (throttled, muted) = not_measured(run, &task, problems);
    let run = run.label.clone();
    let ranges = options.ranges.clone();
    let task =
        TaskReport { run, task, requests_in_log, requests, ranges, exact, trees, throttled, muted };
    Ok(task)
}

fn trees(requests: &[CutRequest], offsets: &[Offsets]) -> Vec<Tree> {
    let ranges: Vec<Vec<MsRange>> = requests
        .iter()
        .map(|CutRequest { request, .. }| {
            let start_ms = request.start_ns / MS;
            let range = |offsets: &Offsets| MsRange {
                from_ms: start_ms.saturating_add(offsets.from_ms),
                to_ms: start_ms.saturating_add(offsets.to_ms),
            };
            if offsets.is_empty() {
                vec![MsRange::ALL]
            } else {
                offsets.iter().map(range).collect()
            }
        })
        .collect();
    let cut = requests.iter().zip(&ranges);
    let parts = cut.map(|(cut, ranges)| Part { snapshots: &cut.snapshots, ranges });
    analyze(&parts.collect::<Vec<_>>())
}

/// What had no probes for part of the time in which the task ran: throttled methods, those with the most missed time
/// first, and muted patterns.
#[must_use]
pub fn not_measured(
    run: &RunInput,
    task: &Task,
    problems: &mut Problems,
) -> (Vec<ThrottledInRun>, Vec<Pattern>) {
    let from_ns = task.running_since_ns.unwrap_or(task.start_ns);
    let planned_ns = from_ns.saturating_add(task.duration_ns);
    let to_ns = if task.has_ended() { task.at_ns.min(planned_ns) } else { planned_ns };
    let range = TimeRange { from_ns: Some(from_ns), to_ns: Some(to_ns) };
    let (mut throttled, mut muted) = (Throttled::default(), Muted::default());
    for file in run.files.iter().filter(|file| file.table == Table::Events) {
        read_rows(&file.path, file.len, problems, |row: EventRow| {
            throttled.add_event(&row);
            muted.add_event(&row);
            Ok(())
        });
    }
    throttled.saw(from_ns);
    muted.saw(from_ns);
    throttled.saw(to_ns);
    muted.saw(to_ns);
    let in_run = |method| ThrottledInRun { run: run.label.clone(), method };
    let mut methods: Vec<_> = throttled.in_range(&range, &range).map(in_run).collect();
    sort_by_missed(&mut methods);
    (methods, muted.in_range(&range, &range).map(|muted| muted.pattern).collect())
}
