//! Tables for people: plain text, no line over [`WIDTH`](parts::WIDTH) columns, nothing cut from a name.
//!
//! A method's name is above its figures: together they fit on no line.
//!
//! This file has the order of the sections, what was read, the tables of methods and the unfinished calls. Each other
//! section has its own file: [`overview`] is the first screen, [`notes`] says what is missing. [`parts`] wraps lines.
//!
//! The page shows the cells of some sections, so these are one function for both. Comparisons use [`parts`] and what
//! [`locks`] and [`sql`] call a site and a statement; profile tasks use [`parts`].

pub(super) mod allocations;
mod cpu;
mod dumps;
pub(super) mod exceptions;
pub(super) mod locks;
pub(super) mod notes;
mod off_cpu;
mod overview;
pub(super) mod parts;
pub(super) mod sql;
mod states;
pub(super) mod traces;
mod tree;

use std::io::{self, Write};

use anstyle::Style;
use log_format::rows::Exit;
use log_format::writer::one_line;

use self::notes::{InText, in_text};
use self::parts::{
    WARNING, average, calls, headed, heading, nothing, number, origin, recorded, share,
    sign_of_average, sign_of_calls, sign_of_share, some_of, time_of, wrapped,
};
use crate::options::By;
use crate::render::shared::labels::{Labels, path};
use crate::report::groups::{GroupReport, MethodReport, percent};
use crate::report::selected::SelectedData;
use crate::report::slowest::SlowCall;
use crate::report::{ReadSummary, Report, SampleReport, UnfinishedReport};
use crate::run::data::UnfinishedCall;
use log_format::human::{count, duration, plural, separated};

/// Columns of a table and their widths; two columns of indent precede them.
const COLUMNS: [(&str, usize); 10] = [
    ("calls", 11),
    ("throws", 10),
    ("total", 10),
    ("self", 9),
    ("self %", 8),
    ("avg", 10),
    ("max", 10),
    ("p50", 10),
    ("p95", 10),
    ("p99", 10),
];

pub fn render(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let missing = in_text(report, report.layout.notes);
    summary(report, &missing, out)?;
    body(report, out)?;
    notes::at_end(report, &missing, out)
}

fn body(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    if let Some(states) = &report.states {
        writeln!(out)?;
        return match &report.empty {
            Some(reason) => nothing(reason, out),
            None => states::render(states, out),
        };
    }
    if let Some(calls) = &report.slowest {
        writeln!(out)?;
        return tree::slowest(report, calls, out);
    }
    if let Some(order) = report.layout.tree {
        writeln!(out)?;
        return tree::render(report, order, out);
    }
    let groups = || report.methods.groups.iter();
    let table_methods = groups().flat_map(|g| &g.methods).map(|m| &m.method);
    let of_first = groups().map(|group| &group.first);
    let first = of_first.flat_map(|of| of.entries.iter().chain(&of.by_self).chain(&of.by_throws));
    let slowest = report.overview.slowest.iter().flat_map(SlowCall::methods);
    let first = first.map(|m| &m.method).chain(slowest);
    let unfinished = report.unfinished.calls.iter().map(|call| &call.method);
    let recursive = report.overview.recursion.iter().map(|(method, _)| method);
    let allocated = report.overview.allocated.first().map(|(method, _)| method);
    let SampleReport { cpu, off_cpu, dumps } = &report.samples;
    let sampled = cpu.methods.iter().map(|sampled| &sampled.method);
    let waiting = off_cpu.waits.iter().map(|waits| &waits.method);
    let locked = report.events.locks.locks.iter().filter_map(|lock| lock.site.method.as_ref());
    let thrown = report.events.exceptions.sites.iter().map(|at| &at.site.method);
    let sql = report.events.sql.methods();
    let of_samples = sampled.chain(waiting).chain(locked).chain(thrown).chain(sql);
    let listed = table_methods
        .chain(first)
        .chain(unfinished)
        .chain(recursive)
        .chain(allocated)
        .chain(of_samples);
    let labels = Labels::new(listed);
    writeln!(out)?;
    match &report.empty {
        Some(reason) => nothing(reason, out)?,
        None => {
            overview::render(report, &labels, out)?;
            tables(report, &labels, out)?;
        }
    }
    cpu::render(cpu, report.layout.top, &labels, out)?;
    off_cpu::render(off_cpu, report.layout.top, &labels, out)?;
    locks::render(&report.events.locks, report.layout.top, &labels, out)?;
    sql::render(report, &labels, out)?;
    allocations::render(report, &labels, out)?;
    traces::render(report, &labels, out)?;
    exceptions::render(report, &labels, out)?;
    dumps::render(dumps, report.layout.top, out)?;
    unfinished_calls(report, &labels, out)
}

