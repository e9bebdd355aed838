//! What threads did: a table for each state.

use std::io::{self, Write};

use log_format::human::{duration, plural};

use super::parts::{heading, number, wrapped};
use crate::render::shared::labels::Labels;
use crate::report::groups::percent;
use crate::report::states::{StateReport, StateTime};

/// Writes the tables.
pub(super) fn render(report: &StateReport, out: &mut dyn Write) -> io::Result<()> {
    let methods = report.states.iter().flat_map(|state| &state.methods);
    let labels = Labels::new(methods.map(|(method, _)| method));
    let all = duration(report.total_ns);
    heading(
        out,
        &format!(
            "What threads did, by samples, JDK code counts for its caller; {all} in all threads"
        ),
    )?;
    for StateTime { state, ns, methods, not_shown } in &report.states {
        let share = percent((*ns).into(), report.total_ns.into());
        let name = state.replace('_', " ");
        writeln!(out, "\n{name}: {}, {share:.1}% of all states", duration(*ns))?;
        writeln!(out, "{:>12}{:>8}  method", "time", "time %")?;
        for (method, of_method_ns) in methods {
            let share = percent((*of_method_ns).into(), (*ns).into());
            let cells = format!("{:>12}{share:>7.1}%  ", duration(*of_method_ns));
            wrapped(out, &cells, &" ".repeat(cells.len() + 2), &labels.of(method))?;
        }
        if *not_shown > 0 {
            let rest = plural(number(*not_shown), "more method", "more methods");
            writeln!(out, "    and {rest}")?;
        }
    }
    Ok(())
}
