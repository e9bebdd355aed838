//! The forms of a report. Each renders the same [`Report`]; none decides what is in it.

mod csv;
mod diff_csv;
mod diff_json;
mod diff_text;
mod human;
mod json;
mod labels;
mod remarks;
mod text;

use std::io::{self, Write};

use crate::diff::Comparison;
use crate::options::Format;
use crate::report::Report;

/// Writes a report.
///
/// # Errors
/// The output cannot be written; a reader that has gone away is [`io::ErrorKind::BrokenPipe`].
pub fn render(report: &Report, format: Format, out: &mut dyn Write) -> io::Result<()> {
    match format {
        Format::Text => text::render(report, out),
        Format::Csv => csv::render(report, out),
        Format::Json => json::render(report, out),
    }
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
    }
}

/// What a form of comparison has no place for and is to be said elsewhere, a line each.
#[must_use]
pub fn diff_remarks(comparison: &Comparison, format: Format) -> Vec<String> {
    match format {
        Format::Text | Format::Json => Vec::new(),
        Format::Csv => diff_text::remarks(comparison),
    }
}

/// What a form of report has no place for and is to be said elsewhere, a line each.
#[must_use]
pub fn remarks(report: &Report, format: Format) -> Vec<String> {
    match format {
        Format::Text | Format::Json => Vec::new(),
        Format::Csv => remarks::all(report),
    }
}
