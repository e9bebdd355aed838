//! Compares two sets of logs method by method: what became slower, what it costs, and whether that exceeds the limit.
//!
//! Both modes compare two times: the cost of a method expected from `before`, and its actual cost in `after`.
//!
//! ```text
//! per hour   was = self time in an hour of before              is = self time in an hour of after
//! per call   was = calls of after x self time of before's call  is = self time of after
//! ```
//!
//! The second mode ignores the load: twice the calls at the same speed change nothing. Hours are those that a JVM
//! recorded, see [`crate::run::recorded_time`], so forty JVMs can be compared with one.

mod allocations;
mod change;
mod exceptions;
mod sampled;
mod sum_change;
mod time_change;
mod traces;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;
use log_format::error::BadValue;
use log_format::pattern::Pattern;

use crate::analysis::{analyze, full_name_in};
use crate::diff::allocations::allocation_changes;
pub use crate::diff::allocations::{AllocationChange, AllocationKey};
pub use crate::diff::change::{Change, Compared, Least, Limit};
use crate::diff::change::{HOUR_NS, scaled};
pub use crate::diff::exceptions::ExceptionChange;
use crate::diff::exceptions::exception_changes;
pub use crate::diff::sampled::{CpuChange, WaitChange};
use crate::diff::sampled::{cpu_changes, wait_changes};
pub use crate::diff::sum_change::SumChange;
pub use crate::diff::time_change::TimeChange;
use crate::diff::time_change::time_changes;
use crate::diff::traces::trace_changes;
pub use crate::diff::traces::{CallerOf, TraceChange};
use crate::error::NoReport;
use crate::input::problems::Problems;
use crate::input::progress::Progress;
use crate::options::Unit;
use crate::options::time_range::Moment;
use crate::options::{DataFilter, Format, Layout, Options, Output};
use crate::report::Report;
use crate::run::muted::MutedInRun;
use crate::stats::aggregate::Figures;
use crate::stats::lock_sums::LockSite;
use crate::stats::method::{Method, MethodName};

const MINUTE_NS: u64 = 60_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// All choices for one comparison.
#[derive(Clone, Debug)]
pub struct DiffOptions {
    /// The logs of before: runs' folders, folders of runs, or single files.
    pub before: Vec<PathBuf>,
    /// The logs of after.
    pub after: Vec<PathBuf>,
    /// Only this time of the logs of before, from and to.
    pub before_time: (Option<Moment>, Option<Moment>),
    /// Only this time of the logs of after.
    pub after_time: (Option<Moment>, Option<Moment>),
    /// What is compared.
    pub per: Per,
    /// Take only methods that this pattern names.
    pub method: Option<Pattern>,
    /// Methods shown in each section of a text; `None` shows all.
    pub top: Option<usize>,
    /// Unit of the times in TProfiler's own logs; `None` detects it.
    pub tprofiler_unit: Option<Unit>,
    /// Output format.
    pub format: Format,
    /// Write to this file instead of standard output.
    pub file: Option<PathBuf>,
    /// How much slower is too slow.
    pub limit: Option<Limit>,
}

/// The mode of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Per {
    /// Self time in an hour of recording: more calls cost more
    Hour,
    /// Self time of a call: the number of calls makes no difference
    Call,
}

impl Per {
    /// The name on the command line and in reports for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Call => "call",
        }
    }
}

/// The waits for locks of a class in a method, on both sides.
pub type LockChange = TimeChange<LockSite>;

/// The executions of a statement on both sides, by its text. A test's database has another URL each time.
pub type StatementChange = TimeChange<String>;

