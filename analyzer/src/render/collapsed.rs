//! Collapsed stacks: a line for each call path with its self time in nanoseconds, the outermost frame first.
//! `flamegraph.pl`, `inferno-flamegraph` and speedscope read this format.

use std::io::{self, Write};

use log_format::writer::one_line;

use super::labels::Labels;
use crate::report::Report;
use crate::stats::call_tree::Frame;
use crate::stats::stacks::Stacks;

pub fn render(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    for line in lines(&stacks(report)) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// The stacks of a report.
pub fn stacks(report: &Report) -> Stacks {
    let nodes = report.tree.nodes().iter();
    let methods = nodes.filter_map(|node| match &node.frame {
        Frame::Method(method) => Some(method),
        _ => None,
    });
    let labels = Labels::new(methods);
    Stacks::new(&report.tree, |method| labels.of(method), &report.without_record)
}

/// The lines, sorted.
pub fn lines(stacks: &Stacks) -> Vec<String> {
    let mut lines = Vec::new();
    for (place, node) in stacks.nodes().iter().enumerate().skip(1) {
        if node.self_ns > 0 {
            // A semicolon separates frames; only a string that is not a descriptor can contain one.
            let label = |node| one_line(&stacks.label(node).replace(';', ","));
            let mut frames: Vec<String> = stacks.path(place).map(label).collect();
            frames.reverse();
            lines.push(format!("{} {}", frames.join(";"), node.self_ns));
        }
    }
    lines.sort();
    lines
}
