//! Profile tasks as text.

use std::io::{self, Write};

use log_format::human::{count, duration, plural};
use log_format::writer::one_line;

use super::parts::{depth_first, exact_title, facts, label, notes, of_requests, row, state, title};
use crate::options::tasks::TaskOptions;
use crate::options::zone::Zone;
use crate::render::text::parts::{heading, nothing, number, wrapped};
use crate::tasks::ExactCalls;
use crate::tasks::find::{TaskInRun, TaskReport};
use crate::tasks::trees::Tree;

/// Deeper elements are not indented further; their callers' ids tell where they belong.
const MAX_DEPTH: usize = 16;

/// Most rows of exact calls.
const EXACT_SHOWN: usize = 200;

pub fn list(tasks: &[TaskInRun], options: &TaskOptions, out: &mut dyn Write) -> io::Result<()> {
    if tasks.is_empty() {
        return nothing("these logs have no profile tasks", out);
    }
    heading(out, &plural(number(tasks.len()), "profile task", "profile tasks"))?;
    for TaskInRun { run, task } in tasks {
        writeln!(out)?;
        let requests = plural(u64::from(task.recorded), "request", "requests");
        let line = format!("{}  {}, {requests}", task.id, state(task, &options.zone));
        wrapped(out, "", "    ", &one_line(&line))?;
        wrapped(out, "    ", "    ", &one_line(&format!("{} in run {run}", task.endpoint)))?;
    }
    Ok(())
}

pub fn task(report: &TaskReport, options: &TaskOptions, out: &mut dyn Write) -> io::Result<()> {
    heading(out, &title(report))?;
    for (name, text) in facts(report, &options.zone) {
        let first = format!("{:11}", name);
        wrapped(out, &first, &" ".repeat(11), &one_line(&text))?;
    }
    writeln!(out)?;
    if report.requests.is_empty() {
        return nothing("no request was recorded", out);
    }
    requests(report, &options.zone, out)?;
    let notes = notes(report, &options.zone);
    if !notes.is_empty() {
        writeln!(out)?;
        for note in notes {
            wrapped(out, "- ", "  ", &note)?;
        }
    }
    if !report.exact.is_empty() {
        writeln!(out)?;
        exact(report, out)?;
    }
    writeln!(out)?;
    heading(out, &of_requests(report))?;
    if report.trees.is_empty() {
        return nothing("no snapshot lies in these times", out);
    }
    report.trees.iter().try_for_each(|of| tree(of, out))
}

fn requests(report: &TaskReport, zone: &Zone, out: &mut dyn Write) -> io::Result<()> {
    let rows: Vec<[String; 7]> = report.requests.iter().map(|cut| row(cut, zone)).collect();
    let names = ["request", "start", "duration", "exit", "snapshots", "calls", "thread"];
    let names = names.map(str::to_owned);
    let width = |column: usize| {
        let cells = rows.iter().chain([&names]).filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..names.len()).map(width).collect();
    for row in [&names].into_iter().chain(&rows) {
        let cells = row.iter().zip(&widths).enumerate();
        let line: Vec<String> = cells
            .map(|(column, (cell, width))| match column {
                1 | 3 => format!("{cell:width$}"),
                6 => cell.clone(),
                _ => format!("{cell:>width$}"),
            })
            .collect();
        writeln!(out, "{}", line.join("  "))?;
    }
    Ok(())
}

fn exact(report: &TaskReport, out: &mut dyn Write) -> io::Result<()> {
    let all = &report.exact;
    heading(out, &exact_title(report))?;
    writeln!(out)?;
    writeln!(out, "     total       self     calls  code")?;
    for of in all.iter().take(EXACT_SHOWN) {
        let ExactCalls { depth, calls, total_ns, self_ns, .. } = of;
        let columns = format!(
            "{:>10} {:>10} {:>9}  ",
            duration(*total_ns),
            duration(*self_ns),
            count((*calls).into())
        );
        let first = format!("{columns}{}", " ".repeat(2 * (*depth).min(MAX_DEPTH)));
        let rest = " ".repeat(first.chars().count() + 2);
        wrapped(out, &first, &rest, &one_line(&label(of)))?;
    }
    match number(all.len().saturating_sub(EXACT_SHOWN)) {
        0 => Ok(()),
        rest => writeln!(out, "    and {}", plural(rest, "more row", "more rows")),
    }
}

fn tree(tree: &Tree, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out)?;
    writeln!(out, "duration     self  snapshots    id  caller  code")?;
    for (depth, element) in depth_first(tree) {
        let columns = format!(
            "{:>8} {:>8} {:>10} {:>5} {:>7}  ",
            count(element.duration_ms.into()),
            count(element.self_ms.into()),
            count(element.count.into()),
            element.id,
            element.parent_id
        );
        let indent = " ".repeat(2 * depth.min(MAX_DEPTH));
        let first = format!("{columns}{indent}");
        let rest = " ".repeat(first.chars().count() + 2);
        wrapped(out, &first, &rest, &one_line(&element.code_signature))?;
    }
    Ok(())
}
