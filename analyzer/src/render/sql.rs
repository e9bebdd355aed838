//! SQL statements and their slowest executions, as text, in JSON and for the page.

use std::io::{self, Write};

use log_format::human::{count, duration, plural};
use log_format::names::utc_text;
use log_format::rows::Exit;
use log_format::writer::one_line;
use serde::Serialize;

use super::json_rows::{Key, Name};
use super::labels::Labels;
use super::short_table::ShortTable;
use super::text_parts::{WIDTH, ended, heading, number, wrapped};
use crate::options::By;
use crate::options::zone::Zone;
use crate::report::groups::percent;
use crate::report::sql::{SqlCaller, SqlReport, StatementTimes};
use crate::report::{ReadSummary, Report};
use crate::stats::aggregate::Figures;
use crate::stats::group_sums::GroupRow;
use crate::stats::method::Method;
use crate::stats::sampled_stacks::is_of_jdk;
use crate::stats::sql_sums::{SlowSql, SqlSite, shortened};

/// Columns of the figures, and their widths.
const COLUMNS: [(&str, usize); 8] = [
    ("executions", 13),
    ("throws", 10),
    ("total", 12),
    ("total %", 9),
    ("avg", 10),
    ("p50", 10),
    ("p99", 10),
    ("max", 10),
];

/// Characters of a statement in a text: it takes two lines.
pub(super) const STATEMENT_WIDTH: usize = 165;

/// Characters of a statement in a line on something else.
const IN_LINE: usize = 40;

/// Callers of a statement that are shown, and methods of a call path.
const CALLERS: usize = 3;

/// From how many executions in a call of a method on they are shown.
const PER_CALL: f64 = 2.0;

/// Most characters of a cell of the page: a whole statement.
const CELL: usize = 4_000;

/// Writes the sections of a text.
pub(super) fn text(report: &Report, labels: &Labels, out: &mut dyn Write) -> io::Result<()> {
    if !report.events.sql.statements.is_empty() {
        by_total_time(report, labels, out)?;
    }
    slowest(report, labels, out)
}

/// Writes the statements with their figures.
fn by_total_time(report: &Report, labels: &Labels, out: &mut dyn Write) -> io::Result<()> {
    let sql = &report.events.sql;
    let statements = &sql.statements;
    writeln!(out)?;
    heading(out, &title(sql))?;
    let heads: String = COLUMNS.iter().map(|(name, width)| format!("{name:>width$}")).collect();
    writeln!(out, "\n{heads}")?;
    let shown = report.layout.top.unwrap_or(statements.len());
    for (rank, times) in (1..).zip(statements.iter().take(shown)) {
        let statement = shortened(&times.statement.text, STATEMENT_WIDTH);
        wrapped(out, &format!("{rank:>3} "), &" ".repeat(6), &statement)?;
        let cells = figures(times, sql);
        let cells = cells.iter().zip(COLUMNS).map(|(text, (_, width))| format!("{text:>width$}"));
        writeln!(out, "{}", cells.collect::<String>())?;
        if sql.has_databases() {
            let url = shortened(database(&times.statement.url), STATEMENT_WIDTH);
            wrapped(out, "       on ", &" ".repeat(9), &url)?;
        }
        wrapped(out, "       from ", &" ".repeat(9), &callers(times, CALLERS, labels))?;
    }
    more(statements.len(), shown, out)
}

/// Writes the slowest executions.
fn slowest(report: &Report, labels: &Labels, out: &mut dyn Write) -> io::Result<()> {
    let slowest = &report.events.sql.slowest;
    if slowest.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    heading(out, "The slowest SQL statements")?;
    writeln!(out)?;
    let shown = report.layout.top.unwrap_or(slowest.len());
    for slow in slowest.iter().take(shown) {
        let run = report.read.runs.get(slow.run).filter(|_| report.read.runs.len() > 1);
        let run = run.map(|run| format!(" in {run}")).unwrap_or_default();
        let start = report.layout.zone.text_ms(slow.start_ns);
        let exit = ended(slow.exit);
        let line = format!("at {start} in thread {}{run}{exit}", slow.thread);
        let time = format!("{:>12}  ", duration(slow.total_ns));
        wrapped(out, &time, &" ".repeat(16), &one_line(&line))?;
        let text = shortened(slow.text(), STATEMENT_WIDTH);
        wrapped(out, &" ".repeat(14), &" ".repeat(16), &text)?;
        let path = path(slow, labels);
        if !path.is_empty() {
            wrapped(out, &format!("{:14}in ", ""), &" ".repeat(16), &path)?;
        }
    }
    more(slowest.len(), shown, out)
}

fn more(count: usize, shown: usize, out: &mut dyn Write) -> io::Result<()> {
    match number(count.saturating_sub(shown)) {
        0 => Ok(()),
        rest => writeln!(out, "    and {}", plural(rest, "more row", "more rows")),
    }
}

