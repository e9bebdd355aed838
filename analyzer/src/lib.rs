//! Reads the profiler's logs and reports which methods cost the time.
//!
//! ```text
//! paths --input--> runs --run--> sums of a run --report--> report --render--> text, CSV, JSON, HTML
//! ```
//!
//! [`analyze`] does it; begin to read there. [`options`] is what can be chosen, [`stats`] has the sums, [`run`] reads
//! one run, [`report`] puts runs together, [`diff`] compares two reports, [`render`] writes them. [`tprofiler`] reads
//! the logs that TProfiler itself has written.
//!
//! A run is streamed, its files in blocks by several threads, so memory goes with the methods, threads
//! and call paths of the logs and not with their rows. Nothing in a log makes the analyzer fail: what
//! cannot be read is left out and is said in [`Problems`](input::problems::Problems).
#![forbid(unsafe_code)]

mod analysis;
pub mod diff;
pub mod input;
#[cfg(any(test, fuzzing))]
pub mod line_by_line;
pub mod options;
pub mod render;
pub mod report;
pub mod run;
pub mod stats;
pub mod tprofiler;

pub use analysis::{Analysis, analyze};
