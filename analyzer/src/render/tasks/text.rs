//! Profile tasks as text.

use std::io::{self, Write};

use log_format::human::{count, duration, plural};
use log_format::rows::TaskState;
use log_format::units::duration_text;
use log_format::writer::one_line;

use super::depth_first;
use crate::options::tasks::{Offsets, TaskOptions};
use crate::options::zone::Zone;
use crate::render::remarks::throttled;
use crate::render::text_parts::{heading, nothing, number, wrapped};
use crate::tasks::find::{CutRequest, TaskInRun, TaskReport};
use crate::tasks::trees::Tree;
use crate::tasks::{MOST_SNAPSHOTS, Task};

/// Deeper elements are not indented further; their callers' ids tell where they belong.
const MAX_DEPTH: usize = 16;

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

/// `finished 2026-11-20T14:05:00Z (count)`.
fn state(task: &Task, zone: &Zone) -> String {
    let word = match task.state {
        TaskState::Notified => "waiting since",
        TaskState::Running => "running since",
        TaskState::Finished => "finished",
        TaskState::Rejected => "rejected",
    };
    let reason = if task.reason.is_empty() { String::new() } else { format!(" ({})", task.reason) };
    format!("{word} {}{reason}", zone.text(task.at_ns))
}

pub fn task(report: &TaskReport, options: &TaskOptions, out: &mut dyn Write) -> io::Result<()> {
    heading(out, &super::title(report))?;
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
    writeln!(out)?;
    heading(out, &of_requests(report))?;
    if report.trees.is_empty() {
        return nothing("no snapshot lies in these times", out);
    }
    report.trees.iter().try_for_each(|of| tree(of, out))
}

/// What the task is, by name.
pub fn facts(report: &TaskReport, zone: &Zone) -> Vec<(&'static str, String)> {
    let task = &report.task;
    let (duration, least) = (duration_text(task.duration_ns), duration_text(task.min_duration_ns));
    let most = plural(u64::from(task.max_samples), "request", "requests");
    let mut facts = vec![("State", state(task, zone))];
    if task.methods != task.endpoint {
        facts.push(("Methods", task.methods.clone()));
    }
    facts.extend([
        (
            "Task",
            format!(
                "{duration} from {} on, at most {most} of at least {least}",
                zone.text(task.start_ns)
            ),
        ),
        ("Snapshots", format!("each {}", duration_text(task.dump_period_ns))),
        ("Run", report.run.clone()),
    ]);
    facts
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

/// A request's cells.
pub fn row(cut: &CutRequest, zone: &Zone) -> [String; 7] {
    let CutRequest { request, thread, snapshots } = cut;
    [
        request.number.to_string(),
        zone.text_ms(request.start_ns),
        duration(request.total_ns),
        request.exit.name().to_owned(),
        count(number(snapshots.len()).into()),
        count(request.calls_read.into()),
        one_line(thread),
    ]
}

/// What makes the tree incomplete.
pub fn notes(report: &TaskReport, zone: &Zone) -> Vec<String> {
    let mut notes = Vec::new();
    for CutRequest { request, snapshots, .. } in &report.requests {
        let which = format!("request {}", request.number);
        if !request.is_complete() {
            notes.push(format!(
                "{which} has {} of its {}: the log is still being written, or was cut",
                request.calls_read,
                plural(request.calls_written.into(), "call", "calls"),
            ));
        }
        if request.calls_dropped > 0 {
            let dropped = plural(request.calls_dropped, "call", "calls");
            let time = "their time is in their callers' self time";
            notes.push(format!("{which} lacks {dropped} that were dropped; {time}"));
        }
        if number(snapshots.len()) == MOST_SNAPSHOTS {
            notes.push(format!("{which} is cut after {} snapshots", count(MOST_SNAPSHOTS.into())));
        }
    }
    notes.extend(throttled(&report.throttled, 1, zone));
    notes.extend(report.muted.iter().map(|pattern| {
        one_line(&format!("{pattern} was muted meanwhile; its time is in its callers' self time"))
    }));
    notes
}

/// What the trees are of.
pub fn of_requests(report: &TaskReport) -> String {
    let shown = match &*report.requests {
        [only] if report.requests_in_log == 1 => format!("Request {}", only.request.number),
        [only] => format!("Request {} alone", only.request.number),
        all => format!("All {} requests together", all.len()),
    };
    let range = |Offsets { from_ms, to_ms }: &Offsets| format!("{from_ms}..{to_ms}");
    let ranges: Vec<String> = report.ranges.iter().map(range).collect();
    let times = if ranges.is_empty() {
        String::new()
    } else {
        format!(", {} ms after the start", ranges.join(" and "))
    };
    format!("{shown}{times}; times in ms")
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
