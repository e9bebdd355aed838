//! What the reader of a report can choose. The command line turns into [`Options`] in one place
//! (`main.rs`); everything behind it knows only these types.

use std::path::PathBuf;

use clap::ValueEnum;
use log_format::pattern::Pattern;

use crate::time_range::Moment;
use crate::tprofiler::Unit;

/// Rows of a text report where `--top` is not given.
pub const TOP_IN_TEXT: usize = 20;

/// All choices for one report.
#[derive(Clone, Debug)]
pub struct Options {
    /// Runs' folders, folders of runs, or single files.
    pub paths: Vec<PathBuf>,
    /// What the methods are sorted by, largest first.
    pub sort: SortKey,
    /// Methods shown in each group, and open calls shown; `None` shows all.
    pub top: Option<usize>,
    /// Whether and how the figures are split into groups.
    pub by: By,
    /// Take only what lies at or after this moment.
    pub from: Option<Moment>,
    /// Take only what lies before this moment.
    pub to: Option<Moment>,
    /// Take only methods that this pattern names.
    pub method: Option<Pattern>,
    /// What times in TProfiler's own logs are in; `None` finds out.
    pub tprofiler_unit: Option<Unit>,
    /// What is printed.
    pub format: Format,
}

/// A column to sort by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SortKey {
    /// Time in the method itself
    #[value(name = "self")]
    SelfTime,
    /// Time in the method and its callees
    Total,
    /// Number of calls
    Calls,
    /// Total time divided by calls
    Avg,
    /// The longest call
    Max,
    /// Calls that ended with an exception
    Throws,
}

impl SortKey {
    /// The key as it is written on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SelfTime => "self",
            Self::Total => "total",
            Self::Calls => "calls",
            Self::Avg => "avg",
            Self::Max => "max",
            Self::Throws => "throws",
        }
    }
}

/// What the figures are split by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// One table for everything.
    Nothing,
    /// A table for each hour of UTC.
    Hour,
    /// A table for each thread, from the records alone: totals know no threads.
    Thread,
    /// A table for each run.
    Run,
}

impl By {
    /// The name of the column that holds the group, or `None` without groups.
    #[must_use]
    pub const fn column(self) -> Option<&'static str> {
        match self {
            Self::Nothing => None,
            Self::Hour => Some("hour"),
            Self::Thread => Some("thread"),
            Self::Run => Some("run"),
        }
    }
}

/// The form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables for people, 100 columns wide
    Text,
    /// The methods' rows with full precision
    Csv,
    /// Everything that the text has, with full precision
    Json,
}
