//! The user's choices for a report. The command line is converted to [`Options`] in one place (`cli`); the rest
//! of the code knows only these types.

pub mod glob;
pub mod tasks;
pub mod time_range;
pub mod zone;

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use log_format::error::BadValue;
use log_format::pattern::Pattern;
use log_format::rows::{CallRow, Exit};

use crate::options::glob::Glob;
use crate::options::time_range::Moment;
use crate::options::zone::Zone;

/// Rows of a text report without `--top`.
pub const TOP_IN_TEXT: usize = 20;

/// All choices for one report.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Runs' folders, folders of runs, or single files.
    pub paths: Vec<PathBuf>,
    /// Unit of the times in TProfiler's own logs; `None` detects it.
    pub tprofiler_unit: Option<Unit>,
    /// What of the logs is selected.
    pub filter: DataFilter,
    /// Include unfinished calls in formats that cannot mark them.
    pub unfinished: bool,
    /// What the report shows, and in which order.
    pub layout: Layout,
    /// How and where the report is written.
    pub output: Output,
}

/// What of the logs is selected.
#[derive(Clone, Debug, Default)]
pub struct DataFilter {
    /// Select only data at or after this moment.
    pub from: Option<Moment>,
    /// Select only data before this moment.
    pub to: Option<Moment>,
    /// Select only runs on hosts that this pattern matches.
    pub host: Option<Glob>,
    /// Select only runs that this pattern matches.
    pub run: Option<Glob>,
    /// Select only methods that this pattern matches.
    pub method: Option<Pattern>,
    /// In call trees, show only what these methods called.
    pub root: Option<Pattern>,
    /// Select only some of the recorded calls.
    pub calls: CallFilter,
}

/// What a report shows, and in which order.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// Whether and how the figures are split into groups.
    pub by: By,
    /// Show what threads did instead of the methods, from samples.
    pub states: bool,
    /// Include what a comparison shows besides methods, whatever the format: lock waits, exceptions and others.
    pub compared: bool,
    /// The column that methods are sorted by, largest first.
    pub sort: SortKey,
    /// Methods shown in each group, callees in a call tree, and unfinished calls shown; `None` shows all.
    pub top: Option<usize>,
    /// Show call trees instead of the methods.
    pub tree: Option<TreeOrder>,
    /// Show this many of the slowest calls instead of the methods.
    pub slowest: Option<usize>,
    /// Show all notes at the end of a text.
    pub notes: bool,
    /// The time zone for input and output.
    pub zone: Zone,
}

impl Layout {
    /// Whether it shows the methods.
    fn is_of_methods(&self) -> bool {
        self.tree.is_none() && self.slowest.is_none() && !self.states
    }
}

/// How and where a report is written.
#[derive(Clone, Debug, Default)]
pub struct Output {
    /// Output format.
    pub format: Format,
    /// What stacks are of.
    pub flame: Flame,
    /// What rows of CSV are of.
    pub rows: CsvRows,
    /// Whether a text has colours.
    pub color: bool,
    /// The file to write; `None` is standard output.
    pub file: Option<PathBuf>,
}

impl Options {
    /// Whether the report shows what happened when, and the slowest calls.
    #[must_use]
    pub fn has_overview(&self) -> bool {
        self.output.format == Format::Html || self.is_text_of_all()
    }

    /// Whether the report shows CPU time by samples.
    #[must_use]
    pub fn shows_cpu(&self) -> bool {
        matches!(self.output.flame, Flame::Cpu | Flame::Wall)
            || self.layout.states
            || self.is_text_of_all()
            || matches!(self.output.format, Format::Html | Format::Csv | Format::Json)
    }

    /// Whether the report shows waits for monitors.
    #[must_use]
    pub fn shows_locks(&self) -> bool {
        self.shows_event(Flame::Lock, CsvRows::Locks)
    }

    /// Whether the report shows sampled allocations.
    #[must_use]
    pub fn shows_allocations(&self) -> bool {
        self.shows_event(Flame::Alloc, CsvRows::Allocations)
    }

