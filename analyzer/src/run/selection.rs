//! Which rows of a run count, and how they are grouped.

use std::sync::Arc;

use log_format::file_names::Hour;
use log_format::ids::ThreadId;
use log_format::pattern::Pattern;

use crate::input::progress::Progress;
use crate::options::time_range::TimeRange;
use crate::options::zone::Zone;
use crate::options::{By, CallFilter, Format, Options};
use crate::run::window::Touched;
use crate::stats::aggregate::Group;

const NS_PER_MINUTE: u64 = 60_000_000_000;

/// Which rows count, and how they are grouped.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The selected time: recorded calls by their end.
    pub range: TimeRange,
    /// The time of the intervals whose method statistics count, by the run's index in the list of runs: by their
    /// start. For a run without an entry, it is `range`.
    pub statistics: Vec<TimeRange>,
    /// Why figures come from the recorded calls although no filter needs that.
    pub records_because: Option<RecordsBecause>,
    /// The selected methods.
    pub method: Option<Pattern>,
    /// The groups.
    pub by: By,
    /// The selected recorded calls.
    pub calls: CallFilter,
    /// Whether call paths are summed up.
    pub stacks: bool,
    /// Whether figures come from the recorded calls because of the call paths.
    pub figures_of_stacks: bool,
    /// Whether the report has an overview: what happened when, and the slowest calls.
    pub overview: bool,
    /// Whether it shows what recorded calls allocated.
    pub allocated: bool,
    /// Whether durations of recorded calls are kept more exactly than in the histograms of the method statistics.
    pub sketches: bool,
    /// Whether unfinished calls count as recorded calls.
    pub unfinished: bool,
    /// Whether the report names source files.
    pub sources: bool,
    /// The zone whose hours are groups.
    pub zone: Zone,
    /// Where the reading reports its progress.
    pub progress: Arc<Progress>,
}

impl Selection {
    /// The selection of these options, in the time `range`.
    #[must_use]
    pub fn new(options: &Options, range: TimeRange, progress: &Arc<Progress>) -> Self {
        let Options { filter, layout, output, .. } = options;
        let selection = Self {
            range,
            statistics: Vec::new(),
            records_because: None,
            sketches: false,
            method: filter.method.clone(),
            by: layout.by,
            calls: filter.calls.clone(),
            stacks: options.needs_stacks() || output.format == Format::Html,
            figures_of_stacks: options.needs_stacks(),
            overview: options.has_overview(),
            allocated: options.has_overview() || output.format == Format::Json,
            unfinished: options.unfinished,
            zone: layout.zone.clone(),
            progress: Arc::clone(progress),
            sources: matches!(
                output.format,
                Format::Pprof | Format::Speedscope | Format::Tprofiler
            ),
        };
        selection.of_records(options, None)
    }

    /// The same with figures from the recorded calls, if there is a reason for that.
    #[must_use]
    pub fn of_records(&self, options: &Options, because: Option<RecordsBecause>) -> Self {
        let mut selection = Self { records_because: because, ..self.clone() };
        // A sketch takes the memory of several figures: affordable for each method of a run, but not for each of its
        // hours and threads.
        let is_small = !matches!(options.layout.by, By::Hour | By::Minute | By::Thread);
        // Method statistics are selected by their interval, recorded calls by their end: those are different calls.
        let is_same_calls = self.range.is_everything() || selection.counts_records();
        selection.sketches = options.has_percentiles() && is_small && is_same_calls;
        selection
    }

    /// Whether figures come from the recorded calls: method statistics have no threads and no single calls.
    #[must_use]
    pub fn counts_records(&self) -> bool {
        self.records_because.is_some() || self.asks_for_records()
    }

    /// Whether only recorded calls have what is selected.
    #[must_use]
    pub fn asks_for_records(&self) -> bool {
        self.by == By::Thread || !self.calls.is_everything() || self.figures_of_stacks
    }

    /// Whether figures of lock waits, exceptions and SQL statements come from those that are recorded one by one: their
    /// statistics have no threads.
    #[must_use]
    pub fn counts_single_events(&self) -> bool {
        self.records_because.is_some() || self.calls.thread.is_some()
    }

    /// The group of a recorded call, method statistics or samples of the run at this index. Hosts, classes and
    /// packages become groups when all runs are added.
    #[inline]
    #[must_use]
    pub fn group(&self, run: usize, at_ns: u64, thread: ThreadId) -> Group {
        match self.by {
            By::Nothing | By::Class | By::Package => Group::All,
            By::Hour if !self.zone.is_utc() => {
                Group::Minute(self.zone.hour_start_ns(at_ns) / NS_PER_MINUTE)
            }
            By::Hour => Group::Hour(Hour::of_unix_ns(at_ns)),
            By::Minute => Group::Minute(at_ns / NS_PER_MINUTE),
            By::Run | By::Host => Group::Run(run),
            By::Thread => Group::Thread(run, thread),
        }
    }

    /// The group of what has no thread: none, if threads are groups.
    pub fn group_without_thread(
        &self,
        group: impl Fn(u64, ThreadId) -> Group,
        at_ns: u64,
    ) -> Group {
        if self.by == By::Thread { Group::All } else { group(at_ns, ThreadId::NONE) }
    }

    /// The time of the intervals of a run that count, for its statistics and its losses.
    #[must_use]
    pub fn statistics_of(&self, place: usize) -> TimeRange {
        self.statistics.get(place).copied().unwrap_or(self.range)
    }

    /// The time that the figures of a run cover: that of the selected recorded calls, or of the intervals of its
    /// statistics.
    #[must_use]
    pub fn covered(&self, place: usize) -> TimeRange {
        let statistics = self.statistics_of(place);
        let is_wider = Touched::is_wider(&statistics, &self.range);
        if is_wider && !self.counts_records() { statistics } else { self.range }
    }

    /// The time of the intervals of all runs.
    #[must_use]
    pub fn all_statistics(&self) -> TimeRange {
        let all = self.statistics.iter().copied();
        all.reduce(|all, range| all.around(&range)).unwrap_or(self.range)
    }
}

/// Why figures come from the recorded calls, although statistics would have every call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordsBecause {
    /// The selected time is shorter than an interval of the statistics.
    ShortTime,
    /// There are no statistics for the selected time, or none yet.
    NoStatistics,
}
