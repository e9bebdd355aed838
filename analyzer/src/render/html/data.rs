//! The data of the page. Tables are stored by column, names once, and moments as nanoseconds after a base, because
//! unix nanoseconds do not fit JavaScript's numbers.
//!
//! The embedded data is bounded, whatever the logs contain: methods as far as their budget of bytes goes (see
//! [`Table`]), [`PATHS`] call paths, and the collected calls of threads. The rest is summed up. If the packed page is
//! still too large (names of random letters pack badly), it is made again with less data.

use std::collections::BTreeMap;

use log_format::rows::Exit;
use serde::Serialize;

use super::methods::{Methods, NotShown, Table};
use super::paths::{Frame, Paths};
use super::short_tables::{self, ShortTable};
use crate::options::zone::Zone;
use crate::render::shared::labels::{Labels, path};
use crate::render::text::notes::in_text;
use crate::render::text::summary_lines;
use crate::report::cpu::CpuSums;
use crate::report::groups::MethodReport;
use crate::report::overview::Overview;
use crate::report::{ReadSummary, Report};
use crate::stats::by_minute::{MinuteSums, hours};
use crate::stats::method::Method;
use crate::stats::slow_calls::{OF_A_THREAD, RecordedCall, THREADS};
use crate::stats::stacks::Stacks;

/// Most minutes embedded one by one; if there are more, only hours are.
const MINUTES: usize = 15_000;

/// Most hours embedded: a year's. If there are more, none are.
const HOURS: usize = 9_000;

const PATHS: usize = 30_000;

/// Methods in a short list.
const FIRST: usize = 5;

const UNFINISHED_CALLS: usize = 500;

/// Slow calls embedded with their callers.
const WITH_CALLERS: usize = 500;

const NS_PER_HOUR: u64 = 3_600_000_000_000;

#[derive(Serialize)]
pub struct Page<'r> {
    version: &'static str,
    title: String,
    summary: Vec<(&'static str, String)>,
    /// When something was missing, a sentence each.
    notes: Vec<String>,
    empty: Option<&'r str>,
    /// Whether the figures come from recorded calls alone.
    of_records: bool,
    percentiles: &'static str,
    /// The base of other moments, in unix milliseconds.
    base_ms: u64,
    /// How far clocks are ahead of UTC, in seconds, each from a moment in unix milliseconds on.
    offsets: Vec<(u64, i64)>,
    is_utc: bool,
    /// Whether threads are shown with their runs.
    many_runs: bool,
    /// Whether some call paths are not embedded.
    paths_cut: bool,
    /// Methods that call themselves: recorded calls within another one, and the most calls in progress at once.
    recursion: Vec<(usize, u64, u64)>,
    classes: Vec<&'r str>,
    methods: Methods,
    /// The first entry methods.
    entries: Vec<usize>,
    /// Number of methods with exact figures; those that were only sampled follow them.
    measured: usize,
    /// The sampled CPU time, if there are samples.
    cpu: Option<CpuSums>,
    not_shown: NotShown,
    frames: Vec<Frame>,
    paths: Paths,
    /// Number of methods that are not in `hours` and `minutes`.
    partial_methods: usize,
    hours: Times,
    minutes: Times,
    threads: Vec<Thread<'r>>,
    /// The most calls kept of a thread.
    of_a_thread: usize,
    unfinished: Vec<Unfinished<'r>>,
    unfinished_not_shown: usize,
    /// Lock waits, SQL statements, allocations and exceptions.
    tables: Vec<ShortTable>,
}

/// A row for each hour or minute with calls or allocations.
#[derive(Default, Serialize)]
struct Times {
    /// Milliseconds after the base.
    at: Vec<i64>,
    calls: Vec<u64>,
    throws: Vec<u64>,
    own: Vec<u64>,
    recorded: Vec<u64>,
    max: Vec<u64>,
    /// Bytes.
    allocated: Vec<u64>,
}

/// The slowest calls of a thread, one row each.
#[derive(Serialize)]
struct Thread<'r> {
    name: &'r str,
    run: &'r str,
    method: Vec<usize>,
    /// Nanoseconds after the base.
    start: Vec<i64>,
    total: Vec<u64>,
    own: Vec<u64>,
    exit: Vec<Exit>,
    inner: Vec<bool>,
    /// The callers of the slowest calls that are not within another one.
    under: Vec<String>,
}

#[derive(Serialize)]
struct Unfinished<'r> {
    run: &'r str,
    thread: &'r str,
    method: usize,
    start: i64,
    running: u64,
    own: u64,
    under: String,
}

