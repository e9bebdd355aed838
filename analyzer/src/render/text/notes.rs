//! What a text says of data that is missing: at its top in one line how far to trust its figures, at its end the notes.

use std::io::{self, Write};

use log_format::human::plural;

use super::parts::{WIDTH, heading, number, wrapped};
use crate::render::shared::missing::{
    by_method, by_pattern, cut, flaws, losses, muted, never_instrumented, postponed, raised,
    raised_times, throttled, unread,
};
use crate::report::Report;
use crate::run::losses::Losses;

/// Columns of a line behind its heading.
const TRUST_WIDTH: usize = WIDTH - 10;

/// What a text says of missing data: in one line at its top, unless parts of the log are gone, and in full at its end.
pub struct InText {
    /// Parts of the log that are gone.
    pub gone: Vec<String>,
    /// How far the figures can be trusted, in one line.
    pub trust: Option<String>,
    /// What makes figures wrong or incomplete, a line each.
    pub flaws: Vec<String>,
    /// What was not measured, and when.
    pub details: Vec<String>,
}

/// What is missing; `shows_details` if the end of the text has the details.
pub fn in_text(report: &Report, shows_details: bool) -> InText {
    let (missing, runs, zone) = (&report.missing, report.read.runs.len(), &report.layout.zone);
    let mut gone = cut(&missing.cut, runs, zone);
    gone.extend(unread(missing));
    gone.extend(never_instrumented(&missing.postponed));
    let mut details: Vec<String> =
        report.probe_share.iter().map(|share| share.note.clone()).collect();
    details.extend(losses(missing));
    details.extend(raised(&missing.raised, zone));
    details.extend(postponed(&missing.postponed, runs, zone));
    details.extend(throttled(&missing.throttled, runs, zone));
    details.extend(muted(&missing.muted, runs, zone));
    let flaws = flaws(missing);
    let trust = trust(report, details.len(), shows_details || flaws == details);
    InText { gone, trust, flaws, details }
}

/// How far figures can be trusted, in one line: what matters most comes first, and what does not fit is in the notes.
fn trust(report: &Report, notes: usize, shows_details: bool) -> Option<String> {
    let missing = &report.missing;
    let Losses { log, statistics, .. } = &missing.losses;
    let late = number(missing.postponed.iter().filter(|late| late.class.to_ns.is_some()).count());
    let numbers = [
        (log.recorded_calls_dropped, "call dropped", "calls dropped"),
        (number(by_method(&missing.throttled).len()), "method throttled", "methods throttled"),
        (number(by_pattern(&missing.muted).len()), "pattern muted", "patterns muted"),
        (statistics.lost_calls, "call not counted", "calls not counted"),
        (late, "class instrumented late", "classes instrumented late"),
        (raised_times(&missing.raised), "raised threshold", "raised thresholds"),
    ];
    let numbers = numbers.into_iter().filter(|(count, ..)| *count > 0);
    let numbers: Vec<String> = numbers.map(|(count, one, many)| plural(count, one, many)).collect();
    let place = if shows_details { "see the end" } else { "--notes" };
    let end = format!("{}: {place}", plural(number(notes), "note", "notes"));
    let width = TRUST_WIDTH.saturating_sub(end.len());
    let with = |share: &str| {
        let mut line = if share.is_empty() { String::new() } else { format!("profiler {share}, ") };
        let mut fits_all = true;
        for part in &numbers {
            if line.len() + part.len() + 2 > width {
                fits_all = false;
                continue;
            }
            line += &format!("{part}, ");
        }
        (line, fits_all)
    };
    let share = report.probe_share.as_ref();
    let (whole, fits_all) = with(share.map_or("", |share| &share.share));
    // Numbers say more than when the share was spent.
    let line = if fits_all { whole } else { with(share.map_or("", |share| &share.short)).0 };
    (notes > 0).then_some(line + &end)
}

/// What was not measured, and when; the top of the text says only how much. Not all of it is shown unless that is asked
/// for, but always what makes figures wrong or incomplete.
pub fn at_end(report: &Report, missing: &InText, out: &mut dyn Write) -> io::Result<()> {
    let InText { flaws, details, .. } = missing;
    if details.is_empty() {
        return Ok(());
    }
    let all = number(details.len());
    let (title, lines) = if report.layout.notes || flaws == details {
        ("Notes".to_owned(), details)
    } else if flaws.is_empty() {
        (format!("{}: --notes", plural(all, "note", "notes")), flaws)
    } else {
        (format!("What is missing; all notes ({all}): --notes"), flaws)
    };
    writeln!(out)?;
    heading(out, &title)?;
    if !lines.is_empty() {
        writeln!(out)?;
    }
    lines.iter().try_for_each(|line| wrapped(out, "  ", "    ", line))
}
