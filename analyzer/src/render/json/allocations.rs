//! Sampled allocations.

use log_format::file_names::utc_text;
use serde::Serialize;

use super::rows::{Key, Name};
use crate::report::Report;
use crate::report::allocations::{AllocationReport, Row};
use crate::stats::allocation_sums::Allocated;
use crate::stats::method::Method;

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
            bytes_per_s: report.allocated_per_second(),
            minutes: minutes.iter().map(minute).collect(),
            classes: classes.iter().map(class).collect(),
            sites: sites.iter().map(site).collect(),
        })
    }
}
