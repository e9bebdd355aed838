//! The first screen of a text: where requests enter, what uses CPU time, where threads stand, the slowest call, and
//! what to run next, in 60 lines. Busiest hours, exceptions and recursion follow. Methods have no package here, and no
//! parameters if they take too much of a line: the tables below have both.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use super::cpu::kernel_text;
use super::parts::{
    WIDTH, average, calls, heading, number, rate, share, sign_of_average, sign_of_calls,
    sign_of_share, wrapped,
};
use super::{sql, tree};
use crate::options::zone::Zone;
use crate::render::shared::labels::{Labels, simple};
use crate::report::cpu::{CpuReport, SampledMethod};
use crate::report::groups::{FirstMethods, MethodReport, percent};
use crate::report::off_cpu::{OffCpuReport, Waits};
use crate::report::overview::Overview;
use crate::report::{EventReports, Report};
use crate::run::data::UnfinishedCall;
use crate::stats::by_minute::{MinuteSums, hours};
use crate::stats::call_tree::Recursion;
use crate::stats::method::Method;
use crate::stats::sampled_stacks::is_of_jdk;
use log_format::human::{bytes, count, duration, plural};
use log_format::writer::one_line;

/// Entries shown in each part.
const SHOWN: usize = 5;

/// Rows of CPU time: the JVM's own threads take some of them.
const CPU_SHOWN: usize = 8;

/// Hours are shown if there are more than this; of many, only the busiest.
const HOURS_SHOWN: usize = 6;
/// Lines on events that fit.
const EVENT_LINES: usize = 4;
/// Shorter unfinished calls are not worth a line.
const LONG_NS: u64 = 1_000_000_000;

/// Writes the parts that the report has data for.
pub fn render(report: &Report, labels: &Labels, out: &mut dyn Write) -> io::Result<()> {
    // With groups there are no figures of the whole.
    let ([group], None) = (&report.methods.groups[..], report.layout.by.column()) else {
        return Ok(());
    };
    entries(report, &group.first, labels, out)?;
    cpu(&report.samples.cpu, labels, out)?;
    wall(&report.samples.cpu, &report.samples.off_cpu, labels, out)?;
    if report.samples.cpu.samples == 0 {
        // Samples have short methods and those without probes too; the table below begins with the hottest.
        hottest(&group.first.by_self, labels, out)?;
    }
    slowest(report, labels, out)?;
    events(report, labels, out)?;
    next(report, out)?;
    by_hour(&report.overview, &report.layout.zone, out)?;
    throwing(&group.first.by_throws, labels, out)?;
    recursion(&report.overview.recursion, labels, out)
}

/// Writes figures, and the name of their method in as few lines as it can be.
fn row(
    cells: &str,
    (method, sign): (&Method, &str),
    labels: &Labels,
    out: &mut dyn Write,
) -> io::Result<()> {
    let name = labels.fitting(method, WIDTH.saturating_sub(cells.len() + sign.len()));
    wrapped(out, cells, &" ".repeat(cells.len() + 2), &(name + sign))
}

/// The lock most waited for, the slowest SQL statement, what allocated most, where most exceptions began, and what
/// hung, a line each.
fn events(report: &Report, labels: &Labels, out: &mut dyn Write) -> io::Result<()> {
    let mut lines: Vec<(String, &str, Option<&Method>)> = Vec::new();
    let EventReports { locks, allocations, exceptions, sql: sql_report, .. } = &report.events;
    if let Some(first) = locks.locks.first() {
        let waits = plural(locks.waits, "wait", "waits");
        let class = short(&first.site.class);
        let line = format!("Locks: {} in {waits}, most for {class}", duration(locks.total_ns));
        lines.push((line, " at ", first.site.method.as_ref()));
    }
    let of_sql = sql::in_short(sql_report);
    // All lines do not fit: samples say more than recorded calls.
    let has_room = of_sql.is_none() || allocations.classes.is_empty();
    lines.extend(of_sql.map(|line| (line, "", None)));
    if let Some((method, _)) = report.overview.allocated.first().filter(|_| has_room) {
        let all: u64 = report.overview.allocated.iter().map(|(_, of)| of.bytes).sum();
        let of = "Allocated in recorded calls of platform threads";
        let line = format!("{of}: {}, most", bytes(all));
        lines.push((line, " in ", Some(method)));
    }
    if let Some(first) = allocations.classes.first() {
        let line =
            format!("Allocated: {}, most {}", bytes(allocations.all.bytes), short(&first.of));
        lines.push((line, " at ", Some(&first.most)));
    }
    if let Some(first) = exceptions.sites.first() {
        let class = short(&first.site.class);
        let line = format!("Exceptions: {}, most {class}", count(exceptions.began.into()));
        lines.push((line, " at ", Some(&first.site.method)));
    }
    if lines.len() < EVENT_LINES {
        lines.extend(hung(&report.unfinished.calls));
    }
    for (line, at, method) in &lines {
        let at = method.map(|method| {
            let width = WIDTH.saturating_sub(line.chars().count() + at.len());
            format!("{at}{}", labels.fitting(method, width))
        });
        wrapped(out, "", "  ", &(line.clone() + &at.unwrap_or_default()))?;
    }
    if lines.is_empty() { Ok(()) } else { writeln!(out) }
}

