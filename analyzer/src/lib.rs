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
pub mod call_tree;
pub mod glob;
pub mod input;
pub mod losses;
pub mod names;
pub mod options;
pub mod output;
pub mod problems;
mod records;
pub mod render;
pub mod report;
pub mod run_data;
mod sentences;
pub mod slowest;
pub mod stacks;
mod table;
pub mod time_range;
pub mod trace;
pub mod zone;

use glob::Glob;
use input::RunInput;
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
    let (runs, selection) = select(options, &mut problems)?;
    let mut collector = Collector::default();
    for (place, run) in runs.iter().enumerate() {
        let data = read_run(run, place, &selection, &mut problems);
        collector.add(run, place, data, &selection);
    }
    let slowest = options.slowest.map(|count| {
        // The first reading has told the problems.
        slowest::find(&runs, &selection, count, &mut Problems::default())
    });
    let mut report = collector.finish(&runs, options, &selection, &problems);
    report.slowest = slowest;
    Ok(Analysis { report, problems })
}

/// The runs to read, and what of them is selected.
fn select(
    options: &Options,
    problems: &mut Problems,
) -> Result<(Vec<RunInput>, Selection), Vec<String>> {
    let mut runs = input::discover(&options.paths, problems);
    if runs.is_empty() {
        return Err(problems.messages());
    }
    let found = runs.len();
    let takes = |pattern: &Option<Glob>, name: &str| {
        pattern.as_ref().is_none_or(|pattern| pattern.matches(name))
    };
    runs.retain(|run| takes(&options.host, &run.about.host) && takes(&options.run, &run.label));
    if runs.is_empty() {
        return Err(vec![format!("none of {found} runs is one that --host and --run name")]);
    }
    // Without any file there is no time of day to speak of, and nothing to select either.
    let newest = runs.iter().flat_map(|run| &run.files).map(|file| file.part.hour).max();
    let range = match newest {
        Some(hour) => TimeRange::in_zone(options.from, options.to, hour, &options.zone)
            .map_err(|reason| vec![reason])?,
        None => TimeRange::default(),
    };
    Ok((runs, Selection::new(options, range)))
}
