//! The formats of a report. Each renders the same [`Report`]; none decides what is in it.

mod allocated_calls;
mod allocations;
mod collapsed;
mod cpu;
mod csv;
mod csv_rows;
mod diff_allocations;
mod diff_csv;
mod diff_exceptions;
mod diff_json;
mod diff_table;
mod diff_text;
mod diff_traces;
mod dumps;
mod exceptions;
mod flamegraph;
mod html;
mod jfr;
mod json;
mod json_rows;
mod labels;
mod locks;
mod missing;
mod mysql_log;
mod notes;
mod off_cpu;
pub mod output;
mod overview;
mod pprof;
mod prometheus;
mod sampler_files;
mod short_table;
mod speedscope;
mod sql;
mod states;
mod streamed;
mod tasks;
mod text;
mod text_parts;
mod tprofiler;
mod trace;
mod traces;
mod tree;

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use anstream::StripStream;

pub use self::streamed::{Said, StreamError};
pub use self::tasks::render_tasks;

use crate::diff::Comparison;
use crate::input::problems::Problems;
use crate::input::progress::Progress;
use crate::options::{CsvRows, Flame, Format, Options, Output};
use crate::report::Report;

/// Writes a report, in a format that is not of events: [`stream`] writes those.
///
/// # Errors
/// The output cannot be written; if the reader has closed it, this is [`io::ErrorKind::BrokenPipe`].
pub fn render(report: &Report, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let Output { format, flame, rows, color, .. } = options.output;
    match format {
        Format::Text if color => text::render(report, out),
        Format::Text => {
            let mut plain = StripStream::new(Vec::new());
            text::render(report, &mut plain)?;
            out.write_all(&plain.into_inner())
        }
        Format::Html => html::render(report, out),
        Format::Csv if rows == CsvRows::Methods => csv::render(report, out),
        Format::Csv => csv_rows::render(report, rows, out),
        Format::Json => json::render(report, out),
        Format::Collapsed if flame == Flame::Calls => collapsed::render(&report.paths, out),
        Format::Flamegraph if flame == Flame::Calls => flamegraph::render(&report.paths, out),
        Format::Collapsed => collapsed::render_sampled(report, flame, out),
        Format::Flamegraph => flamegraph::render_sampled(report, flame, out),
        Format::Speedscope => speedscope::render(report, out),
        Format::Pprof => pprof::render(report, flame, out),
        Format::Prometheus => prometheus::render(report, options.unfinished, out),
        Format::Tprofiler => tprofiler::render(&report.methods, false, out),
        Format::ChromeTrace | Format::Jfr => Ok(()),
    }
}

/// Reads the logs and writes a format of events: those that [`Format::is_of_events`].
///
/// # Errors
/// There is nothing to read, or the output cannot be written.
pub fn stream(
    options: &Options,
    progress: &Arc<Progress>,
    out: &mut dyn Write,
) -> Result<Said, StreamError> {
    if options.output.format == Format::Jfr {
        jfr::write(options, progress, out)
    } else {
        trace::write(options, progress, out)
    }
}

/// Writes the constructors, as TProfiler does in `topobject.log`.
///
/// # Errors
/// As [`render`].
pub fn constructors(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    tprofiler::render(&report.methods, true, out)
}

/// Writes the files of TProfiler's sampler into a folder, if the logs have samples or thread dumps. Returns what could
/// not be read.
///
/// # Errors
/// There is nothing to read, or a file cannot be written.
pub fn sampler_files(options: &Options, folder: &Path) -> Result<Problems, StreamError> {
    sampler_files::write(options, folder)
}

/// Writes TProfiler's `mysqlProfiler.log` into a folder, if the logs have slow SQL statements. Returns what could
/// not be read.
///
/// # Errors
/// As [`sampler_files`].
pub fn mysql_log(options: &Options, folder: &Path) -> Result<Problems, StreamError> {
    mysql_log::write(options, folder)
}

/// Writes a comparison; a text has at most `top` methods in each section.
///
/// # Errors
/// As [`render`].
pub fn render_diff(
    comparison: &Comparison,
    format: Format,
    top: Option<usize>,
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        Format::Text => diff_text::render(comparison, top, out),
        Format::Csv => diff_csv::render(comparison, out),
        Format::Json => diff_json::render(comparison, out),
        other => Err(io::Error::other(format!("a comparison has no form {other:?}"))),
    }
}

/// What a format of comparison has no place for and is printed elsewhere, one line each.
#[must_use]
pub fn diff_missing(comparison: &Comparison, format: Format) -> Vec<String> {
    match format {
        Format::Text | Format::Json => Vec::new(),
        _ => diff_text::missing(comparison),
    }
}

/// What a report has no place for and is printed elsewhere, one line each.
#[must_use]
pub fn missing(report: &Report, output: &Output) -> Vec<String> {
    match output.format {
        Format::Text if output.file.is_none() => Vec::new(),
        // Nobody who writes a file, or reads JSON by a program, sees that there is nothing in it.
        format if format.has_notes() => report.empty.iter().cloned().collect(),
        _ => missing::all(report),
    }
}
