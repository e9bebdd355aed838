//! The first screen of a text: where requests enter, what uses CPU time and what waits, the hottest methods, the slowest
//! calls, busiest hours, exceptions and recursion, a few of each. Methods have no package here: the table below has it.

use std::cmp::Reverse;
use std::io::{self, Write};

use log_format::rows::Exit;
use log_format::writer::one_line;

use super::labels::{Labels, nearest};
use super::text_parts::{
    average, calls, heading, number, share, sign_of_average, sign_of_calls, sign_of_share, wrapped,
};
use crate::options::zone::Zone;
use crate::report::Report;
use crate::report::cpu::{CpuReport, SampledMethod};
use crate::report::groups::{MethodReport, percent};
use crate::report::off_cpu::{OffCpuReport, Waits};
use crate::report::overview::Overview;
use crate::stats::by_minute::{MinuteSums, hours};
use crate::stats::call_tree::Recursion;
use crate::stats::method::Method;
use crate::stats::sampled_stacks::is_of_jdk;
use crate::stats::slow_calls::RecordedCall;
use log_format::human::{count, duration, plural};

/// Entries shown in each part.
const SHOWN: usize = 5;

/// Callers shown of a slow call.
const CALLERS_SHOWN: usize = 3;

/// Hours are shown if there are more than this; of many, only the busiest.
const HOURS_SHOWN: usize = 6;

/// Writes the parts that the report has data for.
pub fn render(report: &Report, labels: &Labels, out: &mut dyn Write) -> io::Result<()> {
    // With groups there are no figures of the whole.
    let ([group], None) = (&report.methods.groups[..], report.layout.by.column()) else {
        return Ok(());
    };
    entries(report, &group.first.entries, labels, out)?;
    cpu(&report.samples.cpu, labels, out)?;
    waits(&report.samples.off_cpu, labels, out)?;
    hottest(&group.first.by_self, labels, out)?;
    slowest(report, labels, out)?;
    by_hour(&report.overview, &report.layout.zone, out)?;
    throwing(&group.first.by_throws, labels, out)?;
    recursion(&report.overview.recursion, labels, out)?;
    next(report, out)
}

/// What to run next.
fn next(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let mut options = Vec::new();
    if report.overview.slow.iter().any(|calls| !calls.is_empty()) {
        options.push("--slowest 5");
    }
    if report.samples.cpu.total_ns > 0 {
        options.push("--flame cpu -o cpu.svg");
    }
    options.extend(["--format html -o report.html", "--help"]);
    writeln!(out, "Next: {}\n", options.join(", "))
}

fn entries(
    report: &Report,
    methods: &[MethodReport],
    labels: &Labels,
    out: &mut dyn Write,
) -> io::Result<()> {
    if methods.is_empty() {
        return Ok(());
    }
    heading(
        out,
        "Entry methods (the outermost of recorded calls) with all their calls, by total time",
    )?;
    sign_of_calls(methods.iter(), out)?;
    writeln!(
        out,
        "\n{:>12}{:>10}{:>9}{:>10}{:>10}{:>10}  method",
        "calls", "calls/s", "throws", "p50", "p99", "max"
    )?;
    for entry in methods {
        let MethodReport { method, figures, .. } = entry;
        let percentile = |p| figures.percentile_ns(p).map_or("-".into(), duration);
        let cells = format!(
            "{:>12}{:>10}{:>9}{:>10}{:>10}{:>10}  ",
            calls(entry),
            report.per_second(figures.calls).map_or("-".into(), rate),
            count(figures.throws.into()),
            percentile(50.0),
            percentile(99.0),
            duration(figures.max_ns),
        );
        wrapped(out, &cells, &" ".repeat(65), &labels.without_package(method))?;
    }
    writeln!(out)
}

/// A number of calls a second.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Not negative, and far below 2^128.
fn rate(per_second: f64) -> String {
    match per_second {
        100.0.. => count(per_second as u128),
        0.1.. => format!("{per_second:.1}"),
        _ => format!("{per_second:.4}"),
    }
}

