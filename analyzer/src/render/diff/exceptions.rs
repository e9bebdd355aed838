//! The table of a comparison that has exceptions, where their number changed.

use std::io::{self, Write};

use log_format::human::plural;
use log_format::writer::one_line;

use super::table::{number_text, signed_percent};
use crate::diff::{Comparison, ExceptionChange, Side};
use crate::render::shared::labels::Labels;
use crate::render::text::parts::{number, wrapped};

/// Writes the first `top` rows.
pub(super) fn text(
    comparison: &Comparison,
    top: Option<usize>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Comparison { before, after, events, .. } = comparison;
    let exceptions = &events.exceptions;
    if exceptions.is_empty() {
        return Ok(());
    }
    let changed: Vec<&ExceptionChange> =
        exceptions.iter().filter(|changed| changed.more() != 0.0).collect();
    if changed.is_empty() {
        return writeln!(out, "\nExceptions: no change");
    }
    let is_empty = |side: &Side| {
        let of = &side.report.events.exceptions;
        of.sites.is_empty() || of.of_examples
    };
    // The agent may have run with exceptions=off.
    let none = match (is_empty(before), is_empty(after)) {
        (true, _) => "; none before, or not counted",
        (_, true) => "; none after, or not counted",
        _ => "",
    };
    writeln!(out, "\nExceptions that began to leave instrumented methods, per hour{none}\n")?;
    writeln!(out, "{:>12}{:>10}{:>12}{:>12}  class at site", "more", "change", "before", "after")?;
    let labels = Labels::new(changed.iter().map(|changed| &changed.site.method));
    let shown = changed.len().min(top.unwrap_or(usize::MAX));
    for changed in changed.iter().take(shown) {
        let [was, is] = changed.per_hour.map(number_text);
        let (more, change) = (more_text(changed.more()), signed_percent(changed.percent()));
        let cells = format!("{more:>12}{change:>10}{was:>12}{is:>12}  ");
        let (class, site) = (one_line(&changed.site.class), labels.of(&changed.site.method));
        wrapped(out, &cells, &" ".repeat(cells.len() + 2), &format!("{class} at {site}"))?;
    }
    match number(changed.len() - shown) {
        0 => Ok(()),
        rest => writeln!(out, "    and {}", plural(rest, "more row", "more rows")),
    }
}

/// How many more, with the sign.
fn more_text(more: f64) -> String {
    let sign = if more < 0.0 { "-" } else { "+" };
    format!("{sign}{}", number_text(more.abs()))
}
