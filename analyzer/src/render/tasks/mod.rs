//! Reports on profile tasks.
//!
//! [`text`], [`json`] and [`html`] are the formats, [`parts`] is what text and page have in common. This file makes
//! collapsed stacks. [`render`](super) and its users call this folder; the formats of a report do not.

mod html;
mod json;
mod parts;
mod text;

use std::io::{self, Write};

use anstream::StripStream;
use log_format::writer::one_line;

use self::parts::{place, title};
use super::flame_graphs::svg::draw;
use crate::options::Format;
use crate::options::tasks::TaskOptions;
use crate::tasks::find::{Found, TaskReport};

/// Writes a list of tasks as text or JSON, or a report on one in a format that [`Format::is_of_tasks`].
///
/// # Errors
/// It cannot be written; if the reader has closed the output, this is [`io::ErrorKind::BrokenPipe`].
pub fn render_tasks(found: &Found, options: &TaskOptions, out: &mut dyn Write) -> io::Result<()> {
    match found {
        Found::All(tasks) if options.format == Format::Json => json::list(tasks, out),
        Found::All(tasks) => colored(options, out, |out| text::list(tasks, options, out)),
        Found::One(report) => render_task(report, options, out),
    }
}

fn render_task(report: &TaskReport, options: &TaskOptions, out: &mut dyn Write) -> io::Result<()> {
    match options.format {
        Format::Json => json::task(report, options, out),
        Format::Html => html::task(report, options, out),
        Format::Collapsed => collapsed(report).iter().try_for_each(|line| writeln!(out, "{line}")),
        Format::Flamegraph => {
            let roots = report.trees.iter().filter_map(|tree| tree.elements.first());
            let total_ms = roots.fold(0, |sum: u64, root| sum.saturating_add(root.duration_ms));
            draw(&title(report), "ms", total_ms, &collapsed(report), out)
        }
        _ => colored(options, out, |out| text::task(report, options, out)),
    }
}

fn colored(
    options: &TaskOptions,
    out: &mut dyn Write,
    render: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    if options.color {
        return render(out);
    }
    let mut plain = StripStream::new(Vec::new());
    render(&mut plain)?;
    out.write_all(&plain.into_inner())
}

/// A line for each stack with its own time in milliseconds, sorted.
fn collapsed(report: &TaskReport) -> Vec<String> {
    let mut lines = Vec::new();
    for tree in &report.trees {
        let mut paths: Vec<String> = Vec::new();
        for element in &tree.elements {
            // A semicolon separates frames.
            let name = one_line(&element.code_signature.replace(';', ","));
            let path = match place(element.parent_id).and_then(|caller| paths.get(caller)) {
                Some(caller) => format!("{caller};{name}"),
                None => name,
            };
            if element.self_ms > 0 {
                lines.push(format!("{path} {}", element.self_ms));
            }
            paths.push(path);
        }
    }
    lines.sort();
    lines
}