/// Where the call stands that was unfinished for longest when recording stopped. `main` is always there.
fn hung(calls: &[UnfinishedCall]) -> Option<(String, &'static str, Option<&Method>)> {
    let is_main = |call: &UnfinishedCall| call.method.parts().1 == "main";
    let long = || calls.iter().filter(|call| call.self_ns >= LONG_NS && !is_main(call));
    let longest = long().max_by_key(|call| call.self_ns)?;
    let threads: BTreeSet<_> = long().map(|call| (call.run, &call.thread)).collect();
    let threads = plural(number(threads.len()), "thread", "threads");
    let line = format!("Unfinished: calls of {threads}, the longest {}", duration(longest.self_ns));
    Some((line, " in ", Some(&longest.method)))
}

/// A class without its package; a lock may be the class itself.
fn short(class: &str) -> String {
    let (name, end) = class.strip_suffix(".class").map_or((class, ""), |name| (name, ".class"));
    // Of a hidden class, the last part says nothing.
    let is_hidden = simple(name).starts_with("0x");
    one_line(if is_hidden { name } else { simple(name) }) + end
}

/// What to run next.
fn next(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let mut options = Vec::new();
    if report.overview.slowest.is_some() {
        options.push("--slowest 5");
    }
    if report.overview.has_tasks {
        options.push("--tasks");
    }
    if report.samples.cpu.total_ns > 0 {
        options.push("--flame cpu -o cpu.svg");
    }
    options.extend(["--format html -o report.html", "--help"]);
    writeln!(out, "Next: {}\n", options.join(", "))
}

fn entries(
    report: &Report,
    first: &FirstMethods,
    labels: &Labels,
    out: &mut dyn Write,
) -> io::Result<()> {
    let FirstMethods { entries: methods, more_entries, .. } = first;
    if methods.is_empty() {
        return Ok(());
    }
    let what = "Entry methods (outermost in recorded calls), nested calls included, by total time";
    let more = if *more_entries > 0 { format!("; {more_entries} more") } else { String::new() };
    heading(out, &format!("{what}{more}"))?;
    sign_of_calls(methods.iter(), out)?;
    writeln!(
        out,
        "\n{:>11}{:>9}{:>8}{:>9}{:>9}{:>9}{:>9}  method",
        "calls", "calls/s", "throws", "p50", "p95", "p99", "max"
    )?;
    for entry in methods {
        let MethodReport { method, figures, .. } = entry;
        let [p50, p95, p99] =
            figures.percentiles_ns().map(|percentile| percentile.map_or("-".into(), duration));
        let cells = format!(
            "{:>11} {:>8} {:>7} {p50:>8} {p95:>8} {p99:>8} {:>8}  ",
            calls(entry),
            report.calls_per_second(figures.calls).map_or("-".into(), rate),
            count(figures.throws.into()),
            duration(figures.max_ns),
        );
        row(&cells, (method, ""), labels, out)?;
    }
    writeln!(out)
}

fn cpu(cpu: &CpuReport, labels: &Labels, out: &mut dyn Write) -> io::Result<()> {
    let CpuReport { total_ns, samples, methods, .. } = cpu;
    if methods.iter().all(|sampled| sampled.cpu.with_jdk_ns == 0) {
        return Ok(());
    }
    let all = plural(*samples, "sample", "samples");
    let (all_ns, kernel) = (duration(*total_ns), kernel_text(cpu));
    // A line has a hundred columns.
    let stacks = if kernel.is_empty() { " has stacks" } else { "" };
    let what = format!("{all_ns} in {all}{kernel}, JDK code counts for its caller");
    heading(out, &format!("CPU time, {what}: --flame cpu{stacks}"))?;
    writeln!(out, "\n{:>12}{:>8}{:>10}  method", "time", "time %", "total %")?;
    let mut methods: Vec<&SampledMethod> =
        methods.iter().filter(|sampled| sampled.cpu.with_jdk_ns > 0).collect();
    methods.sort_by_key(|sampled| Reverse(sampled.cpu.with_jdk_ns));
    for sampled in methods.into_iter().take(CPU_SHOWN) {
        let share = |ns: u64| format!("{:.1}%", percent(ns.into(), u128::from(*total_ns)));
        let SampledMethod { method, cpu, .. } = sampled;
        let cells = format!(
            "{:>12}{:>8}{:>10}  ",
            duration(cpu.with_jdk_ns),
            share(cpu.with_jdk_ns),
            share(cpu.total_ns)
        );
        row(&cells, (method, sampled.sign()), labels, out)?;
    }
    writeln!(out)
}