impl<'r> Page<'r> {
    /// The page of a report, with budgets divided by `scale`.
    pub fn new(report: &'r Report, scale: usize) -> Self {
        let labels = labels(report);
        let missing = in_text(report, true);
        let Report { read, layout, overview, paths, .. } = report;
        let stacks = Stacks::new(&paths.tree, |method| labels.of(method), &paths.without_record);
        let mut table = Table::new(&labels, scale);
        let mut not_shown = NotShown::default();
        rows(report).for_each(|row| table.add(row, &mut not_shown));
        let measured = table.listed();
        let entries = report.methods.groups.iter().flat_map(|group| &group.first.entries);
        let entries = entries.map(|entry| table.place(&entry.method));
        let entries = entries.filter(|place| *place < measured).collect();
        let only_sampled = &report.samples.cpu.only_sampled;
        only_sampled.iter().for_each(|row| table.add_sampled(row, &mut not_shown));
        let minutes = minutes(report);
        let moments = moments(report, &minutes);
        let base_ms = moments.first().copied().unwrap_or(read.start_ns) / 1_000_000;
        let base = Base(base_ms);
        let threads = threads(report, THREADS / scale, base, &mut table);
        let unfinished = unfinished(report, base, &mut table);
        let recursion = overview.recursion.iter().take(FIRST);
        let recursion =
            recursion.map(|(method, found)| (table.place(method), found.calls, found.depth));
        let recursion = recursion.collect();
        let most_paths = PATHS / scale;
        let place = |method: &Method| table.places.get(method).copied();
        let (frames, paths) = Paths::new(&stacks, place, most_paths);
        let names = [&read.services, &read.hosts];
        let title = names.into_iter().flatten().take(3).cloned().collect::<Vec<_>>().join(", ");
        Self {
            version: env!("CARGO_PKG_VERSION"),
            title,
            summary: summary_lines(report, &missing),
            notes: missing.details,
            empty: report.empty.as_deref(),
            of_records: report.methods.of_records,
            percentiles: report.percentiles_are(),
            base_ms,
            offsets: offsets(&layout.zone, moments),
            many_runs: read.runs.len() > 1,
            paths_cut: stacks.nodes().len() > most_paths,
            recursion,
            is_utc: layout.zone.is_utc(),
            frames,
            paths,
            partial_methods: overview.partial_methods,
            hours: Times::new(&hours(&minutes, &layout.zone), HOURS / scale, base),
            minutes: Times::new(&minutes, MINUTES / scale, base),
            threads,
            of_a_thread: OF_A_THREAD,
            unfinished_not_shown: report.unfinished.not_shown
                + (report.unfinished.calls.len() - unfinished.len()),
            unfinished,
            tables: short_tables::all(report, &labels),
            not_shown,
            entries,
            measured,
            cpu: (report.samples.cpu.samples > 0).then(|| report.samples.cpu.sums()),
            classes: table.classes,
            methods: table.methods,
        }
    }
}

fn rows(report: &Report) -> impl Iterator<Item = &MethodReport> {
    report.methods.groups.iter().flat_map(|group| &group.methods)
}

fn slow(overview: &Overview) -> impl Iterator<Item = &RecordedCall> {
    overview.slow.iter().flatten()
}

/// Labels for all methods of the page.
fn labels(report: &Report) -> Labels {
    let tree = report.paths.tree.nodes().iter().filter_map(|node| match &node.frame {
        crate::stats::call_tree::Frame::Method(method) => Some(method),
        _ => None,
    });
    let sampled = report.samples.cpu.only_sampled.iter().map(|row| &row.method);
    let locks = report.events.locks.locks.iter().chain(&report.events.locks.parks);
    let sites = locks.filter_map(|lock| lock.site.method.as_ref());
    let thrown = report.events.exceptions.sites.iter().map(|at| &at.site.method);
    let named = rows(report).map(|row| &row.method).chain(sampled).chain(sites).chain(thrown);
    let named = named.chain(report.events.sql.methods());
    let named = named.chain(slow(&report.overview).map(|call| &call.method));
    let named = named.chain(report.overview.allocated.iter().map(|(method, _)| method));
    Labels::new(named.chain(report.unfinished.calls.iter().map(|call| &call.method)).chain(tree))
}

/// What happened in each minute, allocations included.
fn minutes(report: &Report) -> Vec<(u64, MinuteSums)> {
    let mut minutes: BTreeMap<u64, MinuteSums> = report.overview.minutes.iter().copied().collect();
    for (at, bytes) in &report.events.allocations.minutes {
        minutes.entry(*at).or_default().allocated = *bytes;
    }
    minutes.into_iter().collect()
}

