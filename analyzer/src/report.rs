//! Turns what was read into a report: methods selected and sorted, calls still open, what was read
//! and what is not in it. The forms of output render a [`Report`] and decide nothing about it.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet, HashMap};

use log_format::names::{Hour, utc_text};

use crate::aggregate::{Figures, Group, Totals};
use crate::hints::Nearest;
use crate::input::RunInput;
use crate::losses::{Losses, Raised};
use crate::names::Method;
use crate::options::{By, Options, SortKey};
use crate::problems::Problems;
use crate::run_data::{Counts, OpenCall, RunData, Selection};
use crate::time_range::TimeRange;
use crate::tprofiler::OldCounts;

/// A report, ready to be rendered.
#[derive(Debug)]
pub struct Report {
    /// What the figures are split by.
    pub by: By,
    /// What the methods are sorted by.
    pub sort: SortKey,
    /// The selected time.
    pub range: TimeRange,
    /// The selected methods.
    pub pattern: Option<String>,
    /// What was read.
    pub read: ReadSummary,
    /// What is not in the logs, or could not be read.
    pub left_out: LeftOut,
    /// The methods. Without groups there is one, which has no label.
    pub groups: Vec<GroupReport>,
    /// The calls still open, longest first.
    pub open: Vec<OpenCall>,
    /// Calls still open beyond those.
    pub open_not_shown: usize,
    /// Why there are no methods, if there are none.
    pub empty: Option<String>,
    /// What a reader of the figures has to know, a sentence each.
    pub notes: Vec<String>,
}

/// The methods of a group.
#[derive(Debug)]
pub struct GroupReport {
    /// The hour, thread or run; `None` without groups.
    pub label: Option<String>,
    /// Its methods, sorted, as many as were asked for.
    pub methods: Vec<MethodReport>,
    /// Its methods beyond those.
    pub not_shown: usize,
    /// Calls of all of its methods.
    pub calls: u128,
    /// Self time of all of its methods, in nanoseconds.
    pub self_ns: u128,
}

/// The figures of a method.
#[derive(Debug)]
pub struct MethodReport {
    /// The method.
    pub method: Method,
    /// Its sums.
    pub figures: Figures,
    /// Its share of the self time of all methods of its group.
    pub self_percent: f64,
}

/// What was read.
#[derive(Debug)]
pub struct ReadSummary {
    /// Labels of the runs, in order; [`OpenCall::run`] is a place in here.
    pub runs: Vec<String>,
    /// Number of processes: hosts and process ids that differ.
    pub jvms: usize,
    /// Names of the hosts.
    pub hosts: Vec<String>,
    /// Names of the services.
    pub services: Vec<String>,
    /// Rows and hours.
    pub counts: Counts,
    /// How long the runs recorded, one after the other; 0 if their logs do not tell.
    pub recorded_ns: u64,
    /// Files that ended within a line.
    pub torn_lines: u64,
    /// Lines that were no rows.
    pub bad_lines: u64,
    /// Files that should be there and are not.
    pub missing_files: Vec<String>,
}

/// What the report lacks.
#[derive(Debug, Default)]
pub struct LeftOut {
    /// Files and runs that could not be read, a message each.
    pub unread: Vec<String>,
    /// What the agent lost.
    pub losses: Losses,
    /// When the threshold was raised, run by run.
    pub raised: Vec<RaisedInRun>,
}

/// The times in which a run recorded fewer calls than it was asked to.
#[derive(Debug, PartialEq, Eq)]
pub struct RaisedInRun {
    /// Label of the run.
    pub run: String,
    /// The lowest threshold, in nanoseconds.
    pub base_ns: u64,
    /// When it was higher.
    pub times: Vec<Raised>,
}

/// Collects runs, in their order, until all are there.
#[derive(Debug, Default)]
pub struct Collector {
    totals: Totals<Method>,
    open: Vec<OpenCall>,
    threads: HashMap<Group, String>,
    counts: Counts,
    recorded_ns: u64,
    /// Whether the pattern names a method of any run, and what is near it otherwise.
    is_named: bool,
    nearest: Nearest,
    awaiting_totals: u64,
    left_out: LeftOut,
    missing_files: Vec<String>,
}

