//! The table of `--by state`: a row for each state and method.

use std::io::Write;

use csv::WriterBuilder;

use crate::report::states::{StateReport, StateTime};

const COLUMNS: [&str; 5] = ["state", "class", "method", "descriptor", "ns"];

/// Writes the table.
pub(super) fn write(report: &StateReport, out: &mut dyn Write) -> csv::Result<()> {
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
