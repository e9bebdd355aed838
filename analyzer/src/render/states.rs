//! What threads did, in each format: a table for each state.

use std::io::{self, Write};

use csv::WriterBuilder;
use log_format::human::{duration, plural};
use serde::Serialize;

use super::json_rows::Name;
use super::labels::Labels;
use super::text_parts::{heading, number, wrapped};
use crate::report::groups::percent;
use crate::report::states::{StateReport, StateTime};

const COLUMNS: [&str; 5] = ["state", "class", "method", "descriptor", "ns"];

/// Writes a text.
pub(super) fn text(report: &StateReport, out: &mut dyn Write) -> io::Result<()> {
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

/// Writes a CSV: a row for each state and method.
pub(super) fn csv(report: &StateReport, out: &mut dyn Write) -> csv::Result<()> {
    let mut writer = WriterBuilder::new().from_writer(out);
    writer.write_record(COLUMNS)?;
    for StateTime { state, methods, .. } in &report.states {
        for (method, ns) in methods {
            let (class, name, descriptor) = method.parts();
            writer.write_record([state.as_str(), class, &*name, descriptor, &ns.to_string()])?;
        }
    }
    writer.flush()?;
    Ok(())
}

/// A state in JSON.
#[derive(Serialize)]
pub(super) struct StateRow<'r> {
    state: &'r str,
    ns: u64,
    methods: Vec<MethodRow<'r>>,
    methods_not_shown: usize,
}

#[derive(Serialize)]
struct MethodRow<'r> {
    #[serde(flatten)]
    method: Name<'r>,
    ns: u64,
}

impl<'r> StateRow<'r> {
    pub(super) fn new(of: &'r StateTime) -> Self {
        let methods = of.methods.iter();
        let methods = methods.map(|(method, ns)| MethodRow { method: Name::new(method), ns: *ns });
        Self {
            state: &of.state,
            ns: of.ns,
            methods: methods.collect(),
            methods_not_shown: of.not_shown,
        }
    }
}
