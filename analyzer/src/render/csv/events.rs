//! The rows of events: lock waits, allocations, calls of traced methods, exceptions, SQL statements.

use std::io::Write;

use csv::{Writer, WriterBuilder};

use crate::options::CsvRows;
use crate::report::Report;
use crate::report::allocations::Row;
use crate::report::exceptions::{ExceptionsAt, figures_of};
use crate::report::locks::LockTimes;
use crate::report::sql::{SqlCaller, StatementTimes};
use crate::report::traces::TracedMethod;
use crate::stats::group_sums::GroupRow;
use crate::stats::method::Method;
use crate::stats::sql_sums::Statement;

const METHOD: [&str; 3] = ["class", "method", "descriptor"];

type Written = csv::Result<()>;

/// Writes the rows; `of` are no methods.
pub(super) fn write(report: &Report, of: CsvRows, out: &mut dyn Write) -> Written {
    let mut writer = WriterBuilder::new().from_writer(out);
    match of {
        CsvRows::Methods => Ok(()),
        CsvRows::Locks => locks(report, &mut writer),
        CsvRows::Allocations => allocations(report, &mut writer),
        CsvRows::Traced => traced(report, &mut writer),
        CsvRows::Exceptions => thrown(report, &mut writer),
        CsvRows::Sql => sql(report, &mut writer),
    }?;
    writer.flush()?;
    Ok(())
}

/// The name of the first column, if rows are of groups.
fn key(report: &Report) -> Option<&'static str> {
    report.layout.by.column()
}

fn locks(report: &Report, writer: &mut Writer<&mut dyn Write>) -> Written {
    if let Some(key) = key(report) {
        let columns = [key, "kind", "lock"].into_iter().chain(METHOD);
        writer.write_record(columns.chain(["waits", "total_ns"]))?;
        for GroupRow { label, of, sum } in &report.events.locks.groups {
            let mut cells = vec![label.clone(), of.kind.name().to_owned(), of.class.clone()];
            cells.extend(of.method.as_ref().map_or_else(Default::default, names));
            cells.extend([sum.count, sum.amount].map(|figure| figure.to_string()));
            writer.write_record(cells)?;
        }
        return Ok(());
    }
    let figures = ["waits", "total_ns", "p50_ns", "p99_ns", "max_ns", "longest_holder"];
    let columns = ["kind", "lock"].into_iter().chain(METHOD).chain(figures);
    writer.write_record(columns.chain(["owner_known_ns", "held_in"]))?;
    for LockTimes { site, figures, longest_holder, held_in, known_ns } in
        report.events.locks.locks.iter().chain(&report.events.locks.parks)
    {
        let [p50_ns, _, p99_ns] = figures.percentiles_ns();
        let mut cells = vec![site.kind.name().to_owned(), site.class.clone()];
        cells.extend(site.method.as_ref().map_or_else(Default::default, names));
        cells.extend([figures.calls, figures.total_ns].map(|figure| figure.to_string()));
        cells.extend([p50_ns, p99_ns].map(text));
        cells.push(figures.max_ns.to_string());
        cells.push(longest_holder.clone().unwrap_or_default());
        cells.push(known_ns.to_string());
        cells.push(held_in.iter().map(Method::dotted).collect::<Vec<_>>().join(" < "));
        writer.write_record(cells)?;
    }
    Ok(())
}

fn allocations(report: &Report, writer: &mut Writer<&mut dyn Write>) -> Written {
    let figures = ["allocated", "bytes", "objects", "samples"];
    writer.write_record(key(report).into_iter().chain(figures).chain(METHOD))?;
    for Row { label, of, allocated, most } in &report.events.allocations.pairs {
        let mut cells: Vec<String> = label.iter().cloned().collect();
        cells.push(of.clone());
        let figures = [allocated.bytes, allocated.objects, allocated.samples];
        cells.extend(figures.map(|figure| figure.to_string()));
        cells.extend(names(most));
        writer.write_record(cells)?;
    }
    Ok(())
}

