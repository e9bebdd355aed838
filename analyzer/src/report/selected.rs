//! What of the logs was selected, as reports show it.

use log_format::rows::Exit;
use serde::Serialize;

use crate::options::DataFilter;
use crate::options::glob::Glob;
use crate::options::time_range::TimeRange;
use crate::run::selection::Selection;

/// What of the logs was selected.
#[derive(Debug)]
pub struct SelectedData {
    /// The selected time.
    pub range: TimeRange,
    /// The same, widened to whole intervals of the method statistics.
    pub statistics: TimeRange,
    /// The selected methods.
    pub pattern: Option<String>,
    /// The other filters, each with its value.
    pub filters: Filters,
}

impl SelectedData {
    pub(crate) fn new(selection: &Selection, filter: &DataFilter) -> Self {
        Self {
            range: selection.range,
            statistics: selection.all_statistics(),
            pattern: selection.method.as_ref().map(ToString::to_string),
            filters: Filters::new(filter),
        }
    }
}

/// The other filters, as given.
#[derive(Debug, Default, Serialize)]
pub struct Filters {
    /// The hosts.
    pub host: Option<String>,
    /// The runs.
    pub run: Option<String>,
    /// The threads.
    pub thread: Option<String>,
    /// How calls ended.
    pub exit: Option<Exit>,
    /// The least duration of calls, in nanoseconds.
    pub above_ns: Option<u64>,
    /// The callers.
    pub root: Option<String>,
}

impl Filters {
    fn new(filter: &DataFilter) -> Self {
        let text = |glob: &Option<Glob>| glob.as_ref().map(ToString::to_string);
        Self {
            host: text(&filter.host),
            run: text(&filter.run),
            thread: text(&filter.calls.thread),
            exit: filter.calls.exit,
            above_ns: filter.calls.above_ns,
            root: filter.root.as_ref().map(ToString::to_string),
        }
    }
}