fn summary(report: &Report, missing: &InText, out: &mut dyn Write) -> io::Result<()> {
    for (heading, line) in summary_lines(report, missing) {
        let mut text = Vec::new();
        wrapped(&mut text, &format!("{heading:<10}"), &" ".repeat(12), &line)?;
        // Only now: a style has no width.
        let rest = text.split_off(heading.len());
        let style = if ["missing", "trust"].contains(&heading) { WARNING } else { Style::new() };
        write!(out, "{style}{heading}{style:#}")?;
        out.write_all(&rest)?;
    }
    Ok(())
}

/// What was read and selected, and what is missing; a line without a heading continues the one before.
pub(crate) fn summary_lines(report: &Report, missing: &InText) -> Vec<(&'static str, String)> {
    let read = &report.read;
    let what_and_when =
        format!("{}{}; {}", origin(read), recorded(read), time_of(read, &report.layout.zone));
    let mut lines = vec![("read", what_and_when), ("", amount(read))];
    let mut selected = Vec::new();
    let SelectedData { range, pattern, filters, .. } = &report.selected;
    if !range.is_everything() {
        selected.push(range.text(&report.layout.zone));
    }
    selected.extend(pattern.iter().map(|pattern| format!("methods {pattern}")));
    let exit = filters.exit.map(exit_text);
    let named = [
        ("hosts", &filters.host),
        ("runs", &filters.run),
        ("threads", &filters.thread),
        ("callers", &filters.root),
    ];
    let named = named.into_iter().filter_map(|(what, name)| Some((what, name.as_ref()?)));
    selected.extend(named.map(|(what, name)| one_line(&format!("{what} {name}"))));
    selected.extend(exit.map(str::to_owned));
    selected.extend(filters.above_ns.map(|ns| format!("calls of {} or more", duration(ns))));
    if !selected.is_empty() {
        lines.push(("selected", selected.join(", ")));
    }
    let files = (!read.missing_files.is_empty()).then(|| some_of(&read.missing_files));
    lines.extend(headed("missing", files.into_iter().chain(missing.gone.clone()).collect()));
    lines.extend(headed("note", report.notes.clone()));
    lines.extend(missing.trust.iter().map(|line| ("trust", line.clone())));
    lines
}

fn exit_text(exit: Exit) -> &'static str {
    match exit {
        Exit::Return => "calls that returned",
        Exit::Throw => "calls that ended with an exception",
        Exit::Unfinished => "unfinished calls",
    }
}

fn amount(read: &ReadSummary) -> String {
    let counts = &read.counts;
    let of = match read.thresholds_ns {
        Some((0, 0)) | None => String::new(),
        Some((low, high)) if low == high => format!(" ({} or more)", duration(low)),
        Some((low, high)) => {
            format!(" (over thresholds from {} to {})", duration(low), duration(high))
        }
    };
    let mut text = format!(
        "{}{of}, {} of method statistics",
        plural(counts.records, "recorded call", "recorded calls"),
        plural(counts.stats_rows, "row", "rows")
    );
    if read.torn_lines > 0 {
        text += &format!(", {}", plural(read.torn_lines, "torn line", "torn lines"));
    }
    if read.bad_lines > 0 {
        text += &format!(", {}", plural(read.bad_lines, "bad line", "bad lines"));
    }
    text
}

fn tables(report: &Report, labels: &Labels, out: &mut dyn Write) -> io::Result<()> {
    let groups = &report.methods.groups;
    let all_self_ns = groups.iter().map(|group| group.self_ns).sum();
    let what = match report.layout.by {
        By::Nothing => "Methods",
        By::Hour => "Methods of each hour",
        By::Thread => "Methods of each thread",
        By::Run => "Methods of each run",
        By::Minute => "Methods of each minute",
        By::Host => "Methods of each host",
        By::Class => "Methods of each class",
        By::Package => "Methods of each package",
    };
    let has_old_logs = report.read.counts.tprofiler.logs() > 0;
    let calls = if report.methods.of_records || has_old_logs { "recorded" } else { "all" };
    let error = report.percentiles_are();
    let by = sort_text(report.layout.sort.name());
    heading(out, &format!("{what} by {by}; p50, p95, p99 of {calls} calls, {error}"))?;
    let methods = groups.iter().flat_map(|group| &group.methods);
    if groups.iter().any(|group| group.label.is_some() && group.is_partial) {
        writeln!(
            out,
            "+: at least so many; a method was throttled or muted for part of the time, or all"
        )?;
    } else {
        sign_of_calls(methods.clone(), out)?;
    }
    sign_of_share(methods.clone(), out)?;
    sign_of_average(methods, out)?;
    for group in groups {
        writeln!(out)?;
        if let Some(label) = &group.label {
            let mut line = format!(
                "{label}: {}{} {}, self {}",
                count(group.calls),
                if group.is_partial { "+" } else { "" },
                if group.calls == 1 { "call" } else { "calls" },
                duration(u64::try_from(group.self_ns).unwrap_or(u64::MAX)),
            );
            if let (Some(key), 2..) = (report.layout.by.column(), groups.len()) {
                let share = percent(group.self_ns, all_self_ns);
                let s = if key.ends_with('s') { "es" } else { "s" };
                line += &format!(", {share:.1}% of all {key}{s}");
            }
            wrapped(out, "", "  ", &one_line(&line))?;
        }
        table(group, labels, out)?;
    }
    Ok(())
}

