//! Streams the recorded calls of a run, for code that must see each call.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use log_format::file_names::{Hour, Table};
use log_format::ids::{MethodId, ThreadId};
use log_format::rows::{CallRow, Exit};

use crate::input::problems::Problems;
use crate::input::progress::Progress;
use crate::input::runs::{DataFile, RunInput};
use crate::input::table_rows::{TablePart, read_plain};
use crate::options::CallFilter;
use crate::options::time_range::TimeRange;
use crate::run::names::Names;
use crate::run::selection::Selection;

const HOUR_NS: u64 = 3_600_000_000_000;

/// Which recorded calls of a run to read.
pub struct RecordFilter {
    range: TimeRange,
    calls: CallFilter,
    methods: Option<HashSet<MethodId>>,
    threads: Option<HashSet<ThreadId>>,
    unfinished: bool,
    /// The hours whose files are read.
    hours: Option<RangeInclusive<Hour>>,
    progress: Arc<Progress>,
}

impl RecordFilter {
    /// The recorded calls that a selection takes of the run with these names.
    pub fn new(selection: &Selection, names: &Names) -> Self {
        let threads = selection.calls.thread.as_ref();
        Self {
            range: selection.range,
            calls: selection.calls.clone(),
            methods: selection.method.as_ref().map(|pattern| names.ids_named_by(pattern)),
            threads: threads.map(|pattern| names.threads_named_by(pattern)),
            unfinished: selection.unfinished,
            hours: None,
            progress: Arc::clone(&selection.progress),
        }
    }

    /// Every recorded call that has ended, and with `unfinished` the others too.
    pub fn everything(unfinished: bool, progress: &Arc<Progress>) -> Self {
        let progress = Arc::clone(progress);
        let (range, calls) = (TimeRange::default(), CallFilter::default());
        Self { range, calls, methods: None, threads: None, unfinished, hours: None, progress }
    }

    /// The same in the files alone that can have calls from `begin_ns` to `end_ns`.
    pub fn within(self, begin_ns: u64, end_ns: u64) -> Self {
        // The row of a method's slowest call is written at the end of its interval, up to an hour later.
        let last_ns = end_ns.saturating_add(HOUR_NS);
        Self { hours: Some(Hour::of_unix_ns(begin_ns)..=Hour::of_unix_ns(last_ns)), ..self }
    }

    /// The files of a run that are read.
    pub fn files<'r>(&self, run: &'r RunInput) -> impl Iterator<Item = &'r DataFile> {
        let of_hours = |file: &&DataFile| {
            self.hours.as_ref().is_none_or(|hours| hours.contains(&file.part.hour))
        };
        run.files.iter().filter(|file| file.table == Table::Calls).filter(of_hours)
    }

    fn takes(&self, row: &CallRow) -> bool {
        self.range.contains(row.start_ns.saturating_add(row.total_ns))
            && self.calls.takes(row)
            && self.methods.as_ref().is_none_or(|ids| ids.contains(&row.method))
            && self.threads.as_ref().is_none_or(|ids| ids.contains(&row.thread))
    }
}

/// Passes each selected recorded call of a run to `each`, in the order of the files. Unfinished calls, each once,
/// come last; if they are not selected, returns their number.
pub fn read_records(
    run: &RunInput,
    filter: &RecordFilter,
    problems: &mut Problems,
    mut each: impl FnMut(CallRow),
) -> usize {
    let mut unfinished: HashMap<(ThreadId, u64, MethodId), CallRow> = HashMap::new();
    for file in filter.files(run) {
        let progress = Some(&filter.progress);
        let part = TablePart { path: &file.path, len: file.len, progress };
        read_plain(part, problems, |row: CallRow| {
            let key = (row.thread, row.start_ns, row.method);
            if row.exit == Exit::Unfinished {
                // Written again each time recording stops; the last one is the longest.
                if unfinished.get(&key).is_none_or(|known| known.total_ns < row.total_ns) {
                    unfinished.insert(key, row);
                }
                return Ok(());
            }
            if !unfinished.is_empty() {
                unfinished.remove(&key);
            }
            if filter.takes(&row) {
                each(row);
            }
            Ok(())
        });
    }
    let mut unfinished: Vec<CallRow> =
        unfinished.into_values().filter(|row| filter.takes(row)).collect();
    if !filter.unfinished {
        return unfinished.len();
    }
    // Callees before callers, as everywhere else.
    unfinished.sort_by_key(|row| (row.thread, std::cmp::Reverse(row.start_ns), row.stack));
    unfinished.into_iter().for_each(each);
    0
}
