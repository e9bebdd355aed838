//! The tables of a comparison: each row has what it is of, then its figures before and after.

use std::io::{self, Write};

use log_format::human::{count, duration, plural};

use super::csv::calls_per_hour;
use crate::diff::{Change, Comparison, Side};
use crate::render::text::parts::{number, wrapped};
use crate::stats::aggregate::Figures;

/// Widths of the columns: cost, change, then number, time and time of one, each before and after. Two
/// columns of indent precede them.
const WIDTHS: [usize; 8] = [11, 10, 12, 12, 12, 12, 12, 12];

/// The words of a table.
pub(super) struct Table {
    /// Names of what is counted, of its time, and of the time of one.
    pub of: [&'static str; 3],
    /// One row, and several.
    pub more: [&'static str; 2],
}

/// A row of a table.
pub(super) struct Row<'c> {
    /// What it is of.
    pub label: String,
    /// Its cost, if there is one.
    pub change: Option<Change>,
    /// Its figures before and after.
    pub sides: [Option<&'c Figures>; 2],
}

impl Table {
    /// Writes the first `top` rows.
    pub(super) fn write(
        &self,
        comparison: &Comparison,
        rows: &[Row],
        top: Option<usize>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let Self { of: [calls, of_self, of_call], more: [one, many] } = self;
        let has_hours =
            comparison.before.recorded_ns.is_some() && comparison.after.recorded_ns.is_some();
        let per = if has_hours { "/h" } else { "" };
        let head = |what: &str| format!("{what:>12}{:>12}", "");
        let [calls, of_self] = [calls, of_self].map(|what| head(&format!("{what}{per}")));
        writeln!(out, "  {:21}{calls}{of_self}{}", "", head(of_call).trim_end())?;
        let names = ["cost", "change", "before", "after", "before", "after", "before", "after"];
        line(out, names.map(str::to_owned))?;
        let shown = rows.len().min(top.unwrap_or(usize::MAX));
        for (rank, row) in (1..).zip(rows.iter().take(shown)) {
            wrapped(out, &format!("{rank:>3} "), &" ".repeat(6), &row.label)?;
            line(out, cells(comparison, row, has_hours))?;
        }
        if rows.len() > shown {
            let (one, many) = (format!("more {one}"), format!("more {many}"));
            writeln!(out, "    and {}", plural(number(rows.len() - shown), &one, &many))?;
        }
        Ok(())
    }
}

/// The words of a table of changes by samples.
pub(super) struct SampledTable<'t> {
    pub title: &'t str,
    /// Which changes are in it.
    pub which: &'t str,
    /// Heads of the first column, and of what a row is of.
    pub heads: [&'t str; 2],
}

impl SampledTable<'_> {
    /// Writes the first `top` rows: each is the change, that in percent, before and after, and what it is of.
    pub(super) fn write(
        &self,
        rows: &[([String; 4], String)],
        top: Option<usize>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let Self { title, which, heads: [cost, names] } = self;
        if rows.is_empty() {
            return writeln!(out, "\n{title}: no clear change");
        }
        writeln!(out, "\n{title}, {which}\n")?;
        writeln!(out, "{cost:>12}{:>10}{:>12}{:>12}  {names}", "change", "before", "after")?;
        let shown = rows.len().min(top.unwrap_or(usize::MAX));
        for ([cost, change, was, is], name) in rows.iter().take(shown) {
            let cells = format!("{cost:>12}{change:>10}{was:>12}{is:>12}  ");
            wrapped(out, &cells, &" ".repeat(cells.len() + 2), name)?;
        }
        match number(rows.len() - shown) {
            0 => Ok(()),
            rest => writeln!(out, "    and {}", plural(rest, "more row", "more rows")),
        }
    }
}

fn line(out: &mut dyn Write, cells: [String; 8]) -> io::Result<()> {
    let mut line = "  ".to_owned();
    for (text, width) in cells.iter().zip(WIDTHS) {
        line += &format!("{text:>width$}");
    }
    writeln!(out, "{line}")
}

fn cells(comparison: &Comparison, row: &Row, has_hours: bool) -> [String; 8] {
    let none = || "-".to_owned();
    let [before, after] = row.sides;
    let sides = [(&comparison.before, before), (&comparison.after, after)];
    let of_both = |text: &dyn Fn(&Side, &Figures) -> String| {
        sides.map(|(side, figures)| figures.map_or_else(none, |figures| text(side, figures)))
    };
    let [calls_before, calls_after] =
        of_both(&|side, figures| match calls_per_hour(side, figures) {
            Some(calls) if has_hours => number_text(calls),
            _ => count(figures.calls.into()),
        });
    let [self_before, self_after] = of_both(&|side, figures| {
        duration(if has_hours { side.per_hour(figures.self_ns) } else { figures.self_ns })
    });
    let [call_before, call_after] = of_both(&|_, figures| {
        figures.self_ns.checked_div(figures.calls).map_or_else(none, duration)
    });
    [
        row.change.map_or_else(none, cost_text),
        row.change.map_or_else(none, percent_text),
        calls_before,
        calls_after,
        self_before,
        self_after,
        call_before,
        call_after,
    ]
}

/// The increase in cost, with its sign.
pub(super) fn cost_text(change: Change) -> String {
    let cost_ns = change.cost_ns();
    let sign = match cost_ns {
        0 => "",
        1.. => "+",
        _ => "-",
    };
    format!("{sign}{}", duration(cost_ns.unsigned_abs()))
}

/// The increase in percent of the expected cost.
pub(super) fn percent_text(change: Change) -> String {
    signed_percent(change.percent())
}

/// A change in percent, with its sign.
pub(super) fn signed_percent(percent: Option<f64>) -> String {
    match percent {
        None => "-".to_owned(),
        Some(percent) if percent >= 99_999.5 => ">99999%".to_owned(),
        Some(percent) if percent.abs() < 0.05 => "0.0%".to_owned(),
        Some(percent) => format!("{percent:+.1}%"),
    }
}

/// How many there are in an hour.
pub(super) fn number_text(number: f64) -> String {
    if number < 9.995 {
        return format!("{number:.2}");
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    count(number.round() as u128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_fits() {
        assert!(WIDTHS.iter().sum::<usize>() + 2 <= 100);
    }

    #[test]
    fn costs_and_changes_have_a_sign() {
        let text = |was_ns, is_ns| {
            let change = Change { was_ns, is_ns };
            format!("{} {}", cost_text(change), percent_text(change))
        };
        assert_eq!(text(1_000_000, 1_500_000), "+500 us +50.0%");
        assert_eq!(text(1_500_000, 1_000_000), "-500 us -33.3%");
        assert_eq!(text(7, 7), "0 ns 0.0%");
        assert_eq!(text(0, 7), "+7 ns -");
        assert_eq!(text(1, u64::MAX), "+106752 d >99999%");
        assert_eq!(number_text(0.5), "0.50");
        assert_eq!(number_text(1_234.4), "1,234");
    }
}
