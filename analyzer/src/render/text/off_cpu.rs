//! The section on where threads waited.

use std::io::{self, Write};

use log_format::human::{duration, plural};

use super::parts::{heading, number, wrapped};
use crate::render::shared::labels::Labels;
use crate::report::groups::percent;
use crate::report::off_cpu::{OffCpuReport, Waits};

/// Rows of a text, if not all are to be shown.
const MOST: usize = 10;

/// Writes the section, with `top` rows at most, or all.
pub(super) fn render(
    off_cpu: &OffCpuReport,
    top: Option<usize>,
    labels: &Labels,
    out: &mut dyn Write,
) -> io::Result<()> {
    let OffCpuReport { total_ns, waits, .. } = off_cpu;
    if waits.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let all = duration(*total_ns);
    heading(out, &format!("Waiting, by samples: {all} of all threads, the idle ones too"))?;
    writeln!(
        out,
        "\n     time %       time   state           what waits, outside the JDK if it can be"
    )?;
    let shown = top.map_or(waits.len(), |top| top.min(MOST));
    for Waits { method, state, time, .. } in waits.iter().take(shown) {
        let share = percent(time.ns.into(), u128::from(*total_ns));
        let state = state.replace('_', " ");
        let figures = format!("  {share:>9.1}% {:>10}   {state:<13}   ", duration(time.ns));
        wrapped(out, &figures, &" ".repeat(figures.len()), &labels.of(method))?;
    }
    if let Some(rest) = waits.len().checked_sub(shown).filter(|rest| *rest > 0) {
        writeln!(out, "    and {}", plural(number(rest), "more row", "more rows"))?;
    }
    Ok(())
}
