//! Turns what was read into a report: sorted methods, unfinished calls, what was read and what is missing. The output
//! formats render a [`Report`] and decide nothing about it.

pub mod cpu;
mod group_names;
pub mod groups;
pub mod missing;
pub mod off_cpu;
mod sentences;
pub mod slowest;
mod throttled_times;

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use log_format::pattern::Pattern;
use log_format::rows::{Exit, SampleRow};
use serde::Serialize;

use crate::input::problems::Problems;
use crate::input::runs::RunInput;
use crate::options::glob::Glob;
use crate::options::time_range::TimeRange;
use crate::options::zone::Zone;
use crate::options::{By, CallFilter, DataFilter, Options, SortKey, TreeOrder};
use crate::report::cpu::{CpuReport, SampledGroups};
use crate::report::group_names::{GroupNames, label};
use crate::report::groups::{GroupReport, OfAll, groups};
use crate::report::missing::{Missing, RaisedInRun};
use crate::report::off_cpu::{OffCpuReport, grouped_waits};
use crate::report::sentences::{coverage, notes, probe_share, why_empty, without_record};
use crate::report::slowest::SlowCall;
use crate::report::throttled_times::ThrottledTimes;
use crate::run::counts::Counts;
use crate::run::cpu_samples::read_samples;
use crate::run::cut_short::CutInRun;
use crate::run::data::{ReportNames, RunData, UnfinishedCall};
use crate::run::history::AgentHistory;
use crate::run::nearest_names::Nearest;
use crate::run::postponed::PostponedInRun;
use crate::run::selection::Selection;
use crate::run::throttled::{Throttled, ThrottledInRun, sort_by_missed};
use crate::stats::aggregate::{Group, Totals};
use crate::stats::by_minute::MinuteSums;
use crate::stats::call_tree::{CallTree, Frame, Recursion};
use crate::stats::method::{Method, Source};
use crate::stats::overview_sums::OverviewSums;
use crate::stats::sampled_stacks::Sampled;
use crate::stats::slow_calls::RecordedCall;
use crate::stats::stacks::{rooted_at, through};

const NO_PATHS: &str = "no recorded call has a call path with time";
const HAS_UNFINISHED: &str = "; --unfinished shows unfinished calls";

/// A report, ready to be rendered.
#[derive(Debug)]
pub struct Report {
    /// The grouping of the figures.
    pub by: By,
    /// Whether the figures come from the recorded calls.
    pub of_records: bool,
    /// Whether percentiles are more exact where calls are recorded.
    pub has_sketches: bool,
    /// The column that methods are sorted by.
    pub sort: SortKey,
    /// The zone in which times are shown.
    pub zone: Zone,
    /// The selected time.
    pub range: TimeRange,
    /// The same, widened to whole intervals of the method statistics.
    pub statistics: TimeRange,
    /// The selected methods.
    pub pattern: Option<String>,
    /// The other filters, each with its value.
    pub filters: Filters,
    /// What was read.
    pub read: ReadSummary,
    /// What is missing from the logs, or could not be read.
    pub missing: Missing,
    /// The methods. Without groups, there is one group without a label.
    pub groups: Vec<GroupReport>,
    /// The unfinished calls, longest first.
    pub unfinished: Vec<UnfinishedCall>,
    /// The number of unfinished calls beyond those.
    pub unfinished_not_shown: usize,
    /// Why there are no methods, if there are none.
    pub empty: Option<String>,
    /// What a reader must know about the figures, a sentence each.
    pub notes: Vec<String>,
    /// Methods shown in each group, and callees in a call tree; `None` shows all.
    pub top: Option<usize>,
    /// Sums by call path, for the formats that are made from them.
    pub tree: CallTree,
    /// The order of the call trees that are shown instead of the methods, if they are.
    pub tree_order: Option<TreeOrder>,
    /// Whether unfinished calls are in `tree`.
    pub unfinished_counted: bool,
    /// Sums by minute of all methods that were on all the time: when each minute began, in unix nanoseconds, and its
    /// sums.
    pub minutes: Vec<(u64, MinuteSums)>,
    /// Number of methods that are not in `minutes`: they were throttled or muted for part of the time.
    pub partial_methods: usize,
    /// The methods that call themselves, those with most such calls first.
    pub recursion: Vec<(Method, Recursion)>,
    /// The slowest calls of the threads that have the slowest, each thread's in order of their start.
    pub slow: Vec<Vec<RecordedCall>>,
    /// The slowest calls, if they were asked for.
    pub slowest: Option<Vec<SlowCall>>,
    /// The label of the calls that were not recorded, as far as the selection determines it.
    pub without_record: String,
    /// Where the sources of methods are, for the formats that show it.
    pub sources: HashMap<Method, Source>,
    /// CPU time, if threads were sampled.
    pub cpu: CpuReport,
    /// Where threads waited, if they were looked at.
    pub off_cpu: OffCpuReport,
    /// The start of the first run, in unix nanoseconds.
    pub start_ns: u64,
}

