//! Formats that have every recorded call: their events are written while the logs are read, run by run, and only
//! names are kept.

use std::io;
use std::sync::Arc;

use log_format::file_names::Table;
use thiserror::Error;

use super::missing;
use crate::analysis::Selected;
use crate::error::NoReport;
use crate::input::problems::Problems;
use crate::input::progress::Progress;
use crate::input::runs::{RunInput, is_of_calls};
use crate::options::Options;
use crate::report::collector::Collector;
use crate::run::cpu_samples::has_samples;
use crate::run::cut_short::CutShort;
use crate::run::data::read_run;
use crate::run::selection::Selection;
use crate::tprofiler;

/// Messages about what was written.
#[derive(Debug, Default)]
pub struct Said {
    /// What could not be read.
    pub problems: Problems,
    /// What is missing, one line each.
    pub missing: Vec<String>,
}

/// Why nothing was written.
#[derive(Debug, Error)]
pub enum StreamError {
    /// There is nothing to read.
    #[error(transparent)]
    NoReport(#[from] NoReport),
    /// The output cannot be written.
    #[error(transparent)]
    Output(#[from] io::Error),
}

/// A format of events.
pub trait EventFormat {
    /// The tables that events are made of.
    const TABLES: &'static [Table];
    /// What TProfiler's own logs are not part of, and why.
    const NOT_OF_TPROFILER: &'static str;
    /// What there is none of if there are no events.
    const EMPTY: &'static str;

    /// Writes the selected events of the run at index `place` in the list of runs. Returns the number of unfinished
    /// calls that are missing.
    ///
    /// # Errors
    /// The output cannot be written.
    fn run(
        &mut self,
        place: usize,
        run: &RunInput,
        selection: &Selection,
        problems: &mut Problems,
    ) -> io::Result<usize>;

    /// Ends the output. Returns whether it has events.
    ///
    /// # Errors
    /// The output cannot be written.
    fn end(&mut self) -> io::Result<bool>;
}

/// Writes the format that `begin` makes for the selected runs.
///
/// # Errors
/// There is nothing to read, or the output cannot be written.
pub fn write<F: EventFormat>(
    options: &Options,
    progress: &Arc<Progress>,
    begin: impl FnOnce(&[RunInput]) -> io::Result<F>,
) -> Result<Said, StreamError> {
    let mut problems = Problems::default();
    let (found, options) = crate::analysis::select(options, progress, &mut problems)?;
    let Selected { runs, old_logs, selection } = found;
    progress.expect(&runs, F::TABLES);
    let mut format = begin(&runs)?;
    let mut unfinished = 0;
    let mut collector = Collector::default();
    for (place, (run, old_log)) in runs.iter().zip(&old_logs).enumerate() {
        if let Some(log) = old_log {
            tprofiler::leave_out(log, F::NOT_OF_TPROFILER, &mut problems);
            continue;
        }
        unfinished += format.run(place, run, &selection, &mut problems)?;
        // The rest is read for its losses.
        let mut rest = run.clone();
        rest.files.retain(|file| !is_of_calls(file.table));
        let mut data = read_run(&rest, place, &selection, &mut problems);
        // Without the calls, all of them seem to be gone.
        data.cut = CutShort::default();
        collector.add(run, place, data, &selection);
    }
    if !format.end()? {
        // Samples have names of their own.
        let has_all_names = old_logs.iter().all(Option::is_none)
            && !(F::TABLES.contains(&Table::Samples) && runs.iter().any(has_samples));
        let unnamed = collector.no_such_method(&selection).filter(|_| has_all_names);
        let reason = match unnamed {
            Some(reason) => format!("{} {reason}", F::EMPTY),
            None if unfinished > 0 => {
                format!("{} in the selection; --unfinished shows unfinished calls", F::EMPTY)
            }
            None => format!("{} in the selection", F::EMPTY),
        };
        return Err(NoReport::nothing(&problems, reason).into());
    }
    let mut report = collector.finish(&runs, &options, &selection, &problems);
    report.empty = None;
    report.notes.clear();
    report.probe_share = None;
    report.unfinished.not_shown = unfinished;
    Ok(Said { problems, missing: missing::all(&report) })
}
