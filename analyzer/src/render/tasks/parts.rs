//! What texts and pages say of profile tasks.

use log_format::human::{count, duration, plural};
use log_format::rows::TaskState;
use log_format::units::duration_text;
use log_format::writer::one_line;

use crate::options::tasks::Offsets;
use crate::options::zone::Zone;
use crate::render::shared::missing::throttled;
use crate::render::text::parts::number;
use crate::tasks::find::{CutRequest, TaskReport};
use crate::tasks::trees::{Element, Tree};
use crate::tasks::{ExactCalls, ExactKind, MOST_SNAPSHOTS, Task};

/// The task and its endpoint.
pub fn title(report: &TaskReport) -> String {
    one_line(&format!("Task {}: {}", report.task.id, report.task.endpoint))
}

/// `finished 2026-11-20T14:05:00Z (count)`.
pub fn state(task: &Task, zone: &Zone) -> String {
    let word = match task.state {
        TaskState::Notified => "notified",
        TaskState::Running => "running since",
        TaskState::Finished => "finished",
        TaskState::Rejected => "rejected",
    };
    let reason = if task.reason.is_empty() { String::new() } else { format!(" ({})", task.reason) };
    format!("{word} {}{reason}", zone.text(task.at_ns))
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

/// Heading of the recorded calls.
pub fn exact_title(report: &TaskReport) -> String {
    let has = |kind| report.exact.iter().any(|of| of.kind == kind);
    let more = match (has(ExactKind::Wait), has(ExactKind::Sql)) {
        (true, true) => ", with waits and SQL statements",
        (true, false) => ", with waits",
        (false, true) => ", with SQL statements",
        (false, false) => "",
    };
    let least_ns = report.requests.iter().map(|cut| cut.request.least_call_ns).max();
    let from = match least_ns.unwrap_or_default() {
        0 => String::new(),
        ns => format!(" (from {} on)", duration(ns)),
    };
    format!("Recorded calls of these requests{from}, exact{more}")
}

/// The name of a row of them.
pub fn label(of: &ExactCalls) -> String {
    match of.kind {
        ExactKind::Sql => format!("SQL {}", of.name),
        ExactKind::Call | ExactKind::Wait => of.name.clone(),
    }
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
        if report.task.lacks_short_calls(request) {
            let least = duration(request.least_call_ns);
            notes.push(format!("{which} lacks calls under {least}, because there were too many"));
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
        [only] if report.requests_in_log == 1 => format!("request {}", only.request.number),
        [only] => format!("request {} alone", only.request.number),
        all => format!("all {} requests together", all.len()),
    };
    let range = |Offsets { from_ms, to_ms }: &Offsets| format!("{from_ms}..{to_ms}");
    let ranges: Vec<String> = report.ranges.iter().map(range).collect();
    let times = if ranges.is_empty() {
        String::new()
    } else {
        format!(", {} ms after the start", ranges.join(" and "))
    };
    format!("By snapshots, as SkyWalking shows them: {shown}{times}; times in ms")
}

/// The place of an element in its tree; a root has no caller.
pub fn place(id: u32) -> Option<usize> {
    usize::try_from(id.checked_sub(1)?).ok()
}

/// The elements of a tree with their depths, each before its children.
pub fn depth_first(tree: &Tree) -> Vec<(usize, &Element)> {
    let mut children = vec![Vec::new(); tree.elements.len()];
    for (index, element) in tree.elements.iter().enumerate() {
        if let Some(of) = place(element.parent_id).and_then(|caller| children.get_mut(caller)) {
            of.push(index);
        }
    }
    let mut elements = Vec::new();
    let mut rest = vec![(0, 0)];
    while let Some((depth, index)) = rest.pop() {
        elements.extend(tree.elements.get(index).map(|element| (depth, element)));
        let below = children.get(index).into_iter().flatten().rev();
        rest.extend(below.map(|child| (depth + 1, *child)));
    }
    elements
}
