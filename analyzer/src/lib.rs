//! Reads the profiler's logs and reports which methods cost the time.
//!
//! ```text
//! paths --input--> runs --run_data--> sums of a run --report--> report --render--> text, CSV, JSON
//! ```
//!
//! A run is read row by row, so memory goes with the methods, threads and call paths of the logs and
//! not with their rows. Nothing in a log makes the analyzer fail: what cannot be read is left out
//! and is said in [`Problems`].
#![forbid(unsafe_code)]

pub mod aggregate;
pub mod diff;
mod diff_change;
pub mod hints;
pub mod input;
pub mod losses;
pub mod names;
pub mod options;
pub mod problems;
pub mod recorded_time;
pub mod render;
pub mod report;
pub mod run_data;
mod table;
mod text_lines;
pub mod time_range;
pub mod tprofiler;

use options::Options;
use problems::Problems;
use report::{Collector, Report};
use run_data::{Selection, read_run};
use time_range::TimeRange;

/// A report and what went wrong on the way to it.
#[derive(Debug)]
pub struct Analysis {
    /// The report.
    pub report: Report,
    /// What could not be read.
    pub problems: Problems,
}

/// Reads the logs and makes a report.
///
/// # Errors
/// Lines to be said if there is nothing to report on: no run can be read, or no time lies between
/// `from` and `to`.
pub fn analyze(options: &Options) -> Result<Analysis, Vec<String>> {
    let mut problems = Problems::default();
    let (old_logs, paths) = tprofiler::discover(&options.paths, &mut problems);
    let mut runs = input::discover(&paths, &mut problems);
    let old_place = runs.len();
    runs.extend(tprofiler::as_runs(&old_logs));
    if runs.is_empty() {
        return Err(problems.messages());
    }
    // Without any file there is no time of day to speak of, and nothing to select either.
    let newest = runs.iter().flat_map(|run| &run.files).map(|file| file.part.hour).max();
    let range = match newest {
        Some(hour) => TimeRange::new(options.from, options.to, hour).map_err(|e| vec![e])?,
        None if !old_logs.is_empty() && (options.from.is_some() || options.to.is_some()) => {
            let reason = "--from and --to: TProfiler's logs have no times, and there are no others";
            return Err(vec![reason.to_owned()]);
        }
        None => TimeRange::default(),
    };
    let selection = Selection { range, method: options.method.clone(), by: options.by };
    let mut collector = Collector::default();
    for (place, run) in runs.iter().enumerate() {
        let old_log = place.checked_sub(old_place).and_then(|place| old_logs.get(place));
        let data = match old_log {
            None => read_run(run, place, &selection, &mut problems),
            Some(log) => {
                let unit = options.tprofiler_unit;
                tprofiler::read(log, place, &selection, unit, &mut problems)
            }
        };
        collector.add(run, place, data, &selection.range);
    }
    let report = collector.finish(&runs, options, &selection, &problems);
    Ok(Analysis { report, problems })
}