impl Report {
    /// Why there are no samples to show, if there are none; `in_logs` if the runs have some, not selected.
    #[must_use]
    pub fn no_samples(&self, in_logs: bool) -> Option<String> {
        (self.cpu.samples == 0).then(|| match (in_logs, self.missing.losses.timers_refused) {
            (true, _) => "no CPU samples are selected".to_owned(),
            (false, 0) => {
                "no CPU samples in these logs; attach or start the agent with cpu=10ms".to_owned()
            }
            (false, _) => {
                "no CPU samples in these logs: the kernel refused timers; raise `ulimit -i`"
                    .to_owned()
            }
        })
    }

    /// The same for times in which threads waited.
    #[must_use]
    pub fn no_waiting(&self, in_logs: bool) -> Option<String> {
        let none = "no waiting in these logs; attach or start the agent with cpu=10ms,wall=100ms";
        self.off_cpu.stacks.is_empty().then(|| match in_logs {
            true => format!("no waiting is selected, or there is {none}"),
            false => none.to_owned(),
        })
    }

    /// Why there are no call paths to show, if there are none.
    #[must_use]
    pub fn no_stacks(&self) -> Option<String> {
        let has_time = self.tree.nodes().iter().any(|node| node.figures.self_ns > 0);
        let none = || self.empty.clone().unwrap_or_else(|| NO_PATHS.to_owned());
        let unfinished = self.unfinished.len().saturating_add(self.unfinished_not_shown);
        let hint = if unfinished > 0 && !self.unfinished_counted { HAS_UNFINISHED } else { "" };
        (!has_time).then(|| none() + hint)
    }

    /// How often something happened that happened so many times; `None` if a time was selected.
    #[must_use]
    pub fn per_second(&self, count: u64) -> Option<f64> {
        let ns = self.read.recorded_ns;
        (ns > 0 && self.range.is_everything()).then(|| count as f64 * 1e9 / ns as f64)
    }

