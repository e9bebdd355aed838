//! Why there is no report, comparison or trace.

use log_format::error::BadValue;
use thiserror::Error;

use crate::input::problems::Problems;
use crate::options::zone::UnknownZone;

/// Why there is no report. One line, but for [`NothingRead`](Self::NothingRead).
#[derive(Debug, Error)]
pub enum NoReport {
    /// Nothing could be read, or nothing has rows: the messages of
    /// [`Problems`], a line each.
    #[error("{}", .0.join("\n"))]
    NothingRead(Vec<String>),
    /// An option is wrong, or does not fit the logs.
    #[error(transparent)]
    Value(#[from] BadValue),
    /// The zone of this machine is not known.
    #[error("--local: {0}")]
    Zone(#[from] UnknownZone),
    /// None of so many runs is selected.
    #[error("--host, --run: none of {0} runs matches")]
    NoSuchRun(usize),
    /// A time is selected, and no log has times.
    #[error("--from, --to: these are only TProfiler's logs, which have no times")]
    NoTimes,
    /// Calls per hour cannot be compared in these logs.
    #[error("{0}: these logs have no recorded time; use --per call")]
    NoRecordedTime(String),
    /// Neither side of a comparison has methods, for this reason.
    #[error("before and after: {0}")]
    NoMethods(String),
}

impl NoReport {
    /// Nothing can be shown for this reason.
    #[must_use]
    pub fn nothing(problems: &Problems, reason: String) -> Self {
        let mut lines = problems.messages();
        lines.push(reason);
        Self::NothingRead(lines)
    }
}
