//! The user's choices for a report on profile tasks.

use std::path::PathBuf;

use log_format::error::BadValue;

use crate::options::Format;
use crate::options::glob::Glob;
use crate::options::zone::Zone;

/// All choices for one report.
#[derive(Clone, Debug, Default)]
pub struct TaskOptions {
    /// Runs' folders, folders of runs, or single files.
    pub paths: Vec<PathBuf>,
    /// The task to show; `None` lists all.
    pub id: Option<String>,
    /// Only this request of it.
    pub request: Option<u32>,
    /// Only these times of each request; if there are none, all.
    pub ranges: Vec<Offsets>,
    /// Only runs on hosts that this pattern matches.
    pub host: Option<Glob>,
    /// Only runs that this pattern matches.
    pub run: Option<Glob>,
    /// The time zone for output.
    pub zone: Zone,
    /// Output format.
    pub format: Format,
    /// Whether a text has colours.
    pub color: bool,
    /// The file to write; `None` is standard output.
    pub file: Option<PathBuf>,
}

/// A time of a request in milliseconds after its start, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offsets {
    /// Its first millisecond.
    pub from_ms: u64,
    /// Its last millisecond.
    pub to_ms: u64,
}

impl Offsets {
    /// Parses `100..250`.
    ///
    /// # Errors
    /// What is wrong with `text`.
    pub fn parse(text: &str) -> Result<Self, BadValue> {
        let bad = |reason| BadValue::new(text, reason);
        let ends = text.split_once("..");
        let ends = ends.and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
        let Some((from_ms, to_ms)) = ends else {
            return Err(bad("is not a time in milliseconds like 100..250"));
        };
        if from_ms > to_ms {
            return Err(bad("ends before it begins"));
        }
        Ok(Self { from_ms, to_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_have_two_ends() {
        assert_eq!(Offsets::parse("100..250"), Ok(Offsets { from_ms: 100, to_ms: 250 }));
        assert_eq!(Offsets::parse("7..7"), Ok(Offsets { from_ms: 7, to_ms: 7 }));
        for text in ["", "100", "..", "1..", "1-2", "-1..2", "1..2ms", "2..1", "1..2..3"] {
            assert!(Offsets::parse(text).is_err(), "{text}");
        }
    }
}
