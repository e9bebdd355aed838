//! Collects what was read of each run, and makes the report.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use log_format::ids::ThreadId;
use log_format::rows::{CallRow, SampleRow};

use crate::input::problems::Problems;
use crate::input::runs::RunInput;
use crate::options::time_range::TimeRange;
use crate::options::zone::Zone;
use crate::options::{By, CallFilter, Options};
use crate::report::allocations::AllocationReport;
use crate::report::cpu::{CpuReport, SampledGroups};
use crate::report::exceptions::ExceptionReport;
use crate::report::explanations::{
    BY_STATE, coverage, event_notes, late_agents, no_states, notes, probe_share, why_empty,
    without_record,
};
use crate::report::group_names::{GroupNames, label};
use crate::report::groups::{GroupReport, OfAll, groups};
use crate::report::locks::LockReport;
use crate::report::missing::{Missing, RaisedInRun};
use crate::report::not_counted::{NotCountedTimes, NotMeasured};
use crate::report::off_cpu::{OffCpuReport, grouped_waits};
use crate::report::overview::Overview;
use crate::report::selected::SelectedData;
use crate::report::selected_paths::selected_part;
use crate::report::sql::SqlReport;
use crate::report::states::StateReport;
use crate::report::traces::TraceReport;
use crate::report::{
    CallPaths, EventReports, MethodTables, ReadSummary, Report, SampleReport, UnfinishedReport,
};
use crate::run::allocations::read_allocations;
use crate::run::cpu_samples::read_samples;
use crate::run::cut_short::CutInRun;
use crate::run::data::{ReportNames, RunData, UnfinishedCall};
use crate::run::exceptions::read_exceptions;
use crate::run::history::AgentHistory;
use crate::run::lock_waits::read_locks;
use crate::run::muted::MutedInRun;
use crate::run::nearest_names::Nearest;
use crate::run::postponed::PostponedInRun;
use crate::run::read_counts::Counts;
use crate::run::selection::Selection;
use crate::run::sql::read_sql;
use crate::run::throttled::ThrottledInRun;
use crate::run::traces::read_traces;
use crate::stats::aggregate::{Group, Totals};
use crate::stats::allocation_sums::AllocationSums;
use crate::stats::call_tree::CallTree;
use crate::stats::exception_sums::ExceptionSums;
use crate::stats::last_hours::LastHours;
use crate::stats::lock_sums::LockSums;
use crate::stats::method::{Method, Source};
use crate::stats::overview_sums::OverviewSums;
use crate::stats::sampled_stacks::{Sampled, SampledStacks};
use crate::stats::sql_sums::SqlSums;
use crate::stats::thread_dumps::DumpCounts;
use crate::stats::trace_sums::TraceSums;
use crate::tprofiler::{OldLog, read_dumps};

