//! Exceptions that left instrumented methods.

use log_format::file_names::utc_text;
use serde::Serialize;

use super::rows::{Key, Name};
use crate::report::exceptions::{ExceptionReport, ExceptionsAt, figures_of};
use crate::report::{ReadSummary, Report};
use crate::stats::exception_sums::{Example, ExceptionSite};
use crate::stats::group_sums::GroupRow;

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
