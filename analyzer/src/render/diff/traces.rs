//! The table of a comparison that has calls of traced methods, by caller, where clearly more or fewer were made.

use std::io::{self, Write};

use super::table::{SampledTable, number_text, signed_percent};
use crate::diff::{Comparison, TraceChange};
use crate::render::shared::labels::Labels;

/// Writes the first `top` rows.
pub(super) fn text(
    comparison: &Comparison,
    top: Option<usize>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let traces = &comparison.events.traces;
    if traces.is_empty() {
        return Ok(());
    }
    let clear = || traces.iter().filter(|changed| changed.is_clear());
    let labels = Labels::new(clear().flat_map(|changed| [&changed.of.method, &changed.of.caller]));
    let row = |changed: &TraceChange| {
        let [method, caller] = [&changed.of.method, &changed.of.caller].map(|of| labels.of(of));
        (cells(changed), format!("{method} from {caller}"))
    };
    let table = SampledTable {
        title: "Calls of traced methods",
        which: "per hour: changes over three standard errors",
        heads: ["more", "method and caller"],
    };
    table.write(&clear().map(row).collect::<Vec<_>>(), top, out)
}

fn cells(changed: &TraceChange) -> [String; 4] {
    let [was, is] = changed.per_hour;
    let sign = if is < was { "-" } else { "+" };
    let [more, was, is] = [was.abs_diff(is), was, is].map(|calls| number_text(calls as f64));
    [format!("{sign}{more}"), signed_percent(changed.percent()), was, is]
}
