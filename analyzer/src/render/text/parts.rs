//! Parts of texts: lines that fit, signs, and what was read.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use log_format::file_names::Hour;
use log_format::human::{count, duration, plural};
use log_format::rows::Exit;
use log_format::writer::one_line;

use crate::options::zone::{Zone, hour_text};
use crate::report::ReadSummary;
use crate::report::groups::MethodReport;

pub(crate) const WIDTH: usize = 100;

/// The style of what makes figures wrong or incomplete.
pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default().bold();

const HOUR_NS: u64 = 3_600_000_000_000;

/// Hosts, services and missing files that are named.
const NAMES_SHOWN: usize = 5;

/// A thread in a sentence; one without a name is `thread #7`.
pub fn in_words(thread: &str) -> String {
    let prefix = if thread.starts_with("thread #") { "" } else { "thread " };
    format!("{prefix}{thread}")
}

/// Writes a line that is highlighted on a terminal.
pub(crate) fn heading(out: &mut dyn Write, line: &str) -> io::Result<()> {
    let bold = Style::new().bold();
    writeln!(out, "{bold}{line}{bold:#}")
}

/// What follows a call or an SQL statement that did not return.
pub(crate) fn ended(exit: Exit) -> &'static str {
    match exit {
        Exit::Return => "",
        Exit::Throw => ", ended with an exception",
        Exit::Unfinished => ", unfinished",
    }
}

/// Writes why there is nothing to show, as a warning: between notes, it is easily overlooked.
pub(crate) fn nothing(reason: &str, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{WARNING}")?;
    wrapped(out, "", "", reason)?;
    write!(out, "{WARNING:#}")
}

/// Writes lines, the first one with the heading.
pub(crate) fn headed(
    heading: &'static str,
    lines: Vec<String>,
) -> impl Iterator<Item = (&'static str, String)> {
    std::iter::once(heading).chain(std::iter::repeat("")).zip(lines)
}

pub(crate) fn origin(read: &ReadSummary) -> String {
    let mut text = format!(
        "{} of {}",
        plural(number(read.runs.len()), "run", "runs"),
        plural(number(read.jvms), "JVM", "JVMs")
    );
    if !read.hosts.is_empty() {
        text += &format!(" on {}", some_of(&read.hosts));
    }
    if !read.services.is_empty() {
        text += &format!(" ({})", some_of(&read.services));
    }
    text
}

/// How long all runs together recorded, if the logs have it; pauses of less than a minute are included.
pub(crate) fn recorded(read: &ReadSummary) -> String {
    match read.recorded_ns {
        0 => String::new(),
        ns => format!(", {} recorded", duration(ns)),
    }
}

pub(crate) fn hours(read: &ReadSummary) -> String {
    let hours = &read.counts.hours;
    match (hours.first(), hours.last()) {
        (Some(first), Some(last)) if first == last => format!("1 hour, {}", hour_text(*first)),
        (Some(first), Some(last)) => format!(
            "{}, the first {}, the last {}",
            plural(number(hours.len()), "hour", "hours"),
            hour_text(*first),
            hour_text(*last)
        ),
        _ => no_hours(read).to_owned(),
    }
}

fn no_hours(read: &ReadSummary) -> &'static str {
    if read.counts.tprofiler.dumps > 0 {
        "TProfiler's logs, whose dates have no clear zone"
    } else if read.counts.tprofiler.logs() > 0 {
        "TProfiler's logs, which have no dates"
    } else {
        "no files of calls, statistics or counters"
    }
}

/// From the first moment at which a run recorded to the last, in short; of logs that do not have them, from the
/// beginning of the first hour to the end of the last one.
pub(crate) fn time_of(read: &ReadSummary, zone: &Zone) -> String {
    if let Some((first_ns, last_ns)) = read.recorded {
        return from_to(&zone.text(first_ns), &zone.text(last_ns));
    }
    let hours = &read.counts.hours;
    let (Some(first), Some(last)) = (hours.first(), hours.last()) else {
        return no_hours(read).to_owned();
    };
    let end = Hour::of_unix_ns(last.start_unix_ns().saturating_add(HOUR_NS));
    from_to(&hour_text(*first), &hour_text(end))
}

/// Two moments in UTC of one day have the day once.
fn from_to(from: &str, to: &str) -> String {
    match (from.split_once('T'), to.split_once('T')) {
        (Some((day, _)), Some((of_same_day, time))) if day == of_same_day && to.ends_with('Z') => {
            format!("{}-{time}", from.trim_end_matches('Z'))
        }
        _ => format!("{from} to {to}"),
    }
}