/// A comparison, ready to be rendered.
#[derive(Debug)]
pub struct Comparison {
    /// The mode.
    pub per: Per,
    /// The limit of "too slow".
    pub limit: Option<Limit>,
    /// The logs of before.
    pub before: Side,
    /// The logs of after.
    pub after: Side,
    /// All methods, the largest cost first; those without a cost come last.
    pub methods: Vec<MethodChange>,
    /// CPU time by samples, the largest cost first.
    pub cpu: Vec<CpuChange>,
    /// Waiting by samples, the largest change first; none if a side lacks its recorded time.
    pub waiting: Vec<WaitChange>,
    /// Changes of events.
    pub events: EventChanges,
    /// The sum of all methods that have a [`Change`].
    pub all: Change,
    /// Whether the sum is too slow.
    pub all_fails: bool,
    /// The time that costs refer to.
    pub time: Compared,
    /// What a reader must know about the figures, a sentence each.
    pub notes: Vec<String>,
}

/// Changes of events, the largest first; none in CSV, or if a side lacks its recorded time.
#[derive(Debug, Default)]
pub struct EventChanges {
    /// Waits for locks.
    pub locks: Vec<LockChange>,
    /// SQL statements, by text.
    pub sql: Vec<StatementChange>,
    /// Sampled allocations; none if a side has none.
    pub allocations: Vec<AllocationChange>,
    /// Exceptions.
    pub exceptions: Vec<ExceptionChange>,
    /// Calls of methods traced on both sides, by caller.
    pub traces: Vec<TraceChange>,
}

/// One of the two sets of logs.
#[derive(Debug)]
pub struct Side {
    /// All of its methods, what was read, and what is missing.
    pub report: Report,
    /// What went wrong while reading.
    pub problems: Problems,
    /// How long its JVMs recorded, summed. `None` if the logs have no times.
    pub recorded_ns: Option<u64>,
}

/// A method in both sets of logs, or in one.
#[derive(Debug)]
pub struct MethodChange {
    /// The method.
    pub name: Arc<MethodName>,
    /// How its cost changed.
    pub status: Status,
    /// Its figures before, if it had any.
    pub before: Option<Figures>,
    /// Its figures after.
    pub after: Option<Figures>,
    /// Its cost. `None` if there is no call to compare with.
    pub change: Option<Change>,
    /// Whether it is too slow.
    pub fails: bool,
}

/// How a method's cost changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Costs more.
    Slower,
    /// Costs the same.
    Same,
    /// Costs less.
    Faster,
    /// Has calls only after.
    New,
    /// Had calls only before.
    Vanished,
    /// Was throttled or muted for part of the time, on one side or both.
    NotComparable,
}

impl Status {
    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Slower => "slower",
            Self::Same => "same",
            Self::Faster => "faster",
            Self::New => "new",
            Self::Vanished => "vanished",
            Self::NotComparable => "not comparable",
        }
    }
}

impl Side {
    fn read(
        (paths, (from, to)): (&[PathBuf], (Option<Moment>, Option<Moment>)),
        options: &DiffOptions,
        progress: &Arc<Progress>,
    ) -> Result<Self, NoReport> {
        let selected = Options {
            paths: paths.to_vec(),
            tprofiler_unit: options.tprofiler_unit,
            filter: DataFilter {
                method: options.method.clone(),
                from,
                to,
                ..DataFilter::default()
            },
            // CSV has methods only.
            layout: Layout { compared: options.format != Format::Csv, ..Layout::default() },
            // The figures of all methods, and no more.
            output: Output { format: Format::Csv, ..Output::default() },
            ..Options::default()
        };
        let analysis = analyze(&selected, progress)?;
        let (report, problems) = (analysis.report, analysis.problems);
        let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        if report.read.counts.rows_in_range == 0 {
            let mut lines = problems.messages();
            lines.extend(report.empty.map(|reason| format!("{}: {reason}", names.join(", "))));
            return Err(NoReport::NothingRead(lines));
        }
        // TProfiler's logs have no times.
        let has_hours = report.read.counts.tprofiler.logs() == 0;
        let recorded_ns = Some(report.selected_ns()).filter(|ns| has_hours && *ns > 0);
        if options.per == Per::Hour && recorded_ns.is_none() {
            return Err(NoReport::NoRecordedTime(names.join(", ")));
        }
        Ok(Self { report, problems, recorded_ns })
    }

