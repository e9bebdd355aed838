//! The sections on waits for locks and on other parks.

use std::io::{self, Write};

use log_format::human::{count, duration, plural};
use log_format::writer::one_line;

use super::parts::{heading, number, wrapped};
use crate::render::shared::labels::Labels;
use crate::report::locks::{LockReport, LockTimes, sum};
use crate::stats::lock_sums::LockSite;

/// Columns of the figures, and their widths.
const COLUMNS: [(&str, usize); 5] =
    [("total", 12), ("waits", 11), ("p50", 10), ("p99", 10), ("max", 10)];

/// Writes the section, with `top` rows at most.
pub(super) fn render(
    locks: &LockReport,
    top: Option<usize>,
    labels: &Labels,
    out: &mut dyn Write,
) -> io::Result<()> {
    let which = &*locks.lacks();
    let LockReport { locks, parks, .. } = locks;
    let table = Table { heading: "Lock waits", which, of: ["wait", "waits"], has_holders: true };
    table.write(locks, top, labels, out)?;
    let heading = "Other parks in instrumented methods";
    let table = Table { heading, which, of: ["park", "parks"], has_holders: false };
    table.write(parks, top, labels, out)
}

/// A table of waits.
struct Table<'t> {
    heading: &'t str,
    /// Of which waits.
    which: &'t str,
    of: [&'t str; 2],
    has_holders: bool,
}

impl Table<'_> {
    fn write(
        &self,
        locks: &[LockTimes],
        top: Option<usize>,
        labels: &Labels,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let Self { heading: name, which, of: [one, many], has_holders } = self;
        if locks.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        let total = duration(sum(locks, |figures| figures.total_ns));
        let waits = plural(sum(locks, |figures| figures.calls), one, many);
        heading(out, &format!("{name}{which}: {total} in {waits}"))?;
        let heads = COLUMNS.iter().map(|(name, width)| match *name {
            "waits" => format!("{many:>width$}"),
            name => format!("{name:>width$}"),
        });
        let names = if *has_holders { "lock class, site, longest holder" } else { "class, site" };
        writeln!(out, "\n{}   {names}", heads.collect::<String>())?;
        let shown = top.unwrap_or(locks.len());
        for lock in locks.iter().take(shown) {
            let cells = cells(lock);
            wrapped(out, &cells, &" ".repeat(cells.len()), &one_line(&lock.site.class))?;
            // The names of all three fit on no line.
            let site = site_label(&lock.site, labels);
            let held = match has_holders {
                true if lock.longest_holder.is_some() => {
                    format!(", held longest by {}", holder(lock, labels))
                }
                true => ", holder unknown".to_owned(),
                false => String::new(),
            };
            wrapped(out, "       at ", &" ".repeat(9), &format!("{site}{held}"))?;
        }
        more(locks.len(), shown, out)
    }
}

/// The thread that waits were longest for, for which part of the time the owner is known, and where owners were when
/// they were asked for.
pub(crate) fn holder(lock: &LockTimes, labels: &Labels) -> String {
    let holder = one_line(lock.longest_holder.as_deref().unwrap_or("unknown"));
    let methods: Vec<String> = lock.held_in.iter().map(|method| labels.of(method)).collect();
    let longest_in = if methods.is_empty() { "" } else { ", seen in " };
    holder + &known(lock) + longest_in + &methods.join(" < ")
}

/// For which part of the time the owner is known, if it is not nearly all.
#[allow(clippy::cast_precision_loss)] // A share needs no more.
fn known(lock: &LockTimes) -> String {
    let share = lock.known_ns as f64 / lock.figures.total_ns.max(1) as f64;
    let is_part = lock.longest_holder.is_some() && share < 0.95;
    if is_part { format!(" (owner known for {:.0}%)", share * 100.0) } else { String::new() }
}

/// The label of a site's method.
pub(crate) fn site_label(site: &LockSite, labels: &Labels) -> String {
    site.method
        .as_ref()
        .map_or_else(|| "no instrumented method".to_owned(), |method| labels.of(method))
}

fn more(count: usize, shown: usize, out: &mut dyn Write) -> io::Result<()> {
    if let Some(rest) = count.checked_sub(shown).filter(|rest| *rest > 0) {
        writeln!(out, "    and {}", plural(number(rest), "more row", "more rows"))?;
    }
    Ok(())
}

fn cells(lock: &LockTimes) -> String {
    let cells = figures(lock);
    let cells = cells.iter().zip(COLUMNS).map(|(text, (_, width))| format!("{text:>width$}"));
    cells.collect::<String>() + "   "
}

pub(crate) fn figures(lock: &LockTimes) -> [String; 5] {
    let figures = &lock.figures;
    let [p50, _, p99] =
        figures.percentiles_ns().map(|percentile| percentile.map_or("-".into(), duration));
    let (total, max) = (duration(figures.total_ns), duration(figures.max_ns));
    [total, count(figures.calls.into()), p50, p99, max]
}
