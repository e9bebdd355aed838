//! The whole report for programs, schema 1: see `docs/reports.md`. Fields may be added; removing one or changing its
//! meaning raises the number.

use std::io::{self, Write};

use log_format::names::utc_text;
use serde::{Serialize, Serializer};

use super::allocated_calls::JsonAllocated;
use super::allocations::JsonAllocations;
use super::exceptions::JsonExceptions;
use super::json_rows::{JsonCpu, JsonDumps, JsonOffCpu, Name, Row};
use super::locks::JsonLocks;
use super::sql::JsonSql;
use super::states::StateRow;
use super::traces::JsonTraced;
use crate::options::By;
use crate::options::zone::hour_text;
use crate::report::groups::GroupReport;
use crate::report::missing::Missing;
use crate::report::selected::{Filters, SelectedData};
use crate::report::{ReadSummary, Report, SampleReport};
use crate::run::cut_short::CutInRun;
use crate::run::data::UnfinishedCall;
use crate::run::losses::Losses;
use crate::run::muted::{MutedInRun, MutedPattern};
use crate::run::postponed::{PostponedClass, PostponedInRun};
use crate::run::throttled::ThrottledInRun;

const SCHEMA: u32 = 1;

pub fn render(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &Document::new(report))?;
    writeln!(out)
}

#[derive(Serialize)]
struct Document<'r> {
    schema: u32,
    read: Read<'r>,
    /// What figures are made from.
    figures_of: &'static str,
    /// Of all runs together, if the logs have it.
    recorded_ns: Option<u64>,
    selected: Selected<'r>,
    missing: JsonMissing<'r>,
    notes: Vec<&'r str>,
    by: Option<&'static str>,
    sort: &'static str,
    percentiles: &'static str,
    methods: Rows<'r>,
    methods_not_shown: usize,
    /// These are omitted if there are no samples.
    #[serde(flatten)]
    cpu: Option<JsonCpu<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    off_cpu: Option<JsonOffCpu<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lock_waits: Option<JsonLocks<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allocations: Option<JsonAllocations<'r>>,
    /// Omitted if no recorded call says what it allocated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    allocated_in_recorded_calls: Vec<JsonAllocated<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traced: Option<Vec<JsonTraced<'r>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exceptions: Option<JsonExceptions<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sql: Option<JsonSql<'r>>,
    /// With `--by state`, instead of methods.
    #[serde(skip_serializing_if = "Option::is_none")]
    states: Option<Vec<StateRow<'r>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_dumps: Option<JsonDumps<'r>>,
    unfinished: Vec<Unfinished<'r>>,
    unfinished_not_shown: usize,
}

impl<'r> Document<'r> {
    fn new(report: &'r Report) -> Self {
        let by = report.layout.by;
        let states = report.states.as_ref();
        let groups = if states.is_some() { &[] } else { report.methods.groups.as_slice() };
        let SampleReport { cpu, off_cpu, dumps } = &report.samples;
        let has_own = |samples: u64| samples > 0 && states.is_none();
        Self {
            schema: SCHEMA,
            read: Read::new(&report.read),
            figures_of: if report.methods.of_records { "recorded_calls" } else { "statistics" },
            recorded_ns: Some(report.read.recorded_ns).filter(|ns| *ns > 0),
            selected: Selected::new(&report.selected),
            missing: JsonMissing::new(&report.missing),
            notes: report.empty.iter().map(String::as_str).chain(report.all_notes()).collect(),
            by: if states.is_some() { Some("state") } else { by.column() },
            sort: report.layout.sort.name(),
            percentiles: report.percentiles_are(),
            methods: Rows { by, groups },
            methods_not_shown: groups.iter().map(|group| group.not_shown).sum(),
            cpu: has_own(cpu.samples).then(|| JsonCpu::new(by, cpu)),
            off_cpu: has_own(off_cpu.total_ns).then(|| JsonOffCpu::new(by, off_cpu)),
            lock_waits: JsonLocks::new(&report.events.locks, &report.read, report.layout.by),
            allocations: JsonAllocations::new(report),
            allocated_in_recorded_calls: JsonAllocated::all(report),
            traced: JsonTraced::all(report),
            exceptions: JsonExceptions::new(report),
            sql: JsonSql::new(&report.events.sql, &report.read, by),
            states: states.map(|report| report.states.iter().map(StateRow::new).collect()),
            thread_dumps: (!dumps.is_empty())
                .then(|| JsonDumps::new(dumps, &report.read.counts.tprofiler)),
            unfinished: report
                .unfinished
                .calls
                .iter()
                .map(|call| Unfinished::new(call, &report.read))
                .collect(),
            unfinished_not_shown: report.unfinished.not_shown,
        }
    }
}

/// The rows, each made when it is written: there may be a million.
struct Rows<'r> {
    by: By,
    groups: &'r [GroupReport],
}