    /// Nanoseconds, calls or bytes of this side, per hour of recording.
    #[must_use]
    pub fn per_hour(&self, sum: u64) -> u64 {
        self.recorded_ns.map_or(sum, |ns| scaled(sum.into(), HOUR_NS, ns))
    }

    /// Nanoseconds of this side, per second of recording.
    fn per_second(&self, ns: u64) -> u64 {
        self.recorded_ns.map_or(ns, |all_ns| scaled(ns.into(), SECOND_NS, all_ns))
    }

    /// The methods that were throttled or muted for part of the time, and the classes without probes.
    fn partly_measured(&self) -> PartlyMeasured<'_> {
        let missing = &self.report.missing;
        let throttled = missing.throttled.iter().map(|found| found.method.name.as_str()).collect();
        let never = missing.postponed.iter().filter(|late| late.class.to_ns.is_none());
        let never = never.map(|late| late.class.class.as_str()).collect();
        let rows = self.report.methods.groups.iter().flat_map(|group| &group.methods);
        let measured =
            rows.filter(|row| !row.not_counted.is_any()).filter_map(|row| match &row.method {
                Method::Named(name) => Some(name.as_ref()),
                Method::Unknown { .. } => None,
            });
        let measured = measured.collect();
        PartlyMeasured { measured, throttled, muted: &missing.muted, never }
    }

    fn methods(&self) -> BTreeMap<Arc<MethodName>, Figures> {
        let methods = self.report.methods.groups.iter().flat_map(|group| &group.methods);
        methods
            .filter_map(|method| match &method.method {
                Method::Named(name) => Some((Arc::clone(name), method.figures.clone())),
                Method::Unknown { .. } => None,
            })
            .collect()
    }

    fn unnamed(&self) -> usize {
        let methods = self.report.methods.groups.iter().flat_map(|group| &group.methods);
        methods.filter(|method| matches!(method.method, Method::Unknown { .. })).count()
    }
}

/// Methods with only part of their calls on one side.
struct PartlyMeasured<'r> {
    /// Methods whose figures lack none of their time.
    measured: HashSet<&'r MethodName>,
    /// What may be among the others. Named as in the log.
    throttled: HashSet<&'r str>,
    muted: &'r [MutedInRun],
    /// Classes that were postponed until the end.
    never: HashSet<&'r str>,
}

impl PartlyMeasured<'_> {
    fn has(&self, name: &MethodName) -> bool {
        if self.measured.contains(name) {
            return false;
        }
        let is_throttled =
            || !self.throttled.is_empty() && self.throttled.contains(&*name.log_name());
        let is_muted = |of: &MutedInRun| of.muted.pattern.method(&name.class, &name.method);
        self.muted.iter().any(is_muted) || is_throttled()
    }
}

