//! Turns what was read into a report: sorted methods, unfinished calls, what was read and what is missing. The output
//! formats render a [`Report`] and decide nothing about it.
//!
//! ```text
//! collector      collects each run's sums, and makes the report
//! groups, group_names, selected                  methods by group
//! cpu, states, off_cpu                           samples
//! overview, slowest, slow_tree, spans            what happened when, and the slowest calls as trees
//! locks, sql, allocations, exceptions, traces    events
//! missing, not_counted, explanations             what figures lack, and why
//! ```

pub mod allocations;
pub mod collector;
pub mod cpu;
pub mod exceptions;
mod explanations;
mod group_names;
pub mod groups;
pub mod locks;
pub mod missing;
pub mod not_counted;
pub mod off_cpu;
pub mod overview;
pub mod selected;
mod selected_paths;
pub(crate) mod slow_tree;
pub mod slowest;
mod spans;
pub mod sql;
pub mod states;
pub mod traces;

use std::collections::HashMap;

use crate::options::{Flame, Layout};
use crate::report::allocations::AllocationReport;
use crate::report::cpu::CpuReport;
use crate::report::exceptions::ExceptionReport;
use crate::report::explanations::ProbeShare;
use crate::report::groups::GroupReport;
use crate::report::locks::LockReport;
use crate::report::missing::Missing;
use crate::report::off_cpu::OffCpuReport;
use crate::report::overview::Overview;
use crate::report::selected::SelectedData;
use crate::report::slowest::SlowCall;
use crate::report::sql::SqlReport;
use crate::report::states::StateReport;
use crate::report::traces::TraceReport;
use crate::run::data::UnfinishedCall;
use crate::run::read_counts::Counts;
use crate::stats::call_tree::CallTree;
use crate::stats::method::{Method, Source};
use crate::stats::sampled_stacks::SampledStacks;
use crate::stats::thread_dumps::DumpCounts;

const NO_PATHS: &str = "no recorded call has a call path with time";
const HAS_UNFINISHED: &str = "; --unfinished shows unfinished calls";

/// A report, ready to be rendered.
#[derive(Debug)]
pub struct Report {
    /// What is shown, and in which order.
    pub layout: Layout,
    /// What of the logs was selected.
    pub selected: SelectedData,
    /// What was read.
    pub read: ReadSummary,
    /// What is missing from the logs, or could not be read.
    pub missing: Missing,
    /// What a reader must know about the figures, a sentence each.
    pub notes: Vec<String>,
    /// What the profiler took of the CPU time, as one more note.
    pub probe_share: Option<ProbeShare>,
    /// Why there are no methods, if there are none.
    pub empty: Option<String>,
    /// The methods with their figures.
    pub methods: MethodTables,
    /// The unfinished calls.
    pub unfinished: UnfinishedReport,
    /// What happened when, and the slowest calls; empty if the report has no overview.
    pub overview: Overview,
    /// The call paths, for the formats that are made from them.
    pub paths: CallPaths,
    /// The slowest calls, if they were asked for.
    pub slowest: Option<Vec<SlowCall>>,
    /// CPU time and waiting, by samples.
    pub samples: SampleReport,
    /// What threads waited for, allocated, threw and asked databases.
    pub events: EventReports,
    /// CPU time and waiting by what threads did, if that was asked for.
    pub states: Option<StateReport>,
}

/// What the logs have of events.
#[derive(Debug)]
pub struct EventReports {
    /// Waits for monitors.
    pub locks: LockReport,
    /// Sampled allocations.
    pub allocations: AllocationReport,
    /// Calls of traced methods.
    pub traces: TraceReport,
    /// Exceptions that left instrumented methods.
    pub exceptions: ExceptionReport,
    /// SQL statements.
    pub sql: SqlReport,
}

/// The methods in their groups, and what their figures are of.
#[derive(Debug)]
pub struct MethodTables {
    /// The methods. Without groups, there is one group without a label.
    pub groups: Vec<GroupReport>,
    /// Where the sources of methods are, for the formats that show it.
    pub sources: HashMap<Method, Source>,
    /// Whether the figures come from the recorded calls.
    pub of_records: bool,
    /// Whether percentiles are more exact where calls are recorded.
    pub has_sketches: bool,
}

/// The unfinished calls.
#[derive(Debug)]
pub struct UnfinishedReport {
    /// The longest first.
    pub calls: Vec<UnfinishedCall>,
    /// The number of unfinished calls beyond those.
    pub not_shown: usize,
    /// Whether they are in the call paths.
    pub in_paths: bool,
}

impl UnfinishedReport {
    /// The number of unfinished calls that are in no call path.
    #[must_use]
    pub fn not_counted(&self) -> usize {
        if self.in_paths { 0 } else { self.calls.len().saturating_add(self.not_shown) }
    }
}

/// Recorded calls by call path.
#[derive(Debug)]
pub struct CallPaths {
    /// Sums by call path.
    pub tree: CallTree,
    /// The label of the calls that were not recorded, as far as the selection determines it.
    pub without_record: String,
}

