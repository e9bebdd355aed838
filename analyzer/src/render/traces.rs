//! Calls of traced methods, as text, in JSON and for the page.

use std::io::{self, Write};

use log_format::human::{count, plural};
use log_format::names::utc_text;
use serde::Serialize;

use super::json_rows::{Key, Name};
use super::labels::Labels;
use super::short_table::ShortTable;
use super::text_parts::{heading, number, rate, wrapped};
use crate::report::Report;
use crate::report::traces::TracedMethod;
use crate::stats::group_sums::GroupRow;
use crate::stats::method::Method;

/// Columns of the figures, and their widths.
const COLUMNS: [(&str, usize); 3] = [("calls", 14), ("a second", 10), ("samples", 10)];

/// Callers of a method that a text shows.
const CALLERS: usize = 5;

/// Writes the section of a text, with `top` methods at most.
pub(super) fn text(report: &Report, labels: &Labels, out: &mut dyn Write) -> io::Result<()> {
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

fn figures(of: &TracedMethod) -> [String; 3] {
    [count(of.calls.into()), rate(of.per_second), count(of.samples.into())]
}

fn share(of: &TracedMethod, calls: u64) -> String {
    let (share, error) = of.share(calls);
    let error = if error > 0.0 { format!(" +- {:.1}", error * 100.0) } else { String::new() };
    format!("{:.1}%{error}", share * 100.0)
}

/// The table of the page.
pub(super) fn short_table(report: &Report, labels: &Labels) -> Option<ShortTable> {
    const NAMES: [&str; 6] =
        ["method", "calls", "a second", "samples", "caller with most of them", "% of calls"];
    ShortTable::new("Traced methods".to_owned(), &NAMES, &report.events.traces.methods, |of| {
        let mut cells = vec![labels.of(&of.method)];
        cells.extend(figures(of));
        let (caller, share) =
            of.callers.first().map_or_else(Default::default, |(caller, calls)| {
                (labels.of(caller), share(of, *calls))
            });
        cells.extend([caller, share]);
        cells
    })
}

/// A traced method in JSON.
#[derive(Serialize)]
pub(super) struct JsonTraced<'r> {
    method: Name<'r>,
    calls: u64,
    samples: u64,
    effective_samples: f64,
    per_s: f64,
    callers: Vec<Caller<'r>>,
    minutes: Vec<Minute>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<CallsOfGroup<'r>>,
}

/// The calls of a group.
#[derive(Serialize)]
struct CallsOfGroup<'r> {
    #[serde(flatten)]
    key: Key<'r>,
    calls: u64,
    samples: u64,
}

#[derive(Serialize)]
struct Caller<'r> {
    method: Name<'r>,
    calls: u64,
}

#[derive(Serialize)]
struct Minute {
    start: String,
    calls: u64,
}

impl<'r> JsonTraced<'r> {
    /// Nothing if nothing was traced.
    pub(super) fn all(report: &'r Report) -> Option<Vec<Self>> {
        let caller =
            |(method, calls): &'r (_, u64)| Caller { method: Name::new(method), calls: *calls };
        let minute = |(at, calls): &(u64, u64)| Minute { start: utc_text(*at), calls: *calls };
        let of_group = |row: &'r GroupRow<Method>| CallsOfGroup {
            key: Key::new(report.layout.by, Some(&row.label)),
            calls: row.sum.amount,
            samples: row.sum.count,
        };
        let groups = |of: &TracedMethod| {
            report
                .events
                .traces
                .groups
                .iter()
                .filter(|row| row.of == of.method)
                .map(of_group)
                .collect()
        };
        let traced = |of: &'r TracedMethod| Self {
            method: Name::new(&of.method),
            calls: of.calls,
            samples: of.samples,
            effective_samples: of.effective_samples,
            per_s: of.per_second,
            callers: of.callers.iter().map(caller).collect(),
            minutes: of.minutes.iter().map(minute).collect(),
            groups: groups(of),
        };
        let methods = &report.events.traces.methods;
        (!methods.is_empty()).then(|| methods.iter().map(traced).collect())
    }
}
