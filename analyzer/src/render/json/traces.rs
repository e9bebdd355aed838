//! Calls of traced methods.

use log_format::file_names::utc_text;
use serde::Serialize;

use super::rows::{Key, Name};
use crate::report::Report;
use crate::report::traces::TracedMethod;
use crate::stats::group_sums::GroupRow;
use crate::stats::method::Method;

/// A traced method in JSON.
#[derive(Serialize)]
pub(super) struct JsonTraced<'r> {
    method: Name<'r>,
    calls: u64,
    samples: u64,
    effective_samples: f64,
    per_s: f64,
    callers: Vec<Caller<'r>>,
    minutes: Vec<Minute>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<CallsOfGroup<'r>>,
}

/// The calls of a group.
#[derive(Serialize)]
struct CallsOfGroup<'r> {
    #[serde(flatten)]
    key: Key<'r>,
    calls: u64,
    samples: u64,
}

#[derive(Serialize)]
struct Caller<'r> {
    method: Name<'r>,
    calls: u64,
}

#[derive(Serialize)]
struct Minute {
    start: String,
    calls: u64,
}

impl<'r> JsonTraced<'r> {
    /// Nothing if nothing was traced.
    pub(super) fn all(report: &'r Report) -> Option<Vec<Self>> {
        let caller =
            |(method, calls): &'r (_, u64)| Caller { method: Name::new(method), calls: *calls };
        let minute = |(at, calls): &(u64, u64)| Minute { start: utc_text(*at), calls: *calls };
        let of_group = |row: &'r GroupRow<Method>| CallsOfGroup {
            key: Key::new(report.layout.by, Some(&row.label)),
            calls: row.sum.amount,
            samples: row.sum.count,
        };
        let groups = |of: &TracedMethod| {
            report
                .events
                .traces
                .groups
                .iter()
                .filter(|row| row.of == of.method)
                .map(of_group)
                .collect()
        };
        let traced = |of: &'r TracedMethod| Self {
            method: Name::new(&of.method),
            calls: of.calls,
            samples: of.samples,
            effective_samples: of.effective_samples,
            per_s: of.per_second,
            callers: of.callers.iter().map(caller).collect(),
            minutes: of.minutes.iter().map(minute).collect(),
            groups: groups(of),
        };
        let methods = &report.events.traces.methods;
        (!methods.is_empty()).then(|| methods.iter().map(traced).collect())
    }
}
