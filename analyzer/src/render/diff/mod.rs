//! A comparison of two reports, in each of its formats.
//!
//! [`csv`], [`json`] and [`text`] are the formats. [`table`], [`allocations`], [`exceptions`] and [`traces`] are
//! parts of the text. [`render`](super) and its users call this folder; the formats of a report do not.

mod allocations;
mod csv;
mod exceptions;
mod json;
mod table;
mod text;
mod traces;

use std::io::{self, Write};

use crate::diff::Comparison;
use crate::options::Format;

/// Writes a comparison; a text has at most `top` methods in each section.
///
/// # Errors
/// As [`render`](super::render()).
pub fn render_diff(
    comparison: &Comparison,
    format: Format,
    top: Option<usize>,
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        Format::Text => text::render(comparison, top, out),
        Format::Csv => csv::render(comparison, out),
        Format::Json => json::render(comparison, out),
        other => Err(io::Error::other(format!("diff has no format {other:?}"))),
    }
}

/// What a format of comparison has no place for and is printed elsewhere, one line each.
#[must_use]
pub fn diff_missing(comparison: &Comparison, format: Format) -> Vec<String> {
    match format {
        Format::Text | Format::Json => Vec::new(),
        _ => text::missing(comparison),
    }
}
