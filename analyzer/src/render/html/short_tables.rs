//! The page's tables without links and sorting, one or two for each kind of event. Most cells are those of the text.

use log_format::human::{bytes, count, duration};
use log_format::writer::one_line;
use serde::Serialize;

use crate::options::zone::Zone;
use crate::render::shared::labels::Labels;
use crate::render::text::{allocations, exceptions, locks, sql, traces};
use crate::report::Report;
use crate::report::allocations::AllocationReport;
use crate::report::locks::{LockReport, LockTimes, sum};
use crate::report::overview::Overview;
use crate::report::sql::{SqlReport, StatementTimes};
use crate::stats::allocation_sums::Allocated;
use crate::stats::sql_sums::SlowSql;

/// Most rows, and most characters of a cell.
const ROWS: usize = 50;
const CHARACTERS: usize = 300;

/// The same of a table of SQL statements: a whole statement.
const STATEMENT_CHARACTERS: usize = 4_000;

/// A table without links and sorting.
#[derive(Debug, Serialize)]
pub(super) struct ShortTable {
    heading: String,
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// How many rows are not in it.
    more: usize,
}

impl ShortTable {
    /// Nothing if there are no rows.
    fn new<T>(
        heading: String,
        columns: &[&'static str],
        rows: &[T],
        cells: impl Fn(&T) -> Vec<String>,
    ) -> Option<Self> {
        Self::wide(heading, columns, rows, CHARACTERS, cells)
    }

    /// The same with other cells, of at most so many characters.
    fn wide<T>(
        heading: String,
        columns: &[&'static str],
        rows: &[T],
        characters: usize,
        cells: impl Fn(&T) -> Vec<String>,
    ) -> Option<Self> {
        let cut = |cell: String| match cell.char_indices().nth(characters) {
            Some((end, _)) => format!("{}...", cell.get(..end).unwrap_or_default()),
            None => cell,
        };
        let shown = rows.iter().take(ROWS);
        (!rows.is_empty()).then(|| Self {
            heading,
            columns: columns.to_vec(),
            rows: shown.map(|row| cells(row).into_iter().map(cut).collect()).collect(),
            more: rows.len().saturating_sub(ROWS),
        })
    }
}

/// The tables that have rows.
pub(super) fn all(report: &Report, labels: &Labels) -> Vec<ShortTable> {
    of_locks(&report.events.locks, labels)
        .into_iter()
        .chain(of_sql(&report.events.sql, &report.layout.zone, labels))
        .chain(of_allocated_calls(&report.overview, labels))
        .chain(of_allocations(&report.events.allocations, labels))
        .chain(of_traces(report, labels))
        .chain(of_exceptions(report, labels))
        .collect()
}

/// Lock waits, and other parks.
fn of_locks(of: &LockReport, labels: &Labels) -> Vec<ShortTable> {
    const LOCKS: [&str; 9] =
        ["lock class", "total", "waits", "p50", "p99", "max", "site", "kind", "longest holder"];
    const PARKS: [&str; 7] = ["class", "total", "parks", "p50", "p99", "max", "site"];
    let row = |lock: &LockTimes| {
        let mut cells = vec![lock.site.class.clone()];
        cells.extend(locks::figures(lock));
        cells.push(locks::site_label(&lock.site, labels));
        cells
    };
    let with_holder = |lock: &LockTimes| {
        let kind = lock.site.kind.name().to_owned();
        row(lock).into_iter().chain([kind, locks::holder(lock, labels)]).collect()
    };
    let heading = |name: &str, waits: &[LockTimes]| {
        let which = of.lacks();
        format!("{name}{which}: {}", duration(sum(waits, |figures| figures.total_ns)))
    };
    let waits = heading("Lock waits", &of.locks);
    let parks = heading("Other parks in instrumented methods", &of.parks);
    let waits = ShortTable::new(waits, &LOCKS, &of.locks, with_holder);
    waits.into_iter().chain(ShortTable::new(parks, &PARKS, &of.parks, row)).collect()
}

/// SQL statements, and their slowest executions.
fn of_sql(of: &SqlReport, zone: &Zone, labels: &Labels) -> Vec<ShortTable> {
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
        cells.extend(sql::figures(times, of));
        cells.extend([sql::callers(times, labels), times.statement.url.clone()]);
        cells
    };
    let slow = |slow: &SlowSql| {
        let (took, began) = (duration(slow.total_ns), zone.text_ms(slow.start_ns));
        let (thread, exit) = (slow.thread.clone(), slow.exit.name().to_owned());
        vec![one_line(slow.text()), took, began, thread, exit, sql::path(slow, labels)]
    };
    let statements =
        ShortTable::wide(sql::title(of), &STATEMENTS, &of.statements, STATEMENT_CHARACTERS, row);
    let heading = "The slowest SQL statements".to_owned();
    let slowest = ShortTable::wide(heading, &SLOWEST, &of.slowest, STATEMENT_CHARACTERS, slow);
    statements.into_iter().chain(slowest).collect()
}

/// What recorded calls allocated.
fn of_allocated_calls(overview: &Overview, labels: &Labels) -> Option<ShortTable> {
    let heading = "Allocated in recorded calls, by the method of the call".to_owned();
    let columns = ["method", "bytes", "calls", "most in one"];
    ShortTable::new(heading, &columns, &overview.allocated, |(method, of)| {
        vec![labels.of(method), bytes(of.bytes), count(of.calls.into()), bytes(of.max_bytes)]
    })
}

/// Sampled allocations, by class and by site.
fn of_allocations(of: &AllocationReport, labels: &Labels) -> Vec<ShortTable> {
    let AllocationReport { all, classes, sites, .. } = of;
    let row = |first: String, allocated: &Allocated, last: String| {
        let mut cells = vec![first];
        cells.extend(allocations::figures(allocated, all));
        cells.push(last);
        cells
    };
    let heading = format!("Allocations by class: {}", bytes(all.bytes));
    let columns = ["class", "bytes", "%", "objects", "samples", "site with most of it"];
    let classes = ShortTable::new(heading, &columns, classes, |class| {
        row(class.of.clone(), &class.allocated, labels.of(&class.most))
    });
    let columns = ["site", "bytes", "%", "objects", "samples", "class with most of it"];
    let sites = ShortTable::new("Allocations by site".to_owned(), &columns, sites, |site| {
        row(labels.of(&site.of), &site.allocated, site.most.clone())
    });
    classes.into_iter().chain(sites).collect()
}

/// Calls of traced methods.
fn of_traces(report: &Report, labels: &Labels) -> Option<ShortTable> {
    const NAMES: [&str; 6] =
        ["method", "calls", "a second", "samples", "caller with most of them", "% of calls"];
    ShortTable::new("Traced methods".to_owned(), &NAMES, &report.events.traces.methods, |of| {
        let mut cells = vec![labels.of(&of.method)];
        cells.extend(traces::figures(of));
        let (caller, share) =
            of.callers.first().map_or_else(Default::default, |(caller, calls)| {
                (labels.of(caller), traces::share(of, *calls))
            });
        cells.extend([caller, share]);
        cells
    })
}

/// Exceptions that left instrumented methods.
fn of_exceptions(report: &Report, labels: &Labels) -> Option<ShortTable> {
    const NAMES: [&str; 8] =
        ["class", "began", "a second", "% of calls", "exits", "site", "rose", "newest message"];
    ShortTable::new(exceptions::title(report), &NAMES, &report.events.exceptions.sites, |at| {
        let mut messages = at.examples.iter().map(|example| &example.message);
        let message = messages.find(|message| !message.is_empty()).cloned();
        let mut cells = vec![at.site.class.clone()];
        cells.extend(exceptions::figures(at, report));
        cells.push(labels.of(&at.site.method));
        cells.push(exceptions::rose(at).unwrap_or_default());
        cells.push(message.unwrap_or_default());
        cells
    })
}
