//! Waits for locks and other parks.

use log_format::file_names::utc_text;
use serde::Serialize;

use super::rows::{Key, Name};
use crate::options::By;
use crate::report::ReadSummary;
use crate::report::locks::{LockReport, LockTimes};
use crate::stats::group_sums::GroupRow;
use crate::stats::lock_sums::{LockSite, LockWait};

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
