//! The forms of a report. Each renders the same [`Report`]; none decides what is in it.

mod csv;
mod human;
mod json;
mod labels;
mod remarks;
mod text;

use std::io::{self, Write};

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

/// What a form of report has no place for and is to be said elsewhere, a line each.
#[must_use]
pub fn remarks(report: &Report, format: Format) -> Vec<String> {
    match format {
        Format::Text | Format::Json => Vec::new(),
        Format::Csv => remarks::all(report),
    }
}
