//! The whole comparison for programs, schema 1: see `docs/reports.md`. Fields may be added; removing one or changing
//! its meaning raises the number.

use std::borrow::Cow;
use std::io::{self, Write};

use serde::Serialize;

use super::csv::calls_per_hour;
use crate::diff::{
    AllocationChange, AllocationKey, Change, Comparison, CpuChange, ExceptionChange, Least,
    LockChange, MethodChange, Side, StatementChange, TraceChange, WaitChange,
};
use crate::render::json::Read;
use crate::render::json::missing::JsonMissing;
use crate::render::json::rows::Name;
use crate::stats::aggregate::Figures;

const SCHEMA: u32 = 1;

pub fn render(comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let least = comparison.limit.map(|limit| limit.least);
    let document = Document {
        schema: SCHEMA,
        per: comparison.per.name(),
        selected: Selected { method: comparison.after.report.selected.pattern.as_deref() },
        before: JsonSide::new(&comparison.before),
        after: JsonSide::new(&comparison.after),
        fail_above_percent: comparison.limit.map(|limit| limit.percent),
        min_time_ns: match least {
            Some(Least::Ns(ns)) => Some(ns),
            _ => None,
        },
        min_time_percent: match least {
            Some(Least::Percent(percent)) => Some(percent),
            _ => None,
        },
        fails: comparison.fails(),
        all: JsonChange::new(comparison.all, comparison.all_fails),
        notes: &comparison.notes,
        methods: comparison.methods.iter().map(|method| Row::new(comparison, method)).collect(),
        cpu: comparison.cpu.iter().map(CpuRow::new).collect(),
        waiting: comparison.waiting.iter().map(WaitRow::new).collect(),
        lock_waits: comparison.events.locks.iter().map(LockRow::new).collect(),
        sql: comparison.events.sql.iter().map(SqlRow::new).collect(),
        allocations: comparison.events.allocations.iter().map(AllocationRow::new).collect(),
        exceptions: comparison.events.exceptions.iter().map(ExceptionRow::new).collect(),
        traced: comparison.events.traces.iter().map(TracedRow::new).collect(),
    };
    serde_json::to_writer_pretty(&mut *out, &document)?;
    writeln!(out)
}

#[derive(Serialize)]
struct Document<'c> {
    schema: u32,
    per: &'static str,
    selected: Selected<'c>,
    before: JsonSide<'c>,
    after: JsonSide<'c>,
    fail_above_percent: Option<f64>,
    min_time_ns: Option<u64>,
    min_time_percent: Option<f64>,
    fails: bool,
    all: JsonChange,
    notes: &'c [String],
    methods: Vec<Row<'c>>,
    cpu: Vec<CpuRow<'c>>,
    waiting: Vec<WaitRow<'c>>,
    lock_waits: Vec<LockRow<'c>>,
    /// Omitted if there are no statements.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sql: Vec<SqlRow<'c>>,
    allocations: Vec<AllocationRow<'c>>,
    exceptions: Vec<ExceptionRow<'c>>,
    traced: Vec<TracedRow<'c>>,
}

#[derive(Serialize)]
struct Selected<'c> {
    method: Option<&'c str>,
}

#[derive(Serialize)]
struct JsonSide<'c> {
    recorded_ns: Option<u64>,
    read: Read<'c>,
    missing: JsonMissing<'c>,
    notes: Vec<&'c str>,
}

impl<'c> JsonSide<'c> {
    fn new(side: &'c Side) -> Self {
        let report = &side.report;
        Self {
            recorded_ns: side.recorded_ns,
            read: Read::new(&report.read),
            missing: JsonMissing::new(&report.missing),
            notes: report.all_notes().collect(),
        }
    }
}

#[derive(Serialize)]
struct JsonChange {
    was_ns: u64,
    is_ns: u64,
    cost_ns: i64,
    change_percent: Option<f64>,
    fails: bool,
}

