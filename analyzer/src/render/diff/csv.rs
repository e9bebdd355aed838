//! The methods' rows of a comparison, both sides next to each other, in whole nanoseconds.

use std::io::{self, Write};

use csv::WriterBuilder;

use crate::diff::{Change, Comparison, MethodChange, Side};
use crate::render::csv::plain;
use crate::stats::aggregate::Figures;

const COLUMNS: [&str; 7] =
    ["class", "method", "descriptor", "status", "cost_ns", "change_percent", "fails"];

/// Columns of each side, prefixed with `before_` and `after_`.
const OF_SIDE: [&str; 10] = [
    "calls",
    "throws",
    "total_ns",
    "self_ns",
    "calls_per_hour",
    "self_ns_per_hour",
    "self_ns_per_call",
    "avg_ns",
    "max_ns",
    "p95_ns",
];

pub fn render(comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    write(comparison, out).map_err(plain)
}

fn write(comparison: &Comparison, out: &mut dyn Write) -> csv::Result<()> {
    let mut writer = WriterBuilder::new().from_writer(out);
    let of = |side: &'static str| OF_SIDE.map(|column| format!("{side}_{column}"));
    let columns = COLUMNS.map(str::to_owned).into_iter().chain(of("before")).chain(of("after"));
    writer.write_record(columns)?;
    for method in &comparison.methods {
        writer.write_record(fields(comparison, method))?;
    }
    writer.flush()?;
    Ok(())
}

fn fields(comparison: &Comparison, method: &MethodChange) -> Vec<String> {
    let name = &method.name;
    let change = method.change;
    let mut fields = vec![
        name.class.clone(),
        name.method.clone(),
        name.descriptor.clone(),
        method.status.name().to_owned(),
        change.map(|change| change.cost_ns().to_string()).unwrap_or_default(),
        change.and_then(Change::percent).map(|p| format!("{p:.3}")).unwrap_or_default(),
        method.fails.to_string(),
    ];
    fields.extend(of_side(&comparison.before, method.before.as_ref()));
    fields.extend(of_side(&comparison.after, method.after.as_ref()));
    fields
}

/// A method without calls has zeros; per-call columns are empty then.
fn of_side(side: &Side, figures: Option<&Figures>) -> [String; 10] {
    let none = Figures::default();
    let figures = figures.unwrap_or(&none);
    let hour = |sum| side.recorded_ns.map(|_| side.per_hour(sum).to_string()).unwrap_or_default();
    let text = |ns: Option<u64>| ns.map(|ns| ns.to_string()).unwrap_or_default();
    let has_calls = figures.calls > 0;
    [
        figures.calls.to_string(),
        figures.throws.to_string(),
        figures.total_ns.to_string(),
        figures.self_ns.to_string(),
        calls_per_hour(side, figures).map(|calls| format!("{calls:.3}")).unwrap_or_default(),
        hour(figures.self_ns),
        text(figures.self_ns.checked_div(figures.calls)),
        text(figures.avg_ns()),
        text(has_calls.then_some(figures.max_ns)),
        text(figures.percentile_ns(95.0)),
    ]
}

/// Calls in an hour of recording; `None` where hours are not known.
pub fn calls_per_hour(side: &Side, figures: &Figures) -> Option<f64> {
    side.recorded_ns.map(|ns| figures.calls as f64 * 3.6e12 / ns as f64)
}