impl Serialize for Rows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.groups.iter().flat_map(|group| {
            group.methods.iter().map(move |method| Row::new(self.by, group, method))
        }))
    }
}

#[derive(Serialize)]
pub(super) struct Read<'r> {
    runs: usize,
    jvms: usize,
    hours: usize,
    first_hour: Option<String>,
    last_hour: Option<String>,
    recorded_calls: u64,
    stats_rows: u64,
    tprofiler_logs: u64,
    torn_lines: u64,
    bad_lines: u64,
    missing_files: &'r [String],
    run_names: &'r [String],
    hosts: &'r [String],
    services: &'r [String],
}

impl<'r> Read<'r> {
    pub(super) fn new(read: &'r ReadSummary) -> Self {
        let hours = &read.counts.hours;
        Self {
            runs: read.runs.len(),
            jvms: read.jvms,
            hours: hours.len(),
            first_hour: hours.first().copied().map(hour_text),
            last_hour: hours.last().copied().map(hour_text),
            recorded_calls: read.counts.records,
            stats_rows: read.counts.stats_rows,
            tprofiler_logs: read.counts.tprofiler.logs(),
            torn_lines: read.torn_lines,
            bad_lines: read.bad_lines,
            missing_files: &read.missing_files,
            run_names: &read.runs,
            hosts: &read.hosts,
            services: &read.services,
        }
    }
}

#[derive(Serialize)]
struct Selected<'r> {
    from: Option<String>,
    to: Option<String>,
    /// The intervals of the method statistics that count.
    statistics_from: Option<String>,
    statistics_to: Option<String>,
    method: Option<&'r str>,
    #[serde(flatten)]
    filters: &'r Filters,
}

impl<'r> Selected<'r> {
    fn new(selected: &'r SelectedData) -> Self {
        let SelectedData { range, statistics, pattern, filters } = selected;
        Self {
            from: range.from_ns.map(utc_text),
            to: range.to_ns.map(utc_text),
            statistics_from: statistics.from_ns.map(utc_text),
            statistics_to: statistics.to_ns.map(utc_text),
            method: pattern.as_deref(),
            filters,
        }
    }
}

#[derive(Serialize)]
pub(super) struct JsonMissing<'r> {
    unread: &'r [String],
    recorded_calls_dropped: u64,
    lost_calls: u64,
    unseen_ends: u64,
    methods_not_instrumented: u64,
    leaves: u64,
    classes_unreadable: u64,
    io_errors: u64,
    rows_dropped: u64,
    recorded_calls_over_budget: u64,
    deleted_hours: u64,
    muted_methods: u64,
    muted_calls: u64,
    throttled_calls: u64,
    /// These are omitted if the logs do not have them.
    #[serde(skip_serializing_if = "Option::is_none")]
    lock_waits_dropped: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allocation_samples_dropped: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_samples_dropped: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exceptions_lost: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exception_examples_dropped: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lock_waits_lost: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lock_seconds_skipped: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slow_sql_dropped: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sql_lost: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timers_refused: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    probe_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_ns: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cut_short: Vec<JsonCut<'r>>,
    raised_thresholds: Vec<RaisedThreshold<'r>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    throttled: Vec<JsonThrottled<'r>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    muted: Vec<JsonMuted<'r>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    classes_postponed: Vec<JsonPostponed<'r>>,
}

#[derive(Serialize)]
struct JsonCut<'r> {
    run: &'r str,
    statistics_to: Option<String>,
    last_recorded_call: Option<String>,
    recorded_calls_gone: u64,
    intervals_without_counters: u64,
}

#[derive(Serialize)]
struct RaisedThreshold<'r> {
    run: &'r str,
    from: String,
    to: Option<String>,
    threshold_ns: u64,
    base_threshold_ns: u64,
}

#[derive(Serialize)]
struct JsonThrottled<'r> {
    run: &'r str,
    method: &'r str,
    from_ns: u64,
    to_ns: Option<u64>,
    times: u64,
    out_ns: u64,
    calls_per_s: u64,
    mean_ns: Option<u64>,
}

#[derive(Serialize)]
struct JsonMuted<'r> {
    run: &'r str,
    pattern: String,
    from_ns: u64,
    to_ns: Option<u64>,
    times: u64,
    muted_ns: u64,
}

impl<'r> JsonMuted<'r> {
    fn new(MutedInRun { run, muted }: &'r MutedInRun) -> Self {
        let MutedPattern { pattern, from_ns, to_ns, times, muted_ns } = muted;
        let (from_ns, to_ns, times, muted_ns) = (*from_ns, *to_ns, *times, *muted_ns);
        Self { run, pattern: pattern.to_string(), from_ns, to_ns, times, muted_ns }
    }
}

#[derive(Serialize)]
struct JsonPostponed<'r> {
    run: &'r str,
    class: &'r str,
    reason: &'r str,
    from_ns: u64,
    to_ns: Option<u64>,
}