/// Compares two sets of logs.
///
/// # Errors
/// There is nothing to compare: one of them cannot be read, has no calls, or lacks the recorded time where that is
/// needed.
pub fn compare(options: &DiffOptions, progress: &Arc<Progress>) -> Result<Comparison, NoReport> {
    let mut options = options.clone();
    if let Some(pattern) = &options.method {
        // Both sides use the same one.
        let paths = [&options.before[..], &options.after].concat();
        let full = full_name_in(pattern, &paths).map_err(|error| error.of("--method"))?;
        options.method = full.or(options.method);
    }
    let options = &options;
    let sides = [
        ("--before", &options.before, options.before_time),
        ("--after", &options.after, options.after_time),
    ];
    let has_times = sides.iter().any(|(.., time)| *time != (None, None));
    let [before, after] = sides.map(|(option, paths, time)| {
        Side::read((paths, time), options, progress).map_err(|error| match error {
            NoReport::Value(value) if has_times => NoReport::Value(value.of(option)),
            other => other,
        })
    });
    let (before, after) = (before?, after?);
    if has_times && before.report.methods.of_records != after.report.methods.of_records {
        let reason = "one time is shorter than an interval of the method statistics, so only its recorded calls are \
                      known: choose a longer one";
        return Err(BadValue::because(reason).into());
    }
    let mut methods = changes(options.per, &before, &after);
    if methods.is_empty() {
        let reason = after.report.empty.unwrap_or_else(|| "no methods with names".to_owned());
        return Err(NoReport::NoMethods(reason));
    }
    let all = sum(&methods);
    let time = after.recorded_ns.map_or(Compared::SelfTime(all.is_ns), Compared::Hours);
    if let Some(limit) = &options.limit {
        for method in &mut methods {
            // A new method has nothing to be slower than.
            let change = method.change.filter(|_| method.before.is_some());
            method.fails = change.is_some_and(|change| change.is_over(limit, time));
        }
    }
    sort_by_cost(&mut methods);
    Ok(Comparison {
        per: options.per,
        limit: options.limit,
        all_fails: options.limit.as_ref().is_some_and(|limit| all.is_over(limit, time)),
        time,
        notes: notes(&before, &after, &methods),
        cpu: cpu(options.per, &before, &after),
        waiting: waiting(&before, &after),
        events: EventChanges {
            locks: locks(&before, &after),
            sql: sql(&before, &after),
            allocations: allocations(&before, &after),
            exceptions: exceptions(&before, &after),
            traces: traces(&before, &after),
        },
        before,
        after,
        methods,
        all,
    })
}

/// CPU time of both sides, by samples.
fn cpu(per: Per, before: &Side, after: &Side) -> Vec<CpuChange> {
    let [was, is] = [before, after].map(|side| &side.report.samples.cpu);
    let was_ns = |ns: u64| match per {
        Per::Hour => before.per_hour(ns),
        // As much CPU time in all, so that only shares differ.
        Per::Call => after.per_hour(scaled(ns.into(), is.total_ns, was.total_ns)),
    };
    cpu_changes(was, is, was_ns, |ns| after.per_hour(ns))
}

/// Waiting on both sides, by samples, in a second of recording, whatever the mode.
fn waiting(before: &Side, after: &Side) -> Vec<WaitChange> {
    if before.recorded_ns.is_none() || after.recorded_ns.is_none() {
        return Vec::new();
    }
    let [was, is] = [before, after].map(|side| &side.report.samples.off_cpu);
    wait_changes(was, is, |ns| before.per_second(ns), |ns| after.per_second(ns))
}

/// Waits for locks on both sides, in an hour of recording, whatever the mode.
fn locks(before: &Side, after: &Side) -> Vec<LockChange> {
    if before.recorded_ns.is_none() || after.recorded_ns.is_none() {
        return Vec::new();
    }
    let [was, is] = [before, after].map(|side| &side.report.events.locks);
    let [was, is] =
        [was, is].map(|report| report.locks.iter().map(|lock| (lock.site.clone(), &lock.figures)));
    time_changes(was, is, |ns| before.per_hour(ns), |ns| after.per_hour(ns))
}

/// SQL statements on both sides, in an hour of recording, whatever the mode.
fn sql(before: &Side, after: &Side) -> Vec<StatementChange> {
    if before.recorded_ns.is_none() || after.recorded_ns.is_none() {
        return Vec::new();
    }
    let [was, is] = [before, after].map(|side| {
        let statements = side.report.events.sql.statements.iter();
        statements.map(|times| (times.statement.text.clone(), &times.figures))
    });
    time_changes(was, is, |ns| before.per_hour(ns), |ns| after.per_hour(ns))
}

/// Sampled allocations on both sides, in an hour of recording, whatever the mode.
fn allocations(before: &Side, after: &Side) -> Vec<AllocationChange> {
    if before.recorded_ns.is_none() || after.recorded_ns.is_none() {
        return Vec::new();
    }
    let [was, is] = [before, after].map(|side| &side.report.events.allocations);
    allocation_changes(was, is, |bytes| before.per_hour(bytes), |bytes| after.per_hour(bytes))
}