/// A row for each caller, or for each group.
fn traced(report: &Report, writer: &mut Writer<&mut dyn Write>) -> Written {
    if let Some(key) = key(report) {
        writer.write_record([key].into_iter().chain(METHOD).chain(["calls", "samples"]))?;
        for GroupRow { label, of, sum } in &report.events.traces.groups {
            let mut cells = vec![label.clone()];
            cells.extend(names(of));
            cells.extend([sum.amount, sum.count].map(|figure| figure.to_string()));
            writer.write_record(cells)?;
        }
        return Ok(());
    }
    let caller = ["caller_class", "caller_method", "caller_descriptor", "calls"];
    writer.write_record(METHOD.into_iter().chain(caller))?;
    for TracedMethod { method, callers, .. } in &report.events.traces.methods {
        for (caller, calls) in callers {
            let names = names(method).into_iter().chain(names(caller));
            writer.write_record(names.chain([calls.to_string()]))?;
        }
    }
    Ok(())
}

fn thrown(report: &Report, writer: &mut Writer<&mut dyn Write>) -> Written {
    if let Some(key) = key(report) {
        let columns = [key, "exception"].into_iter().chain(METHOD);
        writer.write_record(columns.chain(["began", "thrown", "figures_of"]))?;
        let figures_of = figures_of(report.events.exceptions.groups_of_examples);
        for GroupRow { label, of, sum } in &report.events.exceptions.groups {
            let mut cells = vec![label.clone(), of.class.clone()];
            cells.extend(names(&of.method));
            // Examples do not say how many there were.
            let thrown = Some(sum.count).filter(|thrown| *thrown > 0);
            cells.extend([sum.amount.to_string(), text(thrown), figures_of.to_owned()]);
            writer.write_record(cells)?;
        }
        return Ok(());
    }
    let figures = ["began", "thrown", "calls", "was_throttled", "was_muted"];
    writer.write_record(["exception"].into_iter().chain(METHOD).chain(figures))?;
    for ExceptionsAt { site, began, thrown, calls, not_counted, .. } in
        &report.events.exceptions.sites
    {
        let mut cells = vec![site.class.clone()];
        cells.extend(names(&site.method));
        cells.extend([began.to_string(), text(*thrown), text(*calls)]);
        let were = [not_counted.throttled_ns, not_counted.muted_ns];
        cells.extend(were.map(|ns| ns.is_some().to_string()));
        writer.write_record(cells)?;
    }
    Ok(())
}

/// A row for each statement and caller, or for each group.
fn sql(report: &Report, writer: &mut Writer<&mut dyn Write>) -> Written {
    const STATEMENT: [&str; 2] = ["statement", "url"];
    let of_statement = |of: &Statement| [of.text.clone(), of.url.clone()];
    let of_method = |method: &Option<Method>| method.as_ref().map_or_else(Default::default, names);
    if let Some(key) = key(report) {
        let columns = [key].into_iter().chain(STATEMENT).chain(METHOD);
        writer.write_record(columns.chain(["executions", "total_ns"]))?;
        for GroupRow { label, of, sum } in &report.events.sql.groups {
            let mut cells = vec![label.clone()];
            cells.extend(of_statement(&of.statement));
            cells.extend(of_method(&of.method));
            cells.extend([sum.count, sum.amount].map(|figure| figure.to_string()));
            writer.write_record(cells)?;
        }
        return Ok(());
    }
    let figures = ["executions", "throws", "total_ns", "avg_ns", "p50_ns", "p99_ns", "max_ns"];
    let columns = STATEMENT.into_iter().chain(METHOD).chain(figures);
    writer.write_record(columns.chain(["method_calls"]))?;
    for StatementTimes { statement, callers, .. } in &report.events.sql.statements {
        for SqlCaller { method, figures, calls } in callers {
            let [p50_ns, _, p99_ns] = figures.percentiles_ns();
            let mut cells: Vec<String> = of_statement(statement).into();
            cells.extend(of_method(method));
            let sums = [figures.calls, figures.throws, figures.total_ns];
            cells.extend(sums.map(|figure| figure.to_string()));
            let times = [figures.avg_ns(), p50_ns, p99_ns, Some(figures.max_ns)];
            cells.extend(times.map(text));
            cells.push(text(*calls));
            writer.write_record(cells)?;
        }
    }
    Ok(())
}

fn names(method: &Method) -> [String; 3] {
    let (class, name, descriptor) = method.parts();
    [class.to_owned(), name.into_owned(), descriptor.to_owned()]
}

/// Empty if it is not known.
fn text(figure: Option<u64>) -> String {
    figure.map(|figure| figure.to_string()).unwrap_or_default()
}
