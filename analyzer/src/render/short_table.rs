//! Tables of text for the page: its first rows.

use serde::Serialize;

/// Most rows, and most characters of a cell.
const ROWS: usize = 50;
const CHARACTERS: usize = 300;

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
    pub(super) fn new<T>(
        heading: String,
        columns: &[&'static str],
        rows: &[T],
        cells: impl Fn(&T) -> Vec<String>,
    ) -> Option<Self> {
        Self::wide(heading, columns, rows, CHARACTERS, cells)
    }

    /// The same with other cells, of at most so many characters.
    pub(super) fn wide<T>(
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