/// What a method's threads did, by state: the columns of [`STATES`].
type Wall = [u64; STATES.len()];

/// The columns: `runnable` waits for a processor, `vm` for the JVM.
const STATES: [&str; 8] =
    ["running", "runnable", "blocked", "waiting", "sleeping", "parked", "native", "vm"];

fn add(wall: &mut Wall, state: &str, ns: u64) {
    let name = if state == "timed_waiting" { "waiting" } else { state };
    let column = STATES.iter().position(|known| *known == name).unwrap_or(STATES.len() - 1);
    wall.get_mut(column).into_iter().for_each(|sum| *sum = sum.saturating_add(ns));
}

/// Running and waiting of methods outside the JDK: what waits in the JDK alone is mostly idle.
fn wall(
    cpu: &CpuReport,
    off_cpu: &OffCpuReport,
    labels: &Labels,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut methods: BTreeMap<&Method, Wall> = BTreeMap::new();
    for Waits { method, state, time, .. } in &off_cpu.waits {
        add(methods.entry(method).or_default(), state, time.ns);
    }
    methods.retain(|method, _| !is_of_jdk(method));
    if methods.is_empty() {
        return Ok(());
    }
    for SampledMethod { method, cpu, .. } in &cpu.methods {
        if cpu.with_jdk_ns > 0 && !is_of_jdk(method) {
            add(methods.entry(method).or_default(), "running", cpu.with_jdk_ns);
        }
    }
    let sum = |wall: &Wall| wall.iter().fold(0, |all: u64, ns| all.saturating_add(*ns));
    let mut rows: Vec<(&Method, u64, Wall)> =
        methods.into_iter().map(|(method, wall)| (method, sum(&wall), wall)).collect();
    rows.sort_by_key(|(_, ns, _)| Reverse(*ns));
    rows.truncate(SHOWN);
    let used = |at: usize| rows.iter().any(|(.., wall)| wall.get(at).is_some_and(|ns| *ns > 0));
    let used: Vec<bool> = (0..STATES.len()).map(used).collect();

    let all_ns = u128::from(cpu.total_ns) + u128::from(off_cpu.total_ns);
    let waited = duration(off_cpu.total_ns);
    heading(
        out,
        &format!(
            "Wall time outside the JDK (runnable: no processor); platform threads waited {waited}: --flame wall"
        ),
    )?;
    let heads = STATES.iter().zip(&used).filter(|(_, used)| **used);
    let heads: String = heads.map(|(state, _)| format!("{state:>9}")).collect();
    writeln!(out, "\n{:>12}{:>8}{heads}  method", "time", "time %")?;
    for (method, ns, wall) in rows {
        let parts = wall.iter().zip(&used).filter(|(_, used)| **used);
        let parts: String =
            parts.map(|(part_ns, _)| format!("{:>9}", part(*part_ns, ns))).collect();
        let share = percent(ns.into(), all_ns);
        let cells = format!("{:>12}{share:>7.1}%{parts}  ", duration(ns));
        row(&cells, (method, ""), labels, out)?;
    }
    writeln!(out)
}

/// A part in whole percent.
fn part(ns: u64, of_ns: u64) -> String {
    match (ns, percent(ns.into(), of_ns.into())) {
        (0, _) => "-".to_owned(),
        (_, ..1.0) => "<1%".to_owned(),
        (_, share) => format!("{share:.0}%"),
    }
}

fn hottest(methods: &[MethodReport], labels: &Labels, out: &mut dyn Write) -> io::Result<()> {
    heading(out, "Hottest methods, by self time")?;
    sign_of_calls(methods.iter(), out)?;
    sign_of_share(methods.iter(), out)?;
    sign_of_average(methods.iter(), out)?;
    writeln!(
        out,
        "\n{:>12}{:>8}{:>11}{:>10}{:>10}  method",
        "self", "self %", "calls", "avg", "p99"
    )?;
    for hot in methods {
        let MethodReport { method, figures, .. } = hot;
        let cells = format!(
            "{:>12}{:>8}{:>11}{:>10}{:>10}  ",
            duration(figures.self_ns),
            share(hot),
            calls(hot),
            average(hot),
            figures.percentile_ns(99.0).map_or("-".into(), duration),
        );
        row(&cells, (method, ""), labels, out)?;
    }
    writeln!(out)
}

