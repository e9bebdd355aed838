//! Rows for spreadsheets: a header, whole nanoseconds, nothing else.
//!
//! [`methods`] has the rows of methods, [`states`] those of `--by state`, [`events`] those of `--rows`: lock waits,
//! allocations, traced methods, exceptions, SQL statements. [`render`](super::render()) calls this folder, and the
//! CSV of a comparison uses [`plain`].

mod events;
mod methods;
mod states;

use std::io::{self, Write};

use csv::ErrorKind;

use crate::options::CsvRows;
use crate::report::Report;

/// Writes the rows.
pub fn render(report: &Report, of: CsvRows, out: &mut dyn Write) -> io::Result<()> {
    let written = match (of, &report.states) {
        (CsvRows::Methods, Some(states)) => states::write(states, out),
        (CsvRows::Methods, None) => methods::write(report, out),
        _ => events::write(report, of, out),
    };
    written.map_err(plain)
}

/// Unwraps an error of the output, so that a broken pipe is still recognized.
pub(super) fn plain(error: csv::Error) -> io::Error {
    match error.into_kind() {
        ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}
