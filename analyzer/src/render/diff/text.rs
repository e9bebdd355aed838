//! A comparison for people: what became slower comes first, each section sorted by its time.

use std::io::{self, Write};

use log_format::writer::one_line;

use super::table::{Row, SampledTable, Table, cost_text, percent_text};
use super::{allocations, exceptions, traces};
use crate::diff::{
    Change, Comparison, CpuChange, Least, Limit, MethodChange, Per, Side, Status, TimeChange,
    WaitChange,
};
use crate::render::shared::labels::Labels;
use crate::render::shared::missing::missing_in_short;
use crate::render::text::locks::site_label;
use crate::render::text::parts::{headed, hours, number, origin, recorded, wrapped};
use crate::render::text::sql::STATEMENT_WIDTH;
use crate::stats::lock_sums::LockSite;
use crate::stats::method::Method;
use crate::stats::sampled_stacks::is_of_jdk;
use crate::stats::sql_sums::shortened;
use log_format::human::{duration, plural, separated};

/// Methods named as too slow at the top; all are marked in their rows.
const FAILS_NAMED: usize = 5;

pub fn render(comparison: &Comparison, top: Option<usize>, out: &mut dyn Write) -> io::Result<()> {
    let named: Vec<Method> =
        comparison.methods.iter().map(|m| Method::Named(m.name.clone())).collect();
    let labels = Labels::new(named.iter());
    let of_side = |heading, side| of_side(heading, side);
    let mut lines: Vec<(&str, String)> =
        headed("too slow", fails(comparison, |method| labels.of(method))).collect();
    lines.extend(headed("close", close(comparison, |method| labels.of(method))));
    lines.extend(passed(comparison).map(|line| ("passed", line)));
    lines.extend(of_side("before", &comparison.before));
    lines.extend(of_side("after", &comparison.after));
    if let Some(pattern) = &comparison.after.report.selected.pattern {
        lines.push(("selected", format!("methods {pattern}")));
    }
    lines.extend(headed("note", comparison.notes.clone()));
    lines.push(("compared", compared(comparison)));
    for (heading, line) in lines {
        wrapped(out, &format!("{heading:<10}"), &" ".repeat(12), &line)?;
    }
    let unit = unit(comparison);
    for (status, heading) in [
        (Status::Slower, format!("Slower, by time added {unit}")),
        (Status::Faster, format!("Faster, by time saved {unit}")),
        (Status::New, "New: no calls before".to_owned()),
        (Status::Vanished, "Vanished: no calls after".to_owned()),
        (
            Status::NotComparable,
            "Not comparable: throttled or muted for part of the time, or never instrumented"
                .to_owned(),
        ),
    ] {
        let mut methods: Vec<&MethodChange> =
            comparison.methods.iter().filter(|method| method.status == status).collect();
        if methods.is_empty() {
            continue;
        }
        if matches!(status, Status::Faster) || (status == Status::Vanished && is_costed(&methods)) {
            methods.reverse();
        }
        writeln!(out, "\n{heading}")?;
        let rows: Vec<Row> = methods.iter().map(|method| method_row(method, &labels)).collect();
        let table = Table { of: ["calls", "self", "self/call"], more: ["method", "methods"] };
        table.write(comparison, &rows, top, out)?;
    }
    cpu(comparison, top, out)?;
    waiting(comparison, top, out)?;
    lock_waits(comparison, top, out)?;
    sql(comparison, top, out)?;
    allocations::text(comparison, top, out)?;
    exceptions::text(comparison, top, out)?;
    traces::text(comparison, top, out)
}

fn method_row<'c>(method: &'c MethodChange, labels: &Labels) -> Row<'c> {
    let mark = if method.fails { "too slow: " } else { "" };
    Row {
        label: format!("{mark}{}", labels.of(&Method::Named(method.name.clone()))),
        change: method.change,
        sides: [method.before.as_ref(), method.after.as_ref()],
    }
}

/// CPU time that changed, whatever was measured of the methods.
fn cpu(comparison: &Comparison, top: Option<usize>, out: &mut dyn Write) -> io::Result<()> {
    if comparison.cpu.is_empty() {
        return Ok(());
    }
    let what = match comparison.per {
        Per::Hour => unit(comparison),
        Per::Call => "for as much CPU time in all",
    };
    let title = format!("CPU time by samples, {what}");
    let clear: Vec<&CpuChange> = comparison.cpu.iter().filter(|c| c.is_clear()).collect();
    let labels = Labels::new(clear.iter().map(|changed| &changed.method));
    let rows = clear.iter().map(|changed| (cells(changed.change), labels.of(&changed.method)));
    let which = "JDK code counts for its caller: changes over three standard errors";
    let table = SampledTable { title: &title, which, heads: ["cost", "method"] };
    table.write(&rows.collect::<Vec<_>>(), top, out)
}