fn slowest(report: &Report, labels: &Labels, out: &mut dyn Write) -> io::Result<()> {
    let Some(call) = &report.overview.slowest else { return Ok(()) };
    heading(out, "The slowest recorded call, and what took longest in it; --slowest 5 has more")?;
    writeln!(out)?;
    tree::in_short(report, call, labels, out)?;
    writeln!(out)
}

fn by_hour(overview: &Overview, zone: &Zone, out: &mut dyn Write) -> io::Result<()> {
    let mut hours = hours(&overview.minutes, zone);
    if hours.len() < 2 {
        return Ok(());
    }
    let more = hours.len().saturating_sub(HOURS_SHOWN);
    let which = if more > 0 { ", those with most time" } else { "" };
    hours.sort_by_key(|(at, sums)| (Reverse(sums.self_ns), *at));
    hours.truncate(HOURS_SHOWN);
    hours.sort_by_key(|(at, _)| *at);
    heading(out, &format!("Hours compared{which}; --by hour has their methods"))?;
    if overview.partial_methods > 0 {
        let methods = plural(number(overview.partial_methods), "method", "methods");
        let that = if overview.partial_methods == 1 { "that was" } else { "that were" };
        writeln!(out, "Without {methods} {that} throttled or muted for part of the time")?;
    }
    writeln!(out)?;
    let heads = ["calls", "throws", "self", "self/call", "recorded", "longest"];
    hour_line("hour", heads.map(str::to_owned), out)?;
    for (at, sums) in &hours {
        let MinuteSums { calls, throws, self_ns, recorded, max_ns, .. } = *sums;
        let each = self_ns.checked_div(calls).map_or("-".to_owned(), duration);
        let cells = [
            count(calls.into()),
            count(throws.into()),
            duration(self_ns),
            each,
            count(recorded.into()),
            duration(max_ns),
        ];
        hour_line(&zone.text_minute(*at), cells, out)?;
    }
    if more > 0 {
        writeln!(out, "{:>12}and {}", "", plural(number(more), "more hour", "more hours"))?;
    }
    writeln!(out)
}

fn hour_line(at: &str, cells: [String; 6], out: &mut dyn Write) -> io::Result<()> {
    let cells: String = cells.iter().map(|cell| format!("{cell:>11}")).collect();
    writeln!(out, "  {at:<25}{cells}")
}

fn throwing(methods: &[MethodReport], labels: &Labels, out: &mut dyn Write) -> io::Result<()> {
    if methods.is_empty() {
        return Ok(());
    }
    heading(out, "Most exceptions; one counts in each method that it leaves")?;
    sign_of_calls(methods.iter(), out)?;
    writeln!(out)?;
    for throwing in methods {
        let MethodReport { method, figures, .. } = throwing;
        let share = percent(figures.throws.into(), figures.calls.into());
        let of = if figures.calls == 1 { "call" } else { "calls" };
        let calls = calls(throwing);
        let line = format!("{}  {share:.1}% of {calls} {of}", labels.without_package(method));
        wrapped(out, &format!("{:>12}  ", count(figures.throws.into())), &" ".repeat(16), &line)?;
    }
    writeln!(out)
}

fn recursion(
    methods: &[(Method, Recursion)],
    labels: &Labels,
    out: &mut dyn Write,
) -> io::Result<()> {
    if methods.is_empty() {
        return Ok(());
    }
    heading(out, "Recursive methods, from the recorded calls")?;
    writeln!(out)?;
    for (method, found) in methods.iter().take(SHOWN) {
        let line = format!("{}  up to {} deep", labels.without_package(method), found.depth);
        wrapped(out, &format!("{:>12}  ", count(found.calls.into())), &" ".repeat(16), &line)?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn classes_are_short() {
        for (class, name) in [
            ("com.shop.Stock$Row", "Stock$Row"),
            ("com.shop.Stock.class", "Stock.class"),
            ("com.shop.Order$$Lambda.0x00007f01", "com.shop.Order$$Lambda.0x00007f01"),
            ("byte[]", "byte[]"),
            ("[no blocker]", "[no blocker]"),
        ] {
            assert_eq!(short(class), name);
        }
    }
}