impl JsonChange {
    fn new(change: Change, fails: bool) -> Self {
        Self {
            was_ns: change.was_ns,
            is_ns: change.is_ns,
            cost_ns: change.cost_ns(),
            change_percent: change.percent(),
            fails,
        }
    }
}

#[derive(Serialize)]
struct Row<'c> {
    class: &'c str,
    method: &'c str,
    descriptor: &'c str,
    status: &'static str,
    cost_ns: Option<i64>,
    change_percent: Option<f64>,
    fails: bool,
    before: Option<JsonFigures>,
    after: Option<JsonFigures>,
}

impl<'c> Row<'c> {
    fn new(comparison: &Comparison, method: &'c MethodChange) -> Self {
        let figures = |side, figures: &Option<Figures>| {
            figures.as_ref().map(|figures| JsonFigures::new(side, figures))
        };
        Self {
            class: &method.name.class,
            method: &method.name.method,
            descriptor: &method.name.descriptor,
            status: method.status.name(),
            cost_ns: method.change.map(Change::cost_ns),
            change_percent: method.change.and_then(Change::percent),
            fails: method.fails,
            before: figures(&comparison.before, &method.before),
            after: figures(&comparison.after, &method.after),
        }
    }
}

/// Times of all threads in an hour.
#[derive(Serialize)]
struct CpuRow<'c> {
    class: &'c str,
    method: Cow<'c, str>,
    descriptor: &'c str,
    #[serde(flatten)]
    times: SampledTimes,
}

impl<'c> CpuRow<'c> {
    fn new(changed: &'c CpuChange) -> Self {
        let (class, method, descriptor) = changed.method.parts();
        let times = SampledTimes::new(changed.change, changed.samples, changed.is_clear());
        Self { class, method, descriptor, times }
    }
}

/// Times of all threads in a second.
#[derive(Serialize)]
struct WaitRow<'c> {
    class: &'c str,
    method: Cow<'c, str>,
    descriptor: &'c str,
    state: &'c str,
    #[serde(flatten)]
    times: SampledTimes,
}

impl<'c> WaitRow<'c> {
    fn new(changed: &'c WaitChange) -> Self {
        let (class, method, descriptor) = changed.method.parts();
        let times = SampledTimes::new(changed.change, changed.samples, changed.is_clear());
        Self { class, method, descriptor, state: &changed.state, times }
    }
}

/// Times of all threads in an hour, and all waits.
#[derive(Serialize)]
struct LockRow<'c> {
    kind: &'static str,
    lock: &'c str,
    /// `null` if no instrumented method was in progress.
    site: Option<Name<'c>>,
    was_ns: u64,
    is_ns: u64,
    cost_ns: i64,
    before_waits: u64,
    after_waits: u64,
}

impl<'c> LockRow<'c> {
    fn new(LockChange { of: site, before, after, change }: &'c LockChange) -> Self {
        Self {
            kind: site.kind.name(),
            lock: &site.class,
            site: site.method.as_ref().map(Name::new),
            was_ns: change.was_ns,
            is_ns: change.is_ns,
            cost_ns: change.cost_ns(),
            before_waits: calls(before),
            after_waits: calls(after),
        }
    }
}

/// Times of all threads in an hour, and all executions.
#[derive(Serialize)]
struct SqlRow<'c> {
    text: &'c str,
    was_ns: u64,
    is_ns: u64,
    cost_ns: i64,
    before_executions: u64,
    after_executions: u64,
}

impl<'c> SqlRow<'c> {
    fn new(StatementChange { of, before, after, change }: &'c StatementChange) -> Self {
        Self {
            text: of,
            was_ns: change.was_ns,
            is_ns: change.is_ns,
            cost_ns: change.cost_ns(),
            before_executions: calls(before),
            after_executions: calls(after),
        }
    }
}

fn calls(figures: &Option<Figures>) -> u64 {
    figures.as_ref().map_or(0, |figures| figures.calls)
}