/// Calls of traced methods on both sides, in an hour of recording, whatever the mode.
fn traces(before: &Side, after: &Side) -> Vec<TraceChange> {
    if before.recorded_ns.is_none() || after.recorded_ns.is_none() {
        return Vec::new();
    }
    let [was, is] = [before, after].map(|side| &side.report.events.traces);
    trace_changes(was, is, |calls| before.per_hour(calls), |calls| after.per_hour(calls))
}

/// The methods of both sides, by name.
fn changes(per: Per, before: &Side, after: &Side) -> Vec<MethodChange> {
    let (mut old, mut new) = (before.methods(), after.methods());
    let names: BTreeSet<Arc<MethodName>> = old.keys().chain(new.keys()).cloned().collect();
    let partly = [before.partly_measured(), after.partly_measured()];
    let change_of = |name: Arc<MethodName>| {
        let (was, is) = (old.remove(&name), new.remove(&name));
        let unseen = [was.is_none(), is.is_none()];
        let is_partly = |(side, is_unseen): (&PartlyMeasured<'_>, bool)| {
            side.has(&name) || is_unseen && side.never.contains(&*name.class)
        };
        let is_whole = !partly.iter().zip(unseen).any(is_partly);
        let change = change(per, (before, was.as_ref()), (after, is.as_ref()));
        let change = change.filter(|_| is_whole);
        let status = if is_whole { status(&was, &is, change) } else { Status::NotComparable };
        MethodChange { name, status, fails: false, before: was, after: is, change }
    };
    names.into_iter().map(change_of).collect()
}

/// The sum of all methods that have a change.
fn sum(methods: &[MethodChange]) -> Change {
    let changes = || methods.iter().filter_map(|method| method.change);
    let was: u128 = changes().map(|change| u128::from(change.was_ns)).sum();
    let is: u128 = changes().map(|change| u128::from(change.is_ns)).sum();
    let most = |sum: u128| u64::try_from(sum).unwrap_or(u64::MAX);
    Change { was_ns: most(was), is_ns: most(is) }
}

/// Exceptions on both sides, in an hour of recording, whatever the mode.
fn exceptions(before: &Side, after: &Side) -> Vec<ExceptionChange> {
    let (Some(before_ns), Some(after_ns)) = (before.recorded_ns, after.recorded_ns) else {
        return Vec::new();
    };
    let hourly = |count: u64, ns: u64| count as f64 * HOUR_NS as f64 / ns as f64;
    let [was, is] = [before, after].map(|side| &side.report.events.exceptions);
    exception_changes(was, is, |count| hourly(count, before_ns), |count| hourly(count, after_ns))
}

/// Sorts by cost, the highest first. Those without a cost come last: new ones first.
fn sort_by_cost(methods: &mut [MethodChange]) {
    let key = |method: &MethodChange| {
        let self_ns = |figures: &Option<Figures>| figures.as_ref().map_or(0, |f| f.self_ns);
        let without = (method.status, self_ns(&method.before).max(self_ns(&method.after)));
        (method.change.map(Change::cost_ns), without)
    };
    methods.sort_by(|a, b| {
        let ((a_cost, a_rest), (b_cost, b_rest)) = (key(a), key(b));
        let rest = || a_rest.0.cmp(&b_rest.0).then(b_rest.1.cmp(&a_rest.1));
        b_cost
            .cmp(&a_cost)
            .then_with(|| if a_cost.is_none() { rest() } else { a.name.cmp(&b.name) })
    });
}

fn change(
    per: Per,
    (before, was): (&Side, Option<&Figures>),
    (after, is): (&Side, Option<&Figures>),
) -> Option<Change> {
    let self_ns = |figures: Option<&Figures>| figures.map_or(0, |f| f.self_ns);
    let is_ns = after.per_hour(self_ns(is));
    let was_ns = match per {
        Per::Hour => before.per_hour(self_ns(was)),
        Per::Call => {
            let (was, is) = (was?, is?);
            if was.calls == 0 {
                return None;
            }
            after.per_hour(scaled(was.self_ns.into(), is.calls, was.calls))
        }
    };
    Some(Change { was_ns, is_ns })
}

