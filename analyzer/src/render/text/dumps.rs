//! The section on TProfiler's thread dumps: what threads did, and where.

use std::io::{self, Write};

use log_format::human::{count, plural};
use log_format::writer::one_line;

use super::parts::{heading, number, wrapped};
use crate::stats::sampled_stacks::is_of_jdk_class;
use crate::stats::thread_dumps::DumpCounts;

/// Rows of a table.
const MOST: usize = 10;

/// Writes the section, with `top` rows at most in each table.
pub(super) fn render(
    dumps: &DumpCounts,
    top: Option<usize>,
    out: &mut dyn Write,
) -> io::Result<()> {
    if dumps.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    heading(out, "Thread states, by lines of thread dumps")?;
    writeln!(out, "\n       lines   state           thread")?;
    let threads = dumps.threads().into_iter().map(|(thread, times)| {
        let state = thread.state.name().replace('_', " ");
        (
            format!("  {:>10}   {state:<13}   ", count(times.into())),
            format!("{} #{}", thread.name, thread.id),
        )
    });
    rows(threads.collect(), top, out)?;
    let frames = dumps.frames().into_iter().filter(|(frame, _)| !is_of_jdk_class(&frame.class));
    let frames: Vec<(String, String)> = frames
        .map(|(frame, lines)| (format!("  {:>10}   ", count(lines.into())), frame.to_string()))
        .collect();
    if frames.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    heading(out, "Method frames, by lines of thread dumps; without the JDK's")?;
    writeln!(out, "\n       lines   frame")?;
    rows(frames, top, out)
}

/// Rows of figures and a name.
fn rows(rows: Vec<(String, String)>, top: Option<usize>, out: &mut dyn Write) -> io::Result<()> {
    let shown = top.unwrap_or(rows.len()).min(MOST);
    for (figures, name) in rows.iter().take(shown) {
        wrapped(out, figures, &" ".repeat(figures.len()), &one_line(name))?;
    }
    match rows.len().saturating_sub(shown) {
        0 => Ok(()),
        rest => writeln!(out, "    and {}", plural(number(rest), "more row", "more rows")),
    }
}