/// Bytes in an hour. One of `class` and `site` is `null`.
#[derive(Serialize)]
struct AllocationRow<'c> {
    class: Option<&'c str>,
    site: Option<Name<'c>>,
    was_bytes: u64,
    is_bytes: u64,
    before_samples: u64,
    after_samples: u64,
    is_clear: bool,
}

impl<'c> AllocationRow<'c> {
    fn new(changed: &'c AllocationChange) -> Self {
        let (class, site) = match &changed.of {
            AllocationKey::Class(class) => (Some(class.as_str()), None),
            AllocationKey::Site(site) => (None, Some(Name::new(site))),
        };
        let [was_bytes, is_bytes] = changed.per_hour;
        let [before_samples, after_samples] = changed.samples;
        let is_clear = changed.is_clear();
        Self { class, site, was_bytes, is_bytes, before_samples, after_samples, is_clear }
    }
}

/// Calls of a traced method from a caller, in an hour.
#[derive(Serialize)]
struct TracedRow<'c> {
    method: Name<'c>,
    caller: Name<'c>,
    was_per_hour: u64,
    is_per_hour: u64,
    before_samples: u64,
    after_samples: u64,
    is_clear: bool,
}

impl<'c> TracedRow<'c> {
    fn new(changed: &'c TraceChange) -> Self {
        let [was_per_hour, is_per_hour] = changed.per_hour;
        let [before_samples, after_samples] = changed.samples;
        Self {
            method: Name::new(&changed.of.method),
            caller: Name::new(&changed.of.caller),
            was_per_hour,
            is_per_hour,
            before_samples,
            after_samples,
            is_clear: changed.is_clear(),
        }
    }
}

/// Exceptions in an hour, and all of them.
#[derive(Serialize)]
struct ExceptionRow<'c> {
    class: &'c str,
    site: Name<'c>,
    was_per_hour: f64,
    is_per_hour: f64,
    before_began: u64,
    after_began: u64,
}

impl<'c> ExceptionRow<'c> {
    fn new(changed: &'c ExceptionChange) -> Self {
        let [was_per_hour, is_per_hour] = changed.per_hour;
        let [before_began, after_began] = changed.began;
        Self {
            class: &changed.site.class,
            site: Name::new(&changed.site.method),
            was_per_hour,
            is_per_hour,
            before_began,
            after_began,
        }
    }
}

#[derive(Serialize)]
struct SampledTimes {
    was_ns: u64,
    is_ns: u64,
    cost_ns: i64,
    before_samples: u64,
    after_samples: u64,
    is_clear: bool,
}

impl SampledTimes {
    fn new(change: Change, [before_samples, after_samples]: [u64; 2], is_clear: bool) -> Self {
        Self {
            was_ns: change.was_ns,
            is_ns: change.is_ns,
            cost_ns: change.cost_ns(),
            before_samples,
            after_samples,
            is_clear,
        }
    }
}

#[derive(Serialize)]
struct JsonFigures {
    calls: u64,
    throws: u64,
    total_ns: u64,
    self_ns: u64,
    calls_per_hour: Option<f64>,
    self_ns_per_hour: Option<u64>,
    self_ns_per_call: Option<u64>,
    avg_ns: Option<u64>,
    max_ns: u64,
    p95_ns: Option<u64>,
}

impl JsonFigures {
    fn new(side: &Side, figures: &Figures) -> Self {
        Self {
            calls: figures.calls,
            throws: figures.throws,
            total_ns: figures.total_ns,
            self_ns: figures.self_ns,
            calls_per_hour: calls_per_hour(side, figures),
            self_ns_per_hour: side.recorded_ns.map(|_| side.per_hour(figures.self_ns)),
            self_ns_per_call: figures.self_ns.checked_div(figures.calls),
            avg_ns: figures.avg_ns(),
            max_ns: figures.max_ns,
            p95_ns: figures.percentile_ns(95.0),
        }
    }
}
