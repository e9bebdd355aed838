//! Collapsed stacks: a line for each call path with its self time in nanoseconds, the outermost frame first.
//! `flamegraph.pl`, `inferno-flamegraph` and speedscope read this format.

use std::io::{self, Write};

use log_format::writer::one_line;

use crate::options::Flame;
use crate::render::shared::labels::Labels;
use crate::report::{CallPaths, Report};
use crate::stats::call_tree::Frame;
use crate::stats::sampled_stacks::SampledStacks;
use crate::stats::stacks::Stacks;

pub fn render(paths: &CallPaths, out: &mut dyn Write) -> io::Result<()> {
    for line in lines(&stacks(paths)) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Writes times by whole stacks.
pub fn render_sampled(report: &Report, of: Flame, out: &mut dyn Write) -> io::Result<()> {
    sampled_lines(report, of).iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// A line for each stack of samples or waits.
pub fn sampled_lines(report: &Report, of: Flame) -> Vec<String> {
    let lines = report.whole_stacks(of).into_iter().flat_map(SampledStacks::lines);
    lines.map(|line| one_line(&line)).collect()
}

/// The call paths as stacks, with labels.
pub fn stacks(paths: &CallPaths) -> Stacks {
    let nodes = paths.tree.nodes().iter();
    let methods = nodes.filter_map(|node| match &node.frame {
        Frame::Method(method) => Some(method),
        _ => None,
    });
    let labels = Labels::new(methods);
    Stacks::new(&paths.tree, |method| labels.of(method), &paths.without_record)
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
