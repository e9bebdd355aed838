//! The sections on SQL statements and on their slowest executions, and the first screen's line on them.

use std::io::{self, Write};

use log_format::human::{count, duration, plural};
use log_format::writer::one_line;

use super::parts::{WIDTH, ended, heading, in_words, number, wrapped};
use crate::render::shared::labels::Labels;
use crate::report::Report;
use crate::report::groups::percent;
use crate::report::sql::{SqlCaller, SqlReport, StatementTimes};
use crate::stats::method::Method;
use crate::stats::sampled_stacks::is_of_jdk;
use crate::stats::sql_sums::{SlowSql, shortened};

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
pub(crate) const STATEMENT_WIDTH: usize = 165;

/// Characters of a statement in a line on something else.
const IN_LINE: usize = 40;

/// Callers of a statement that are shown, and methods of a call path.
const CALLERS: usize = 3;

/// From how many executions in a call of a method on they are shown.
const PER_CALL: f64 = 2.0;

/// Writes the sections.
pub(super) fn render(report: &Report, labels: &Labels, out: &mut dyn Write) -> io::Result<()> {
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
        wrapped(out, "       from ", &" ".repeat(9), &callers(times, labels))?;
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
        let line = format!("at {start} in {}{run}{exit}", in_words(&slow.thread));
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

pub(crate) fn title(sql: &SqlReport) -> String {
    let (total, lacks) = (duration(sql.total_ns), sql.lacks());
    format!("SQL statements by {}{lacks}: {total} in {}", sql.sorted_by(), executions(sql))
}

/// How many executions there are, and how many of them threw.
fn executions(sql: &SqlReport) -> String {
    let all = plural(sql.executions, "execution", "executions");
    if sql.throws == 0 { all } else { format!("{all} ({} threw)", count(sql.throws.into())) }
}

pub(crate) fn figures(times: &StatementTimes, sql: &SqlReport) -> [String; 8] {
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
pub(crate) fn callers(times: &StatementTimes, labels: &Labels) -> String {
    let name = |method: &Option<Method>| match method {
        Some(method) => labels.of(method),
        None => "no instrumented method".to_owned(),
    };
    let all = &times.callers;
    let of_time = |caller: &SqlCaller| {
        (all.len() > 1).then(|| share(caller.figures.total_ns, times.figures.total_ns))
    };
    let shown = all.iter().take(CALLERS).map(|caller| {
        let words = [Some(name(&caller.method)), of_time(caller), per_call(caller)];
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    });
    let rest = all.len().saturating_sub(CALLERS);
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
pub(crate) fn path(slow: &SlowSql, labels: &Labels) -> String {
    let of_stack: Vec<&Method> = slow.stack.iter().filter(|method| !is_of_jdk(method)).collect();
    let of_path: Vec<&Method> = slow.path.iter().collect();
    let all = if of_path.is_empty() { of_stack } else { of_path };
    let shown = all.iter().take(CALLERS).map(|method| labels.of(method));
    let cut = (all.len() > CALLERS).then(|| "...".to_owned());
    shown.chain(cut).collect::<Vec<_>>().join(" < ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_fits() {
        assert!(COLUMNS.iter().map(|(_, width)| width).sum::<usize>() <= WIDTH);
    }
}