    /// Whether the report shows traced calls.
    #[must_use]
    pub fn shows_traces(&self) -> bool {
        self.shows_event(Flame::Trace, CsvRows::Traced)
    }

    /// Whether the report shows exceptions that left instrumented methods.
    #[must_use]
    pub fn shows_exceptions(&self) -> bool {
        self.shows_event(Flame::Exceptions, CsvRows::Exceptions)
    }

    /// Whether the report shows SQL statements.
    #[must_use]
    pub fn shows_sql(&self) -> bool {
        self.output.rows == CsvRows::Sql || self.layout.compared || self.shows_all()
    }

    /// Whether the report shows events of a kind: it is of them alone, of everything, or compared.
    fn shows_event(&self, flame: Flame, rows: CsvRows) -> bool {
        let is_of_them = self.output.flame == flame || self.output.rows == rows;
        is_of_them || self.layout.compared || self.shows_all()
    }

    /// Whether the report shows more than methods.
    fn shows_all(&self) -> bool {
        let has_more = matches!(self.output.format, Format::Html | Format::Json);
        self.is_text_of_all() || has_more && !self.layout.states
    }

    /// Whether the report is a text on all methods together.
    fn is_text_of_all(&self) -> bool {
        let Self { layout, output, .. } = self;
        output.format == Format::Text && layout.by == By::Nothing && layout.is_of_methods()
    }

    /// Whether the report has percentiles.
    #[must_use]
    pub fn has_percentiles(&self) -> bool {
        let format = self.output.format;
        matches!(format, Format::Text | Format::Html | Format::Csv | Format::Json)
            && self.layout.is_of_methods()
    }

    /// Whether the report is made from call paths.
    #[must_use]
    pub fn needs_stacks(&self) -> bool {
        self.layout.tree.is_some() || self.output.format.is_of_stacks()
    }
}

/// Unit of the times in `tprofiler.log`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Unit {
    /// Milliseconds, TProfiler's default
    Ms,
    /// Nanoseconds, with needNanoTime=true
    Ns,
}

/// Which recorded calls count. Method statistics have no single calls: with a filter, figures come from the recorded
/// calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallFilter {
    /// Those in threads that this pattern matches.
    pub thread: Option<Glob>,
    /// Those that ended in this way.
    pub exit: Option<Exit>,
    /// Those that took at least this long.
    pub above_ns: Option<u64>,
}

impl CallFilter {
    /// Whether every call counts.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    /// Whether not every call of a thread counts.
    #[must_use]
    pub fn selects_by_exit_or_duration(&self) -> bool {
        self.exit.is_some() || self.above_ns.is_some()
    }

    /// Whether a call counts, apart from its thread.
    #[must_use]
    pub fn takes(&self, row: &CallRow) -> bool {
        self.exit.is_none_or(|exit| exit == row.exit)
            && self.above_ns.is_none_or(|above_ns| row.total_ns >= above_ns)
    }
}

/// The order of a call tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TreeOrder {
    /// Callers first, what they called below them
    TopDown,
    /// Where the time was spent first, its callers below it
    BottomUp,
}

/// A column to sort by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SortKey {
    /// Time in the method itself
    #[default]
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
    /// The key as written on the command line.
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

/// The grouping of the figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// One table for everything.
    #[default]
    Nothing,
    /// A table for each hour of UTC.
    Hour,
    /// A table for each thread, from the recorded calls alone: method statistics have no threads.
    Thread,
    /// A table for each run.
    Run,
    /// A table for each minute of UTC.
    Minute,
    /// A table for each host.
    Host,
    /// A table for each class.
    Class,
    /// A table for each package.
    Package,
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
            Self::Minute => Some("minute"),
            Self::Host => Some("host"),
            Self::Class => Some("class"),
            Self::Package => Some("package"),
        }
    }
}

