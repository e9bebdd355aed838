//! Exceptions that left instrumented methods, as text, in JSON and for the page.

use std::io::{self, Write};

use log_format::human::{count, plural, separated};
use log_format::names::utc_text;
use log_format::writer::one_line;
use serde::Serialize;

use super::json_rows::{Key, Name};
use super::labels::Labels;
use super::short_table::ShortTable;
use super::text_parts::{heading, number, rate, wrapped};
use crate::report::exceptions::{ExceptionReport, ExceptionsAt, Recent};
use crate::report::{ReadSummary, Report};
use crate::stats::exception_sums::{Example, ExceptionSite};
use crate::stats::group_sums::GroupRow;
use crate::stats::last_hours::InHours;

/// Columns of the figures, and their widths.
const COLUMNS: [(&str, usize); 4] =
    [("began", 12), ("a second", 10), ("% of calls", 12), ("exits", 12)];

/// Innermost frames of an example that a text shows.
const FRAMES: usize = 5;

/// Writes the section of a text, with `top` rows at most.
pub(super) fn text(report: &Report, labels: &Labels, out: &mut dyn Write) -> io::Result<()> {
    let sites = &report.events.exceptions.sites;
    if sites.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    heading(out, &title(report))?;
    let heads: String = COLUMNS.iter().map(|(name, width)| format!("{name:>width$}")).collect();
    writeln!(out, "\n{heads}   class, site")?;
    let shown = report.layout.top.unwrap_or(sites.len());
    for at in sites.iter().take(shown) {
        let cells = figures(at, report).into_iter().zip(COLUMNS);
        let cells = cells.map(|(text, (_, width))| format!("{text:>width$}"));
        let cells = cells.collect::<String>() + "   ";
        wrapped(out, &cells, &" ".repeat(cells.len()), &one_line(&at.site.class))?;
        wrapped(out, "       at ", &" ".repeat(9), &labels.of(&at.site.method))?;
        if let Some(rose) = rose(at) {
            writeln!(out, "       rose: {rose}")?;
        }
        if let Some(newest) = at.examples.first() {
            example(newest, labels, out)?;
        }
    }
    if let Some(rest) = sites.len().checked_sub(shown).filter(|rest| *rest > 0) {
        writeln!(out, "    and {}", plural(number(rest), "more row", "more rows"))?;
    }
    if sites.iter().take(shown).any(|at| at.not_counted.is_any()) {
        writeln!(
            out,
            "+: at least so many; the method was throttled or muted for part of the time"
        )?;
    }
    Ok(())
}

fn title(report: &Report) -> String {
    let ExceptionReport { began, of_examples, .. } = report.events.exceptions;
    let which = if of_examples { ", examples alone" } else { "" };
    let per_second = per_second(began, report).map(|rate| format!(", {rate} a second"));
    let (began, rate) = (separated(began.into()), per_second.unwrap_or_default());
    format!("Exceptions{which}: {began} began to leave instrumented methods{rate}")
}

/// How often exceptions began, if all of them count.
fn per_second(began: u64, report: &Report) -> Option<String> {
    let per_second = report.per_second(began).filter(|_| !report.events.exceptions.of_examples);
    per_second.map(rate)
}

fn figures(at: &ExceptionsAt, report: &Report) -> [String; 4] {
    let none = || "-".to_owned();
    [
        count(at.began.into()) + if at.not_counted.is_any() { "+" } else { "" },
        per_second(at.began, report).unwrap_or_else(none),
        at.calls.map_or_else(none, |calls| share(at.began, calls)),
        at.thrown.map_or_else(none, |thrown| count(thrown.into())),
    ]
}

#[allow(clippy::cast_precision_loss)] // A share needs no more.
fn share(began: u64, calls: u64) -> String {
    match began as f64 * 100.0 / calls as f64 {
        percent @ 0.1.. => format!("{percent:.1}%"),
        percent => format!("{percent:.4}%"),
    }
}

/// How many began in the last hours, if they became more.
fn rose(at: &ExceptionsAt) -> Option<String> {
    let Recent { began: InHours { before, last }, .. } = at.recent.filter(|recent| recent.rose)?;
    let [before, last] = [before, last].map(|began| separated(began.into()));
    Some(format!("{last} in the last hour, {before} in the hour before"))
}

fn example(example: &Example, labels: &Labels, out: &mut dyn Write) -> io::Result<()> {
    let message = one_line(&example.message);
    wrapped(out, "       example: ", &" ".repeat(9), &message)?;
    let indent = " ".repeat(9);
    for frame in example.stack.iter().take(FRAMES) {
        wrapped(out, &indent, &" ".repeat(11), &labels.of(frame))?;
    }
    match example.stack.len().saturating_sub(FRAMES) {
        0 => Ok(()),
        rest => writeln!(out, "{indent}and {}", plural(number(rest), "more frame", "more frames")),
    }
}