/// Waiting that changed. What waits in the JDK alone is mostly idle.
fn waiting(comparison: &Comparison, top: Option<usize>, out: &mut dyn Write) -> io::Result<()> {
    if comparison.waiting.is_empty() {
        return Ok(());
    }
    let is_shown = |wait: &&WaitChange| wait.is_clear() && !is_of_jdk(&wait.method);
    let clear: Vec<&WaitChange> = comparison.waiting.iter().filter(is_shown).collect();
    let labels = Labels::new(clear.iter().map(|changed| &changed.method));
    let rows = clear.iter().map(|WaitChange { method, state, change, .. }| {
        (cells(*change), format!("{:<13} {}", state.replace('_', " "), labels.of(method)))
    });
    let which = "outside the JDK: changes from 1 ms, over three standard errors";
    let heads = ["cost", "state         method"];
    let table = SampledTable { title: "Waiting by samples, per second", which, heads };
    table.write(&rows.collect::<Vec<_>>(), top, out)
}

/// Waits for locks, where their time changed.
fn lock_waits(comparison: &Comparison, top: Option<usize>, out: &mut dyn Write) -> io::Result<()> {
    let labels = Labels::new(
        comparison.events.locks.iter().filter_map(|changed| changed.of.method.as_ref()),
    );
    let times = Times {
        title: "Lock waits",
        is_empty: |side| side.report.events.locks.locks.is_empty(),
        of: ["waits", "total", "avg"],
        label: |of: &LockSite| format!("{} at {}", one_line(&of.class), site_label(of, &labels)),
    };
    times.write(comparison, &comparison.events.locks, top, out)
}

/// SQL statements, where their time changed.
fn sql(comparison: &Comparison, top: Option<usize>, out: &mut dyn Write) -> io::Result<()> {
    let times = Times {
        title: "SQL statements",
        is_empty: |side| side.report.events.sql.statements.is_empty(),
        of: ["executions", "total", "mean"],
        label: |text: &String| shortened(text, STATEMENT_WIDTH),
    };
    times.write(comparison, &comparison.events.sql, top, out)
}

/// A table of changes of time, by exact statistics.
struct Times<L> {
    title: &'static str,
    is_empty: fn(&Side) -> bool,
    /// As [`Table::of`].
    of: [&'static str; 3],
    label: L,
}

impl<L> Times<L> {
    fn write<K>(
        &self,
        comparison: &Comparison,
        changes: &[TimeChange<K>],
        top: Option<usize>,
        out: &mut dyn Write,
    ) -> io::Result<()>
    where
        L: Fn(&K) -> String,
    {
        let Self { title, is_empty, of, label } = self;
        if changes.is_empty() {
            return Ok(());
        }
        let changed: Vec<&TimeChange<K>> =
            changes.iter().filter(|changed| changed.change.cost_ns() != 0).collect();
        if changed.is_empty() {
            return writeln!(out, "\n{title}: no change");
        }
        // The agent may have run without the option.
        let none = match (is_empty(&comparison.before), is_empty(&comparison.after)) {
            (true, _) => "; none before, or not counted",
            (_, true) => "; none after, or not counted",
            _ => "",
        };
        writeln!(out, "\n{title}, by time added or saved per hour{none}")?;
        let rows = changed.iter().map(|changed| Row {
            label: label(&changed.of),
            change: Some(changed.change),
            sides: [changed.before.as_ref(), changed.after.as_ref()],
        });
        let rows: Vec<Row> = rows.collect();
        Table { of: *of, more: ["row", "rows"] }.write(comparison, &rows, top, out)
    }
}

/// The cells of a change of time.
fn cells(change: Change) -> [String; 4] {
    let Change { was_ns, is_ns } = change;
    [cost_text(change), percent_text(change), duration(was_ns), duration(is_ns)]
}

fn is_costed(methods: &[&MethodChange]) -> bool {
    methods.iter().all(|method| method.change.is_some())
}

fn of_side(heading: &'static str, side: &Side) -> Vec<(&'static str, String)> {
    let report = &side.report;
    let read = &report.read;
    // Of the selected time, if there is one.
    let of_time = side.recorded_ns.map(|ns| format!(", {} recorded", duration(ns)));
    let first = origin(read) + &of_time.unwrap_or_else(|| recorded(read));
    let mut lines = vec![(heading, first), ("", hours(read))];
    lines.extend(missing_in_short(report).into_iter().map(|line| ("", format!("missing: {line}"))));
    lines.extend(report.all_notes().map(|note| ("", note.to_owned())));
    lines
}

/// The time that costs refer to.
fn unit(comparison: &Comparison) -> &'static str {
    if comparison.after.recorded_ns.is_some() { "per hour" } else { "in all" }
}