impl<'r> JsonPostponed<'r> {
    fn new(PostponedInRun { run, class }: &'r PostponedInRun) -> Self {
        let PostponedClass { class, reason, from_ns, to_ns } = class;
        Self { run, class, reason, from_ns: *from_ns, to_ns: *to_ns }
    }
}

impl<'r> JsonThrottled<'r> {
    fn new(ThrottledInRun { run, method }: &'r ThrottledInRun) -> Self {
        Self {
            run,
            method: &method.name,
            from_ns: method.from_ns,
            to_ns: method.to_ns,
            times: method.times,
            out_ns: method.out_ns,
            calls_per_s: method.calls_per_s,
            mean_ns: method.mean_ns,
        }
    }
}

impl<'r> JsonMissing<'r> {
    pub(super) fn new(missing: &'r Missing) -> Self {
        let Losses { log, statistics, not_instrumented, timers_refused, probe_cost } =
            &missing.losses;
        let raised = missing.raised.iter().flat_map(|run| {
            run.times.iter().map(move |time| RaisedThreshold {
                run: &run.run,
                from: utc_text(time.from_ns),
                to: time.to_ns.map(utc_text),
                threshold_ns: time.highest_ns,
                base_threshold_ns: run.base_ns,
            })
        });
        let cut_short = missing.cut.iter().map(|CutInRun { run, cut }| JsonCut {
            run,
            statistics_to: cut.statistics_end.map(|(end_ns, _)| utc_text(end_ns)),
            last_recorded_call: cut.statistics_end.map(|(_, last_ns)| utc_text(last_ns)),
            recorded_calls_gone: cut.recorded_calls,
            intervals_without_counters: cut.without_counters,
        });
        Self {
            cut_short: cut_short.collect(),
            unread: &missing.unread,
            recorded_calls_dropped: log.recorded_calls_dropped,
            lost_calls: statistics.lost_calls,
            unseen_ends: statistics.unseen_ends,
            methods_not_instrumented: not_instrumented.methods,
            leaves: not_instrumented.leaves,
            classes_unreadable: not_instrumented.classes_unreadable,
            io_errors: log.io_errors,
            rows_dropped: log.rows_dropped,
            recorded_calls_over_budget: log.recorded_calls_over_budget,
            deleted_hours: log.deleted_hours,
            muted_methods: statistics.muted_methods,
            muted_calls: statistics.muted_calls,
            throttled_calls: statistics.throttled_calls,
            allocation_samples_dropped: Some(log.allocation_samples_dropped)
                .filter(|count| *count > 0),
            trace_samples_dropped: Some(log.trace_samples_dropped).filter(|count| *count > 0),
            exceptions_lost: Some(log.exceptions_lost).filter(|count| *count > 0),
            exception_examples_dropped: Some(log.exception_examples_dropped)
                .filter(|count| *count > 0),
            lock_waits_dropped: Some(log.lock_waits_dropped).filter(|count| *count > 0),
            lock_waits_lost: Some(log.lock_waits_lost).filter(|count| *count > 0),
            lock_seconds_skipped: Some(log.lock_seconds_skipped).filter(|count| *count > 0),
            slow_sql_dropped: Some(log.slow_sql_dropped).filter(|count| *count > 0),
            sql_lost: Some(log.sql_lost).filter(|count| *count > 0),
            timers_refused: Some(*timers_refused).filter(|count| *count > 0),
            probe_ns: Some(probe_cost.probe_ns).filter(|ns| *ns > 0 || probe_cost.cpu_ns > 0),
            cpu_ns: Some(probe_cost.cpu_ns).filter(|cpu_ns| *cpu_ns > 0),
            raised_thresholds: raised.collect(),
            throttled: missing.throttled.iter().map(JsonThrottled::new).collect(),
            muted: missing.muted.iter().map(JsonMuted::new).collect(),
            classes_postponed: missing.postponed.iter().map(JsonPostponed::new).collect(),
        }
    }
}

#[derive(Serialize)]
struct Unfinished<'r> {
    run: &'r str,
    thread: &'r str,
    #[serde(flatten)]
    method: Name<'r>,
    start: String,
    start_ns: u64,
    running_ns: u64,
    self_ns: u64,
    /// The nearest first.
    callers: Vec<Name<'r>>,
    callers_cut: bool,
}

impl<'r> Unfinished<'r> {
    fn new(call: &'r UnfinishedCall, read: &'r ReadSummary) -> Self {
        Self {
            run: read.runs.get(call.run).map(String::as_str).unwrap_or_default(),
            thread: &call.thread,
            method: Name::new(&call.method),
            start: utc_text(call.start_ns),
            start_ns: call.start_ns,
            running_ns: call.running_ns,
            self_ns: call.self_ns,
            callers: call.callers.methods.iter().map(Name::new).collect(),
            callers_cut: call.callers.has_more,
        }
    }
}
