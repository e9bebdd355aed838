//! Call trees as text, and the slowest calls with their trees.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::io::{self, Write};

use log_format::writer::one_line;

use super::parts::{WIDTH, ended, heading, in_words, nothing, number, wrapped};
use crate::options::TreeOrder;
use crate::render::flame_graphs::collapsed::stacks;
use crate::render::shared::labels::{Labels, nearest};
use crate::report::Report;
use crate::report::groups::percent;
use crate::report::slowest::SlowCall;
use crate::stats::method::Method;
use crate::stats::stacks::{StackNode, Stacks};
use log_format::human::{bytes, count, duration, plural};

/// Nodes with a smaller share of the whole, in percent, are folded.
const FOLDED_BELOW: f64 = 0.5;

/// Deeper calls are not indented further, but have their depth before them.
const MAX_DEPTH: usize = 12;

/// The width of the columns before a name.
const COLUMNS: usize = 39;

/// Calls in the tree of an overview, and callers before it.
const FEW_CALLS: usize = 7;
const FEW_CALLERS: usize = 3;

/// Columns left for a name in such a tree.
const WIDTH_OF_FEW: usize = WIDTH - COLUMNS - 2 - 2 * FEW_CALLS;

/// Columns before a name behind its duration.
const WIDTH_OF_DURATION: usize = 16;

/// Which nodes of a tree are shown.
enum Shown {
    /// Of each node, at most so many below it, with a share that matters; `None` is all.
    Below(Option<usize>),
    /// These alone.
    Nodes(HashSet<usize>),
}

impl Shown {
    fn has(&self, rank: usize, place: usize, percent: f64) -> bool {
        match self {
            Self::Below(top) => top.is_none_or(|top| rank < top && percent >= FOLDED_BELOW),
            Self::Nodes(places) => places.contains(&place),
        }
    }
}

/// Writes the tree of all selected calls.
pub fn render(report: &Report, order: TreeOrder, out: &mut dyn Write) -> io::Result<()> {
    if report.paths.tree.is_empty() {
        return match &report.empty {
            Some(reason) => nothing(reason, out),
            None => nothing("no call was recorded", out),
        };
    }
    let stacks = stacks(&report.paths);
    let shown = Shown::Below(report.layout.top);
    let all = duration(stacks.total_ns());
    match order {
        TreeOrder::TopDown => {
            heading(
                out,
                &format!("Call tree of the recorded calls, callers first; 100% is {all}"),
            )?;
            writeln!(out)?;
            tree(&stacks, TreeOrder::TopDown, &shown, out)
        }
        TreeOrder::BottomUp => {
            let line = "Where the time of the recorded calls was spent, and the callers below it";
            heading(out, &format!("{line}; 100% is {all}"))?;
            writeln!(out)?;
            tree(&stacks.bottom_up(), TreeOrder::BottomUp, &shown, out)
        }
    }
}

/// Writes the slowest calls.
pub fn slowest(report: &Report, calls: &[SlowCall], out: &mut dyn Write) -> io::Result<()> {
    if calls.is_empty() {
        return nothing(report.empty.as_deref().unwrap_or("no call was recorded"), out);
    }
    heading(out, "The slowest calls, without calls inside one of them")?;
    for (rank, call) in (1..).zip(calls) {
        writeln!(out)?;
        let labels = Labels::new(call.methods());
        let name = labels.of(&call.method);
        origin(report, call, (&format!("{rank:>3} "), &name), usize::MAX, out)?;
        writeln!(out)?;
        let stacks =
            Stacks::new(&call.tree, |method| labels.of(method), &report.paths.without_record);
        tree(&stacks, TreeOrder::TopDown, &Shown::Below(report.layout.top), out)?;
    }
    Ok(())
}

