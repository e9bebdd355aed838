//! What went wrong while reading, as one-line messages. No problem stops the reading; each is reported once, and the
//! exit status depends on it.

use std::fmt::Display;
use std::path::Path;

use log_format::error::FileError;
use log_format::reader::BadLine;
use log_format::writer::one_line;

/// Bad lines that are shown; the rest are only counted.
pub const BAD_LINES_SHOWN: usize = 5;

/// Longer messages are cut: they may quote a line of garbage.
const MAX_MESSAGE_CHARS: usize = 400;

/// All problems of a reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    unread: Vec<String>,
    warnings: Vec<String>,
    bad_lines_shown: Vec<String>,
    bad_lines: u64,
    torn_lines: u64,
}

impl Problems {
    /// An input that could not be read.
    pub fn unread(&mut self, path: &Path, reason: impl Display) {
        self.unread.push(message(&format!("{}: {reason}", path.display())));
    }

    /// A run is skipped; `reason` names the file that says why.
    pub fn skip_run(&mut self, reason: &FileError) {
        self.unread.push(message(&format!("{reason}: this run is skipped")));
    }

    /// Adds a warning, though everything was read.
    pub fn warn(&mut self, path: &Path, reason: impl Display) {
        self.warnings.push(message(&format!("{}: {reason}", path.display())));
    }

    /// A line that is not a row.
    pub fn bad_line(&mut self, path: &Path, line: &BadLine) {
        self.bad_lines = self.bad_lines.saturating_add(1);
        if self.bad_lines_shown.len() < BAD_LINES_SHOWN {
            self.bad_lines_shown.push(message(&format!("{}:{line}", path.display())));
        }
    }

    /// Bad lines beyond those that are shown.
    pub fn bad_lines_not_shown(&mut self, count: u64) {
        self.bad_lines = self.bad_lines.saturating_add(count);
    }

    /// A last line without its line end.
    pub fn torn_line(&mut self) {
        self.torn_lines = self.torn_lines.saturating_add(1);
    }

    /// Adds the problems of a later part of the reading.
    pub fn merge(&mut self, later: Self) {
        self.unread.extend(later.unread);
        self.warnings.extend(later.warnings);
        let room = BAD_LINES_SHOWN.saturating_sub(self.bad_lines_shown.len());
        self.bad_lines_shown.extend(later.bad_lines_shown.into_iter().take(room));
        self.bad_lines = self.bad_lines.saturating_add(later.bad_lines);
        self.torn_lines = self.torn_lines.saturating_add(later.torn_lines);
    }

    /// Inputs that could not be read: the report lacks them.
    #[must_use]
    pub fn all_unread(&self) -> &[String] {
        &self.unread
    }

    /// Number of bad lines.
    #[must_use]
    pub fn bad_lines(&self) -> u64 {
        self.bad_lines
    }

    /// Files that ended within a line.
    #[must_use]
    pub fn torn_lines(&self) -> u64 {
        self.torn_lines
    }

    /// All messages, one line each.
    #[must_use]
    pub fn messages(&self) -> Vec<String> {
        let mut lines = [&*self.unread, &*self.warnings, &*self.bad_lines_shown].concat();
        let shown = u64::try_from(self.bad_lines_shown.len()).unwrap_or(u64::MAX);
        let rest = self.bad_lines.saturating_sub(shown);
        if rest > 0 {
            let lines_are = if rest == 1 { "line is no row" } else { "lines are no rows" };
            lines.push(format!("{rest} more {lines_are}"));
        }
        lines
    }
}

/// One line of limited length, without terminal control characters.
fn message(text: &str) -> String {
    let line = one_line(text);
    match line.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}...", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bad(number: u64) -> BadLine {
        BadLine { line: number, reason: "rubbish".into() }
    }

    #[test]
    fn the_first_bad_lines_are_shown_and_the_rest_counted() {
        let mut problems = Problems::default();
        let mut later = Problems::default();
        for number in 1..=3 {
            problems.bad_line(Path::new("a.csv"), &bad(number));
            later.bad_line(Path::new("b.csv"), &bad(number));
        }
        problems.merge(later);
        let shown = ["a.csv:1", "a.csv:2", "a.csv:3", "b.csv:1", "b.csv:2"];
        let mut expected: Vec<String> = shown.iter().map(|s| format!("{s}: rubbish")).collect();
        expected.push("1 more line is no row".into());
        assert_eq!(problems.messages(), expected);
        assert_eq!(problems.bad_lines(), 6);
        assert!(problems.all_unread().is_empty());
    }

    #[test]
    fn a_message_is_one_short_line() {
        let mut problems = Problems::default();
        problems.unread(Path::new("a"), format!("\u{1b}[2J\n{}", "é".repeat(5_000)));
        let [message] = problems.all_unread() else { panic!("one message") };
        assert!(message.starts_with("a: \\u001b[2J\\u000a") && message.ends_with("é..."));
        assert!(message.chars().count() < 500);
    }
}