/// The first names, and the number of the rest.
pub(crate) fn some_of(names: &[String]) -> String {
    let first: Vec<&str> = names.iter().take(NAMES_SHOWN).map(String::as_str).collect();
    let rest = names.len() - first.len();
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    one_line(&format!("{}{more}", first.join(", ")))
}

/// A length, converted to the number type that reports print.
pub(crate) fn number(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// How often something happens in a second.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Not negative, and far below 2^128.
pub(crate) fn rate(per_second: f64) -> String {
    match per_second {
        100.0.. => count(per_second as u128),
        0.1.. => format!("{per_second:.1}"),
        _ => format!("{per_second:.4}"),
    }
}

/// Explains the sign behind a number of calls, if a method has it.
pub(crate) fn sign_of_calls<'m>(
    mut methods: impl Iterator<Item = &'m MethodReport>,
    out: &mut dyn Write,
) -> io::Result<()> {
    if methods.any(|method| method.not_counted.is_any()) {
        writeln!(
            out,
            "+: at least so many; the method was throttled or muted for part of the time"
        )?;
    }
    Ok(())
}

/// Explains the sign behind an average, if a method has it.
pub(crate) fn sign_of_average<'m>(
    mut methods: impl Iterator<Item = &'m MethodReport>,
    out: &mut dyn Write,
) -> io::Result<()> {
    if methods.any(|method| method.is_recursive) {
        writeln!(
            out,
            "*: average too low: of a method that calls itself, total has only the outermost calls"
        )?;
    }
    Ok(())
}

/// Explains the sign behind a share of the self time, if a method has it.
pub(crate) fn sign_of_share<'m>(
    mut methods: impl Iterator<Item = &'m MethodReport>,
    out: &mut dyn Write,
) -> io::Result<()> {
    if methods.any(MethodReport::is_mostly_probe) {
        writeln!(out, "~: at least half of this self time is spent in probes (an estimate)")?;
    }
    Ok(())
}

/// A method's calls, with a sign if there were more.
pub(crate) fn calls(method: &MethodReport) -> String {
    let more = if method.not_counted.is_any() { "+" } else { "" };
    count(method.figures.calls.into()) + more
}

/// A method's average, with a sign if it is too low.
pub(crate) fn average(method: &MethodReport) -> String {
    let sign = if method.is_recursive { "*" } else { "" };
    method.figures.avg_ns().map_or("-".to_owned(), |ns| duration(ns) + sign)
}

/// A method's share of the self time, with a sign if that is mostly the probes' time.
pub(crate) fn share(method: &MethodReport) -> String {
    let probe = if method.is_mostly_probe() { "~" } else { "" };
    format!("{:.1}%{probe}", method.self_percent)
}

/// Writes `text` after `first`, on as many lines as it needs; further lines begin with `rest`. Lines break at spaces,
/// and within a word only if the word alone is too long.
pub(crate) fn wrapped(out: &mut dyn Write, first: &str, rest: &str, text: &str) -> io::Result<()> {
    let mut line = first.to_owned();
    let mut width = line.chars().count();
    let mut is_fresh = true;
    for word in text.split(' ') {
        let length = word.chars().count();
        if !is_fresh && width + 1 + length > WIDTH {
            writeln!(out, "{}", line.trim_end())?;
            line = rest.to_owned();
            width = line.chars().count();
            is_fresh = true;
        }
        if !is_fresh {
            line.push(' ');
            width += 1;
        }
        is_fresh = false;
        for c in word.chars() {
            if width == WIDTH {
                writeln!(out, "{line}")?;
                line = rest.to_owned();
                width = line.chars().count();
            }
            line.push(c);
            width += 1;
        }
    }
    writeln!(out, "{}", line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrap(text: &str) -> Vec<String> {
        let mut out = Vec::new();
        wrapped(&mut out, "1 ", "    ", text).unwrap();
        String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn lines_break_at_spaces_and_long_words_anywhere() {
        assert_eq!(wrap("a b"), ["1 a b"]);
        let words = ["word"; 40].join(" ");
        let lines = wrap(&words);
        assert!(lines.iter().all(|line| line.len() <= WIDTH && line.ends_with("word")));
        assert_eq!(lines.join(" ").split_whitespace().filter(|w| *w == "word").count(), 40);
        let long = "x".repeat(250);
        let lines = wrap(&format!("a {long} b"));
        assert!(lines.iter().all(|line| line.len() <= WIDTH), "{lines:?}");
        assert_eq!(lines.concat().matches('x').count(), 250);
    }
}