/// The line of the first screen.
pub(super) fn in_short(sql: &SqlReport) -> Option<String> {
    let slowest = sql.with_slowest()?;
    let line = format!(
        "SQL: {}, {}, slowest {}",
        executions(sql),
        duration(sql.total_ns),
        duration(slowest.figures.max_ns)
    );
    let width = WIDTH.saturating_sub(line.chars().count() + 3).max(IN_LINE);
    Some(format!("{line} ({})", shortened(&slowest.statement.text, width)))
}

fn title(sql: &SqlReport) -> String {
    let (total, lacks) = (duration(sql.total_ns), sql.lacks());
    format!("SQL statements by {}{lacks}: {total} in {}", sql.sorted_by(), executions(sql))
}

/// How many executions there are, and how many of them threw.
fn executions(sql: &SqlReport) -> String {
    let all = plural(sql.executions, "execution", "executions");
    if sql.throws == 0 { all } else { format!("{all} ({} threw)", count(sql.throws.into())) }
}

fn figures(times: &StatementTimes, sql: &SqlReport) -> [String; 8] {
    let figures = &times.figures;
    let or_none = |ns: Option<u64>| ns.map_or("-".into(), duration);
    let [p50, _, p99] = figures.percentiles_ns().map(or_none);
    [
        count(figures.calls.into()),
        count(figures.throws.into()),
        duration(figures.total_ns),
        share(figures.total_ns, sql.total_ns),
        or_none(figures.avg_ns()),
        p50,
        p99,
        duration(figures.max_ns),
    ]
}

fn share(ns: u64, of_ns: u64) -> String {
    format!("{:.1}%", percent(ns.into(), of_ns.into()))
}

/// A database's URL.
fn database(url: &str) -> &str {
    if url.is_empty() { "an unknown database" } else { url }
}

/// The first callers, with their share of the statement's time if there are others, and how often a call executes it.
fn callers(times: &StatementTimes, most: usize, labels: &Labels) -> String {
    let name = |method: &Option<Method>| match method {
        Some(method) => labels.of(method),
        None => "no instrumented method".to_owned(),
    };
    let all = &times.callers;
    let of_time = |caller: &SqlCaller| {
        (all.len() > 1).then(|| share(caller.figures.total_ns, times.figures.total_ns))
    };
    let shown = all.iter().take(most).map(|caller| {
        let words = [Some(name(&caller.method)), of_time(caller), per_call(caller)];
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    });
    let rest = all.len().saturating_sub(most);
    let rest = (rest > 0).then(|| format!("{rest} more"));
    shown.chain(rest).collect::<Vec<_>>().join(", ")
}

/// How many executions a call of the method has, if that is more than one or two: a query in a loop.
fn per_call(caller: &SqlCaller) -> Option<String> {
    let per_call = caller.per_call().filter(|per_call| *per_call >= PER_CALL)?;
    let digits = if per_call < 10.0 { 1 } else { 0 };
    Some(format!("({per_call:.digits$} a call)"))
}

/// The innermost instrumented methods of an execution; without any, those of its stack outside the JDK.
fn path(slow: &SlowSql, labels: &Labels) -> String {
    let of_stack: Vec<&Method> = slow.stack.iter().filter(|method| !is_of_jdk(method)).collect();
    let of_path: Vec<&Method> = slow.path.iter().collect();
    let all = if of_path.is_empty() { of_stack } else { of_path };
    let shown = all.iter().take(CALLERS).map(|method| labels.of(method));
    let cut = (all.len() > CALLERS).then(|| "...".to_owned());
    shown.chain(cut).collect::<Vec<_>>().join(" < ")
}

/// The tables of the page.
pub(super) fn short_tables(sql: &SqlReport, zone: &Zone, labels: &Labels) -> Vec<ShortTable> {
    const STATEMENTS: [&str; 11] = [
        "statement",
        "executions",
        "throws",
        "total",
        "total %",
        "avg",
        "p50",
        "p99",
        "max",
        "from",
        "database",
    ];
    const SLOWEST: [&str; 6] = ["statement", "took", "began", "thread", "exit", "in"];
    let row = |times: &StatementTimes| {
        let mut cells = vec![one_line(&times.statement.text)];
        cells.extend(figures(times, sql));
        cells.extend([callers(times, CALLERS, labels), times.statement.url.clone()]);
        cells
    };
    let slow = |slow: &SlowSql| {
        let (took, began) = (duration(slow.total_ns), zone.text_ms(slow.start_ns));
        let (thread, exit) = (slow.thread.clone(), slow.exit.name().to_owned());
        vec![one_line(slow.text()), took, began, thread, exit, path(slow, labels)]
    };
    let statements = ShortTable::wide(title(sql), &STATEMENTS, &sql.statements, CELL, row);
    let heading = "The slowest SQL statements".to_owned();
    let slowest = ShortTable::wide(heading, &SLOWEST, &sql.slowest, CELL, slow);
    statements.into_iter().chain(slowest).collect()
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_fits() {
        assert!(COLUMNS.iter().map(|(_, width)| width).sum::<usize>() <= WIDTH);
    }
}