fn cpu(cpu: &CpuReport, labels: &Labels, out: &mut dyn Write) -> io::Result<()> {
    let CpuReport { total_ns, samples, methods, .. } = cpu;
    if methods.is_empty() {
        return Ok(());
    }
    let all = plural(*samples, "sample", "samples");
    let all_ns = duration(*total_ns);
    heading(
        out,
        &format!(
            "CPU time, {all_ns} in {all}, JDK code with its caller: --flame cpu has the stacks"
        ),
    )?;
    writeln!(out, "\n{:>12}{:>8}{:>10}  method", "time", "time %", "total %")?;
    let mut methods: Vec<&SampledMethod> =
        methods.iter().filter(|sampled| sampled.cpu.with_jdk_ns > 0).collect();
    methods.sort_by_key(|sampled| Reverse(sampled.cpu.with_jdk_ns));
    for sampled in methods.into_iter().take(SHOWN) {
        let share = |ns: u64| format!("{:.1}%", percent(ns.into(), u128::from(*total_ns)));
        let SampledMethod { method, cpu, .. } = sampled;
        let cells = format!(
            "{:>12}{:>8}{:>10}  ",
            duration(cpu.with_jdk_ns),
            share(cpu.with_jdk_ns),
            share(cpu.total_ns)
        );
        let name = labels.without_package(method) + sampled.sign();
        wrapped(out, &cells, &" ".repeat(34), &name)?;
    }
    writeln!(out)
}

fn waits(off_cpu: &OffCpuReport, labels: &Labels, out: &mut dyn Write) -> io::Result<()> {
    let OffCpuReport { total_ns, waits, .. } = off_cpu;
    // What waits in the JDK alone is mostly idle.
    let mut waits = waits.iter().filter(|waits| !is_of_jdk(&waits.method)).take(SHOWN).peekable();
    if waits.peek().is_none() {
        return Ok(());
    }
    let all = duration(*total_ns);
    heading(
        out,
        &format!("Waiting, outside the JDK; {all} in all threads: --flame wall has the stacks"),
    )?;
    writeln!(out, "\n{:>12}{:>8}  {:<13} method", "time", "time %", "state")?;
    for Waits { method, state, time, .. } in waits {
        let share = percent(time.ns.into(), u128::from(*total_ns));
        let state = state.replace('_', " ");
        let cells = format!("{:>12}{share:>7.1}%  {state:<13} ", duration(time.ns));
        wrapped(out, &cells, &" ".repeat(40), &labels.without_package(method))?;
    }
    writeln!(out)
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
        wrapped(out, &cells, &" ".repeat(55), &labels.without_package(method))?;
    }
    writeln!(out)
}

fn slowest(report: &Report, labels: &Labels, out: &mut dyn Write) -> io::Result<()> {
    let mut calls: Vec<&RecordedCall> =
        report.overview.slow.iter().flatten().filter(|call| !call.is_inner).collect();
    if calls.is_empty() {
        return Ok(());
    }
    calls.sort_by_key(|call| (Reverse(call.total_ns), call.start_ns, call.run));
    heading(out, "Slowest calls, outermost only; --slowest 5 shows what they called")?;
    writeln!(out)?;
    for call in calls.into_iter().take(SHOWN) {
        let exit = if call.exit == Exit::Throw { ", threw" } else { "" };
        let run = report.read.runs.get(call.run).filter(|_| report.read.runs.len() > 1);
        let run = run.map(|run| format!(" in {run}")).unwrap_or_default();
        let callers = nearest(&call.callers, CALLERS_SHOWN);
        let under = if callers.is_empty() { callers } else { format!(", under {callers}") };
        let line = one_line(&format!(
            "{}{exit}  at {} in thread {}{run}{under}",
            labels.without_package(&call.method),
            report.layout.zone.text_ms(call.start_ns),
            call.thread,
        ));
        wrapped(out, &format!("{:>12}  ", duration(call.total_ns)), &" ".repeat(16), &line)?;
    }
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
        let MinuteSums { calls, throws, self_ns, recorded, max_ns } = *sums;
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
    heading(out, "Most exceptions")?;
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
