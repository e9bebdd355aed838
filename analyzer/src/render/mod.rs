//! The formats of a report. Each renders the same [`Report`]; none decides what is in it.
//!
//! A format has a folder of its own, or a file if it is small:
//!
//! ```text
//! text           the report for people: a file for each section
//! csv, json      for spreadsheets and programs
//! html           the page for a browser; its script and style are in html/page
//! flame_graphs   collapsed stacks, flame graph (SVG), speedscope, pprof
//! prometheus     Prometheus' text format
//! jfr            a recording for JDK Mission Control; like chrome_trace, written while the logs are read
//! chrome_trace   every recorded call, for Perfetto
//! tprofiler      the files of TProfiler's own analysis
//! diff           a comparison: text, CSV, JSON
//! tasks          profile tasks: text, JSON, page
//! shared         labels, sentences on what is missing, the output
//! ```
//!
//! Folders do not import each other in a circle. All may use `shared`, which uses none of them. `diff` and `tasks` use
//! the formats of a report, `html` uses `text`, and `text` uses `flame_graphs`. Nothing uses `diff`, `tasks`, `html`,
//! `jfr` and `tprofiler` but this file.

mod chrome_trace;
mod csv;
mod diff;
mod flame_graphs;
mod html;
mod jfr;
mod json;
mod prometheus;
mod shared;
mod tasks;
mod text;
mod tprofiler;

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use anstream::StripStream;

pub use self::diff::{diff_missing, render_diff};
pub use self::shared::output;
pub use self::shared::streamed::{Said, StreamError};
pub use self::tasks::render_tasks;

use crate::input::problems::Problems;
use crate::input::progress::Progress;
use crate::options::{Flame, Format, Options, Output};
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
        Format::Csv => csv::render(report, rows, out),
        Format::Json => json::render(report, out),
        Format::Collapsed if flame == Flame::Calls => {
            flame_graphs::collapsed::render(&report.paths, out)
        }
        Format::Flamegraph if flame == Flame::Calls => {
            flame_graphs::svg::render(&report.paths, out)
        }
        Format::Collapsed => flame_graphs::collapsed::render_sampled(report, flame, out),
        Format::Flamegraph => flame_graphs::svg::render_sampled(report, flame, out),
        Format::Speedscope => flame_graphs::speedscope::render(report, out),
        Format::Pprof => flame_graphs::pprof::render(report, flame, out),
        Format::Prometheus => prometheus::render(report, options.unfinished, out),
        Format::Tprofiler => tprofiler::top_methods::render(&report.methods, false, out),
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
        chrome_trace::write(options, progress, out)
    }
}

/// Writes the constructors, as TProfiler does in `topobject.log`.
///
/// # Errors
/// As [`render`].
pub fn constructors(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    tprofiler::top_methods::render(&report.methods, true, out)
}

/// Writes the files of TProfiler's sampler into a folder, if the logs have samples or thread dumps. Returns what could
/// not be read.
///
/// # Errors
/// There is nothing to read, or a file cannot be written.
pub fn sampler_files(options: &Options, folder: &Path) -> Result<Problems, StreamError> {
    tprofiler::sampler_files::write(options, folder)
}

/// Writes TProfiler's `mysqlProfiler.log` into a folder, if the logs have slow SQL statements. Returns what could
/// not be read.
///
/// # Errors
/// As [`sampler_files`].
pub fn mysql_log(options: &Options, folder: &Path) -> Result<Problems, StreamError> {
    tprofiler::mysql_log::write(options, folder)
}

/// What a report has no place for and is printed elsewhere, one line each.
#[must_use]
pub fn missing(report: &Report, output: &Output) -> Vec<String> {
    match output.format {
        Format::Text if output.file.is_none() => Vec::new(),
        // Nobody who writes a file, or reads JSON by a program, sees that there is nothing in it.
        format if format.has_notes() => report.empty.iter().cloned().collect(),
        _ => shared::missing::all(report),
    }
}
