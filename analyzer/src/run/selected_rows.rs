//! Reads the rows of a table whose time and thread are selected.

use std::collections::HashSet;

use log_format::file_names::{Hour, Table};
use log_format::ids::ThreadId;
use log_format::rows::Row;

use crate::input::problems::Problems;
use crate::input::runs::{DataFile, RunInput};
use crate::input::table_rows::{TablePart, read_part, read_rows};
use crate::run::names::Names;
use crate::run::selection::Selection;

const HOUR_NS: u64 = 3_600_000_000_000;

/// Passes each selected row of a run to `each`, in the order of the files; `at` says when it began, and its thread.
pub fn each_selected<R: Row>(
    run: &RunInput,
    selection: &Selection,
    names: &Names,
    problems: &mut Problems,
    at: impl Fn(&R) -> (u64, ThreadId),
    mut each: impl FnMut(R),
) {
    let pattern = selection.calls.thread.as_ref();
    let threads: Option<HashSet<ThreadId>> = pattern.map(|pattern| names.threads_named_by(pattern));
    each_row(run, selection, problems, |row: R| {
        let (start_ns, thread) = at(&row);
        let is_selected = threads.as_ref().is_none_or(|threads| threads.contains(&thread));
        if is_selected && selection.range.contains(start_ns) {
            each(row);
        }
    });
}

/// Passes each row of a table of a run to `each`, in the order of the files.
pub fn each_row<R: Row>(
    run: &RunInput,
    selection: &Selection,
    problems: &mut Problems,
    mut each: impl FnMut(R),
) {
    for file in files(run, R::TABLE) {
        let progress = Some(&selection.progress);
        let part = TablePart { path: &file.path, len: file.len, progress };
        read_part(part, problems, |row: R| {
            each(row);
            Ok(())
        });
    }
}

/// Passes every row of a run to `each`, of the files that can have events within a time.
pub fn each_within<R: Row>(
    run: &RunInput,
    begin_ns: u64,
    end_ns: u64,
    problems: &mut Problems,
    mut each: impl FnMut(R),
) {
    let hours = Hour::of_unix_ns(begin_ns)..=Hour::of_unix_ns(end_ns.saturating_add(HOUR_NS));
    for file in files(run, R::TABLE).filter(|file| hours.contains(&file.part.hour)) {
        read_rows(&file.path, file.len, problems, |row| {
            each(row);
            Ok(())
        });
    }
}

/// Whether a run has files of a table.
pub fn has_table(run: &RunInput, table: Table) -> bool {
    files(run, table).next().is_some()
}

fn files(run: &RunInput, table: Table) -> impl Iterator<Item = &DataFile> {
    run.files.iter().filter(move |file| file.table == table)
}