impl Collector {
    /// Adds the next run, which stands at `place` in the list of runs.
    pub fn add(&mut self, run: &RunInput, place: usize, data: RunData, range: &TimeRange) {
        self.totals.merge(data.totals, |method| method);
        self.open.extend(data.open);
        let threads = data.thread_names.into_iter();
        self.threads.extend(threads.map(|(id, name)| (Group::Thread(place, id), name)));
        self.counts.merge(&data.counts);
        self.awaiting_totals += u64::from(run.awaits_totals);
        self.is_named |= data.nearest.is_none();
        self.nearest.merge(data.nearest.unwrap_or_default());
        self.recorded_ns = self.recorded_ns.saturating_add(data.recorded.ns(&run.about));
        self.left_out.losses.merge(&data.losses);
        let times = data.thresholds.raised(range);
        if let (Some(base_ns), false) = (data.thresholds.lowest_ns(), times.is_empty()) {
            self.left_out.raised.push(RaisedInRun { run: run.label.clone(), base_ns, times });
        }
        self.missing_files.extend(run.missing.iter().map(|path| path.display().to_string()));
        if data.lacks_methods_file {
            self.missing_files.push(run.folder.join("*.methods.csv").display().to_string());
        }
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
        self.left_out.unread = problems.all_unread().to_vec();
        let labels: Vec<String> = runs.iter().map(|run| run.label.clone()).collect();
        let of_group = |group| label(group, &labels, &self.threads);
        let (groups, saturated) = groups(self.totals, options, of_group);
        let hint = (!self.is_named).then_some(self.nearest);
        let empty = groups.is_empty().then(|| why_empty(selection, &self.counts, hint.as_ref()));
        let mut notes = notes(options.by, &self.counts, saturated, selection.method.is_some());
        if self.awaiting_totals > 0 && options.by != By::Thread && empty.is_none() {
            notes.push(format!(
                "Totals of the last hour are not written yet, a JVM writes them every minute; runs \
                 without: {}",
                self.awaiting_totals
            ));
        }
        let open_count = self.open.len();
        let shown = options.top.unwrap_or(usize::MAX);
        self.open.sort_by(|a, b| {
            let key = |call: &OpenCall| (Reverse(call.running_ns), call.run, call.start_ns);
            key(a).cmp(&key(b)).then_with(|| (&a.thread, &a.method).cmp(&(&b.thread, &b.method)))
        });
        self.open.truncate(shown);
        Report {
            by: options.by,
            sort: options.sort,
            range: selection.range,
            pattern: selection.method.as_ref().map(ToString::to_string),
            read: ReadSummary {
                runs: labels,
                jvms: distinct(runs, |run| (&run.about.host, run.about.pid)).len(),
                hosts: named(runs, |run| &run.about.host),
                services: named(runs, |run| &run.about.service),
                counts: self.counts,
                recorded_ns: self.recorded_ns,
                torn_lines: problems.torn_lines(),
                bad_lines: problems.bad_lines(),
                missing_files: self.missing_files,
            },
            left_out: self.left_out,
            groups,
            open_not_shown: open_count - self.open.len(),
            open: self.open,
            empty,
            notes,
        }
    }
}

/// The start of an hour as `2026-11-20T14:00Z`.
#[must_use]
pub fn hour_text(hour: Hour) -> String {
    let text = utc_text(hour.start_unix_ns());
    text.strip_suffix(":00Z").map_or_else(|| text.clone(), |minutes| format!("{minutes}Z"))
}

fn distinct<'r, K: Ord>(runs: &'r [RunInput], key: impl Fn(&'r RunInput) -> K) -> BTreeSet<K> {
    runs.iter().map(key).collect()
}

fn named<'r>(runs: &'r [RunInput], name: impl Fn(&'r RunInput) -> &'r String) -> Vec<String> {
    distinct(runs, name).into_iter().filter(|name| !name.is_empty()).cloned().collect()
}

fn label(group: Group, runs: &[String], threads: &HashMap<Group, String>) -> Option<String> {
    let run_label = |place: usize| runs.get(place).cloned().unwrap_or_default();
    match group {
        Group::All => None,
        Group::Hour(hour) => Some(hour_text(hour)),
        Group::Run(run) => Some(run_label(run)),
        Group::Thread(run, id) => {
            let name = threads.get(&group).cloned().unwrap_or_else(|| format!("thread #{id}"));
            // Thread ids hold for a run only.
            let is_unique = runs.len() < 2;
            Some(if is_unique { name } else { format!("{name} in {}", run_label(run)) })
        }
    }
}

/// The groups with their methods, sorted and cut, and whether a sum was too large to be held.
fn groups(
    totals: Totals<Method>,
    options: &Options,
    label: impl Fn(Group) -> Option<String>,
) -> (Vec<GroupReport>, bool) {
    let mut by_group: BTreeMap<Group, Vec<(Method, Figures)>> = BTreeMap::new();
    for ((group, method), figures) in totals {
        by_group.entry(group).or_default().push((method, figures));
    }
    let mut saturated = false;
    let mut groups: Vec<GroupReport> = by_group
        .into_iter()
        .map(|(group, methods)| {
            saturated |= methods.iter().any(|(_, figures)| figures.is_saturated());
            group_report(label(group), methods, options)
        })
        .collect();
    if options.by == By::Thread {
        // There may be thousands: the busiest first. Hours and runs stay in order.
        groups.sort_by(|a, b| (b.self_ns, &a.label).cmp(&(a.self_ns, &b.label)));
    }
    (groups, saturated)
}