fn status(was: &Option<Figures>, is: &Option<Figures>, change: Option<Change>) -> Status {
    match (was, is) {
        (None, _) => Status::New,
        (_, None) => Status::Vanished,
        _ => match change.map_or(0, Change::cost_ns) {
            1.. => Status::Slower,
            0 => Status::Same,
            _ => Status::Faster,
        },
    }
}

const SHORT: &str = "Less than a minute was recorded, so figures are uncertain; before --fail-above judges them, record \
                     longer, or give a --min-time like 1s";
const NO_LOAD: &str = "Most of what was called before was not called after, and nothing else took as long: was there \
                       the same load?";
const THROTTLED: &str = "No method is comparable: each was throttled for part of the time. Record both sides with \
                         overhead=off";
const MUTED: &str = "No method is comparable: each was throttled or muted for part of the time. Record both sides \
                     with overhead=off and without `tprofiler mute`";

fn notes(before: &Side, after: &Side, methods: &[MethodChange]) -> Vec<String> {
    let unnamed = before.unnamed() + after.unnamed();
    let mut notes = Vec::new();
    let sides = [before, after].into_iter();
    if sides.filter_map(|side| side.recorded_ns).any(|recorded_ns| recorded_ns < MINUTE_NS) {
        notes.push(SHORT.to_owned());
    }
    let has = |wanted: &[Status]| methods.iter().any(|method| wanted.contains(&method.status));
    if has(&[Status::NotComparable]) && !has(&[Status::Slower, Status::Same, Status::Faster]) {
        let is_muted = [before, after].iter().any(|side| !side.report.missing.muted.is_empty());
        notes.push(if is_muted { MUTED } else { THROTTLED }.to_owned());
    }
    if has_hardly_run(before, after, methods) {
        notes.push(NO_LOAD.to_owned());
    }
    if unnamed > 0 {
        notes.push(format!("Methods without a name in their run, not compared: {unnamed}"));
    }
    notes
}

/// Whether next to nothing of before was done after: most of its time was in methods that are no longer called, and
/// others have not taken their place.
fn has_hardly_run(before: &Side, after: &Side, methods: &[MethodChange]) -> bool {
    let compared = || methods.iter().filter(|method| method.status != Status::NotComparable);
    let sum = |figures: &mut dyn Iterator<Item = &Figures>| -> u128 {
        figures.map(|figures| u128::from(figures.self_ns)).sum()
    };
    let all_ns = sum(&mut compared().filter_map(|method| method.before.as_ref()));
    let vanished = compared().filter(|method| method.status == Status::Vanished);
    let vanished_ns = sum(&mut vanished.filter_map(|method| method.before.as_ref()));
    let after_ns = sum(&mut compared().filter_map(|method| method.after.as_ref()));
    let hourly = |side: &Side, ns: u128| side.per_hour(u64::try_from(ns).unwrap_or(u64::MAX));
    2 * vanished_ns > all_ns
        && 10 * u128::from(hourly(after, after_ns)) < hourly(before, all_ns).into()
}

impl Comparison {
    /// Why nothing could be judged, if there is a limit.
    #[must_use]
    pub fn judges_nothing(&self) -> Option<&'static str> {
        self.limit?;
        if self.methods.iter().all(|method| method.status == Status::NotComparable) {
            return Some("no method is comparable");
        }
        has_hardly_run(&self.before, &self.after, &self.methods)
            .then_some("most of what was called before was not called after")
    }

    /// Whether anything is too slow.
    #[must_use]
    pub fn fails(&self) -> bool {
        self.all_fails || self.methods.iter().any(|method| method.fails)
    }
}