fn compared(comparison: &Comparison) -> String {
    let Comparison { all, per, .. } = comparison;
    let of = |status| comparison.methods.iter().filter(|m| m.status == status).count();
    let apart = of(Status::NotComparable);
    let both = comparison.methods.len() - of(Status::New) - of(Status::Vanished) - apart;
    let apart = match apart {
        0 => String::new(),
        count => format!(", {} not comparable", separated(count as u128)),
    };
    let (was, is) = (duration(all.was_ns), duration(all.is_ns));
    let sums = match per {
        Per::Hour => format!(
            "self time of all methods {is} in an hour of recording, {was} before: {}",
            percent_text(*all)
        ),
        Per::Call => format!(
            "self time of all calls {is} {}, at the speed of before it had been {was}: {}",
            unit(comparison),
            percent_text(*all)
        ),
    };
    format!(
        "{sums}; {} in both, {} of them the same, {} new, {} vanished{apart}",
        plural(number(both), "method", "methods"),
        separated(of(Status::Same) as u128),
        separated(of(Status::New) as u128),
        separated(of(Status::Vanished) as u128),
    )
}

/// What is too slow, one line each; empty if nothing is, or without a limit.
fn fails(comparison: &Comparison, label: impl Fn(&Method) -> String) -> Vec<String> {
    let unit = unit(comparison);
    let line = |what: &str, change: Change| {
        format!("{what}: {} and {} {unit}", percent_text(change), cost_text(change))
    };
    let mut lines = Vec::new();
    if comparison.all_fails {
        lines.push(line("all methods together", comparison.all));
    }
    let failing: Vec<&MethodChange> = comparison.methods.iter().filter(|m| m.fails).collect();
    for method in failing.iter().take(FAILS_NAMED) {
        let label = label(&Method::Named(method.name.clone()));
        lines.extend(method.change.map(|change| line(&label, change)));
    }
    if let rest @ 1.. = failing.len().saturating_sub(FAILS_NAMED) {
        lines.push(format!("and {}", plural(number(rest), "more method", "more methods")));
    }
    lines
}

/// Why a cost does not matter.
fn too_little(change: Change, limit: &Limit, comparison: &Comparison) -> String {
    match (limit.least, change.seen_in_short(comparison.time)) {
        (Least::Ns(_), Some((cost_ns, ns))) => format!(
            " ({} in the {} recorded, less than --min-time)",
            duration(cost_ns),
            duration(ns)
        ),
        _ => ", less than --min-time".to_owned(),
    }
}

/// What is close to the limit, one line each: over it but below the least cost, or over half of it.
fn close(comparison: &Comparison, label: impl Fn(&Method) -> String) -> Vec<String> {
    let Some(limit) = &comparison.limit else { return Vec::new() };
    let any_cost = limit.of_any_cost();
    let half = Limit { percent: limit.percent / 2.0, least: limit.least };
    let mut found: Vec<(&MethodChange, Change, String)> = Vec::new();
    for method in comparison.methods.iter().filter(|m| !m.fails && m.before.is_some()) {
        let Some(change) = method.change else { continue };
        if change.is_over(&any_cost, comparison.time) {
            found.push((method, change, too_little(change, limit, comparison)));
        } else if change.is_over(&half, comparison.time) {
            found.push((method, change, String::new()));
        }
    }
    let unit = unit(comparison);
    let line = |(method, change, why): &(&MethodChange, Change, String)| {
        let label = label(&Method::Named(method.name.clone()));
        format!("{label}: {} and {} {unit}{why}", percent_text(*change), cost_text(*change))
    };
    // They are sorted by cost, the largest first.
    let mut lines: Vec<String> = found.iter().take(FAILS_NAMED).map(line).collect();
    if let rest @ 1.. = found.len().saturating_sub(FAILS_NAMED) {
        lines.push(format!("and {}", plural(number(rest), "more method", "more methods")));
    }
    lines
}

/// The line saying that nothing is too slow.
fn passed(comparison: &Comparison) -> Option<String> {
    let limit = comparison.limit.as_ref()?;
    if comparison.fails() || comparison.judges_nothing().is_some() {
        return None;
    }
    let least = match limit.least {
        Least::Percent(percent) => format!("{percent}% of the time compared"),
        Least::Ns(ns) => duration(ns),
    };
    let is_apart = |method: &&MethodChange| method.status == Status::NotComparable;
    let but = match number(comparison.methods.iter().filter(is_apart).count()) {
        0 => String::new(),
        apart => format!(
            "; {} not comparable, and not judged",
            plural(apart, "method is", "methods are")
        ),
    };
    Some(format!(
        "nothing is slower than --fail-above {}% allows, with a --min-time of {least}{but}",
        limit.percent
    ))
}

/// What the rows of a CSV do not show.
pub fn missing(comparison: &Comparison) -> Vec<String> {
    let mut lines = Vec::new();
    for (heading, side) in [("before", &comparison.before), ("after", &comparison.after)] {
        lines.extend(
            of_side(heading, side).into_iter().map(|(_, line)| format!("{heading}: {line}")),
        );
    }
    lines.extend(comparison.notes.iter().cloned());
    lines.push(compared(comparison));
    let label = |method: &Method| {
        let (class, name, descriptor) = method.parts();
        one_line(&format!("{class}.{name}{descriptor}"))
    };
    lines.extend(fails(comparison, label).into_iter().map(|line| format!("too slow: {line}")));
    lines.extend(close(comparison, label).into_iter().map(|line| format!("close: {line}")));
    lines.extend(passed(comparison).map(|line| format!("passed: {line}")));
    lines
}