    /// How exact percentiles are.
    #[must_use]
    pub fn percentiles_are(&self) -> &'static str {
        let counts = &self.read.counts;
        let is_of_records =
            self.of_records || (counts.tprofiler.logs() > 0 && counts.stats_rows == 0);
        match (self.has_sketches, is_of_records) {
            (true, true) => "within 2%",
            (true, false) => "within 2% if recorded, else 25%",
            (false, _) => "within 25%",
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

/// What was read.
#[derive(Debug)]
pub struct ReadSummary {
    /// Labels of the runs, in order; [`UnfinishedCall::run`] is an index into this.
    pub runs: Vec<String>,
    /// Number of processes: distinct hosts and process ids.
    pub jvms: usize,
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
    /// Files that ended within a line.
    pub torn_lines: u64,
    /// Number of lines that are not rows.
    pub bad_lines: u64,
    /// Missing files.
    pub missing_files: Vec<String>,
}

/// Collects runs, in order, until all are added.
#[derive(Debug, Default)]
pub struct Collector {
    totals: Totals<Method>,
    unfinished: Vec<UnfinishedCall>,
    threads: HashMap<Group, String>,
    counts: Counts,
    recorded_ns: u64,
    /// Whether the pattern matches a method of any run, and otherwise the nearest names.
    is_named: bool,
    nearest: Nearest,
    awaiting_totals: u64,
    missing: Missing,
    /// What each run throttled.
    throttled: Vec<Throttled>,
    missing_files: Vec<String>,
    tree: CallTree,
    overview: OverviewSums,
    sources: HashMap<Method, Source>,
    /// Names of hosts, classes and packages that are groups.
    names: GroupNames,
    sampled: Sampled,
    /// Every threshold that applied.
    thresholds_ns: BTreeSet<u64>,
    /// Whether a run's log lacks its threshold.
    lacks_threshold: bool,
}

impl Collector {
    /// Adds the next run, at index `place` in the list of runs.
    pub fn add(&mut self, run: &RunInput, place: usize, data: RunData, selection: &Selection) {
        let names = &mut self.names;
        match selection.by {
            By::Host => self.totals.merge_by(data.totals, |_, _| names.group(&run.about.host)),
            by @ (By::Class | By::Package) => {
                let group = |group, method: &_| names.of_method(by, method).unwrap_or(group);
                self.totals.merge_by(data.totals, group);
            }
            By::Nothing | By::Hour | By::Minute | By::Thread | By::Run => {
                self.totals.merge(data.totals);
            }
        }
        self.tree.merge(&data.tree);
        self.overview.merge(data.overview);
        // TProfiler's logs have only recorded calls.
        let is_old = data.counts.tprofiler.logs() > 0;
        self.lacks_threshold |= !is_old && data.history.thresholds.lowest_ns().is_none();
        self.unfinished.extend(data.unfinished);
        self.counts.merge(&data.counts);
        self.awaiting_totals += u64::from(run.awaits_totals);
        self.recorded_ns = self.recorded_ns.saturating_add(data.recorded.ns());
        self.add_names(run, place, data.names);
        self.missing.losses.merge(&data.losses);
        if !data.cut.is_empty() {
            self.missing.cut.push(CutInRun { run: run.label.clone(), cut: data.cut });
        }
        self.add_history(run, data.history, &selection.covered(place), &selection.range);
    }

    /// Adds what the report takes from the names of the run at index `place`, and names the files that the run lacks.
    fn add_names(&mut self, run: &RunInput, place: usize, names: ReportNames) {
        let ReportNames { threads, sources, nearest, lacks_methods_file } = names;
        let threads = threads.into_iter();
        self.threads.extend(threads.map(|(id, name)| (Group::Thread(place, id), name)));
        self.sources.extend(sources);
        self.is_named |= nearest.is_none();
        self.nearest.merge(nearest.unwrap_or_default());
        self.missing_files.extend(run.missing.iter().map(|path| path.display().to_string()));
        if lacks_methods_file {
            self.missing_files.push(run.folder.join("*.methods.csv").display().to_string());
        }
    }

    /// Adds what the run did not measure at some moment of the time that its figures cover. `range` is the selected
    /// time.
    fn add_history(
        &mut self,
        run: &RunInput,
        history: AgentHistory,
        covered: &TimeRange,
        range: &TimeRange,
    ) {
        let AgentHistory { thresholds, throttled, muted, postponed } = history;
        self.thresholds_ns.extend(thresholds.all_ns());
        let label = || run.label.clone();
        let times = thresholds.raised(covered);
        if let (Some(base_ns), false) = (thresholds.lowest_ns(), times.is_empty()) {
            self.missing.raised.push(RaisedInRun { run: label(), base_ns, times });
        }
        let of_methods = throttled.in_range(covered, range);
        let of_methods = of_methods.map(|method| ThrottledInRun { run: label(), method });
        self.missing.throttled.extend(of_methods);
        self.throttled.push(throttled);
        self.missing.muted.extend(muted.in_range(covered));
        let of_classes = postponed.in_range(covered);
        let of_classes = of_classes.map(|class| PostponedInRun { run: label(), class });
        self.missing.postponed.extend(of_classes);
    }

    /// Adds the samples of the run at index `place`.
    pub fn add_samples(
        &mut self,
        run: &RunInput,
        place: usize,
        selection: &Selection,
        problems: &mut Problems,
    ) {
        let host = (selection.by == By::Host).then(|| self.names.group(&run.about.host));
        let group = |row: &SampleRow| {
            host.unwrap_or_else(|| selection.group(place, row.start_ns, row.thread))
        };
        let threads = read_samples(run, selection, group, problems, &mut self.sampled);
        let threads = threads.into_iter();
        self.threads.extend(threads.map(|(id, name)| (Group::Thread(place, id), name)));
    }

    /// The duration from which a call was certainly recorded, whatever its method, run and time. `None` if there is
    /// no such duration.
    fn complete_from_ns(&self, selection: &Selection, problems: &Problems) -> Option<u64> {
        // Only recorded calls count then.
        if selection.counts_records() {
            return Some(0);
        }
        let unread = [problems.torn_lines(), problems.bad_lines(), self.awaiting_totals];
        let is_whole = self.missing.losses.log.has_all_recorded_calls()
            && unread == [0; 3]
            && self.missing_files.is_empty()
            && problems.all_unread().is_empty();
        let raised = self.missing.raised.iter().flat_map(|run| &run.times);
        let asked_ns = self.thresholds_ns.last().copied().unwrap_or(0);
        let highest_ns = raised.map(|time| time.highest_ns).fold(asked_ns, u64::max);
        (is_whole && !self.lacks_threshold).then_some(highest_ns)
    }

    /// Makes the report.
    #[must_use]
    pub fn finish(
        mut self,
        runs: &[RunInput],
        options: &Options,
        selection: &Selection,
        problems: &Problems,
    ) -> Report {
        self.missing.unread = problems.all_unread().to_vec();
        if !options.shows_cpu() {
            self.missing.losses.timers_refused = 0;
        }
        self.sort();
        let labels: Vec<String> = runs.iter().map(|run| run.label.clone()).collect();
        let (mut groups, cpu, off_cpu, saturated) =
            self.take_groups(runs, &labels, options, selection, problems);
        for report in groups.iter_mut().flat_map(GroupReport::reports_mut) {
            report.is_recursive |= self.overview.recursion.contains_key(&report.method);
        }
        let is_named = self.is_named || !cpu.methods.is_empty();
        let hint = (!is_named).then(|| std::mem::take(&mut self.nearest));
        let empty = groups.is_empty().then(|| why_empty(selection, &self.counts, hint.as_ref()));
        let jvms = distinct(runs, |run| (&run.about.host, run.about.pid)).len();
        let mut notes = notes(selection, &self.counts, saturated, options.layout.slowest.is_none());
        if empty.is_none() && !selection.counts_records() {
            notes.extend(self.awaited());
        }
        notes.extend(probe_share(&self.missing.losses.probe_cost, jvms));
        notes.extend(coverage(&cpu, self.missing.losses.probe_cost.cpu_ns, selection));
        let (tree, no_path) = selected_part(std::mem::take(&mut self.tree), &options.filter);
        // The trees of the slowest calls contain every call.
        let every = CallFilter::default();
        let calls = if options.layout.slowest.is_some() { &every } else { &selection.calls };
        let without_record =
            without_record(calls, &self.counts, &self.thresholds_ns, &self.missing);
        let unfinished_count = self.unfinished.len();
        self.unfinished.truncate(options.layout.top.unwrap_or(usize::MAX));
        Report {
            by: options.layout.by,
            of_records: selection.counts_records(),
            has_sketches: selection.sketches,
            sort: options.layout.sort,
            zone: selection.zone.clone(),
            range: selection.range,
            statistics: selection.all_statistics(),
            pattern: selection.method.as_ref().map(ToString::to_string),
            filters: Filters::new(&options.filter),
            read: self.take_summary(runs, labels, jvms, problems),
            missing: self.missing,
            groups,
            unfinished_not_shown: unfinished_count - self.unfinished.len(),
            unfinished: self.unfinished,
            empty: empty.or(no_path),
            notes,
            top: options.layout.top,
            tree,
            tree_order: options.layout.tree,
            unfinished_counted: selection.stacks && selection.unfinished,
            minutes: self.overview.minutes.finish(),
            partial_methods: self.overview.partial.len(),
            slow: self.overview.slow,
            recursion: most_recursive_first(self.overview.recursion),
            slowest: None,
            without_record,
            sources: self.sources,
            cpu,
            off_cpu,
            start_ns: runs.iter().map(|run| run.about.start_ns).min().unwrap_or(0),
        }
    }

    /// Sorts what is missing and what is unfinished.
    fn sort(&mut self) {
        sort_by_missed(&mut self.missing.throttled);
        // First the classes that were never instrumented, then by how long they were not.
        self.missing.postponed.sort_by_key(|PostponedInRun { class, .. }| {
            Reverse(class.to_ns.map_or(u64::MAX, |to_ns| to_ns.saturating_sub(class.from_ns)))
        });
        self.unfinished.sort_by(|a, b| {
            let key = |call: &UnfinishedCall| (Reverse(call.running_ns), call.run, call.start_ns);
            key(a).cmp(&key(b)).then_with(|| (&a.thread, &a.method).cmp(&(&b.thread, &b.method)))
        });
    }

    /// The groups with their methods, CPU time by method, where threads waited, and whether a sum overflowed. Takes the sums.
    fn take_groups(
        &mut self,
        runs: &[RunInput],
        labels: &[String],
        options: &Options,
        selection: &Selection,
        problems: &Problems,
    ) -> (Vec<GroupReport>, CpuReport, OffCpuReport, bool) {
        let totals = std::mem::take(&mut self.totals);
        let pattern = selection.method.as_ref();
        let Sampled { cpu: stacks, off_cpu } = std::mem::take(&mut self.sampled);
        let waits = grouped_waits(&off_cpu, selection.by, pattern, &mut self.names);
        let mut sampled = SampledGroups::new(&stacks, selection.by, pattern, &mut self.names);
        let of_all = OfAll {
            complete_from_ns: self.complete_from_ns(selection, problems),
            probe_call_ns: self.missing.losses.probe_cost.probe_call_ns,
            entries: &self.overview.entries,
        };
        let of_group = |group| label(group, labels, &self.threads, &self.names, &selection.zone);
        let times = ThrottledTimes::new(&self.throttled, selection);
        let throttled = |group| {
            let host = match (group, selection.by) {
                (Group::Named(place), By::Host) => self.names.name(place),
                _ => None,
            };
            let is_of = host.map(|host| {
                move |run: usize| runs.get(run).is_some_and(|run| run.about.host == *host)
            });
            times.of(group, is_of.as_ref().map(|is_of| is_of as &dyn Fn(usize) -> bool))
        };
        let (groups, saturated) =
            groups(totals, options, of_all, &mut sampled, throttled, of_group);
        let cpu = sampled.finish(options.layout.top, throttled, of_group);
        let cpu = CpuReport { stacks, ..cpu };
        (groups, cpu, OffCpuReport::new(off_cpu, waits, of_group), saturated)
    }

    /// The note on runs whose last method statistics are not written yet, if there are any.
    fn awaited(&self) -> Option<String> {
        (self.awaiting_totals > 0).then(|| {
            format!(
                "Method statistics of the last hour are not written yet, a JVM writes them every minute; runs \
                 without: {}",
                self.awaiting_totals
            )
        })
    }

    /// Takes the counts of what was read.
    fn take_summary(
        &mut self,
        runs: &[RunInput],
        labels: Vec<String>,
        jvms: usize,
        problems: &Problems,
    ) -> ReadSummary {
        let thresholds_ns = &self.thresholds_ns;
        ReadSummary {
            runs: labels,
            jvms,
            hosts: named(runs, |run| &run.about.host),
            services: named(runs, |run| &run.about.service),
            counts: std::mem::take(&mut self.counts),
            thresholds_ns: thresholds_ns.first().copied().zip(thresholds_ns.last().copied()),
            recorded_ns: self.recorded_ns,
            torn_lines: problems.torn_lines(),
            bad_lines: problems.bad_lines(),
            missing_files: std::mem::take(&mut self.missing_files),
        }
    }
}

fn most_recursive_first(recursion: HashMap<Method, Recursion>) -> Vec<(Method, Recursion)> {
    let mut recursion: Vec<(Method, Recursion)> = recursion.into_iter().collect();
    recursion.sort_by(|a, b| (b.1.calls, &a.0).cmp(&(a.1.calls, &b.0)));
    recursion
}

/// The part of a tree that a filter selects, and why nothing is left of it, if so.
fn selected_part(mut tree: CallTree, filter: &DataFilter) -> (CallTree, Option<String>) {
    let mut reason = None;
    for (pattern, part) in [(&filter.method, through as fn(&_, &_) -> _), (&filter.root, rooted_at)]
    {
        let Some(pattern) = pattern else { continue };
        let part: CallTree = part(&tree, pattern);
        if part.is_empty() && !tree.is_empty() {
            reason = Some(no_such_path(&tree, pattern));
        }
        tree = part;
    }
    (tree, reason)
}

/// Why no paths are left of a tree.
fn no_such_path(tree: &CallTree, pattern: &Pattern) -> String {
    let methods = tree.nodes().iter().filter_map(|node| match &node.frame {
        Frame::Method(Method::Named(name)) => Some(name.as_ref()),
        _ => None,
    });
    let hint = Nearest::to(pattern.as_str(), methods).hint();
    format!("no recorded call was made by methods named by {pattern}: {hint}")
}

fn distinct<'r, K: Ord>(runs: &'r [RunInput], key: impl Fn(&'r RunInput) -> K) -> BTreeSet<K> {
    runs.iter().map(key).collect()
}

fn named<'r>(runs: &'r [RunInput], name: impl Fn(&'r RunInput) -> &'r String) -> Vec<String> {
    distinct(runs, name).into_iter().filter(|name| !name.is_empty()).cloned().collect()
}