/// Writes a call in short: its nearest callers, and of what it called the calls that took longest.
pub(super) fn in_short(
    report: &Report,
    call: &SlowCall,
    labels: &Labels,
    out: &mut dyn Write,
) -> io::Result<()> {
    let name = labels.fitting(&call.method, WIDTH - WIDTH_OF_DURATION);
    origin(report, call, ("    ", &name), FEW_CALLERS, out)?;
    let label = |method: &Method| labels.fitting(method, WIDTH_OF_FEW);
    let without_record = &report.paths.without_record;
    let of_statement = WIDTH_OF_FEW.saturating_sub("SQL ".len());
    let stacks = Stacks::with_statements(&call.tree, label, without_record, of_statement);
    let mut longest: Vec<usize> = (1..stacks.nodes().len()).collect();
    // A caller comes before its callees, and takes as long or longer: none is shown without its callers.
    longest.sort_by_key(|place| Reverse(stacks.nodes().get(*place).map(|node| node.total_ns)));
    let rest = longest.len().saturating_sub(FEW_CALLS);
    let shown = Shown::Nodes(longest.into_iter().take(FEW_CALLS).collect());
    tree(&stacks, TreeOrder::TopDown, &shown, out)?;
    if rest > 0 {
        let rest = plural(number(rest), "more row", "more rows");
        writeln!(out, "{:>10} {rest}: --slowest 1 --top 0", "and")?;
    }
    Ok(())
}

/// Writes how long a call took, when it began and in which thread, and its nearest callers. Its name follows what
/// stands first in the line.
fn origin(
    report: &Report,
    call: &SlowCall,
    (first, name): (&str, &str),
    callers: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let exit = ended(call.exit);
    let allocated = call.allocated_bytes.map(|of| format!(", allocated {}", bytes(of)));
    let allocated = allocated.unwrap_or_default();
    let line = format!("{}  {name}{exit}{allocated}", duration(call.total_ns));
    wrapped(out, first, &" ".repeat(6), &line)?;
    let run = report.read.runs.get(call.run).filter(|_| report.read.runs.len() > 1);
    let run = run.map(|run| format!(" in {run}")).unwrap_or_default();
    let start = report.layout.zone.text_ms(call.start_ns);
    let when = format!("at {start} in {}{run}", in_words(&call.thread));
    wrapped(out, "    ", &" ".repeat(6), &one_line(&when))?;
    let callers = nearest(&call.callers, callers);
    if !callers.is_empty() {
        wrapped(out, "    under ", &" ".repeat(6), &callers)?;
    }
    Ok(())
}

fn tree(stacks: &Stacks, order: TreeOrder, which: &Shown, out: &mut dyn Write) -> io::Result<()> {
    let time = if order == TreeOrder::TopDown { "total" } else { "self" };
    let own = if order == TreeOrder::TopDown { "self" } else { "" };
    writeln!(out, "{time:>10}{:>8}{own:>10}{:>11}", "%", "calls")?;
    let all_ns = u128::from(stacks.total_ns());
    let share = |node: &StackNode| percent(node.total_ns.into(), all_ns);
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
            line(&cells(node, order, share(node)), depth, stacks.label(node), out)?;
        }
        let below = children.get(place).map(Vec::as_slice).unwrap_or_default();
        let nodes: Vec<(usize, &StackNode)> =
            below.iter().filter_map(|place| Some((*place, stacks.nodes().get(*place)?))).collect();
        let (shown, folded): (Vec<_>, Vec<_>) = nodes
            .into_iter()
            .enumerate()
            .partition(|(rank, (place, node))| which.has(*rank, *place, share(node)));
        let deeper = if place == 0 { 0 } else { depth + 1 };
        if !folded.is_empty() && matches!(which, Shown::Below(_)) {
            let times = folded.iter().map(|(_, (_, node))| node.total_ns);
            let ns = times.fold(0, u64::saturating_add);
            left.push((Item::Folded { nodes: number(folded.len()), ns }, deeper));
        }
        left.extend(shown.iter().rev().map(|(_, (place, _))| (Item::Node(*place), deeper)));
    }
    Ok(())
}

fn cells(node: &StackNode, order: TreeOrder, percent: f64) -> String {
    // If it was not recorded, its self time is not known.
    let is_known = node.calls > 0 || node.self_ns > 0;
    let own = if order == TreeOrder::TopDown && is_known {
        duration(node.self_ns)
    } else {
        String::new()
    };
    let share = format!("{percent:.1}%");
    let calls = if node.calls > 0 { count(node.calls.into()) } else { String::new() };
    format!("{:>10}{share:>8}{own:>10}{calls:>11}", duration(node.total_ns))
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
