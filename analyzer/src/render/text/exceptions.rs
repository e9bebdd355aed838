//! The section on exceptions that left instrumented methods.

use std::io::{self, Write};

use log_format::human::{count, plural, separated};
use log_format::writer::one_line;

use super::parts::{heading, number, rate, wrapped};
use crate::render::shared::labels::Labels;
use crate::report::Report;
use crate::report::exceptions::{ExceptionReport, ExceptionsAt, Recent};
use crate::stats::exception_sums::Example;
use crate::stats::last_hours::InHours;

/// Columns of the figures, and their widths.
const COLUMNS: [(&str, usize); 4] =
    [("began", 12), ("a second", 10), ("% of calls", 12), ("exits", 12)];

/// Innermost frames of an example that a text shows.
const FRAMES: usize = 5;

/// Writes the section, with `top` rows at most.
pub(super) fn render(report: &Report, labels: &Labels, out: &mut dyn Write) -> io::Result<()> {
    let sites = &report.events.exceptions.sites;
    if sites.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    heading(out, &title(report))?;
    let heads: String = COLUMNS.iter().map(|(name, width)| format!("{name:>width$}")).collect();
    writeln!(out, "\n{heads}   class, site")?;
    let shown = report.layout.top.unwrap_or(sites.len());
    for at in sites.iter().take(shown) {
        let cells = figures(at, report).into_iter().zip(COLUMNS);
        let cells = cells.map(|(text, (_, width))| format!("{text:>width$}"));
        let cells = cells.collect::<String>() + "   ";
        wrapped(out, &cells, &" ".repeat(cells.len()), &one_line(&at.site.class))?;
        wrapped(out, "       at ", &" ".repeat(9), &labels.of(&at.site.method))?;
        if let Some(rose) = rose(at) {
            writeln!(out, "       rose: {rose}")?;
        }
        if let Some(newest) = at.examples.first() {
            example(newest, labels, out)?;
        }
    }
    if let Some(rest) = sites.len().checked_sub(shown).filter(|rest| *rest > 0) {
        writeln!(out, "    and {}", plural(number(rest), "more row", "more rows"))?;
    }
    if sites.iter().take(shown).any(|at| at.not_counted.is_any()) {
        writeln!(
            out,
            "+: at least so many; the method was throttled or muted for part of the time"
        )?;
    }
    Ok(())
}

pub(crate) fn title(report: &Report) -> String {
    let ExceptionReport { began, of_examples, .. } = report.events.exceptions;
    let which = if of_examples { ", examples alone" } else { "" };
    let per_second = per_second(began, report).map(|rate| format!(", {rate} a second"));
    let (began, rate) = (separated(began.into()), per_second.unwrap_or_default());
    format!("Exceptions{which}: {began} began to leave instrumented methods{rate}")
}

/// How often exceptions began, if all of them count.
fn per_second(began: u64, report: &Report) -> Option<String> {
    let per_second = report.per_second(began).filter(|_| !report.events.exceptions.of_examples);
    per_second.map(rate)
}

pub(crate) fn figures(at: &ExceptionsAt, report: &Report) -> [String; 4] {
    let none = || "-".to_owned();
    [
        count(at.began.into()) + if at.not_counted.is_any() { "+" } else { "" },
        per_second(at.began, report).unwrap_or_else(none),
        at.calls.map_or_else(none, |calls| share(at.began, calls)),
        at.thrown.map_or_else(none, |thrown| count(thrown.into())),
    ]
}

#[allow(clippy::cast_precision_loss)] // A share needs no more.
fn share(began: u64, calls: u64) -> String {
    match began as f64 * 100.0 / calls as f64 {
        percent @ 0.1.. => format!("{percent:.1}%"),
        percent => format!("{percent:.4}%"),
    }
}

/// How many began in the last hours, if they became more.
pub(crate) fn rose(at: &ExceptionsAt) -> Option<String> {
    let Recent { began: InHours { before, last }, .. } = at.recent.filter(|recent| recent.rose)?;
    let [before, last] = [before, last].map(|began| separated(began.into()));
    Some(format!("{last} in the last hour, {before} in the hour before"))
}

fn example(example: &Example, labels: &Labels, out: &mut dyn Write) -> io::Result<()> {
    let message = one_line(&example.message);
    wrapped(out, "       example: ", &" ".repeat(9), &message)?;
    let indent = " ".repeat(9);
    for frame in example.stack.iter().take(FRAMES) {
        wrapped(out, &indent, &" ".repeat(11), &labels.of(frame))?;
    }
    match example.stack.len().saturating_sub(FRAMES) {
        0 => Ok(()),
        rest => writeln!(out, "{indent}and {}", plural(number(rest), "more frame", "more frames")),
    }
}
