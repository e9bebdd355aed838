//! Reads the rows of a table whose time and thread are selected.

use std::collections::HashSet;

use log_format::ids::ThreadId;
use log_format::names::Table;
use log_format::rows::Row;

use crate::input::problems::Problems;
use crate::input::runs::{DataFile, RunInput};
use crate::input::table_rows::{TablePart, read_part};
use crate::run::names::Names;
use crate::run::selection::Selection;

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
    for file in files(run, R::TABLE) {
        let progress = Some(&selection.progress);
        let part = TablePart { path: &file.path, len: file.len, progress };
        read_part(part, problems, |row: R| {
            let (start_ns, thread) = at(&row);
            let is_selected = threads.as_ref().is_none_or(|threads| threads.contains(&thread));
            if is_selected && selection.range.contains(start_ns) {
                each(row);
            }
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
