//! Sampled allocations, as text and in JSON.

use std::io::{self, Write};

use log_format::human::{bytes, count, plural};
use log_format::names::utc_text;
use log_format::writer::one_line;
use serde::Serialize;

use super::json_rows::{Key, Name};
use super::labels::Labels;
use super::short_table::ShortTable;
use super::text_parts::{heading, number, wrapped};
use crate::options::zone::Zone;
use crate::report::Report;
use crate::report::allocations::{AllocatedInHour, AllocationReport, Row};
use crate::stats::allocation_sums::Allocated;
use crate::stats::method::Method;

/// Columns of the figures, and their widths.
const COLUMNS: [(&str, usize); 4] = [("bytes", 12), ("%", 8), ("objects", 14), ("samples", 10)];

/// Hours shown; of more, only the busiest.
const HOURS_SHOWN: usize = 6;

/// Writes the section of a text, with `top` rows at most in each table.
pub(super) fn text(report: &Report, labels: &Labels, out: &mut dyn Write) -> io::Result<()> {
    let AllocationReport { all, classes, sites, hours, .. } = &report.events.allocations;
    if all.samples == 0 {
        return Ok(());
    }
    writeln!(out)?;
    let samples = plural(all.samples, "sample", "samples");
    let rate = per_second(report).map(|rate| format!(", {} a second", whole(rate)));
    let (total, rate) = (bytes(all.bytes), rate.unwrap_or_default());
    heading(out, &format!("Allocations: {total} by {samples}{rate}"))?;
    by_hour(hours, &report.layout.zone, out)?;
    let top = report.layout.top;
    table("class, site with most of it", classes, top, all, out, |row| {
        (one_line(&row.of), labels.of(&row.most))
    })?;
    table("site, class with most of it", sites, top, all, out, |row| {
        (labels.of(&row.of), one_line(&row.most))
    })
}

/// Bytes in a second in which allocations were sampled; `None` if a time was selected.
#[allow(clippy::cast_precision_loss)] // A rate needs no more.
fn per_second(report: &Report) -> Option<f64> {
    let AllocationReport { all, sampled_ns, .. } = &report.events.allocations;
    let is_known = *sampled_ns > 0 && report.selected.range.is_everything();
    is_known.then(|| all.bytes as f64 * 1e9 / *sampled_ns as f64)
}