fn sort_text(key: &str) -> &str {
    match key {
        "self" => "self time",
        "total" => "total time",
        "avg" => "average",
        "max" => "longest call",
        other => other,
    }
}

fn table(group: &GroupReport, labels: &Labels, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "  ")?;
    for (name, width) in COLUMNS {
        write!(out, "{name:>width$}")?;
    }
    writeln!(out)?;
    for (rank, method) in (1..).zip(&group.methods) {
        wrapped(out, &format!("{rank:>3} "), &" ".repeat(6), &labels.of(&method.method))?;
        write!(out, "  ")?;
        for (text, (_, width)) in cells(method).iter().zip(COLUMNS) {
            // Large numbers are wider than their column.
            write!(out, " {text:>0$}", width - 1)?;
        }
        writeln!(out)?;
    }
    if group.not_shown > 0 {
        let rest = plural(number(group.not_shown), "more method", "more methods");
        writeln!(out, "    and {rest}")?;
    }
    Ok(())
}

fn cells(method: &MethodReport) -> [String; 10] {
    let figures = &method.figures;
    let [p50, p95, p99] =
        figures.percentiles_ns().map(|percentile| percentile.map_or("-".into(), duration));
    [
        calls(method),
        count(figures.throws.into()),
        duration(figures.total_ns),
        duration(figures.self_ns),
        share(method),
        average(method),
        duration(figures.max_ns),
        p50,
        p95,
        p99,
    ]
}

/// Lists the unfinished calls of a thread together, callers first.
fn unfinished_calls(report: &Report, labels: &Labels, out: &mut dyn Write) -> io::Result<()> {
    let UnfinishedReport { calls, not_shown, .. } = &report.unfinished;
    if calls.is_empty() && *not_shown == 0 {
        return Ok(());
    }
    writeln!(out)?;
    heading(
        out,
        "Unfinished calls: in progress when recording stopped; no figure above includes them",
    )?;
    writeln!(out, "\n     running        self")?;
    let mut left: Vec<&UnfinishedCall> = calls.iter().collect();
    while let Some(first) = left.first().copied() {
        let (together, rest) = left.into_iter().partition(|call| is_same_stack(first, call));
        left = rest;
        unfinished_stack(report, labels, first, together, out)?;
    }
    if *not_shown > 0 {
        writeln!(out, "  and {} more", separated(*not_shown as u128))?;
    }
    Ok(())
}

/// Whether two calls were in progress at the same moment in one thread; moments are rounded to nanoseconds.
fn is_same_stack(a: &UnfinishedCall, b: &UnfinishedCall) -> bool {
    let until = |call: &UnfinishedCall| call.start_ns.saturating_add(call.running_ns);
    (a.run, &a.thread) == (b.run, &b.thread) && until(a).abs_diff(until(b)) < 1_000
}

fn unfinished_stack(
    report: &Report,
    labels: &Labels,
    first: &UnfinishedCall,
    calls: Vec<&UnfinishedCall>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let run = report.read.runs.get(first.run).filter(|_| report.read.runs.len() > 1);
    let run = run.map(|run| format!(" in {run}")).unwrap_or_default();
    let until = report.layout.zone.text(first.start_ns.saturating_add(first.running_ns));
    wrapped(
        out,
        "  ",
        "    ",
        &one_line(&format!("{}{run}, still running at {until}", first.thread)),
    )?;
    let callers = path(&first.callers);
    if !callers.is_empty() {
        wrapped(out, &" ".repeat(26), &" ".repeat(28), &format!("under {callers}"))?;
    }
    for call in calls {
        let times = format!("{:>12}{:>12}  ", duration(call.running_ns), duration(call.self_ns));
        wrapped(out, &times, &" ".repeat(28), &labels.of(&call.method))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::parts::WIDTH;
    use super::*;

    #[test]
    fn a_table_fits() {
        let width = COLUMNS.iter().map(|(_, width)| width).sum::<usize>() + 2;
        assert!(width <= WIDTH, "{width}");
    }
}
