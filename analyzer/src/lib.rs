//! Reads the profiler's logs and reports which methods cost the time.
//!
//! ```text
//! paths --input--> runs --run--> sums of a run --report--> report --render--> text, CSV, JSON, HTML
//! ```
//!
//! Begin to read at [`analyze`]. [`options`] are the user's choices, [`stats`] has the sums, [`run`] reads one run,
//! [`report`] puts runs together, [`diff`] compares two reports, [`render`] writes them. [`tprofiler`] reads the logs
//! of TProfiler itself, [`tasks`] profile tasks.
//!
//! A run is streamed, its files in blocks by several threads, so memory grows with the methods, threads and call
//! paths of the logs, not with their rows. Nothing in a log makes the analyzer fail: it skips what it cannot read,
//! and reports it in [`Problems`](input::problems::Problems).
#![forbid(unsafe_code)]

mod analysis;
pub mod diff;
pub mod error;
pub mod input;
#[cfg(any(test, fuzzing))]
pub mod line_by_line;
pub mod options;
pub mod render;
pub mod report;
pub mod run;
pub mod stats;
pub mod tasks;
pub mod tprofiler;

pub use analysis::{Analysis, analyze};