/// What stacks are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Flame {
    /// Recorded calls
    #[default]
    Calls,
    /// CPU time, by samples
    Cpu,
    /// CPU time, and where threads waited: the time of all threads
    Wall,
    /// Recorded waits for monitors that other threads had
    Lock,
    /// Bytes of sampled allocations
    Alloc,
    /// Calls of traced methods
    Trace,
    /// Exceptions where they began to leave instrumented methods
    Exceptions,
}

impl Flame {
    /// Whether it has all methods, with probes or without.
    #[must_use]
    pub const fn has_all_methods(self) -> bool {
        matches!(self, Self::Cpu | Self::Wall | Self::Lock | Self::Alloc)
    }
}

/// What rows of CSV are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum CsvRows {
    /// Methods
    #[default]
    Methods,
    /// Waits for locks, and other parks, by class and site
    Locks,
    /// Sampled allocations by class and site
    Allocations,
    /// Callers of traced methods
    Traced,
    /// Exceptions by class and site
    Exceptions,
    /// SQL statements by site
    Sql,
}

/// The format of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables for people, 100 columns wide
    #[default]
    Text,
    /// One page for a browser, with everything in it: -o report.html
    Html,
    /// The methods' rows with full precision
    Csv,
    /// Everything that the text has, with full precision
    Json,
    /// Call paths with their own time in nanoseconds, a line each: for flamegraph.pl and others
    Collapsed,
    /// A flame graph (SVG)
    Flamegraph,
    /// Call paths for speedscope.app
    Speedscope,
    /// Every recorded call on its thread's timeline: for Perfetto and chrome://tracing
    ChromeTrace,
    /// CPU samples and every recorded call, for JDK Mission Control and `jfr`: -o out.jfr
    Jfr,
    /// Call paths for `go tool pprof` (gzip)
    Pprof,
    /// The methods' figures in Prometheus' text format
    Prometheus,
    /// TProfiler's topmethod.log; with -o FOLDER also its topobject.log, mysqlProfiler.log and, from samples, its
    /// sampler's files
    Tprofiler,
}

impl Format {
    /// What a file of this name has, as with `tprofiler profile -o`; text if its name has no end.
    ///
    /// # Errors
    /// Its name has an end that no format has.
    pub fn of_file(path: &Path) -> Result<Self, BadValue> {
        let Some(end) = path.extension() else { return Ok(Self::Text) };
        Ok(match end.to_str().unwrap_or_default() {
            "html" => Self::Html,
            "svg" => Self::Flamegraph,
            "jfr" => Self::Jfr,
            "pprof" => Self::Pprof,
            "collapsed" => Self::Collapsed,
            "json" => Self::Json,
            "csv" => Self::Csv,
            "txt" | "log" | "out" | "md" => Self::Text,
            _ => {
                let reason = "ends in no format's name: use .html, .svg, .jfr, .pprof, .collapsed, .json, .csv or \
                              .txt, or give --format";
                return Err(BadValue::new(path.display().to_string(), reason).of("--output"));
            }
        })
    }

    /// Whether the format has a place for notes on its figures.
    #[must_use]
    pub const fn has_notes(self) -> bool {
        matches!(self, Self::Text | Self::Html | Self::Json)
    }

    /// Whether it has a place for unfinished calls, without call paths.
    #[must_use]
    pub const fn marks_unfinished(self) -> bool {
        matches!(self, Self::Text | Self::Html | Self::Prometheus) || self.is_of_events()
    }

    /// Whether it has every recorded call.
    #[must_use]
    pub const fn is_of_events(self) -> bool {
        matches!(self, Self::ChromeTrace | Self::Jfr)
    }

    /// Whether a report on a profile task has this format.
    #[must_use]
    pub const fn is_of_tasks(self) -> bool {
        let is_drawn = matches!(self, Self::Collapsed | Self::Flamegraph);
        is_drawn || matches!(self, Self::Text | Self::Html | Self::Json)
    }

    /// Whether it is made from call paths.
    #[must_use]
    pub const fn is_of_stacks(self) -> bool {
        matches!(self, Self::Collapsed | Self::Flamegraph | Self::Speedscope | Self::Pprof)
    }
}