/// When minutes and calls began, in order, in unix nanoseconds.
fn moments(report: &Report, minutes: &[(u64, MinuteSums)]) -> Vec<u64> {
    let minutes = minutes.iter().map(|(at, _)| *at);
    let calls = slow(&report.overview).map(|call| call.start_ns);
    let unfinished = report.unfinished.calls.iter().map(|call| call.start_ns);
    let mut moments: Vec<u64> = minutes.chain(calls).chain(unfinished).collect();
    moments.sort_unstable();
    moments
}

fn run_label(read: &ReadSummary, place: usize) -> &str {
    read.runs.get(place).map_or("", String::as_str)
}

/// The first `most` threads with slow calls.
fn threads<'r>(
    report: &'r Report,
    most: usize,
    base: Base,
    table: &mut Table<'r, '_>,
) -> Vec<Thread<'r>> {
    let outer = slow(&report.overview).filter(|call| !call.is_inner);
    let mut outer: Vec<u64> = outer.map(|call| call.total_ns).collect();
    outer.sort_unstable_by(|a, b| b.cmp(a));
    let least_ns = outer.get(WITH_CALLERS).copied().unwrap_or(0);
    let threads = report.overview.slow.iter().take(most).filter_map(|calls| {
        let run = run_label(&report.read, calls.first()?.run);
        Some(Thread::new(calls, run, base, least_ns, table))
    });
    threads.collect()
}

fn unfinished<'r>(
    report: &'r Report,
    base: Base,
    table: &mut Table<'r, '_>,
) -> Vec<Unfinished<'r>> {
    let unfinished = report.unfinished.calls.iter().take(UNFINISHED_CALLS).map(|call| Unfinished {
        run: run_label(&report.read, call.run),
        thread: &call.thread,
        method: table.place(&call.method),
        start: base.ns(call.start_ns),
        running: call.running_ns,
        own: call.self_ns,
        under: path(&call.callers),
    });
    unfinished.collect()
}

impl<'r> Thread<'r> {
    fn new(
        calls: &'r [RecordedCall],
        run: &'r str,
        base: Base,
        least_ns: u64,
        table: &mut Table<'r, '_>,
    ) -> Self {
        let of = |figure: fn(&RecordedCall) -> u64| calls.iter().map(figure).collect();
        let under = |call: &RecordedCall| match call.is_inner || call.total_ns < least_ns {
            true => String::new(),
            false => path(&call.callers),
        };
        Self {
            name: calls.first().map_or("", |call| &call.thread),
            run,
            method: calls.iter().map(|call| table.place(&call.method)).collect(),
            start: calls.iter().map(|call| base.ns(call.start_ns)).collect(),
            total: of(|call| call.total_ns),
            own: of(|call| call.self_ns),
            exit: calls.iter().map(|call| call.exit).collect(),
            inner: calls.iter().map(|call| call.is_inner).collect(),
            under: calls.iter().map(under).collect(),
        }
    }
}

/// The base of other moments, in unix milliseconds.
#[derive(Clone, Copy)]
struct Base(u64);

impl Base {
    fn ns(self, unix_ns: u64) -> i64 {
        let base_ns = i128::from(self.0) * 1_000_000;
        i64::try_from(i128::from(unix_ns) - base_ns).unwrap_or(i64::MAX)
    }
}

impl Times {
    /// Nothing if there are more than `most`.
    fn new(times: &[(u64, MinuteSums)], most: usize, base: Base) -> Self {
        let times = if times.len() > most { &[] } else { times };
        let of = |figure: fn(&MinuteSums) -> u64| times.iter().map(|(_, t)| figure(t)).collect();
        Self {
            at: times.iter().map(|(at, _)| base.ns(*at) / 1_000_000).collect(),
            calls: of(|sums| sums.calls),
            throws: of(|sums| sums.throws),
            own: of(|sums| sums.self_ns),
            recorded: of(|sums| sums.recorded),
            max: of(|sums| sums.max_ns),
            allocated: of(|sums| sums.allocated),
        }
    }
}

/// How far clocks of the zone are ahead of UTC, at each of these moments where that changes.
fn offsets(zone: &Zone, moments: Vec<u64>) -> Vec<(u64, i64)> {
    let mut offsets: Vec<(u64, i64)> = Vec::new();
    let mut hour = None;
    for at in moments {
        // Clocks are set at full or half hours of UTC, so the minutes with calls show each change.
        if hour == Some(at / (NS_PER_HOUR / 2)) {
            continue;
        }
        hour = Some(at / (NS_PER_HOUR / 2));
        let offset_s = zone.offset_s(at);
        if offsets.last().is_none_or(|(_, known)| *known != offset_s) {
            offsets.push((at / 1_000_000, offset_s));
        }
    }
    offsets
}
