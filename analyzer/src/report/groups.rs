//! The methods of a report in their groups, sorted and limited.

use std::cmp::Ordering;
use std::collections::HashSet;

use crate::options::{By, Options, SortKey};
use crate::report::cpu::SampledGroups;
use crate::report::not_counted::{NotCounted, OfGroup};
use crate::stats::aggregate::{Figures, Group, Totals};
use crate::stats::method::Method;
use crate::stats::sampled_stacks::CpuFigures;

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
    /// Whether it has more calls: a method was throttled or muted for some of its time.
    pub is_partial: bool,
    /// Self time of all of its methods, in nanoseconds.
    pub self_ns: u128,
    /// Only for reports with an overview.
    pub first: FirstMethods,
}

impl GroupReport {
    /// All of its reports of methods; a method may have several.
    pub(crate) fn reports_mut(&mut self) -> impl Iterator<Item = &mut MethodReport> {
        let FirstMethods { entries, by_self, by_throws, .. } = &mut self.first;
        self.methods.iter_mut().chain(entries).chain(by_self).chain(by_throws)
    }
}

/// The methods in an overview.
#[derive(Debug, Default)]
pub struct FirstMethods {
    /// Those at which recorded calls enter instrumented code, by total time.
    pub entries: Vec<MethodReport>,
    /// How many more there are.
    pub more_entries: usize,
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
    /// How long it was throttled or muted in the selected time and the runs of its group.
    pub not_counted: NotCounted,
    /// Whether it calls itself, so that its average is too low.
    pub is_recursive: bool,
    /// What its probes took at least, an estimate in nanoseconds; `None` if the logs do not have it. About half of it
    /// is in its self time, the rest in that of its callers.
    pub probe_ns: Option<u64>,
    /// Its CPU time by samples; `None` if there are no samples.
    pub cpu: Option<CpuFigures>,
}

impl MethodReport {
    /// Whether its probes took half of its self time or more.
    #[must_use]
    pub fn is_mostly_probe(&self) -> bool {
        let self_ns = self.figures.self_ns;
        self_ns > 0 && self.probe_ns.is_some_and(|ns| ns >= self_ns)
    }
}

/// What the logs say about all methods.
#[derive(Clone, Copy)]
pub(crate) struct OfAll<'l> {
    /// The duration from which a call was certainly recorded.
    pub complete_from_ns: Option<u64>,
    /// What a probed call costs.
    pub probe_call_ns: Option<u64>,
    /// Methods at which recorded calls enter instrumented code.
    pub entries: &'l HashSet<Method>,
}

/// The groups with their methods, sorted and limited, and whether a sum overflowed.
pub(crate) fn groups<'t>(
    totals: Totals<Method>,
    options: &Options,
    of_all: OfAll<'_>,
    sampled: &mut SampledGroups,
    not_counted: impl Fn(Group) -> OfGroup<'t>,
    label: impl Fn(Group) -> Option<String>,
) -> (Vec<GroupReport>, bool) {
    let mut saturated = false;
    let mut groups: Vec<GroupReport> = totals
        .into_groups()
        .map(|(group, mut methods)| {
            if let Some(ns) = of_all.complete_from_ns {
                methods.iter_mut().for_each(|(_, figures)| figures.complete_from(ns));
            }
            saturated |= methods.iter().any(|(_, figures)| figures.is_saturated());
            sampled.set_measured(group, methods.iter().map(|(method, _)| method));
            let cpu = |method: &Method| sampled.of(group, method);
            let times = not_counted(group);
            group_report(label(group), methods, options, of_all, cpu, &times)
        })
        .collect();
    match options.layout.by {
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
    of_all: OfAll<'_>,
    cpu: impl Fn(&Method) -> Option<CpuFigures>,
    not_counted: &OfGroup<'_>,
) -> GroupReport {
    methods.sort_by(|a, b| compare(options.layout.sort, &b.1, &a.1).then_with(|| a.0.cmp(&b.0)));
    let sum = |of: fn(&Figures) -> u64| methods.iter().map(|(_, f)| u128::from(of(f))).sum();
    let (calls, self_ns): (u128, u128) = (sum(|f| f.calls), sum(|f| f.self_ns));
    let count = methods.len();
    let is_partial = match (options.layout.by, &options.filter.method) {
        // One without a row was throttled or muted all the time.
        (By::Hour | By::Minute | By::Run | By::Host, None) => not_counted.has_any(),
        _ => methods.iter().any(|(method, _)| not_counted.of(method).is_any()),
    };
    let report = |(method, figures): (Method, Figures)| MethodReport {
        not_counted: not_counted.of(&method),
        probe_ns: of_all.probe_call_ns.map(|ns| ns.saturating_mul(figures.calls)),
        cpu: cpu(&method),
        method,
        is_recursive: figures.has_inner_calls(),
        self_percent: percent(figures.self_ns.into(), self_ns),
        figures,
    };
    let mut first = FirstMethods::default();
    if options.has_overview() {
        let by = |key, is_one: &dyn Fn(&Method) -> bool| {
            let of = methods.iter().filter(|(method, _)| is_one(method));
            let mut methods: Vec<&(Method, Figures)> = of.collect();
            methods.sort_by(|a, b| compare(key, &b.1, &a.1).then_with(|| a.0.cmp(&b.0)));
            methods.into_iter().take(FIRST_METHODS).cloned().map(&report).collect::<Vec<_>>()
        };
        first = FirstMethods {
            entries: by(SortKey::Total, &|method| of_all.entries.contains(method)),
            more_entries: methods
                .iter()
                .filter(|(method, _)| of_all.entries.contains(method))
                .count()
                .saturating_sub(FIRST_METHODS),
            by_self: by(SortKey::SelfTime, &|_| true),
            by_throws: by(SortKey::Throws, &|_| true),
        };
        first.by_throws.retain(|method| method.figures.throws > 0);
    }
    methods.truncate(options.layout.top.unwrap_or(usize::MAX));
    let methods: Vec<MethodReport> = methods.into_iter().map(report).collect();
    GroupReport {
        label,
        not_shown: count - methods.len(),
        methods,
        calls,
        is_partial,
        self_ns,
        first,
    }
}

/// `part` as a percentage of `whole`; 0 if `whole` is 0.
#[must_use]
pub fn percent(part: u128, whole: u128) -> f64 {
    // The conversion keeps far more digits than are shown.
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 * 100.0 }
}

/// Compares figures by a column.
pub(super) fn compare(key: SortKey, a: &Figures, b: &Figures) -> Ordering {
    match key {
        SortKey::SelfTime => a.self_ns.cmp(&b.self_ns),
        SortKey::Total => a.total_ns.cmp(&b.total_ns),
        SortKey::Calls => a.calls.cmp(&b.calls),
        SortKey::Avg => a.avg_ns().cmp(&b.avg_ns()),
        SortKey::Max => a.max_ns.cmp(&b.max_ns),
        SortKey::Throws => a.throws.cmp(&b.throws),
    }
}