/// The table of the page.
pub(super) fn short_table(report: &Report, labels: &Labels) -> Option<ShortTable> {
    const NAMES: [&str; 8] =
        ["class", "began", "a second", "% of calls", "exits", "site", "rose", "newest message"];
    ShortTable::new(title(report), &NAMES, &report.events.exceptions.sites, |at| {
        let mut messages = at.examples.iter().map(|example| &example.message);
        let message = messages.find(|message| !message.is_empty()).cloned();
        let mut cells = vec![at.site.class.clone()];
        cells.extend(figures(at, report));
        cells.push(labels.of(&at.site.method));
        cells.push(rose(at).unwrap_or_default());
        cells.push(message.unwrap_or_default());
        cells
    })
}

/// Exceptions in JSON.
#[derive(Serialize)]
pub(super) struct JsonExceptions<'r> {
    figures_of: &'static str,
    began: u64,
    per_s: Option<f64>,
    rows: Vec<Row<'r>>,
    exits: Vec<ExitRow<'r>>,
    groups_of: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<ThrownInGroup<'r>>,
}

/// The exceptions of a group.
#[derive(Serialize)]
struct ThrownInGroup<'r> {
    #[serde(flatten)]
    key: Key<'r>,
    class: &'r str,
    site: Name<'r>,
    began: u64,
    /// `null` if only examples count.
    thrown: Option<u64>,
}

#[derive(Serialize)]
struct Row<'r> {
    class: &'r str,
    site: Name<'r>,
    began: u64,
    thrown: Option<u64>,
    calls: Option<u64>,
    was_throttled: bool,
    was_muted: bool,
    per_s: Option<f64>,
    last_hour: Option<u64>,
    hour_before: Option<u64>,
    rose: bool,
    examples: Vec<ExampleRow<'r>>,
}

#[derive(Serialize)]
struct ExampleRow<'r> {
    run: &'r str,
    start: String,
    start_ns: u64,
    thread: &'r str,
    /// `null` if it has none, or if it was not recorded.
    message: Option<&'r str>,
    /// From the method that it left outwards.
    stack: Vec<Name<'r>>,
}

#[derive(Serialize)]
struct ExitRow<'r> {
    class: &'r str,
    method: Name<'r>,
    thrown: u64,
}

impl<'r> JsonExceptions<'r> {
    /// Nothing if there are none.
    pub(super) fn new(report: &'r Report) -> Option<Self> {
        let ExceptionReport {
            began, of_examples, sites, exits, groups_of_examples, groups, ..
        } = &report.events.exceptions;
        let per_s = |began| report.per_second(began).filter(|_| !of_examples);
        let row =
            |at: &'r ExceptionsAt| Row { per_s: per_s(at.began), ..Row::new(at, &report.read) };
        let exit = |(ExceptionSite { class, method }, thrown): &'r (ExceptionSite, u64)| ExitRow {
            class,
            method: Name::new(method),
            thrown: *thrown,
        };
        let of_group = |row: &'r GroupRow<ExceptionSite>| ThrownInGroup {
            key: Key::new(report.layout.by, Some(&row.label)),
            class: &row.of.class,
            site: Name::new(&row.of.method),
            began: row.sum.amount,
            thrown: Some(row.sum.count).filter(|thrown| *thrown > 0),
        };
        let has_any = !sites.is_empty() || !exits.is_empty();
        has_any.then(|| Self {
            figures_of: figures_of(*of_examples),
            groups_of: figures_of(*groups_of_examples),
            began: *began,
            per_s: per_s(*began),
            rows: sites.iter().map(row).collect(),
            exits: exits.iter().map(exit).collect(),
            groups: groups.iter().map(of_group).collect(),
        })
    }
}

pub(super) fn figures_of(of_examples: bool) -> &'static str {
    if of_examples { "examples" } else { "statistics" }
}

impl<'r> Row<'r> {
    fn new(at: &'r ExceptionsAt, read: &'r ReadSummary) -> Self {
        Self {
            class: &at.site.class,
            site: Name::new(&at.site.method),
            began: at.began,
            thrown: at.thrown,
            calls: at.calls,
            was_throttled: at.not_counted.throttled_ns.is_some(),
            was_muted: at.not_counted.muted_ns.is_some(),
            per_s: None,
            last_hour: at.recent.map(|recent| recent.began.last),
            hour_before: at.recent.map(|recent| recent.began.before),
            rose: at.recent.is_some_and(|recent| recent.rose),
            examples: at.examples.iter().map(|example| ExampleRow::new(example, read)).collect(),
        }
    }
}

impl<'r> ExampleRow<'r> {
    fn new(example: &'r Example, read: &'r ReadSummary) -> Self {
        Self {
            run: read.runs.get(example.run).map(String::as_str).unwrap_or_default(),
            start: utc_text(example.start_ns),
            start_ns: example.start_ns,
            thread: &example.thread,
            message: Some(example.message.as_str()).filter(|message| !message.is_empty()),
            stack: example.stack.iter().map(Name::new).collect(),
        }
    }
}
