//! Call trees as text, and the slowest calls with their trees.

use std::io::{self, Write};

use log_format::rows::Exit;
use log_format::writer::one_line;

use super::collapsed::stacks;
use super::labels::{Labels, path};
use super::text_parts::{heading, wrapped};
use crate::options::TreeOrder;
use crate::report::Report;
use crate::report::groups::percent;
use crate::report::slowest::SlowCall;
use crate::stats::stacks::{StackNode, Stacks};
use log_format::human::{count, duration, plural};

/// Nodes with a smaller share of the whole, in percent, are folded.
const FOLDED_BELOW: f64 = 0.5;

/// Deeper calls are not indented further, but have their depth before them.
const MAX_DEPTH: usize = 12;

/// The width of the columns before a name.
const COLUMNS: usize = 39;

/// Writes the tree of all selected calls.
pub fn render(report: &Report, order: TreeOrder, out: &mut dyn Write) -> io::Result<()> {
    if report.paths.tree.is_empty() {
        return match &report.empty {
            Some(reason) => wrapped(out, "", "", reason),
            None => wrapped(out, "", "", "no call was recorded"),
        };
    }
    let stacks = stacks(&report.paths);
    let all = duration(stacks.total_ns());
    match order {
        TreeOrder::TopDown => {
            heading(
                out,
                &format!("Call tree of the recorded calls, callers first; 100% is {all}"),
            )?;
            writeln!(out)?;
            tree(&stacks, TreeOrder::TopDown, report.layout.top, out)
        }
        TreeOrder::BottomUp => {
            let line = "Where the time of the recorded calls was spent, and the callers below it";
            heading(out, &format!("{line}; 100% is {all}"))?;
            writeln!(out)?;
            tree(&stacks.bottom_up(), TreeOrder::BottomUp, report.layout.top, out)
        }
    }
}

/// Writes the slowest calls.
pub fn slowest(report: &Report, calls: &[SlowCall], out: &mut dyn Write) -> io::Result<()> {
    if calls.is_empty() {
        return wrapped(out, "", "", report.empty.as_deref().unwrap_or("no call was recorded"));
    }
    heading(out, "The slowest calls, without calls inside one of them")?;
    for (rank, call) in (1..).zip(calls) {
        writeln!(out)?;
        let labels = Labels::new(call.methods());
        let exit = match call.exit {
            Exit::Return => "",
            Exit::Throw => ", ended with an exception",
            Exit::Unfinished => ", unfinished",
        };
        let line = format!("{}  {}{exit}", duration(call.total_ns), labels.of(&call.method));
        wrapped(out, &format!("{rank:>3} "), &" ".repeat(6), &line)?;
        let run = report.read.runs.get(call.run).filter(|_| report.read.runs.len() > 1);
        let run = run.map(|run| format!(" in {run}")).unwrap_or_default();
        let when = format!(
            "at {} in thread {}{run}",
            report.layout.zone.text_ms(call.start_ns),
            call.thread
        );
        wrapped(out, "    ", &" ".repeat(6), &one_line(&when))?;
        let callers = path(&call.callers);
        if !callers.is_empty() {
            wrapped(out, "    under ", &" ".repeat(6), &callers)?;
        }
        writeln!(out)?;
        let stacks =
            Stacks::new(&call.tree, |method| labels.of(method), &report.paths.without_record);
        tree(&stacks, TreeOrder::TopDown, report.layout.top, out)?;
    }
    Ok(())
}

fn tree(
    stacks: &Stacks,
    order: TreeOrder,
    top: Option<usize>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let time = if order == TreeOrder::TopDown { "total" } else { "self" };
    let own = if order == TreeOrder::TopDown { "self" } else { "" };
    writeln!(out, "{time:>10}{:>8}{own:>10}{:>11}", "%", "calls")?;
    let all_ns = u128::from(stacks.total_ns());
    let children = stacks.children();
    // What is still to be written: a node, or a line about those that are not shown.
    let mut left = vec![(Item::Node(0), 0)];
    while let Some((item, depth)) = left.pop() {
        let place = match item {
            Item::Node(place) => place,
            Item::Folded { nodes, ns } => {
                let rest = format!("and {}, {}", plural(nodes, "more", "more"), duration(ns));
                line(&" ".repeat(COLUMNS), depth, &rest, out)?;
                continue;
            }
        };
        if let Some(node) = stacks.nodes().get(place).filter(|_| place != 0) {
            // If it was not recorded, its self time is not known.
            let is_known = node.calls > 0 || node.self_ns > 0;
            let own = if order == TreeOrder::TopDown && is_known {
                duration(node.self_ns)
            } else {
                String::new()
            };
            let share = format!("{:.1}%", percent(node.total_ns.into(), all_ns));
            let calls = if node.calls > 0 { count(node.calls.into()) } else { String::new() };
            let cells = format!("{:>10}{share:>8}{own:>10}{calls:>11}", duration(node.total_ns));
            line(&cells, depth, stacks.label(node), out)?;
        }
        let below = children.get(place).map(Vec::as_slice).unwrap_or_default();
        let nodes: Vec<(usize, &StackNode)> =
            below.iter().filter_map(|place| Some((*place, stacks.nodes().get(*place)?))).collect();
        let is_shown = |rank: usize, node: &StackNode| {
            top.is_none_or(|top| {
                rank < top && percent(node.total_ns.into(), all_ns) >= FOLDED_BELOW
            })
        };
        let shown =
            nodes.iter().enumerate().take_while(|(rank, (_, node))| is_shown(*rank, node)).count();
        let (shown, folded) = nodes.split_at_checked(shown).unwrap_or((&nodes, &[]));
        let deeper = if place == 0 { 0 } else { depth + 1 };
        if !folded.is_empty() {
            let ns = folded.iter().fold(0, |sum: u64, (_, node)| sum.saturating_add(node.total_ns));
            let nodes = u64::try_from(folded.len()).unwrap_or(u64::MAX);
            left.push((Item::Folded { nodes, ns }, deeper));
        }
        left.extend(shown.iter().rev().map(|(place, _)| (Item::Node(*place), deeper)));
    }
    Ok(())
}

enum Item {
    Node(usize),
    Folded { nodes: u64, ns: u64 },
}

fn line(cells: &str, depth: usize, text: &str, out: &mut dyn Write) -> io::Result<()> {
    let indent = " ".repeat(2 + 2 * depth.min(MAX_DEPTH));
    let text = if depth > MAX_DEPTH { format!("[{depth}] {text}") } else { text.to_owned() };
    wrapped(out, &format!("{cells}{indent}"), &" ".repeat(COLUMNS + indent.len() + 2), &text)
}
