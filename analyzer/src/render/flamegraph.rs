//! A flame graph as SVG, drawn by `inferno`. The page needs no network; its own script searches and zooms.

use std::io::{self, Write};

use inferno::flamegraph::{Options, TextTruncateDirection, from_lines};

use super::collapsed::{lines, stacks};
use crate::report::Report;

pub fn render(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let stacks = stacks(report);
    let mut options = Options::default();
    options.title = "Recorded calls".to_owned();
    options.count_name = "ns".to_owned();
    options.name_type = "Method:".to_owned();
    options.hash = true;
    // The end of a name is more useful than its package.
    options.text_truncate_direction = TextTruncateDirection::Right;
    // inferno adds them up without a check for overflow.
    if stacks.total_ns() == u64::MAX {
        return Err(io::Error::other("the times in these logs are too large to be drawn"));
    }
    let lines = lines(&stacks);
    if lines.is_empty() {
        // Without stacks, inferno returns an error after it has drawn a picture that says so.
        let mut picture = Vec::new();
        let _ = from_lines(&mut options, std::iter::empty(), &mut picture);
        return out.write_all(&picture);
    }
    from_lines(&mut options, lines.iter().map(String::as_str), &mut *out)
        .map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
    writeln!(out)
}