fn group_report(
    label: Option<String>,
    mut methods: Vec<(Method, Figures)>,
    options: &Options,
) -> GroupReport {
    methods.sort_by(|a, b| compare(options.sort, &b.1, &a.1).then_with(|| a.0.cmp(&b.0)));
    let sum = |of: fn(&Figures) -> u64| methods.iter().map(|(_, f)| u128::from(of(f))).sum();
    let (calls, self_ns): (u128, u128) = (sum(|f| f.calls), sum(|f| f.self_ns));
    let count = methods.len();
    methods.truncate(options.top.unwrap_or(usize::MAX));
    let methods: Vec<MethodReport> = methods
        .into_iter()
        .map(|(method, figures)| MethodReport {
            method,
            self_percent: percent(figures.self_ns.into(), self_ns),
            figures,
        })
        .collect();
    GroupReport { label, not_shown: count - methods.len(), methods, calls, self_ns }
}

/// `part` of `whole` in percent; of nothing it is 0.
#[must_use]
pub fn percent(part: u128, whole: u128) -> f64 {
    // Far more digits than anybody looks at survive the conversion.
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 * 100.0 }
}

fn compare(key: SortKey, a: &Figures, b: &Figures) -> Ordering {
    match key {
        SortKey::SelfTime => a.self_ns.cmp(&b.self_ns),
        SortKey::Total => a.total_ns.cmp(&b.total_ns),
        SortKey::Calls => a.calls.cmp(&b.calls),
        SortKey::Avg => a.avg_ns().cmp(&b.avg_ns()),
        SortKey::Max => a.max_ns.cmp(&b.max_ns),
        SortKey::Throws => a.throws.cmp(&b.throws),
    }
}

fn why_empty(selection: &Selection, counts: &Counts, hint: Option<&Nearest>) -> String {
    let by_thread = selection.by == By::Thread;
    let rows = if by_thread { counts.records } else { counts.stats_rows };
    let rows = rows.saturating_add(counts.tprofiler.calls);
    if rows == 0 {
        return match (by_thread, counts.records > 0 || counts.stats_rows > 0) {
            (true, true) => "no calls: none has a record, and only records know their thread",
            (false, true) => {
                "no totals in these files, only records: a JVM writes the first after ten seconds, then \
                 every minute, and at `tprofiler flush`; --by thread counts the records"
            }
            (_, false) => {
                "no calls: either no class was measured (`tprofiler status` says how many), or no \
                 totals are written yet; a JVM writes them every minute and at `tprofiler flush`"
            }
        }
        .to_owned();
    }
    let range = &selection.range;
    if counts.rows_in_range == 0 {
        return match (counts.hours.first(), counts.hours.last()) {
            (Some(first), Some(last)) if !range.is_everything() && first == last => {
                format!("no calls {range}: these logs are of the hour {}", hour_text(*first))
            }
            (Some(first), Some(last)) if !range.is_everything() => format!(
                "no calls {range}: these logs are of the hours {} to {}",
                hour_text(*first),
                hour_text(*last)
            ),
            _ => "no calls: none that has a record has ended".to_owned(),
        };
    }
    let pattern = selection.method.as_ref().map(ToString::to_string).unwrap_or_default();
    if let Some(hint) = hint {
        format!("no calls in methods named by {pattern}: {}", hint.hint())
    } else if range.is_everything() {
        format!("no calls in methods named by {pattern}")
    } else {
        format!("no calls in methods named by {pattern} {range}")
    }
}

fn tprofiler_notes(counts: &OldCounts) -> Vec<String> {
    let mut notes = Vec::new();
    for (logs, unit) in [(counts.logs_in_ms, "milliseconds"), (counts.logs_in_ns, "nanoseconds")] {
        if logs > 0 {
            notes.push(format!(
                "TProfiler's logs with times in {unit}, which have only calls over its threshold, and \
                 of none whether it threw: {logs}"
            ));
        }
    }
    if counts.without_caller > 0 {
        notes.push(format!(
            "Calls in TProfiler's logs whose caller is not there, because an exception went through \
             it or it had not ended: {}",
            counts.without_caller
        ));
    }
    notes
}

fn notes(by: By, counts: &Counts, saturated: bool, has_pattern: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if by == By::Thread {
        notes.push(
            "By thread only calls at or over the threshold are counted: shorter ones have no record"
                .to_owned(),
        );
    }
    notes.extend(tprofiler_notes(&counts.tprofiler));
    if counts.records_without_path > 0 {
        notes.push(format!(
            "Records whose call path was not kept count in full, recursive or not: {}",
            counts.records_without_path
        ));
    }
    if counts.unknown_methods > 0 {
        let fate = if has_pattern { "and cannot be selected" } else { "and are shown by number" };
        notes.push(format!(
            "Methods that have no name in their run {fate}: {}",
            counts.unknown_methods
        ));
    }
    if saturated {
        notes.push("A sum is larger than 64 bits hold and stands at the largest number".to_owned());
    }
    notes
}