/// Writes a line for each hour, if there are several.
fn by_hour(hours: &[AllocatedInHour], zone: &Zone, out: &mut dyn Write) -> io::Result<()> {
    let used = hours.iter().filter(|hour| hour.bytes > 0);
    let rates = used.filter_map(|hour| Some((hour.start_ns, hour.per_second()?)));
    let mut rates: Vec<(u64, f64)> = rates.collect();
    if rates.len() < 2 {
        return Ok(());
    }
    let more = rates.len().saturating_sub(HOURS_SHOWN);
    rates.sort_by(|(at, rate), (other_at, other)| {
        other.total_cmp(rate).then_with(|| at.cmp(other_at))
    });
    rates.truncate(HOURS_SHOWN);
    rates.sort_by_key(|(at, _)| *at);
    writeln!(out)?;
    for (at, rate) in rates {
        writeln!(out, "  {:<23}{:>9} a second", zone.text_minute(at), whole(rate))?;
    }
    match number(more) {
        0 => Ok(()),
        more => writeln!(out, "    and {}", plural(more, "hour with less", "hours with less")),
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Bytes of a second.
fn whole(rate: f64) -> String {
    bytes(rate.round() as u64)
}

fn table<T, O>(
    names: &str,
    rows: &[Row<T, O>],
    top: Option<usize>,
    all: &Allocated,
    out: &mut dyn Write,
    named: impl Fn(&Row<T, O>) -> (String, String),
) -> io::Result<()> {
    let heads: String = COLUMNS.iter().map(|(name, width)| format!("{name:>width$}")).collect();
    writeln!(out, "\n{heads}   {names}")?;
    let shown = top.unwrap_or(rows.len());
    for row in rows.iter().take(shown) {
        let (name, most) = named(row);
        let cells = cells(&row.allocated, all);
        wrapped(out, &cells, &" ".repeat(cells.len()), &format!("{name}, {most}"))?;
    }
    if let Some(rest) = rows.len().checked_sub(shown).filter(|rest| *rest > 0) {
        writeln!(out, "    and {}", plural(number(rest), "more row", "more rows"))?;
    }
    Ok(())
}

/// The tables of the page.
pub(super) fn short_tables(allocations: &AllocationReport, labels: &Labels) -> Vec<ShortTable> {
    let AllocationReport { all, classes, sites, .. } = allocations;
    let row = |first: String, allocated: &Allocated, last: String| {
        let mut cells = vec![first];
        cells.extend(figures(allocated, all));
        cells.push(last);
        cells
    };
    let heading = format!("Allocations by class: {}", bytes(all.bytes));
    let columns = ["class", "bytes", "%", "objects", "samples", "site with most of it"];
    let classes = ShortTable::new(heading, &columns, classes, |class| {
        row(class.of.clone(), &class.allocated, labels.of(&class.most))
    });
    let columns = ["site", "bytes", "%", "objects", "samples", "class with most of it"];
    let sites = ShortTable::new("Allocations by site".to_owned(), &columns, sites, |site| {
        row(labels.of(&site.of), &site.allocated, site.most.clone())
    });
    classes.into_iter().chain(sites).collect()
}

fn figures(allocated: &Allocated, all: &Allocated) -> [String; 4] {
    let share = format!("{:.1}%", share(allocated, all) * 100.0);
    let Allocated { objects, samples, .. } = *allocated;
    [bytes(allocated.bytes), share, count(objects.into()), count(samples.into())]
}

fn cells(allocated: &Allocated, all: &Allocated) -> String {
    let cells = figures(allocated, all);
    let cells = cells.iter().zip(COLUMNS).map(|(text, (_, width))| format!("{text:>width$}"));
    cells.collect::<String>() + "   "
}

#[allow(clippy::cast_precision_loss)] // A share needs no more.
fn share(allocated: &Allocated, all: &Allocated) -> f64 {
    allocated.bytes as f64 / all.bytes.max(1) as f64
}

/// Sampled allocations in JSON.
#[derive(Serialize)]
pub(super) struct JsonAllocations<'r> {
    bytes: u64,
    objects: u64,
    samples: u64,
    bytes_per_s: Option<f64>,
    minutes: Vec<Minute>,
    classes: Vec<ClassRow<'r>>,
    sites: Vec<SiteRow<'r>>,
}

#[derive(Serialize)]
struct Minute {
    start: String,
    bytes: u64,
}

#[derive(Serialize)]
struct ClassRow<'r> {
    #[serde(flatten)]
    key: Key<'r>,
    class: &'r str,
    #[serde(flatten)]
    figures: Figures,
    site: Name<'r>,
}

#[derive(Serialize)]
struct SiteRow<'r> {
    #[serde(flatten)]
    key: Key<'r>,
    site: Name<'r>,
    #[serde(flatten)]
    figures: Figures,
    class: &'r str,
}

#[derive(Serialize)]
struct Figures {
    bytes: u64,
    objects: u64,
    samples: u64,
}

impl Figures {
    fn of<T, O>(row: &Row<T, O>) -> Self {
        let Allocated { bytes, objects, samples } = row.allocated;
        Self { bytes, objects, samples }
    }
}

impl<'r> JsonAllocations<'r> {
    /// Nothing if nothing was sampled.
    pub(super) fn new(report: &'r Report) -> Option<Self> {
        let AllocationReport { all, classes, sites, minutes, .. } = &report.events.allocations;
        let by = report.layout.by;
        let minute = |(at, bytes): &(u64, u64)| Minute { start: utc_text(*at), bytes: *bytes };
        let class = |row: &'r Row<String, Method>| ClassRow {
            key: Key::new(by, row.label.as_ref()),
            class: &row.of,
            figures: Figures::of(row),
            site: Name::new(&row.most),
        };
        let site = |row: &'r Row<Method, String>| SiteRow {
            key: Key::new(by, row.label.as_ref()),
            site: Name::new(&row.of),
            figures: Figures::of(row),
            class: &row.most,
        };
        let Allocated { bytes, objects, samples } = *all;
        (samples > 0).then(|| Self {
            bytes,
            objects,
            samples,
            bytes_per_s: per_second(report),
            minutes: minutes.iter().map(minute).collect(),
            classes: classes.iter().map(class).collect(),
            sites: sites.iter().map(site).collect(),
        })
    }
}
