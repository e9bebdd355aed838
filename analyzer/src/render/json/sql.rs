//! SQL statements and their slowest executions.

use log_format::file_names::utc_text;
use log_format::rows::Exit;
use serde::Serialize;

use super::rows::{Key, Name};
use crate::options::By;
use crate::report::ReadSummary;
use crate::report::groups::percent;
use crate::report::sql::{SqlCaller, SqlReport, StatementTimes};
use crate::stats::aggregate::Figures;
use crate::stats::group_sums::GroupRow;
use crate::stats::sql_sums::{SlowSql, SqlSite};

/// SQL statements in JSON.
#[derive(Serialize)]
pub(super) struct JsonSql<'r> {
    figures_of: &'static str,
    total_ns: u64,
    executions: u64,
    throws: u64,
    statements: Vec<StatementRow<'r>>,
    slowest: Vec<SlowRow<'r>>,
    groups_of: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<SqlOfGroup<'r>>,
}

#[derive(Serialize)]
struct StatementRow<'r> {
    text: &'r str,
    url: &'r str,
    executions: u64,
    throws: u64,
    total_ns: u64,
    total_percent: f64,
    avg_ns: Option<u64>,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
    max_ns: u64,
    callers: Vec<CallerRow<'r>>,
}

#[derive(Serialize)]
struct CallerRow<'r> {
    /// `null` if no instrumented method was in progress.
    site: Option<Name<'r>>,
    /// `null` if statistics do not have it.
    calls: Option<u64>,
    executions: u64,
    throws: u64,
    total_ns: u64,
}

#[derive(Serialize)]
struct SlowRow<'r> {
    run: &'r str,
    thread: &'r str,
    text: &'r str,
    /// `null` if the log does not have it.
    literal_text: Option<&'r str>,
    url: &'r str,
    start: String,
    start_ns: u64,
    total_ns: u64,
    exit: Exit,
    /// The innermost first.
    path: Vec<Name<'r>>,
    /// Likewise.
    stack: Vec<Name<'r>>,
}

/// The executions of a statement by a method, in a group.
#[derive(Serialize)]
struct SqlOfGroup<'r> {
    #[serde(flatten)]
    key: Key<'r>,
    text: &'r str,
    url: &'r str,
    site: Option<Name<'r>>,
    executions: u64,
    total_ns: u64,
}

impl<'r> JsonSql<'r> {
    /// Nothing if there are no statements.
    pub(super) fn new(sql: &'r SqlReport, read: &'r ReadSummary, by: By) -> Option<Self> {
        (!sql.is_empty()).then(|| Self {
            figures_of: figures_of(sql.of_slow),
            total_ns: sql.total_ns,
            executions: sql.executions,
            throws: sql.throws,
            statements: sql.statements.iter().map(|of| StatementRow::new(of, sql)).collect(),
            slowest: sql.slowest.iter().map(|slow| SlowRow::new(slow, read)).collect(),
            groups_of: figures_of(sql.groups_of_slow),
            groups: sql.groups.iter().map(|row| SqlOfGroup::new(row, by)).collect(),
        })
    }
}

fn figures_of(of_slow: bool) -> &'static str {
    if of_slow { "slow_executions" } else { "statistics" }
}

impl<'r> StatementRow<'r> {
    fn new(
        StatementTimes { statement, figures, callers }: &'r StatementTimes,
        of: &SqlReport,
    ) -> Self {
        let [p50_ns, _, p99_ns] = figures.percentiles_ns();
        Self {
            text: &statement.text,
            url: &statement.url,
            executions: figures.calls,
            throws: figures.throws,
            total_ns: figures.total_ns,
            total_percent: percent(figures.total_ns.into(), of.total_ns.into()),
            avg_ns: figures.avg_ns(),
            p50_ns,
            p99_ns,
            max_ns: figures.max_ns,
            callers: callers.iter().map(CallerRow::new).collect(),
        }
    }
}

impl<'r> CallerRow<'r> {
    fn new(caller: &'r SqlCaller) -> Self {
        let Figures { calls: executions, throws, total_ns, .. } = caller.figures;
        let site = caller.method.as_ref().map(Name::new);
        Self { site, calls: caller.calls, executions, throws, total_ns }
    }
}

impl<'r> SlowRow<'r> {
    fn new(slow: &'r SlowSql, read: &'r ReadSummary) -> Self {
        Self {
            run: read.runs.get(slow.run).map(String::as_str).unwrap_or_default(),
            thread: &slow.thread,
            text: &slow.statement.text,
            literal_text: Some(&*slow.literal_text).filter(|text| !text.is_empty()),
            url: &slow.statement.url,
            start: utc_text(slow.start_ns),
            start_ns: slow.start_ns,
            total_ns: slow.total_ns,
            exit: slow.exit,
            path: slow.path.iter().map(Name::new).collect(),
            stack: slow.stack.iter().map(Name::new).collect(),
        }
    }
}

impl<'r> SqlOfGroup<'r> {
    fn new(row: &'r GroupRow<SqlSite>, by: By) -> Self {
        Self {
            key: Key::new(by, Some(&row.label)),
            text: &row.of.statement.text,
            url: &row.of.statement.url,
            site: row.of.method.as_ref().map(Name::new),
            executions: row.sum.count,
            total_ns: row.sum.amount,
        }
    }
}