/// Collects runs, in order, until all are added.
#[derive(Debug, Default)]
pub struct Collector {
    totals: Totals<Method>,
    unfinished: Vec<UnfinishedCall>,
    threads: HashMap<Group, String>,
    counts: Counts,
    recorded_ns: u64,
    /// The first moment at which a run recorded, and the last.
    recorded: Option<(u64, u64)>,
    /// How long in the selected time.
    selected_ns: u64,
    /// Whether a run recorded at some time, as far as its log says.
    was_on: bool,
    /// When each run recorded in the selected time.
    recorded_times: Vec<(u64, u64)>,
    /// When each run sampled allocations in the selected time.
    allocation_times: Vec<(u64, u64)>,
    /// Whether the pattern matches a method of any run, and otherwise the nearest names.
    is_named: bool,
    nearest: Nearest,
    awaiting_totals: u64,
    missing: Missing,
    /// What each run throttled and muted.
    not_measured: Vec<NotMeasured>,
    missing_files: Vec<String>,
    tree: CallTree,
    overview: OverviewSums,
    sources: HashMap<Method, Source>,
    /// Names of hosts, classes and packages that are groups.
    names: GroupNames,
    sampled: Sampled,
    dumps: DumpCounts,
    locks: LockSums,
    allocations: AllocationSums,
    traces: TraceSums,
    exceptions: ExceptionSums,
    sql: SqlSums,
    /// The last hours, if they can be compared.
    last_hours: Option<LastHours>,
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
        if let Some((start_ns, end_ns)) = data.recorded.span(data.counts.last_call_ns) {
            let (first_ns, last_ns) = self.recorded.unwrap_or((start_ns, end_ns));
            self.recorded = Some((first_ns.min(start_ns), last_ns.max(end_ns)));
        }
        let times = data.recorded.times(&selection.range);
        let selected_ns = times.iter().map(|(start_ns, end_ns)| end_ns - start_ns).sum();
        self.selected_ns = self.selected_ns.saturating_add(selected_ns);
        self.was_on |= !data.recorded.was_always_off();
        self.recorded_times.extend(data.recorded.times(&selection.statistics_of(place)));
        self.allocation_times.extend(data.recorded.allocation_times(&selection.range));
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
        self.add_threads(place, threads);
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
        let patterns = muted.in_range(covered, range);
        self.missing.muted.extend(patterns.map(|muted| MutedInRun { run: label(), muted }));
        self.not_measured.push(NotMeasured { throttled, muted });
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
        let of = self.group_of(run, place, selection);
        let group = |row: &SampleRow| of(row.start_ns, row.thread);
        let threads = read_samples(run, selection, group, problems, &mut self.sampled);
        self.add_threads(place, threads);
    }

    /// Adds the thread dumps of TProfiler's log at index `place`.
    pub fn add_dumps(
        &mut self,
        run: &RunInput,
        log: &OldLog,
        place: usize,
        selection: &Selection,
        problems: &mut Problems,
    ) {
        let host = self.host_group(run, selection);
        let group = |thread| host.unwrap_or_else(|| selection.group(place, 0, thread));
        let (stacks, dumps) = (&mut self.sampled.off_cpu, &mut self.dumps);
        let read = read_dumps(log, selection, group, problems, stacks, dumps);
        self.counts.tprofiler.merge(&read.counts);
        self.add_threads(place, read.threads);
    }

    /// Adds the waits for monitors of the run at index `place`; `with_stacks` if their stacks are needed too.
    pub fn add_locks(
        &mut self,
        run: &RunInput,
        place: usize,
        selection: &Selection,
        with_stacks: bool,
        problems: &mut Problems,
    ) {
        let (group, sums) = (self.group_of(run, place, selection), &mut self.locks);
        let threads = read_locks(run, place, selection, group, with_stacks, problems, sums);
        self.add_threads(place, threads);
    }

    /// Adds the sampled allocations of the run at index `place`; `with_stacks` if their stacks are needed too.
    pub fn add_allocations(
        &mut self,
        run: &RunInput,
        place: usize,
        selection: &Selection,
        with_stacks: bool,
        problems: &mut Problems,
    ) {
        let (group, sums) = (self.group_of(run, place, selection), &mut self.allocations);
        let threads = read_allocations(run, selection, group, with_stacks, problems, sums);
        self.add_threads(place, threads);
    }

    /// Adds the traced calls of the run at index `place`; `with_stacks` if their stacks are needed too.
    pub fn add_traces(
        &mut self,
        run: &RunInput,
        place: usize,
        selection: &Selection,
        with_stacks: bool,
        problems: &mut Problems,
    ) {
        let (group, sums) = (self.group_of(run, place, selection), &mut self.traces);
        let threads = read_traces(run, selection, group, with_stacks, problems, sums);
        self.add_threads(place, threads);
    }

    /// Adds the exceptions of all runs, when these are added; `with_stacks` if stacks of examples are needed too.
    pub fn add_exceptions(
        &mut self,
        runs: &[RunInput],
        selection: &Selection,
        with_stacks: bool,
        problems: &mut Problems,
    ) {
        self.last_hours = LastHours::of(&self.recorded_times);
        self.exceptions.stacks = with_stacks.then(SampledStacks::default);
        for (place, run) in runs.iter().enumerate() {
            let group = self.group_of(run, place, selection);
            let (hours, sums) = (self.last_hours.as_ref(), &mut self.exceptions);
            let threads = read_exceptions(run, place, selection, group, hours, problems, sums);
            self.add_threads(place, threads);
        }
    }

    /// Adds the SQL statements of the run at index `place`.
    pub fn add_sql(
        &mut self,
        run: &RunInput,
        place: usize,
        selection: &Selection,
        problems: &mut Problems,
    ) {
        let (group, sums) = (self.group_of(run, place, selection), &mut self.sql);
        let threads = read_sql(run, place, selection, group, problems, sums);
        self.add_threads(place, threads);
    }

    /// Takes the SQL statements.
    fn take_sql(&mut self, labels: &[String], selection: &Selection) -> SqlReport {
        let sums = std::mem::take(&mut self.sql);
        let calls_of = |method: &Method| self.calls_of(method, selection);
        SqlReport::new(sums, calls_of, |group| {
            label(group, labels, &self.threads, &self.names, &selection.zone)
        })
    }

    /// Takes the waits for locks.
    fn take_locks(&mut self, labels: &[String], zone: &Zone) -> LockReport {
        let skipped = self.missing.losses.log.lock_seconds_skipped;
        let sums = std::mem::take(&mut self.locks);
        LockReport::new(sums, skipped, |group| {
            label(group, labels, &self.threads, &self.names, zone)
        })
    }

    /// Takes the traced calls.
    fn take_traces(&mut self, labels: &[String], zone: &Zone) -> TraceReport {
        let sums = std::mem::take(&mut self.traces);
        TraceReport::new(sums, |group| label(group, labels, &self.threads, &self.names, zone))
    }

    /// Takes the allocations. `labels` are those of the runs.
    fn take_allocations(&mut self, labels: &[String], selection: &Selection) -> AllocationReport {
        let zone = &selection.zone;
        let sums = std::mem::take(&mut self.allocations);
        AllocationReport::new(sums, &self.allocation_times, zone, |group| {
            label(group, labels, &self.threads, &self.names, zone)
        })
    }

    fn take_events(&mut self, labels: &[String], selection: &Selection) -> EventReports {
        EventReports {
            locks: self.take_locks(labels, &selection.zone),
            allocations: self.take_allocations(labels, selection),
            traces: self.take_traces(labels, &selection.zone),
            exceptions: self.take_exceptions(labels, selection),
            sql: self.take_sql(labels, selection),
        }
    }

    /// How often a method was called: only statistics have all calls.
    fn calls_of(&self, method: &Method, selection: &Selection) -> Option<u64> {
        match self.totals.calls_of(method) {
            (calls @ 1.., _) if !selection.counts_records() => Some(calls),
            _ => None,
        }
    }

    /// Takes the exceptions.
    fn take_exceptions(&mut self, labels: &[String], selection: &Selection) -> ExceptionReport {
        let sums = std::mem::take(&mut self.exceptions);
        let calls_of = |method: &Method| self.calls_of(method, selection);
        let times = NotCountedTimes::new(&self.not_measured, selection);
        let times = times.of(Group::All, None);
        let not_counted = |method: &Method| times.of(method);
        let hours = self.last_hours.as_ref();
        ExceptionReport::new(sums, hours, calls_of, not_counted, |group| {
            label(group, labels, &self.threads, &self.names, &selection.zone)
        })
    }

    /// The group of everything in a run, if hosts are groups.
    fn host_group(&mut self, run: &RunInput, selection: &Selection) -> Option<Group> {
        (selection.by == By::Host).then(|| self.names.group(&run.about.host))
    }

    /// Which group an event of a thread at a time belongs to, in the run at index `place`.
    fn group_of<'s>(
        &mut self,
        run: &RunInput,
        place: usize,
        selection: &'s Selection,
    ) -> impl Fn(u64, ThreadId) -> Group + use<'s> {
        let host = self.host_group(run, selection);
        move |at_ns, thread| host.unwrap_or_else(|| selection.group(place, at_ns, thread))
    }

    /// Adds names of threads of the run at index `place`.
    fn add_threads(&mut self, place: usize, names: HashMap<ThreadId, String>) {
        let names = names.into_iter();
        self.threads.extend(names.map(|(id, name)| (Group::Thread(place, id), name)));
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

    /// That no run has a method of the selected name, and which names are near it; `None` if there is one.
    #[must_use]
    pub fn no_such_method(&self, selection: &Selection) -> Option<String> {
        let pattern = selection.method.as_ref().filter(|_| !self.is_named)?;
        Some(format!("in methods named by {pattern}: {}", self.nearest.hint()))
    }

    /// The slowest of the selected calls, and the index of its run, if the report has an overview.
    #[must_use]
    pub fn slowest(&self) -> Option<(usize, CallRow)> {
        self.overview.slowest.clone()
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
        let mut events = self.take_events(&labels, selection);
        events.sql.sort_by(options.layout.sort);
        let (mut groups, cpu, off_cpu, saturated) =
            self.take_groups(runs, &labels, options, selection, problems);
        for report in groups.iter_mut().flat_map(GroupReport::reports_mut) {
            report.is_recursive |= self.overview.recursion.contains_key(&report.method);
        }
        let is_named = self.is_named || !cpu.methods.is_empty();
        let hint = (!is_named).then(|| std::mem::take(&mut self.nearest));
        let top = options.layout.top;
        let states = options.layout.states.then(|| StateReport::new(&cpu, &off_cpu, top));
        let empty = match &states {
            Some(states) => no_states(states, selection, hint.as_ref()),
            None => groups
                .is_empty()
                .then(|| why_empty(selection, &self.counts, self.was_on, hint.as_ref())),
        };
        let jvms = distinct(runs, |run| (&run.about.host, run.about.pid)).len();
        let mut notes = notes(selection, &self.counts, saturated, options.layout.slowest.is_none());
        if states.is_some() {
            notes = vec![BY_STATE.to_owned()];
        } else if empty.is_none() && !selection.counts_records() {
            notes.extend(self.awaited());
        }
        let probe_share = probe_share(&self.missing.losses.probe_cost, jvms);
        notes.extend(coverage(&cpu, self.missing.losses.probe_cost.cpu_ns, selection));
        notes.extend(late_agents(runs, &cpu));
        notes.extend(event_notes(&events.locks, &events.exceptions, &events.sql, selection));
        let (tree, no_path) = selected_part(std::mem::take(&mut self.tree), &options.filter);
        // The trees of single calls contain every call.
        let calls = &if selection.stacks { selection.calls.clone() } else { CallFilter::default() };
        let without_record =
            without_record(calls, &self.counts, &self.thresholds_ns, &self.missing);
        Report {
            layout: options.layout.clone(),
            selected: SelectedData::new(selection, &options.filter),
            read: self.take_summary(runs, labels, jvms, problems),
            missing: self.missing,
            notes,
            probe_share,
            empty: empty.or(no_path),
            methods: MethodTables {
                groups,
                sources: self.sources,
                of_records: selection.counts_records(),
                has_sketches: selection.sketches,
            },
            unfinished: take_unfinished(self.unfinished, top, selection),
            overview: Overview::new(self.overview),
            paths: CallPaths { tree, without_record },
            slowest: None,
            samples: SampleReport { cpu, off_cpu, dumps: self.dumps },
            events,
            states,
        }
    }

    /// Sorts what is missing and what is unfinished.
    fn sort(&mut self) {
        self.missing.sort();
        self.unfinished.sort_by(|a, b| {
            let key = |call: &UnfinishedCall| (Reverse(call.running_ns), call.run, call.start_ns);
            key(a).cmp(&key(b)).then_with(|| (&a.thread, &a.method).cmp(&(&b.thread, &b.method)))
        });
    }

    /// The groups with their methods, CPU time by method, where threads waited, and whether a sum overflowed. Takes the
    /// sums.
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
        let times = NotCountedTimes::new(&self.not_measured, selection);
        let not_counted = |group| {
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
            groups(totals, options, of_all, &mut sampled, not_counted, of_group);
        let cpu = sampled.finish(options.layout.top, not_counted, of_group);
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
            start_ns: runs.iter().map(|run| run.about.start_ns).min().unwrap_or(0),
            hosts: named(runs, |run| &run.about.host),
            services: named(runs, |run| &run.about.service),
            counts: std::mem::take(&mut self.counts),
            thresholds_ns: thresholds_ns.first().copied().zip(thresholds_ns.last().copied()),
            recorded_ns: self.recorded_ns,
            recorded: self.recorded,
            selected_ns: self.selected_ns,
            torn_lines: problems.torn_lines(),
            bad_lines: problems.bad_lines(),
            missing_files: std::mem::take(&mut self.missing_files),
        }
    }
}

/// The first `top` of the unfinished calls.
fn take_unfinished(
    mut calls: Vec<UnfinishedCall>,
    top: Option<usize>,
    selection: &Selection,
) -> UnfinishedReport {
    let count = calls.len();
    calls.truncate(top.unwrap_or(usize::MAX));
    UnfinishedReport {
        not_shown: count - calls.len(),
        calls,
        in_paths: selection.stacks && selection.unfinished,
    }
}

fn distinct<'r, K: Ord>(runs: &'r [RunInput], key: impl Fn(&'r RunInput) -> K) -> BTreeSet<K> {
    runs.iter().map(key).collect()
}

fn named<'r>(runs: &'r [RunInput], name: impl Fn(&'r RunInput) -> &'r String) -> Vec<String> {
    distinct(runs, name).into_iter().filter(|name| !name.is_empty()).cloned().collect()
}