/// What samples say.
#[derive(Debug)]
pub struct SampleReport {
    /// CPU time, if threads were sampled.
    pub cpu: CpuReport,
    /// Where threads waited, if they were looked at.
    pub off_cpu: OffCpuReport,
    /// TProfiler's thread dumps, which are in `off_cpu` too.
    pub dumps: DumpCounts,
}

/// What was read.
#[derive(Debug)]
pub struct ReadSummary {
    /// Labels of the runs, in order; [`UnfinishedCall::run`] is an index into this.
    pub runs: Vec<String>,
    /// Number of processes: distinct hosts and process ids.
    pub jvms: usize,
    /// The start of the first run, in unix nanoseconds.
    pub start_ns: u64,
    /// Names of the hosts.
    pub hosts: Vec<String>,
    /// Names of the services.
    pub services: Vec<String>,
    /// Rows and hours.
    pub counts: Counts,
    /// Thresholds that applied, in nanoseconds: the lowest and the highest.
    pub thresholds_ns: Option<(u64, u64)>,
    /// How long the runs recorded, summed; 0 if their logs do not have it.
    pub recorded_ns: u64,
    /// The first moment at which a run recorded, and the last, in unix nanoseconds.
    pub recorded: Option<(u64, u64)>,
    /// How long in the selected time.
    pub selected_ns: u64,
    /// Files that ended within a line.
    pub torn_lines: u64,
    /// Number of lines that are not rows.
    pub bad_lines: u64,
    /// Missing files.
    pub missing_files: Vec<String>,
}

impl Report {
    /// Why there are no call paths to show, if there are none.
    #[must_use]
    pub fn no_stacks(&self) -> Option<String> {
        let has_time = self.paths.tree.nodes().iter().any(|node| node.figures.self_ns > 0);
        let none = || self.empty.clone().unwrap_or_else(|| NO_PATHS.to_owned());
        let hint = if self.unfinished.not_counted() > 0 { HAS_UNFINISHED } else { "" };
        (!has_time).then(|| none() + hint)
    }

    /// What a flame graph of whole stacks shows; nothing if it is of recorded calls.
    #[must_use]
    pub fn whole_stacks(&self, of: Flame) -> Vec<&SampledStacks> {
        let SampleReport { cpu, off_cpu, .. } = &self.samples;
        match of {
            Flame::Calls => Vec::new(),
            Flame::Cpu => vec![&cpu.stacks],
            Flame::Wall => vec![&cpu.stacks, &off_cpu.stacks],
            Flame::Lock => vec![&self.events.locks.stacks],
            Flame::Alloc => vec![&self.events.allocations.stacks],
            Flame::Trace => vec![&self.events.traces.stacks],
            Flame::Exceptions => vec![&self.events.exceptions.stacks],
        }
    }

    /// How often something happened that happened so many times; `None` if a time was selected.
    #[must_use]
    pub fn per_second(&self, count: u64) -> Option<f64> {
        let ns = self.read.recorded_ns;
        (ns > 0 && self.selected.range.is_everything()).then(|| count as f64 * 1e9 / ns as f64)
    }

    /// The same of a method's calls, also if a time was selected: of whole intervals, or of recorded calls in this time.
    #[must_use]
    pub fn calls_per_second(&self, calls: u64) -> Option<f64> {
        let ns = self.selected_ns();
        (ns > 0).then(|| calls as f64 * 1e9 / ns as f64)
    }

    /// How long was recorded in the selected time, by all JVMs together; 0 if that is not known.
    #[must_use]
    pub fn selected_ns(&self) -> u64 {
        if self.selected.range.is_everything() {
            self.read.recorded_ns
        } else if self.methods.of_records {
            self.read.selected_ns
        } else {
            // Of whole intervals.
            self.missing.losses.probe_cost.recorded_ns
        }
    }

    /// Bytes allocated in a second in which allocations were sampled; `None` if a time was selected.
    pub(crate) fn allocated_per_second(&self) -> Option<f64> {
        let AllocationReport { all, sampled_ns, .. } = &self.events.allocations;
        let is_known = *sampled_ns > 0 && self.selected.range.is_everything();
        is_known.then(|| all.bytes as f64 * 1e9 / *sampled_ns as f64)
    }

    /// All notes, that on the profiler's share included.
    pub fn all_notes(&self) -> impl Iterator<Item = &str> {
        let share = self.probe_share.iter().map(|share| &*share.note);
        self.notes.iter().map(String::as_str).chain(share)
    }

    /// How exact percentiles are.
    #[must_use]
    pub fn percentiles_are(&self) -> &'static str {
        let counts = &self.read.counts;
        let is_of_records =
            self.methods.of_records || (counts.tprofiler.logs() > 0 && counts.stats_rows == 0);
        match (self.methods.has_sketches, is_of_records) {
            (true, true) => "within 2%",
            (true, false) => "within 2% for recorded calls, 25% for others",
            (false, _) => "within 25%",
        }
    }
}
