//! SQL statements, summed up by their text, database and the method that executed them: exact statistics of all
//! executions, and the recorded slow ones, which have threads and stacks.

use std::collections::HashMap;
use std::sync::Arc;

use log_format::rows::Exit;
use log_format::writer::one_line;

use crate::stats::aggregate::Figures;
use crate::stats::group_sums::GroupSums;
use crate::stats::longest::Longest;
use crate::stats::method::Method;

/// An SQL statement.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Statement {
    /// The text with `?` for literals.
    pub text: String,
    /// URL of the database; empty if it is unknown.
    pub url: String,
}

/// A statement, and the innermost instrumented method that executed it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SqlSite {
    /// The statement.
    pub statement: Arc<Statement>,
    /// The method; `None` if no instrumented method was in progress.
    pub method: Option<Method>,
}

/// A slow execution of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowSql {
    /// The run's index in the list of runs.
    pub run: usize,
    /// Name and id of the thread.
    pub thread: String,
    /// The statement.
    pub statement: Arc<Statement>,
    /// The text with its literals; empty if the log does not have it.
    pub literal_text: String,
    /// When it began, in unix nanoseconds.
    pub start_ns: u64,
    /// How long it took.
    pub total_ns: u64,
    /// How it ended.
    pub exit: Exit,
    /// The instrumented methods in progress, the innermost first.
    pub path: Vec<Method>,
    /// The whole stack, the innermost first.
    pub stack: Vec<Method>,
}

impl SlowSql {
    /// The text, with literals if they are known.
    #[must_use]
    pub fn text(&self) -> &str {
        if self.literal_text.is_empty() { &self.statement.text } else { &self.literal_text }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct SqlSums {
    /// Statistics of all executions; each counts as a call, all of it self time.
    pub all: HashMap<SqlSite, Figures>,
    /// The same of the slow ones alone that have ended.
    pub slow: HashMap<SqlSite, Figures>,
    /// The executions of each group and their time, of all and of the slow ones.
    pub groups: GroupSums<SqlSite>,
    /// See `groups`.
    pub slow_groups: GroupSums<SqlSite>,
    /// The slowest executions, ended or not.
    pub slowest: Longest<SlowSql>,
}

/// Adds figures of a site.
pub fn add(sums: &mut HashMap<SqlSite, Figures>, site: SqlSite, figures: &Figures) {
    sums.entry(site).or_default().merge(figures);
}

/// Stands for the middle of a text that is too long.
const LEFT_OUT: &str = " ... ";

/// A text in one line of at most `width` characters. What is too long keeps its begin and its end: long lists of
/// columns have the table behind them.
#[must_use]
pub fn shortened(text: &str, width: usize) -> String {
    // As they are in names of a log.
    let text = text.replace("\\u000a", " ").replace("\\u000d", " ").replace("\\u0009", " ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = one_line(&words.join(" "));
    let length = line.chars().count();
    if length <= width {
        return line;
    }
    let behind = width / 3;
    let before = width.saturating_sub(behind + LEFT_OUT.len());
    let place = |of: usize| line.char_indices().nth(of).map_or(line.len(), |(place, _)| place);
    let begin = line.get(..place(before)).unwrap_or_default().trim_end();
    let end = line.get(place(length - behind)..).unwrap_or_default().trim_start();
    // Between words, if that leaves out little more.
    let is_short = |cut: &str, of: &str| cut.len() < of.len() / 3;
    let words = begin.rsplit_once(' ').filter(|(_, cut)| is_short(cut, begin));
    let begin = words.map_or(begin, |(kept, _)| kept);
    let words = end.split_once(' ').filter(|(cut, _)| is_short(cut, end));
    let end = words.map_or(end, |(_, kept)| kept);
    format!("{begin}{LEFT_OUT}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_keep_their_begin_and_end() {
        assert_eq!(shortened("select 1", 8), "select 1");
        assert_eq!(
            shortened(" select\n\t1 \\u000afrom\u{1b}[31m x ", 80),
            "select 1 from\\u001b[31m x"
        );
        let long = format!("select {} from orders where id = ?", "column, ".repeat(50));
        let short = shortened(&long, 60);
        assert_eq!(short, "select column, column, column, ... orders where id = ?");
        assert_eq!(shortened(&"é".repeat(100), 20).chars().count(), 20);
        for width in 0..10 {
            assert!(shortened(&long, width).chars().count() <= width.max(LEFT_OUT.len() + 3));
        }
    }
}
