//! The tables of a comparison that have sampled allocations: classes and sites of which clearly more or less was
//! allocated.

use std::io::{self, Write};

use log_format::human::bytes;
use log_format::writer::one_line;

use super::table::{SampledTable, signed_percent};
use crate::diff::{AllocationChange, AllocationKey, Comparison};
use crate::render::shared::labels::Labels;

/// Writes the first `top` rows of each.
pub(super) fn text(
    comparison: &Comparison,
    top: Option<usize>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let allocations = &comparison.events.allocations;
    if allocations.is_empty() {
        return Ok(());
    }
    let clear = || allocations.iter().filter(|changed| changed.is_clear());
    let labels = Labels::new(clear().filter_map(|changed| match &changed.of {
        AllocationKey::Class(_) => None,
        AllocationKey::Site(site) => Some(site),
    }));
    let classes = clear().filter_map(|changed| match &changed.of {
        AllocationKey::Class(class) => Some((cells(changed), one_line(class))),
        AllocationKey::Site(_) => None,
    });
    let sites = clear().filter_map(|changed| match &changed.of {
        AllocationKey::Class(_) => None,
        AllocationKey::Site(site) => Some((cells(changed), labels.of(site))),
    });
    let which = "per hour: changes over three standard errors";
    let table = |title, of| SampledTable { title, which, heads: ["more", of] };
    table("Allocated bytes by class", "class").write(&classes.collect::<Vec<_>>(), top, out)?;
    table("Allocated bytes by site", "site").write(&sites.collect::<Vec<_>>(), top, out)
}

fn cells(changed: &AllocationChange) -> [String; 4] {
    let [was, is] = changed.per_hour;
    let sign = if is < was { "-" } else { "+" };
    let more = format!("{sign}{}", bytes(was.abs_diff(is)));
    [more, signed_percent(changed.percent()), bytes(was), bytes(is)]
}
