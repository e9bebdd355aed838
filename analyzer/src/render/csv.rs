//! The methods' rows for spreadsheets: a header, whole nanoseconds, nothing else.

use std::io::{self, Write};

use csv::{ErrorKind, WriterBuilder};

use crate::options::By;
use crate::report::Report;
use crate::report::groups::MethodReport;

const COLUMNS: [&str; 14] = [
    "class",
    "method",
    "descriptor",
    "calls",
    "throws",
    "total_ns",
    "self_ns",
    "avg_ns",
    "max_ns",
    "p50_ns",
    "p95_ns",
    "p99_ns",
    "throttled_ns",
    "probe_ns",
];

pub fn render(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    write(report, out).map_err(plain)
}

/// Unwraps an error of the output, so that a broken pipe is still recognized.
pub(super) fn plain(error: csv::Error) -> io::Error {
    match error.into_kind() {
        ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

fn write(report: &Report, out: &mut dyn Write) -> csv::Result<()> {
    let mut writer = WriterBuilder::new().from_writer(out);
    // The class already has its own column.
    let key = report.by.column().filter(|_| report.by != By::Class);
    writer.write_record(key.into_iter().chain(COLUMNS))?;
    for group in &report.groups {
        let label = group.label.as_ref().filter(|_| key.is_some());
        for method in &group.methods {
            writer.write_record(fields(label, method))?;
        }
    }
    writer.flush()?;
    Ok(())
}

fn fields(label: Option<&String>, method: &MethodReport) -> Vec<String> {
    let (class, name, descriptor) = method.method.parts();
    let figures = &method.figures;
    let mut fields: Vec<String> = label.into_iter().cloned().collect();
    fields.extend([class.to_owned(), name.into_owned(), descriptor.to_owned()]);
    let sums = [figures.calls, figures.throws, figures.total_ns, figures.self_ns];
    fields.extend(sums.map(|sum| sum.to_string()));
    let [p50, p95, p99] = figures.percentiles_ns();
    let of_calls = [figures.avg_ns(), Some(figures.max_ns), p50, p95, p99];
    fields.extend(of_calls.map(|ns| ns.map(|ns| ns.to_string()).unwrap_or_default()));
    fields.push(method.throttled_ns.to_string());
    fields.push(method.probe_ns.map(|ns| ns.to_string()).unwrap_or_default());
    fields
}
