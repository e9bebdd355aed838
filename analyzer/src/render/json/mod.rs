//! The whole report for programs, schema 1: see `docs/reports.md`. Fields may be added; removing one or changing its
//! meaning raises the number.
//!
//! This file has the document, [`rows`] the rows of methods, samples and thread dumps, [`missing`] what is missing.
//! Each kind of event has its own file. [`render`](super::render()) calls this folder, and the JSON of a comparison
//! uses [`Read`], [`JsonMissing`] and [`Name`].

mod allocated_calls;
mod allocations;
mod exceptions;
mod locks;
pub(super) mod missing;
pub(super) mod rows;
mod sql;
mod states;
mod traces;

use std::io::{self, Write};

use log_format::file_names::utc_text;
use serde::{Serialize, Serializer};

use self::allocated_calls::JsonAllocated;
use self::allocations::JsonAllocations;
use self::exceptions::JsonExceptions;
use self::locks::JsonLocks;
use self::missing::JsonMissing;
use self::rows::{JsonCpu, JsonDumps, JsonOffCpu, Name, Row};
use self::sql::JsonSql;
use self::states::StateRow;
use self::traces::JsonTraced;
use crate::options::By;
use crate::options::zone::hour_text;
use crate::report::groups::GroupReport;
use crate::report::selected::{Filters, SelectedData};
use crate::report::{ReadSummary, Report, SampleReport};
use crate::run::data::UnfinishedCall;

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
    /// The first moment at which a run recorded, and the last.
    recorded_from: Option<String>,
    recorded_until: Option<String>,
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
            recorded_from: read.recorded.map(|(from_ns, _)| utc_text(from_ns)),
            recorded_until: read.recorded.map(|(_, until_ns)| utc_text(until_ns)),
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
