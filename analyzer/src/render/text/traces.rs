//! The section on calls of traced methods.

use std::io::{self, Write};

use log_format::human::{count, plural};

use super::parts::{heading, number, rate, wrapped};
use crate::render::shared::labels::Labels;
use crate::report::Report;
use crate::report::traces::TracedMethod;

/// Columns of the figures, and their widths.
const COLUMNS: [(&str, usize); 3] = [("calls", 14), ("a second", 10), ("samples", 10)];

/// Callers of a method that a text shows.
const CALLERS: usize = 5;

/// Writes the section, with `top` methods at most.
pub(super) fn render(report: &Report, labels: &Labels, out: &mut dyn Write) -> io::Result<()> {
    let methods = &report.events.traces.methods;
    if methods.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    heading(out, &format!("Traced: {}", plural(number(methods.len()), "method", "methods")))?;
    let heads: String = COLUMNS.iter().map(|(name, width)| format!("{name:>width$}")).collect();
    writeln!(out, "\n{heads}   method, and its callers; +- is 95%")?;
    let shown = report.layout.top.unwrap_or(methods.len());
    for of in methods.iter().take(shown) {
        let cells = figures(of).into_iter().zip(COLUMNS);
        let cells = cells.map(|(text, (_, width))| format!("{text:>width$}"));
        let cells = cells.collect::<String>() + "   ";
        wrapped(out, &cells, &" ".repeat(cells.len()), &labels.of(&of.method))?;
        for (caller, calls) in of.callers.iter().take(CALLERS) {
            let share = share(of, *calls);
            let share = format!("{share:>width$}   ", width = cells.len());
            wrapped(out, &share, &" ".repeat(share.len()), &labels.of(caller))?;
        }
        if let Some(rest) = of.callers.len().checked_sub(CALLERS).filter(|rest| *rest > 0) {
            let indent = " ".repeat(cells.len() + 3);
            writeln!(out, "{indent}and {}", plural(number(rest), "more caller", "more callers"))?;
        }
    }
    if let Some(rest) = methods.len().checked_sub(shown).filter(|rest| *rest > 0) {
        writeln!(out, "    and {}", plural(number(rest), "more method", "more methods"))?;
    }
    Ok(())
}

pub(crate) fn figures(of: &TracedMethod) -> [String; 3] {
    [count(of.calls.into()), rate(of.per_second), count(of.samples.into())]
}

pub(crate) fn share(of: &TracedMethod, calls: u64) -> String {
    let (share, error) = of.share(calls);
    let error = if error > 0.0 { format!(" +- {:.1}", error * 100.0) } else { String::new() };
    format!("{:.1}%{error}", share * 100.0)
}
