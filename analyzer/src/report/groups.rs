//! The methods of a report in their groups, sorted and limited.

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::options::zone::Zone;
use crate::options::zone::hour_text;
use crate::options::{By, Options, SortKey};
use crate::report::throttled_times::OfGroup;
use crate::stats::aggregate::{Figures, Group, Totals};
use crate::stats::method::Method;

/// Methods in an overview.
const FIRST_METHODS: usize = 5;

/// The methods of a group.
#[derive(Debug)]
pub struct GroupReport {
    /// The hour, thread, run or other key; `None` without groups.
    pub label: Option<String>,
    /// Its methods, sorted, as many as were asked for.
    pub methods: Vec<MethodReport>,
    /// The number of its methods beyond those.
    pub not_shown: usize,
    /// Calls of all of its methods.
    pub calls: u128,
    /// Self time of all of its methods, in nanoseconds.
    pub self_ns: u128,
    /// Its first methods by self time and by exceptions, in any sort order; for reports with an overview.
    pub first: FirstMethods,
}

/// The methods in an overview.
#[derive(Debug, Default)]
pub struct FirstMethods {
    /// By self time.
    pub by_self: Vec<MethodReport>,
    /// By exceptions; only methods that have some.
    pub by_throws: Vec<MethodReport>,
}

/// The figures of a method.
#[derive(Clone, Debug)]
pub struct MethodReport {
    /// The method.
    pub method: Method,
    /// Its sums.
    pub figures: Figures,
    /// Its share of the self time of all methods in its group.
    pub self_percent: f64,
    /// How long it was throttled in the time and the runs of its group, in nanoseconds. Its figures lack that time.
    pub throttled_ns: u64,
    /// What its probes took at least, an estimate in nanoseconds; `None` if the logs do not have it. About half of it
    /// is in its self time, the rest in that of its callers.
    pub probe_ns: Option<u64>,
}

impl MethodReport {
    /// Whether its probes took half of its self time or more.
    #[must_use]
    pub fn is_mostly_probe(&self) -> bool {
        let self_ns = self.figures.self_ns;
        self_ns > 0 && self.probe_ns.is_some_and(|ns| ns >= self_ns)
    }
}

pub(crate) fn label(
    group: Group,
    runs: &[String],
    threads: &HashMap<Group, String>,
    names: &[String],
    zone: &Zone,
) -> Option<String> {
    let run_label = |place: usize| runs.get(place).cloned().unwrap_or_default();
    match group {
        Group::All => None,
        Group::Hour(hour) => Some(hour_text(hour)),
        Group::Minute(minute) => Some(zone.text_minute(minute.saturating_mul(60_000_000_000))),
        Group::Named(place) => Some(names.get(place).cloned().unwrap_or_default()),
        Group::Run(run) => Some(run_label(run)),
        Group::Thread(run, id) => {
            let name = threads.get(&group).cloned().unwrap_or_else(|| format!("thread #{id}"));
            // Thread ids are unique only within a run.
            let is_unique = runs.len() < 2;
            Some(if is_unique { name } else { format!("{name} in {}", run_label(run)) })
        }
    }
}

/// The groups with their methods, sorted and limited, and whether a sum overflowed.
pub(crate) fn groups<'t>(
    totals: Totals<Method>,
    options: &Options,
    complete_from_ns: Option<u64>,
    probe_call_ns: Option<u64>,
    throttled: impl Fn(Group) -> OfGroup<'t>,
    label: impl Fn(Group) -> Option<String>,
) -> (Vec<GroupReport>, bool) {
    let mut saturated = false;
    let mut groups: Vec<GroupReport> = totals
        .into_groups()
        .map(|(group, mut methods)| {
            if let Some(ns) = complete_from_ns {
                methods.iter_mut().for_each(|(_, figures)| figures.complete_from(ns));
            }
            saturated |= methods.iter().any(|(_, figures)| figures.is_saturated());
            group_report(label(group), methods, options, probe_call_ns, &throttled(group))
        })
        .collect();
    match options.by {
        // There may be thousands: the busiest first. Hours and runs stay in order.
        By::Thread | By::Class | By::Package => {
            groups.sort_by(|a, b| (b.self_ns, &a.label).cmp(&(a.self_ns, &b.label)));
        }
        By::Host => groups.sort_by(|a, b| a.label.cmp(&b.label)),
        By::Nothing | By::Hour | By::Minute | By::Run => {}
    }
    (groups, saturated)
}

fn group_report(
    label: Option<String>,
    mut methods: Vec<(Method, Figures)>,
    options: &Options,
    probe_call_ns: Option<u64>,
    throttled: &OfGroup<'_>,
) -> GroupReport {
    methods.sort_by(|a, b| compare(options.sort, &b.1, &a.1).then_with(|| a.0.cmp(&b.0)));
    let sum = |of: fn(&Figures) -> u64| methods.iter().map(|(_, f)| u128::from(of(f))).sum();
    let (calls, self_ns): (u128, u128) = (sum(|f| f.calls), sum(|f| f.self_ns));
    let count = methods.len();
    let report = |(method, figures): (Method, Figures)| MethodReport {
        throttled_ns: throttled.ns(&method),
        probe_ns: probe_call_ns.map(|ns| ns.saturating_mul(figures.calls)),
        method,
        self_percent: percent(figures.self_ns.into(), self_ns),
        figures,
    };
    let mut first = FirstMethods::default();
    if options.has_overview() {
        let by = |key| {
            let mut methods: Vec<&(Method, Figures)> = methods.iter().collect();
            methods.sort_by(|a, b| compare(key, &b.1, &a.1).then_with(|| a.0.cmp(&b.0)));
            methods.into_iter().take(FIRST_METHODS).cloned().map(report).collect::<Vec<_>>()
        };
        first = FirstMethods { by_self: by(SortKey::SelfTime), by_throws: by(SortKey::Throws) };
        first.by_throws.retain(|method| method.figures.throws > 0);
    }
    methods.truncate(options.top.unwrap_or(usize::MAX));
    let methods: Vec<MethodReport> = methods.into_iter().map(report).collect();
    GroupReport { label, not_shown: count - methods.len(), methods, calls, self_ns, first }
}

/// `part` as a percentage of `whole`; 0 if `whole` is 0.
#[must_use]
pub fn percent(part: u128, whole: u128) -> f64 {
    // The conversion keeps far more digits than are shown.
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 * 100.0 }
}

fn compare(key: SortKey, a: &Figures, b: &Figures) -> Ordering {
    match key {
        SortKey::SelfTime => a.self_ns.cmp(&b.self_ns),
        SortKey::Total => a.total_ns.cmp(&b.total_ns),
        SortKey::Calls => a.calls.cmp(&b.calls),
        SortKey::Avg => a.avg_ns().cmp(&b.avg_ns()),
        SortKey::Max => a.max_ns.cmp(&b.max_ns),
        SortKey::Throws => a.throws.cmp(&b.throws),
    }
}
