//! Waits for locks and other parks, as text and in JSON.

use std::io::{self, Write};

use log_format::human::{count, duration, plural};
use log_format::names::utc_text;
use log_format::writer::one_line;
use serde::Serialize;

use super::json_rows::{Key, Name};
use super::labels::Labels;
use super::short_table::ShortTable;
use super::text_parts::{heading, number, wrapped};
use crate::options::By;
use crate::report::ReadSummary;
use crate::report::locks::{LockReport, LockTimes, sum};
use crate::stats::group_sums::GroupRow;
use crate::stats::lock_sums::{LockSite, LockWait};

/// Columns of the figures, and their widths.
const COLUMNS: [(&str, usize); 5] =
    [("total", 12), ("waits", 11), ("p50", 10), ("p99", 10), ("max", 10)];

/// Writes the section of a text, with `top` rows at most.
pub(super) fn text(
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
                true => format!(", held by {}", holder(lock, labels)),
                false => String::new(),
            };
            wrapped(out, "       at ", &" ".repeat(9), &format!("{site}{held}"))?;
        }
        more(locks.len(), shown, out)
    }
}

/// The thread that waits were longest for, for which part of the time the owner is known, and where owners were when
/// they were asked for.
fn holder(lock: &LockTimes, labels: &Labels) -> String {
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
pub(super) fn site_label(site: &LockSite, labels: &Labels) -> String {
    site.method.as_ref().map_or_else(|| "-".to_owned(), |method| labels.of(method))
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

fn figures(lock: &LockTimes) -> [String; 5] {
    let figures = &lock.figures;
    let [p50, _, p99] =
        figures.percentiles_ns().map(|percentile| percentile.map_or("-".into(), duration));
    let (total, max) = (duration(figures.total_ns), duration(figures.max_ns));
    [total, count(figures.calls.into()), p50, p99, max]
}

/// The tables of the page.
pub(super) fn short_tables(locks: &LockReport, labels: &Labels) -> Vec<ShortTable> {
    const LOCKS: [&str; 9] =
        ["lock class", "total", "waits", "p50", "p99", "max", "site", "kind", "longest holder"];
    const PARKS: [&str; 7] = ["class", "total", "parks", "p50", "p99", "max", "site"];
    let row = |lock: &LockTimes| {
        let mut cells = vec![lock.site.class.clone()];
        cells.extend(figures(lock));
        cells.push(site_label(&lock.site, labels));
        cells
    };
    let with_holder = |lock: &LockTimes| {
        let kind = lock.site.kind.name().to_owned();
        row(lock).into_iter().chain([kind, holder(lock, labels)]).collect()
    };
    let heading = |name: &str, of: &[LockTimes]| {
        let which = locks.lacks();
        format!("{name}{which}: {}", duration(sum(of, |figures| figures.total_ns)))
    };
    let waits = heading("Lock waits", &locks.locks);
    let parks = heading("Other parks in instrumented methods", &locks.parks);
    let waits = ShortTable::new(waits, &LOCKS, &locks.locks, with_holder);
    waits.into_iter().chain(ShortTable::new(parks, &PARKS, &locks.parks, row)).collect()
}

/// Waits for locks in JSON.
#[derive(Serialize)]
pub(super) struct JsonLocks<'r> {
    figures_of: &'static str,
    total_ns: u64,
    waits: u64,
    locks: Vec<LockRow<'r>>,
    parks: Vec<LockRow<'r>>,
    longest: Vec<WaitRow<'r>>,
    groups_of: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<WaitsOfGroup<'r>>,
}

/// The waits of a group.
#[derive(Serialize)]
struct WaitsOfGroup<'r> {
    #[serde(flatten)]
    key: Key<'r>,
    kind: &'static str,
    lock: &'r str,
    site: Option<Name<'r>>,
    waits: u64,
    total_ns: u64,
}

#[derive(Serialize)]
struct LockRow<'r> {
    kind: &'static str,
    lock: &'r str,
    /// `null` if no instrumented method was in progress.
    site: Option<Name<'r>>,
    waits: u64,
    total_ns: u64,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
    max_ns: u64,
    longest_holder: Option<&'r str>,
    /// The innermost first.
    held_in: Vec<Name<'r>>,
    owner_known_ns: u64,
}

#[derive(Serialize)]
struct WaitRow<'r> {
    run: &'r str,
    thread: &'r str,
    owner: Option<&'r str>,
    held_in: Vec<Name<'r>>,
    lock: &'r str,
    start: String,
    start_ns: u64,
    wait_ns: u64,
}

impl<'r> JsonLocks<'r> {
    /// Nothing if there are no waits.
    pub(super) fn new(locks: &'r LockReport, read: &'r ReadSummary, by: By) -> Option<Self> {
        let of_group = |row: &'r GroupRow<LockSite>| WaitsOfGroup {
            key: Key::new(by, Some(&row.label)),
            kind: row.of.kind.name(),
            lock: &row.of.class,
            site: row.of.method.as_ref().map(Name::new),
            waits: row.sum.count,
            total_ns: row.sum.amount,
        };
        let has_any = !locks.locks.is_empty() || !locks.parks.is_empty();
        has_any.then(|| Self {
            figures_of: figures_of(locks.of_recorded),
            groups_of: figures_of(locks.groups_of_recorded),
            total_ns: locks.total_ns,
            waits: locks.waits,
            locks: locks.locks.iter().map(LockRow::new).collect(),
            parks: locks.parks.iter().map(LockRow::new).collect(),
            longest: locks.longest.iter().map(|wait| WaitRow::new(wait, read)).collect(),
            groups: locks.groups.iter().map(of_group).collect(),
        })
    }
}

fn figures_of(of_recorded: bool) -> &'static str {
    if of_recorded { "recorded_waits" } else { "statistics" }
}

impl<'r> LockRow<'r> {
    fn new(LockTimes { site, figures, longest_holder, held_in, known_ns }: &'r LockTimes) -> Self {
        let [p50_ns, _, p99_ns] = figures.percentiles_ns();
        Self {
            kind: site.kind.name(),
            lock: &site.class,
            site: site.method.as_ref().map(Name::new),
            waits: figures.calls,
            total_ns: figures.total_ns,
            p50_ns,
            p99_ns,
            max_ns: figures.max_ns,
            longest_holder: longest_holder.as_deref(),
            held_in: held_in.iter().map(Name::new).collect(),
            owner_known_ns: *known_ns,
        }
    }
}

impl<'r> WaitRow<'r> {
    fn new(wait: &'r LockWait, read: &'r ReadSummary) -> Self {
        Self {
            run: read.runs.get(wait.run).map(String::as_str).unwrap_or_default(),
            thread: &wait.thread,
            owner: wait.owner.as_deref(),
            held_in: wait.held_in.iter().map(Name::new).collect(),
            lock: &wait.class,
            start: utc_text(wait.start_ns),
            start_ns: wait.start_ns,
            wait_ns: wait.wait_ns,
        }
    }
}
