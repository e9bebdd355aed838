//! The section on sampled allocations.

use std::io::{self, Write};

use log_format::human::{bytes, count, plural};
use log_format::writer::one_line;

use super::parts::{heading, number, wrapped};
use crate::options::zone::Zone;
use crate::render::shared::labels::Labels;
use crate::report::Report;
use crate::report::allocations::{AllocatedInHour, AllocationReport, Row};
use crate::stats::allocation_sums::Allocated;

/// Columns of the figures, and their widths.
const COLUMNS: [(&str, usize); 4] = [("bytes", 12), ("%", 8), ("objects", 14), ("samples", 10)];

/// Hours shown; of more, only the busiest.
const HOURS_SHOWN: usize = 6;

/// Writes the section, with `top` rows at most in each table.
pub(super) fn render(report: &Report, labels: &Labels, out: &mut dyn Write) -> io::Result<()> {
    let AllocationReport { all, classes, sites, hours, .. } = &report.events.allocations;
    if all.samples == 0 {
        return Ok(());
    }
    writeln!(out)?;
    let samples = plural(all.samples, "sample", "samples");
    let rate = report.allocated_per_second().map(|rate| format!(", {} a second", whole(rate)));
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

pub(crate) fn figures(allocated: &Allocated, all: &Allocated) -> [String; 4] {
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
