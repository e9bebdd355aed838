//! The forms of a report. Each renders the same [`Report`]; none decides what is in it.

mod collapsed;
mod csv;
mod flamegraph;
mod human;
mod json;
mod labels;
mod pprof;
mod prometheus;
mod remarks;
mod speedscope;
mod text;
mod tprofiler;
mod tree;

use std::io::{self, Write};

use crate::options::{Format, Options};
use crate::report::Report;

/// Writes a report. [`Format::ChromeTrace`] is none: see [`crate::trace`].
///
/// # Errors
/// The output cannot be written; a reader that has gone away is [`io::ErrorKind::BrokenPipe`].
pub fn render(report: &Report, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    match options.format {
        Format::Text => text::render(report, out),
        Format::Csv => csv::render(report, out),
        Format::Json => json::render(report, out),
        Format::Collapsed => collapsed::render(report, out),
        Format::Flamegraph => flamegraph::render(report, out),
        Format::Speedscope => speedscope::render(report, out),
        Format::Pprof => pprof::render(report, out),
        Format::Prometheus => prometheus::render(report, options.open, out),
        Format::Tprofiler => tprofiler::render(report, false, out),
        Format::ChromeTrace => Ok(()),
    }
}

/// Writes what TProfiler has in `topobject.log`: the constructors.
///
/// # Errors
/// As [`render`].
pub fn constructors(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    tprofiler::render(report, true, out)
}

/// What a form of report has no place for and is to be said elsewhere, a line each.
#[must_use]
pub fn remarks(report: &Report, format: Format) -> Vec<String> {
    match format {
        Format::Text | Format::Json => Vec::new(),
        _ => remarks::all(report),
    }
}
